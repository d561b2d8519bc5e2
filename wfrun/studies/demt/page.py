"""The page of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from wfrun.studies.common.claim import Answer, tally_by_kind
from wfrun.studies.common.options import QUICK_NOTICE
from wfrun.studies.common.page import claims_table, main_claims, table
from wfrun.studies.demt.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.demt.experiments import (
    ALGORITHMS,
    BASE,
    CRITERIA,
    NAMES,
    VARIANTS,
    VARIED_TASKS,
    DemtSamples,
    Scale,
    bound,
    value,
    variants_of,
)
from wfrun.studies.demt.workloads import PROCESSORS, TITLES, WORKLOADS

LENGTH = {True: "less than a minute", False: "about 15 minutes"}


def demt_page(
    samples: DemtSamples, scale: Scale, found: Sequence[Answer], pictures: Sequence[str], *,
    quick: bool,
) -> str:  # fmt: skip
    """The page in Markdown."""
    parts = [
        *_head(samples, scale, found, quick=quick),
        *(line for place, workload in enumerate(WORKLOADS)
          for line in _workload(samples, workload, pictures[place] if pictures else "")),
        *_times(samples, pictures[-1] if pictures else ""),
        *_claims(found),
        *_bounds(samples),
        *_variants(samples),
        *DIFFERENCES.splitlines(),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(
    samples: DemtSamples, scale: Scale, found: Sequence[Answer], *, quick: bool
) -> Iterator[str]:
    yield "# Study `demt`: moldable jobs packed for two criteria (SPAA 2004)"
    yield ""
    if quick:
        yield from QUICK_NOTICE
    yield from SUMMARY.splitlines()
    yield ""
    runs = f"{samples.seeds} runs of each point, {PROCESSORS} processors."
    yield f"**{tally_by_kind(found)}.** {runs}"
    yield ""
    yield "Main claims:"
    yield ""
    yield from main_claims(found)
    yield ""
    yield f"    wfrun study demt{' --quick' if quick else ''} --output study"
    yield ""
    yield (
        f"makes this page in {LENGTH[quick]}, and keeps all runs in `study/results.csv`. It needs "
        "scipy for the bounds. Source: P.-F. Dutot, L. Eyraud, G. Mounié, D. Trystram, "
        "*Bi-criteria Algorithm for Scheduling Jobs on Cluster Platforms*, SPAA 2004, section 4. "
        "The algorithms are those of [`wfrun jobs --pack`](jobs.md#packing). The figures of the "
        "paper are pictures without numbers; the claims have what the text states, beside ours."
    )


def _workload(samples: DemtSamples, workload: str, picture: str) -> Iterator[str]:
    number = 3 + WORKLOADS.index(workload)
    yield ""
    yield f"## Figure {number}: {TITLES[workload]} jobs"
    if picture:
        yield ""
        yield f"![Figure {number}]({picture})"
    for criterion in CRITERIA:
        rows = []
        for algorithm in ALGORITHMS:
            cells = []
            for tasks in samples.tasks:
                runs = [
                    value(r, algorithm, criterion) / bound(r, criterion)
                    for r in samples.of(workload, tasks)
                ]
                ratio = samples.ratio(workload, tasks, algorithm, criterion)
                cells.append(f"{ratio:.2f} ({min(runs):.2f}–{max(runs):.2f})")
            rows.append((NAMES[algorithm], *cells))
        header = (f"{criterion} / bound, by jobs", *map(str, samples.tasks))
        yield from table(header, rows)
    yield ""
    yield "The ratio of the sums over all runs, with the least and the largest ratio of a run."


def _times(samples: DemtSamples, picture: str) -> Iterator[str]:
    yield ""
    yield "## Figure 7: time of the algorithm"
    if picture:
        yield ""
        yield f"![Figure 7]({picture})"
    rows = []
    for workload in WORKLOADS:
        cells = [
            f"{fmean(r.demt_s for r in samples.of(workload, t)):.2f} "
            f"({max(r.demt_s for r in samples.of(workload, t)):.2f})"
            for t in samples.tasks
        ]
        rows.append((TITLES[workload], *cells))
    yield from table(("mean (maximum) [s], by jobs", *map(str, samples.tasks)), rows)
    yield ""
    yield "Processor time of DEMT with the dual approximation, in Python, on the machine that made"
    yield "this page."


def _claims(found: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## Claims"
    yield ""
    yield (
        'Words have these numbers: "around" is within 10%, "stable" at most 25% between the least '
        'and the largest point, "greatly" at least half as much again, "almost always" in nine '
        "runs of ten. A claim on a workload is tested at each number of jobs. It *holds* or *does "
        "not hold* with 95% confidence (paired t test over the runs), otherwise it is *not "
        "distinguishable*; claims of single runs are counted."
    )
    yield from claims_table(found, CAUSES)


def _bounds(samples: DemtSamples) -> Iterator[str]:
    yield ""
    yield "## The linear program as it is printed"
    yield ""
    yield (
        "The first interval of the program is (t_0, t_1]: a job that ends before t_0, which may be "
        "nearly twice the shortest run time, has no interval, and the value may exceed the optimum "
        "(two jobs of 1 and 1.9 s on two processors, the second with a weight near 0: 1.9 instead "
        "of 1). All ratios here use the program with the interval (t_0/2, t_0] before it. The "
        "value as printed over that bound:"
    )
    rows = []
    for workload in WORKLOADS:
        cells = []
        for tasks in samples.tasks:
            known = samples.of(workload, tasks)
            share = sum(r.printed_bound for r in known) / sum(r.weighted_bound for r in known)
            cells.append(f"{share:.3f}")
        rows.append((TITLES[workload], *cells))
    yield from table(("printed / bound, by jobs", *map(str, samples.tasks)), rows)


def _variants(samples: DemtSamples) -> Iterator[str]:
    yield ""
    yield "## Free choices, one at a time"
    yield ""
    yield (
        f"What the text leaves open, changed alone, with {VARIED_TASKS} jobs: C_max and Σ w C over "
        "their bounds."
    )
    yield ""
    yield from (f"- *{name}*: {what}." for name, what in VARIANTS.items())
    rows = []
    for workload in WORKLOADS:
        for variant in (BASE, *variants_of(workload)):
            if not samples.of(workload, VARIED_TASKS, variant):
                continue
            cells = [
                " / ".join(
                    f"{samples.ratio(workload, VARIED_TASKS, name, criterion, variant):.2f}"
                    for criterion in CRITERIA
                )
                for name in ALGORITHMS
            ]
            rows.append((TITLES[workload], variant, *cells))
    yield from table(("jobs", "", *(NAMES[name] for name in ALGORITHMS)), rows)
