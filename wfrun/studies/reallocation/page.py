"""The page of the study: what was simulated, the tables, and all claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.studies.common.claim import Answer, answer, tally_by_kind
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import DETAILS, claims_table, main_claims, table, verdict_cell
from wfrun.studies.reallocation.differences import DIFFERENCES
from wfrun.studies.reallocation.experiments import (
    BASE,
    VARIANTS,
    ReallocationRow,
    ReallocationScale,
)
from wfrun.studies.reallocation.samples import (
    CANCELLING,
    HOMOGENEOUS,
    MEASURES,
    PLATFORMS,
    REGULAR,
    SHARED,
    TITLES,
    GridPlatform,
    ReallocationSamples,
)
from wfrun.studies.reallocation.traces import LOAD, LOGS, MONTHS, SIX_MONTHS_DAYS

PAPER_MOVES = {
    "5.1": {"mct-reg": (17.34, 29.24), "mct-can": (59.7, 136.93), "minmin-reg": (5.45, 11.13),
            "minmin-can": (66.11, 148.99)},
    "5.3": {"mct-reg": (2.49, 9.51), "mct-can": (5.86, 22.45), "minmin-reg": (1.89, 5.89),
            "minmin-can": (6.18, 23.08)},
}  # fmt: skip
"""Number of moves in percent of the jobs, mean and maximum, by section. The figures state no other
numbers."""
_MEASURES = {
    "impacted": "jobs impacted [%]",
    "moves": "moves [% of the jobs]",
    "early": "early ones of the impacted jobs [%]",
    "response": "mean response time of the impacted jobs, relative",
}


def reallocation_page(
    samples: ReallocationSamples,
    scale: ReallocationScale,
    found: Sequence[Answer],
    pictures: Sequence[str],
    missing: Sequence[str],
    *,
    words: str,
    length: str,
) -> str:
    """The page in Markdown. ``pictures`` are the names of files beside the page, one for each
    platform. ``missing`` are the sites of the archive whose logs are generated. ``words`` is the
    command that makes the page, and ``length`` the time that it takes."""
    causes = linked_causes(samples, found)
    platforms = [
        list(_platform(samples, platform, pictures[place] if pictures else ""))
        for place, platform in enumerate(PLATFORMS)
    ]
    parts = [
        *_head(samples, scale, found),
        *_setting(samples, missing),
        *_moves(samples),
        *platforms[0],
        *_claims(found, causes),
        *_variants(samples, found),
        *DIFFERENCES.splitlines(),
        *_command(words, length),
        *DETAILS,
        *(line for lines in platforms[1:] for line in lines),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _command(words: str, length: str) -> Iterator[str]:
    yield ""
    yield "## How to run it"
    yield ""
    yield f"    {words}"
    yield ""
    yield (
        f"makes this page. It takes {length} and keeps every simulation in `study/results.csv`, so "
        "that an interrupted study is continued, and one with further `--seeds` has fewer to "
        "simulate. DIR has the logs `CTC-SP2-1996…` and `SDSC-SP2-1998…` of the Parallel Workloads "
        "Archive; without `--corpus` their jobs are generated, too. Without `--days` and `--seeds` "
        "the study has all of each trace and ten seeds; `--quick` has the first days only, and "
        "takes less than five minutes."
    )


def _head(
    samples: ReallocationSamples, scale: ReallocationScale, found: Sequence[Answer]
) -> Iterator[str]:
    yield "# Study `reallocation`: moldable jobs move between queues (RR-7365)"
    yield ""
    runs = len(samples.rows)
    length = (
        "all of each trace"
        if scale.days >= SIX_MONTHS_DAYS
        else f"the first {scale.days:g} days of each trace"
    )
    yield from _summary(samples)
    yield ""
    yield (
        "Source: Y. Caniou, G. Charrier, F. Desprez, *Evaluation of Reallocation Heuristics for "
        "Moldable Tasks in Computational Dedicated and non Dedicated Grids*, INRIA RR-7365, 2010. "
        "The choice of sizes and moves is that of `wfrun jobs`, the queues are `replanned` ones "
        "of `wfrun simulate`."
    )
    yield ""
    yield (
        f"**Of sections 5 and 6, {tally_by_kind(found)}.** {len(samples.seeds)} seeds, {length}: "
        f"{runs} references without reallocation and {4 * runs} experiments. All "
        "algorithms are compared on the same jobs; a seed draws their types and origins."
    )
    yield ""
    yield "The main claims (abstract and conclusions):"
    yield ""
    yield from main_claims(found)


def _summary(samples: ReallocationSamples) -> Iterator[str]:
    """The part of the page with the findings of the paper and of the study."""

    def means(platforms: Sequence[GridPlatform], measure: str, names: Sequence[str]) -> str:
        values = [samples.mean(p, measure, name).mean for p in platforms for name in names]
        low, high = number(min(values)), number(max(values))
        return low if low == high else f"{low} to {high}"

    def gains(platforms: Sequence[GridPlatform], names: Sequence[str]) -> str:
        values = [100 * (1 - samples.mean(p, "response", name).mean)
                  for p in platforms for name in names]  # fmt: skip
        return f"{min(values):.0f}% to {max(values):.0f}%"

    dedicated, shared = PLATFORMS[:2], PLATFORMS[2:]
    yield (
        "The paper: a middleware that moves waiting jobs between clusters, and chooses their sizes "
        "again, makes most jobs early and the mean response time of the impacted ones 10% to 40% "
        "shorter in most cases; cancelling all waiting jobs first helps on dedicated platforms and "
        "not on others; MCT is good enough. Here: reallocation shortens the mean response time, "
        f"too, but by less: by {gains(dedicated, CANCELLING)} with all-cancellation and "
        f"{gains(dedicated, REGULAR)} with the regular algorithms on the dedicated platforms, by "
        f"{gains(shared, tuple(ALGORITHMS))} on the others. On the homogeneous dedicated platform "
        f"{means([HOMOGENEOUS], 'impacted', tuple(ALGORITHMS))}% of the jobs are impacted (paper: "
        f"80% to 90%). All-cancellation makes {means(dedicated, 'moves', CANCELLING)} moves per "
        f"100 jobs on the dedicated platforms and {means(shared, 'moves', CANCELLING)} on the "
        "others, many more than in the paper. Causes that were tested are linked in the table of "
        "the claims; the load, which the paper does not give, is the one that matters most."
    )


def _setting(samples: ReallocationSamples, missing: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "## What is simulated"
    yield ""
    generated = ("Grid'5000", *(LOGS[site][0] for site in missing))
    yield (
        f"Jobs of {', '.join(generated)} are generated with the paper's numbers of jobs (Table 1 "
        f"gives {sum(row[0] for row in MONTHS.values()):,} for Bordeaux, section 4.2 74,647) and "
        f"a load of {LOAD:.0%} by the run times before they are made moldable. Moldable jobs use "
        "more: on an idle cluster a job of type t1 gets 32 processors for a speedup of 4.4."
    )
    rows = [
        (
            trace,
            *(
                text
                for platform in (HOMOGENEOUS, SHARED)
                for text in _sizes(samples.of(platform, trace))
            ),
        )
        for trace in samples.traces
    ]
    header = ("trace", *(f"{what}, {kind}" for kind in ("dedicated", "not dedicated")
                         for what in ("our jobs", "mean wait [s]", "processors")))  # fmt: skip
    yield from table(header, rows)
    yield ""
    yield "Waits and sizes are those without reallocation on the homogeneous platform."


def _sizes(rows: Sequence[ReallocationRow]) -> tuple[str, str, str]:
    return (
        f"{fmean(row.jobs for row in rows):,.0f}",
        number(fmean(row.wait_s for row in rows)),
        f"{fmean(row.size for row in rows):.1f}",
    )


def _moves(samples: ReallocationSamples) -> Iterator[str]:
    yield ""
    yield "## Moves: the numbers of the text"
    yield ""
    yield "Mean over the traces, and the maximum of all experiments, in percent of the jobs."
    rows = []
    for platform in (HOMOGENEOUS, SHARED):
        for name in ALGORITHMS:
            every = [v for t in samples.traces for v in samples.values(platform, t, "moves", name)]
            paper = PAPER_MOVES[platform.section][name]
            rows.append((platform.title, TITLES[name], number(paper[0]), number(paper[1]),
                         number(fmean(every)), number(max(every))))  # fmt: skip
    header = ("platform", "algorithm", "paper, mean", "paper, maximum", "here, mean",
              "here, maximum")  # fmt: skip
    yield from table(header, rows)


def _platform(samples: ReallocationSamples, platform: GridPlatform, picture: str) -> Iterator[str]:
    first = platform.first_figure
    yield ""
    yield f"## Figures {first} to {first + 3}: {platform.title} (section {platform.section})"
    if picture:
        yield ""
        yield f"![Figures {first} to {first + 3}]({picture})"
    for place, measure in enumerate(MEASURES):
        header = (f"Figure {first + place}: {_MEASURES[measure]}",
                  *(TITLES[name] for name in ALGORITHMS))  # fmt: skip
        rows = [
            (t, *(_spread(samples.values(platform, t, measure, name)) for name in ALGORITHMS))
            for t in samples.traces
        ]
        means = ("mean", *(number(samples.mean(platform, measure, n).mean) for n in ALGORITHMS))
        yield from table(header, [*rows, means])


def _spread(values: Sequence[float]) -> str:
    """Mean, minimum and maximum as text, such as ``12 (8–17)``."""
    low, high = min(values), max(values)
    return f"{number(fmean(values))} ({number(low)}–{number(high)})"


def _variants(samples: ReallocationSamples, found: Sequence[Answer]) -> Iterator[str]:
    variants = samples.variants()
    if not variants:
        return
    traces = ", ".join(variants[BASE].traces)
    yield ""
    yield "## One thing changed"
    yield ""
    yield (
        f"The trace {traces} on the dedicated platforms, with one thing changed, tests causes for "
        "the claims of sections 5.1 and 5.2 that do not hold. Means over the seeds on the "
        f"homogeneous platform; *{BASE}* is without a change."
    )
    yield ""
    yield from (f"- *{name}*: {what}." for name, what in VARIANTS.items())
    rows = []
    for name, one in variants.items():
        known = one.of(HOMOGENEOUS, variants[BASE].traces[0])
        cells = [
            " / ".join(number(one.mean(HOMOGENEOUS, measure, a).mean) for a in ALGORITHMS)
            for measure in MEASURES
        ]
        rows.append((name, number(fmean(row.wait_s for row in known)), *cells))
    order = ", ".join(TITLES[name] for name in ALGORITHMS)
    header = ("", "wait without reallocation [s]", *(_MEASURES[m] for m in MEASURES))
    yield from table(header, rows)
    yield ""
    yield f"Order of the values: {order}."
    tested = _tested(found)
    if not tested:
        return
    yield ""
    yield "The verdicts on the claims of these sections that do not hold for all traces:"
    answers = _with_variants(samples, tested)
    verdicts = [
        (f"{one.number}. {one.claim.text}",
         *(verdict_cell(answers[name][place]) for name in variants))
        for place, one in enumerate(tested)
    ]  # fmt: skip
    yield from table(("claim", *variants), verdicts)


def _tested(found: Sequence[Answer]) -> list[Answer]:
    """The claims that are tested again with the variants: those on the dedicated platforms that do
    not hold."""
    return [one for one in found if one.claim.where.startswith(("5.1", "5.2")) and not one.holds]


def _with_variants(
    samples: ReallocationSamples, tested: Sequence[Answer]
) -> dict[str, list[Answer]]:
    """The answers to the claims in ``tested`` by variant, including the base, on the traces of the
    variants."""
    return {
        name: answer([one.claim for one in tested], changed)
        for name, changed in samples.variants().items()
    }


def linked_causes(samples: ReallocationSamples, found: Sequence[Answer]) -> dict[int, str]:
    """The cause of each claim that does not hold on the dedicated platforms, by the number of the
    claim: that it holds on the trace of the variants, the variants with which it holds there, or
    *unexplained*. Empty if no variant was simulated."""
    tested = _tested(found)
    answers = _with_variants(samples, tested)
    if not answers:
        return {}
    trace = samples.variants()[BASE].traces[0]
    causes = {}
    for place, one in enumerate(tested):
        holding = [f"*{name}*" for name, known in answers.items()
                   if name != BASE and known[place].holds]  # fmt: skip
        if answers[BASE][place].holds:
            causes[one.number] = f"holds on {trace}; other traces unexplained"
        elif holding:
            causes[one.number] = f"holds on {trace} with {', '.join(holding)}"
        else:
            causes[one.number] = "unexplained; no change below makes it hold"
    return causes


def _claims(found: Sequence[Answer], causes: Mapping[int, str]) -> Iterator[str]:
    yield ""
    yield "## Claims of sections 5 and 6"
    yield ""
    yield (
        "A case is an algorithm on a trace, its value the mean over the seeds. *All* and *always* "
        "are tested on each case; *almost all* as at least 90% and *most* as more than half of "
        "the cases, for each seed; averages on the mean over the traces, for each seed. *Close* "
        "and *a few percents* are up to 10 points, *by far* is twice as many. No bound was chosen "
        "by the results. A claim *holds* or *does not hold* with 95% confidence (paired t test "
        "over the seeds, Bonferroni over the comparisons of a claim), otherwise it is *not "
        "distinguishable*."
    )
    yield from claims_table(found, causes)
