"""The page of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from wfrun.studies.coallocation import paper
from wfrun.studies.coallocation.choices import (
    SATURATING,
    SATURATING_NAMES,
    THESIS,
    causes,
    changes_by_choice,
    choices,
    choices_section,
)
from wfrun.studies.coallocation.claims import interval
from wfrun.studies.coallocation.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.coallocation.experiments import (
    CA,
    CCRS,
    FCM,
    LIMIT,
    MPI,
    PLOTS,
    POISSON,
    PRIME,
    REAL,
    REAL_WITH,
    REAL_WITHOUT,
    STEPS,
    SYNTHETIC,
    WAVES,
    WF,
    WITH,
    WITHOUT,
    CoallocationScale,
)
from wfrun.studies.coallocation.samples import CoallocationSamples
from wfrun.studies.common.claim import Answer
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import DETAILS, claims_table, study_head, table

LENGTH = {True: "about 2 minutes", False: "about 12 minutes"}
SETTING = """\
Communication takes f(k) times as long over k clusters as over one: f(4) is 4.44 by Wave's 200 and
750 s with CCR 4; f(2) = 2.15 and f(3) = 3.29 are between 1 and that (linear). Poisson has CCR 0.25,
Prime none. In Figures 2.9 and 2.10 f is also in proportion to the slowest link between the
clusters (Table 2.1)."""
WORDS = """\
Words have these numbers: "no difference" is within 2%; contention is "moderate" from 50 to 70%, the
40% with 10 to 30% of other users of section 2.5.2; "very advantageous" is a gain from 45% on, and
of at least 10% from 75% on; "minor" is at most 10%; "matches" is within 5 points; "almost all" is
all but one in ten; "much larger" is by at least half; a number of a real experiment is met from its
half to its double, and a row of Table 2.4 within one step of 5%. Claims on experiments are tested
at each utilization (above 40%, where the thesis sees no difference below). A run is *saturated* if
the mean wait of the jobs that arrive in the second half of the day is 1.5 times that of the first,
and in the last quarter longer than the run time on one cluster; saturation lies between two
utilizations if fewer than half of the runs are saturated at the one and more at the other. A claim
*holds* or *does not hold* with 95% confidence (paired t test over the runs; sign test for
saturation), and is *not distinguishable* otherwise."""


def coallocation_page(
    samples: CoallocationSamples, scale: CoallocationScale, found: Sequence[Answer],
    pictures: Sequence[str], *, quick: bool,
) -> str:  # fmt: skip
    """The page in Markdown."""
    known = [*pictures, "", "", "", ""]
    varied = choices(samples, scale)
    parts = [
        *_head(scale, found, quick=quick),
        *_saturation(samples),
        *_matches(samples),
        *_picture("Figure 2.7: the three applications", known[1]),
        *_picture("Figure 2.8: the synthetic application", known[2]),
        *_picture("Figure 2.10: FCM and CA", known[3]),
        *_loaded(samples, known[0]),
        "", "## Claims", "", *WORDS.splitlines(),
        *claims_table(found, causes(varied, CAUSES)),
        *choices_section(samples, scale, found, varied),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *_applications(samples),
        *_synthetic(samples),
        *_policies(samples),
        *changes_by_choice(samples, varied),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(scale: CoallocationScale, found: Sequence[Answer], *, quick: bool) -> Iterator[str]:
    source = (
        "Source: O. O. Sonmez, *Application-Oriented Scheduling in Multicluster Grids*, TU Delft "
        "2010, sections 2.5 and 2.6. The policies are those of [`wfrun jobs --place`]"
        "(coallocation.md). The figures of the thesis are pictures without numbers; the claims "
        "have what its text states."
    )
    yield from study_head(
        "coallocation", "one job over several clusters (thesis chapter 2)", SUMMARY,
        f"{scale.seeds} runs of each point.", found, LENGTH[quick], source, quick=quick,
    )  # fmt: skip
    yield ""
    yield from SETTING.splitlines()


def _picture(title: str, name: str) -> Iterator[str]:
    if name:
        yield from ("", f"## {title}", "", f"![{title}]({name})")


def _saturation(s: CoallocationSamples) -> Iterator[str]:
    yield from ("", "## Table 2.3 and section 2.6.2: where saturation sets in [net utilization]")
    rows = []
    for case, name, (low, high) in zip(SATURATING, SATURATING_NAMES, THESIS, strict=True):
        before, after = s.majority(*case)
        difference = "" if after is None else f"{(before + after - low - high) / 2:+g}"
        first = shown(s.onset(*case))
        rows.append((name, f"{low}–{high}%", interval(before, after), difference, first))
    header = ("", "thesis", "half of our runs", "difference", "mean of the first saturated step")
    yield from table(header, rows)


def _matches(s: CoallocationSamples) -> Iterator[str]:
    yield from ("", "## Table 2.4: changes of the response time with co-allocation")
    rows = []
    for workload, (change, low, high) in paper.CHANGES.items():
        near = s.change(MPI, workload, (low + high) // 10 * 5)
        rows.append(
            (
                workload.capitalize(),
                f"{change:+g}%",
                f"{number(s.change(REAL, workload, 40).mean)}%",
                f"{low}%" if low == high else f"{low}–{high}%",
                _reached(s, workload, change),
                f"{number(near.mean)}%",
            )
        )
    yield from table(
        ("", "thesis, 40% and others", "ours, 40% and 20% of others", "thesis: the same without at",
         "ours at", "ours at the thesis' place"), rows,
    )  # fmt: skip


def _reached(s: CoallocationSamples, workload: str, wanted: float) -> str:
    """Return as text, such as ``75–80%``, between which two simulated net utilizations the mean
    change of the response time crosses ``wanted``; ``never`` if it does not."""
    means = {u: s.change(MPI, workload, u).mean for u in STEPS}
    for before, after in pairwise(STEPS):
        low, high = sorted((means[before], means[after]))
        if low <= wanted <= high:
            return f"{before}–{after}%"
    return "never"


def _loaded(s: CoallocationSamples, picture: str) -> Iterator[str]:
    yield from ("", "## Figures 2.6 and 2.9: 40%, and 20% of other users, 4 hours")
    if picture:
        yield from ("", f"![Figure 2.6]({picture})")
    rows = []
    for experiment, workload, before, after, thesis in (
        *((REAL, w, WF, FCM, f"{paper.CHANGES[w][0]:+g}%") for w in (PRIME, POISSON, WAVES)),
        (REAL_WITHOUT, WAVES, FCM, CA, f"-{paper.GAPS_S['without']:g} s"),
        (REAL_WITH, WAVES, FCM, CA, f"-{paper.GAPS_S['with']:g} s"),
    ):
        pair = [s.of(experiment, workload, p, 40) for p in (before, after)]
        change = s.change(experiment, workload, 40, after, before)
        gap_s = pair[1].mean - pair[0].mean
        place = "" if experiment == REAL else f", 64 nodes {experiment.split()[1]} Delft"
        rows.append(
            (
                f"{workload.capitalize()}{place}: {before.upper()} → {after.upper()}",
                shown(pair[0]),
                shown(pair[1]),
                thesis,
                f"{number(change.mean)}%" if experiment == REAL else f"{number(gap_s)} s",
                number(s.of(experiment, workload, after, 40, "wait_s").mean),
                number(100 * s.of(experiment, workload, after, 40, "coallocated").mean),
            )
        )
    yield from table(
        ("", "response before [s]", "after [s]", "change, thesis", "ours", "wait after [s]",
         "co-allocated [%]"), rows,
    )  # fmt: skip


def _applications(s: CoallocationSamples) -> Iterator[str]:
    yield from ("", "### Figure 2.7")
    kinds = ((PRIME, FCM), (POISSON, FCM), (WAVES, FCM), (WAVES, LIMIT))
    names = [w.capitalize() + (" [2]" if p == LIMIT else "") for w, p in kinds]
    rows = []
    for u in STEPS:
        rows.append(
            (
                str(u),
                number(s.of(MPI, WAVES, WF, u).mean),
                *(number(s.change(MPI, w, u, p).mean) for w, p in kinds),
                *(number(100 * s.of(MPI, w, p, u, "used").mean) for w, p in kinds),
                *(number(100 * s.of(MPI, w, p, u, "coallocated").mean) for w, p in kinds),
            )
        )
    yield from table(
        ("net [%]", "WF [s]", *(f"{n}: change [%]" for n in names),
         *(f"{n}: observed [%]" for n in names), *(f"{n}: co-allocated [%]" for n in names)), rows,
    )  # fmt: skip


def _synthetic(s: CoallocationSamples) -> Iterator[str]:
    yield from ("", "### Figure 2.8: change of the response time [%]")
    rows = [(str(u), *(number(s.change(SYNTHETIC, name, u).mean) for name in CCRS)) for u in STEPS]
    yield from table(("net [%]", *(name.upper() for name in CCRS)), rows)


def _policies(s: CoallocationSamples) -> Iterator[str]:
    yield from ("", "### Figure 2.10: response time [s]")
    rows = []
    for u in PLOTS[WITH].utilizations:
        cells = [str(u)]
        for experiment in (WITHOUT, WITH):
            cells += [shown(s.of(experiment, WAVES, p, u)) for p in (FCM, CA)]
            cells += [number(s.of(experiment, WAVES, p, u, "run_s").mean) for p in (FCM, CA)]
        rows.append(tuple(cells))
    parts = ("FCM", "CA", "FCM: run time", "CA: run time")
    header = ("net [%]", *(f"{part} {place} Delft" for place in ("without", "with")
                           for part in parts))  # fmt: skip
    yield from table(header, rows)
