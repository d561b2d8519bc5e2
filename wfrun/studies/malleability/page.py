"""The page of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import claims_table, study_head, table
from wfrun.studies.common.verdict import Verdict
from wfrun.studies.malleability.claims import CLAIMS
from wfrun.studies.malleability.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.malleability.experiments import (
    COSTLY,
    EGS,
    EXPERIMENTS,
    FPSMA,
    GRID,
    MALLEABILITY,
    PRA,
    SINGLE,
    MalleabilitySamples,
    MalleabilityScale,
    costly_name,
)
from wfrun.studies.malleability.workloads import ALL_MALLEABLE, MIXES

LENGTH = {True: "about two minutes", False: "about 6 minutes"}
MEASURES = {
    "run_s": "execution [s]",
    "response_s": "response [s]",
    "tail_s": "99% of responses [s]",
    "gadget_s": "GADGET [s]",
    "mean_size": "mean size",
    "largest_size": "maximum size",
    "stuck": "share at 2",
    "grows": "grows",
    "shrinks": "shrinks",
    "utilization": "utilization",
}
MARKS = {Verdict.HOLDS: "+", Verdict.FAILS: "–", Verdict.UNCLEAR: "?"}
WORDS = """\
Words have these numbers: "few" is at most one in five, "many" and "most" at least half, "almost the
same" and "similarly" within 25%, "much" and "far" at least half as much again, "far worse than all
others" at least twice the next, "about" within 10%; a group has at least nine jobs of ten. A claim
*holds* or *does not hold* with 95% confidence (paired t test over the runs), and is *not
distinguishable* otherwise."""
VARIED = """\
Each changes one thing, or processors and optimum together. *Optimum at 0.25*: the shortest run time
is that with a quarter of the maximum size. + holds, – does not hold, ? not distinguishable."""


def malleability_page(
    samples: MalleabilitySamples, scale: MalleabilityScale, found: Sequence[Answer],
    pictures: Sequence[str], *, quick: bool,
) -> str:  # fmt: skip
    """The page in Markdown."""
    parts = [
        *_head(scale, found, quick=quick),
        *_measures(samples, pictures),
        *_costs(samples, scale),
        "", "## Claims", "", *WORDS.splitlines(),
        *claims_table(found, CAUSES),
        *_variants(samples, scale, found),
        *DIFFERENCES.splitlines(),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(scale: MalleabilityScale, found: Sequence[Answer], *, quick: bool) -> Iterator[str]:
    source = (
        "Source: O. O. Sonmez, *Application-Oriented Scheduling in Multicluster Grids*, TU Delft "
        "2010, sections 3.3 and 3.4. Its Figures 3.4 and 3.5 are pictures without numbers; the "
        "claims have what the text states."
    )
    return study_head(
        "malleability", "jobs that grow and shrink (thesis chapter 3)", SUMMARY,
        f"{scale.seeds} runs of each combination; the thesis has 4.", found, LENGTH[quick], source,
        quick=quick,
    )  # fmt: skip


def _measures(samples: MalleabilitySamples, pictures: Sequence[str]) -> Iterator[str]:
    titles = ("Figure 3.4: PRA, every 2 minutes", "Figure 3.5: PWA, every 30 s",
              "PWA with the workloads of PRA")  # fmt: skip
    for place, (experiment, title) in enumerate(zip(EXPERIMENTS, titles, strict=True)):
        yield ""
        yield f"## {title}"
        if place < len(pictures):
            yield ""
            yield f"![{title}]({pictures[place]})"
        columns = {measure: samples.all(experiment, measure) for measure in MEASURES}
        rows = [
            (name, *(number(columns[measure][name].mean) for measure in MEASURES))
            for name in columns["run_s"]
        ]
        yield from table(("", *MEASURES.values()), rows)


def _costs(samples: MalleabilitySamples, scale: MalleabilityScale) -> Iterator[str]:
    """The part of the page on the cause of the main conclusion: changes of size that cost time
    where jobs share a cluster."""
    yield ""
    yield "## FPSMA and EGS under PRA in one cluster, by the cost of a change of size"
    yield ""
    yield (
        "W_m; FPSMA and EGS. The ratios are those of FPSMA to EGS, W_mr beside W_m. These settings "
        "were chosen among 252 that were tried with three runs each: they show that the "
        "conclusion is possible, not that it came about so."
    )
    plain = [(processors, 0.0, f"one cluster of {processors}") for processors in (48, 64, 96)]
    cases = plain + [(p, cost_s, costly_name(p, cost_s)) for p, cost_s in COSTLY]
    rows = []
    for processors, cost_s, variant in sorted(cases):
        if variant not in scale.variants:
            continue
        of = samples.varied(variant)
        responses = [
            of.of(PRA, FPSMA, mix, "response_s").mean / of.of(PRA, EGS, mix, "response_s").mean
            for mix in MIXES
        ]
        pairs = (
            " and ".join(number(of.of(PRA, policy, ALL_MALLEABLE, measure).mean)
                         for policy in MALLEABILITY)
            for measure in ("response_s", "gadget_s", "tail_s", "grows")
        )  # fmt: skip
        rows.append(
            (str(processors), f"{cost_s:g}", *pairs, *(f"{value:.3f}" for value in responses))
        )
    header = ("processors", "cost [s]", "response [s]", "GADGET [s]", "99% of responses [s]",
              "grows", "ratio of responses", "W_mr")  # fmt: skip
    yield from table(header, rows)


def _variants(
    samples: MalleabilitySamples, scale: MalleabilityScale, found: Sequence[Answer]
) -> Iterator[str]:
    yield ""
    yield "## Free choices"
    yield ""
    yield from VARIED.splitlines()
    yield ""
    yield f"{scale.varied_seeds} runs of each."
    header = ("", *(str(one.number) for one in found), "hold")
    rows = [_marks("as above", found)]
    for variant in (*GRID, *SINGLE):
        if variant in scale.variants:
            rows.append(_marks(variant, answer(CLAIMS, samples.varied(variant))))
    yield from table(header, rows)


def _marks(name: str, found: Sequence[Answer]) -> tuple[str, ...]:
    held = sum(one.holds for one in found)
    return name, *(MARKS[one.verdict] for one in found), str(held)
