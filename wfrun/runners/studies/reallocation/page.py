"""The page of the study: what was simulated, the tables, and all claims."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from wfrun.engine.reallocation import ALGORITHMS
from wfrun.runners.studies.claim import Answer, tally
from wfrun.runners.studies.reallocation.differences import DIFFERENCES
from wfrun.runners.studies.reallocation.experiments import BASE, VARIANTS, Row, Scale
from wfrun.runners.studies.reallocation.samples import (
    HOMOGENEOUS,
    MEASURES,
    PLATFORMS,
    SHARED,
    TITLES,
    Platform,
    ReallocationSamples,
    value,
)
from wfrun.runners.studies.reallocation.traces import LOAD, LOGS, MONTHS
from wfrun.runners.studies.workflows.page import claims_table, table
from wfrun.runners.studies.workflows.samples import number

PAPER_MOVES = {
    "5.1": {"mct-reg": (17.34, 29.24), "mct-can": (59.7, 136.93), "minmin-reg": (5.45, 11.13),
            "minmin-can": (66.11, 148.99)},
    "5.3": {"mct-reg": (2.49, 9.51), "mct-can": (5.86, 22.45), "minmin-reg": (1.89, 5.89),
            "minmin-can": (6.18, 23.08)},
}  # fmt: skip
"""Moves in percent of the jobs, mean and maximum, by section: the figures' only numbers."""
_MEASURES = {
    "impacted": "jobs impacted [%]",
    "moves": "moves [% of the jobs]",
    "early": "early ones of the impacted jobs [%]",
    "response": "mean response time of the impacted jobs, relative",
}


def reallocation_page(
    samples: ReallocationSamples,
    scale: Scale,
    found: Sequence[Answer],
    pictures: Sequence[str],
    missing: Sequence[str],
) -> str:
    """Markdown. ``pictures`` are the names of files beside the page, one for each platform;
    ``missing`` the sites of the archive whose logs are generated."""
    parts = [
        *_head(samples, scale, found, missing),
        *_moves(samples),
        *(line for place, platform in enumerate(PLATFORMS)
          for line in _platform(samples, platform, pictures[place] if pictures else "")),
        *_variants(samples),
        *_claims(found),
        *DIFFERENCES.splitlines(),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(
    samples: ReallocationSamples, scale: Scale, found: Sequence[Answer], missing: Sequence[str]
) -> Iterator[str]:
    yield "# Study `reallocation`: moldable jobs move between queues (RR-7365)"
    yield ""
    yield (
        "Source: Y. Caniou, G. Charrier, F. Desprez, *Evaluation of Reallocation Heuristics for "
        "Moldable Tasks in Computational Dedicated and non Dedicated Grids*, INRIA RR-7365, 2010. "
        "The choice of sizes and moves and the queues are those of `wfrun jobs`."
    )
    yield ""
    runs = sum(row.variant == BASE for row in samples.rows)
    length = "all of each trace" if scale.days > 200 else f"the first {scale.days:g} days of each"
    yield (
        f"**Of section 5, {tally(found)}.** {len(samples.seeds)} seeds, {length}: "
        f"{runs} references without reallocation and {4 * runs} experiments. All "
        "algorithms are compared on the same jobs; a seed draws their types and origins."
    )
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


def _sizes(rows: Sequence[Row]) -> tuple[str, str, str]:
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


def _platform(samples: ReallocationSamples, platform: Platform, picture: str) -> Iterator[str]:
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
    """Mean, minimum and maximum."""
    low, high = min(values), max(values)
    return f"{number(fmean(values))} ({number(low)}–{number(high)})"


def _variants(samples: ReallocationSamples) -> Iterator[str]:
    if all(row.variant == BASE for row in samples.rows):
        return
    yield ""
    yield "## One thing changed"
    yield ""
    traces = ", ".join(dict.fromkeys(row.trace for row in samples.rows if row.variant != BASE))
    yield (
        f"Trace {traces} on the homogeneous dedicated platform, means over the seeds. *Limits*: a "
        "job moves at most three times, and the one that waits longest at a site is not cancelled."
    )
    rows = []
    for name in (BASE, *VARIANTS):
        found = samples.variant(name)
        cells = [
            " / ".join(number(fmean(value(row, measure, a) for row in found)) for a in ALGORITHMS)
            for measure in MEASURES
        ]
        rows.append((name, number(fmean(row.wait_s for row in found)), *cells))
    order = ", ".join(TITLES[name] for name in ALGORITHMS)
    header = ("", "wait without reallocation [s]", *(_MEASURES[m] for m in MEASURES))
    yield from table(header, rows)
    yield ""
    yield f"Order of the values: {order}."


def _claims(found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## Claims of section 5"
    yield ""
    yield (
        "A repetition is a seed, its value the mean over the traces. A claim *holds* or *does not "
        "hold* with 95% confidence (paired t test), otherwise it is *not distinguishable*."
    )
    yield from claims_table(found)
