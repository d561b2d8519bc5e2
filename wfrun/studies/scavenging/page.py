"""The page of the study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import hypot, log
from string import ascii_lowercase

from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.numbers import number, shown
from wfrun.studies.common.page import DETAILS, claims_table, study_head, table
from wfrun.studies.common.verdict import Verdict
from wfrun.studies.scavenging import paper
from wfrun.studies.scavenging.claims import CLAIMS, MET, delays
from wfrun.studies.scavenging.differences import CAUSES, DIFFERENCES, SUMMARY
from wfrun.studies.scavenging.experiments import (
    ALL,
    BASE,
    JOB_NODES,
    LENGTHS_S,
    OWNER,
    PER_SITE,
    POLLS_S,
    SITES,
    SITES_LARGEST,
    VARIANTS,
    WAYS,
    WBLOCK,
    WBURST,
    ScavengingRow,
    ScavengingSamples,
    ScavengingScale,
    grid_name,
    owner_value,
    ratio,
    total,
)

LENGTH = {True: "about 20 s", False: "about 6 minutes"}
MARKS = {Verdict.HOLDS: "+", Verdict.FAILS: "–", Verdict.UNCLEAR: "?"}
MEASURES = {"throughput": "tasks/min", "preemptions": "preemptions", "nodes": "nodes"}
SETTING = """\
The 272 nodes of the DAS-3 (Table 1.2), of which local users hold 40% at each site. Grid jobs of one
node go by Worst Fit, 40% of all nodes in each window; in a block each node has three jobs of 180 s,
20 s apart, and a burst keeps its nodes for its minute. A job takes its nodes from scavengers at
once; nodes that become idle are noticed at the next poll, every 10 s, and a launcher starts in 5 s.
Tasks take 600 s, uniform within 20%. Three owners come at the beginning, and the first window
begins after ten minutes. The text has none of the lengths. **Calibrated** from the PerSite column
of Table 4.1, by hand, are the local load (mean nodes), the length of grid jobs (sum of preemptions)
and that of tasks (throughput); these three numbers are not counted as claims that hold, and all is
varied below."""
WORDS = """\
Words have these numbers: "considerably" is at least 1.5 times, "almost the same" within 2%, "small"
differences are within 1.2 times, as in Table 4.1; a number of Table 4.1 is met within 10%, each of
the three owners for itself; "close to the ideal case" is within 5%, "approximately one and a half
hours" from 1.2 to 1.8. A claim *holds* or *does not hold* with 95% confidence (paired t test over
the runs), and is *not distinguishable* otherwise."""
NODES_RATIO, PREEMPTIONS_RATIO = (
    max(values) / min(values)
    for values in (
        [row.nodes for row in paper.TABLE_4_1[ALL]],
        [row.preemptions for row in paper.TABLE_4_1[ALL]],
    )
)
"""Largest divided by smallest value of the owners in Table 4.1 under All, for nodes and for
preemptions."""


def scavenging_page(
    samples: ScavengingSamples, scale: ScavengingScale, found: Sequence[Answer],
    pictures: Sequence[str], *, quick: bool,
) -> str:  # fmt: skip
    """The page in Markdown."""
    known = [*pictures, "", ""]
    parts = [
        *_head(scale, found, quick=quick),
        *_table_4_1(samples, known[0]),
        *_preemptions(samples, scale),
        *_both_ratios(samples, scale, known[1]),
        *_delays(samples),
        "", "## Claims", "", *WORDS.splitlines(),
        *claims_table(found, CAUSES),
        *DIFFERENCES.splitlines(),
        *DETAILS,
        *_variants(samples, scale, found),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(scale: ScavengingScale, found: Sequence[Answer], *, quick: bool) -> Iterator[str]:
    source = (
        "Source: O. O. Sonmez, *Application-Oriented Scheduling in Multicluster Grids*, TU Delft "
        "2010, chapter 4. Its Figure 4.4 is a picture without numbers; the claims have what the "
        "text and Table 4.1 state."
    )
    yield from study_head(
        "scavenging", "owners on idle nodes (thesis chapter 4)", SUMMARY,
        f"{scale.seeds} runs of each; the thesis has one.", found, LENGTH[quick], source,
        quick=quick,
    )  # fmt: skip
    yield ""
    yield from SETTING.splitlines()


def _table_4_1(s: ScavengingSamples, picture: str) -> Iterator[str]:
    yield from ("", "## Table 4.1: WBlock, owners by mean nodes")
    if picture:
        yield from ("", f"![Figure 4.4]({picture})")
    columns = (
        ("PerSite", PER_SITE, BASE),
        ("All", ALL, BASE),
        (SITES, ALL, SITES),
        (SITES_LARGEST, ALL, SITES_LARGEST),
        (OWNER, ALL, OWNER),
    )
    rows = []
    for measure, title in MEASURES.items():
        for place in range(paper.OWNERS):
            cells = [f"{title}, owner {place + 1}"]
            for _, policy, variant in columns:
                if variant == BASE:
                    by_nodes = sorted(paper.TABLE_4_1[policy], key=lambda row: -row.nodes)
                    cells.append(f"{getattr(by_nodes[place], measure):g}")
                value = s.varied(variant).of(WBLOCK, policy, owner_value(measure, place))
                cells.append(shown(value))
            rows.append(cells)
        cells = [f"{title}, all"]
        for _, policy, variant in columns:
            if variant == BASE:
                cells.append(f"{sum(getattr(r, measure) for r in paper.TABLE_4_1[policy]):g}")
            cells.append(shown(s.varied(variant).of(WBLOCK, policy, total(measure))))
        rows.append(cells)
    header = ["", "PerSite: thesis", "ours", "All: thesis", "ours", *(c[0] for c in columns[2:])]
    yield from table(header, rows)


def _preemptions(s: ScavengingSamples, scale: ScavengingScale) -> Iterator[str]:
    if not scale.grid_seeds:
        return
    theirs = sum(row.preemptions for row in paper.TABLE_4_1[PER_SITE])
    yield from ("", "## How many preemptions", "")
    yield (
        f"Of all owners, PerSite and WBlock; {theirs} in the thesis. *Kept*: all jobs of a block "
        "at once, and 20 s after the end of each another one; *paced*: jobs at equal intervals. "
        f"{scale.grid_seeds} runs of each; * within 10% of the thesis."
    )
    kinds = list(product(WAYS, JOB_NODES, POLLS_S))
    rows = []
    for run_s in LENGTHS_S:
        cells = [f"{run_s:g}"]
        for way, nodes, poll_s in kinds:
            name = grid_name(run_s, nodes, way, poll_s)
            mean = s.varied(name).of(WBLOCK, PER_SITE, total("preemptions")).mean
            cells.append(number(mean) + ("*" if abs(mean - theirs) <= MET * theirs else ""))
        rows.append(cells)
    header = ["run time [s]"]
    header += [f"{a}, {n} node{'s' if n > 1 else ''}, poll {p:g} s" for a, n, p in kinds]
    yield from table(header, rows)


def _both_ratios(s: ScavengingSamples, scale: ScavengingScale, picture: str) -> Iterator[str]:
    yield from ("", "## Unequal nodes, equal preemptions", "")
    yield (
        f"With All the largest number of nodes in Table 4.1 is {NODES_RATIO:.2f} times the "
        f"smallest, that of preemptions {PREEMPTIONS_RATIO:.2f} times. Ours, with WBlock, and the "
        "share of runs that have at least the one and at most the other:"
    )
    if picture:
        yield from ("", f"![Ratios]({picture})")
    rows = []
    for variant in (BASE, *scale.variants):
        of = s.varied(variant)
        runs = of.some(WBLOCK, ALL)
        values = [of.of(WBLOCK, ALL, ratio(m)).mean for m in ("nodes", "preemptions", "throughput")]
        share = sum(map(_is_like_theirs, runs)) / len(runs)
        rows.append((_name(variant), *map(number, values), f"{share:.0%}"))
    every = [row for v in (BASE, *scale.variants) for row in s.varied(v).some(WBLOCK, ALL)]
    header = ("All", "nodes, largest by smallest", "preemptions", "tasks", "runs with both")
    yield from table(header, rows)
    yield from ("", _nearest(every))


def _nearest(runs: Sequence[ScavengingRow]) -> str:
    """A sentence on the run whose two ratios between owners are nearest to those of the thesis.
    Distances are between logarithms."""

    def distance(row: ScavengingRow) -> float:
        return hypot(
            log(ratio("nodes")(row) / NODES_RATIO),
            log(ratio("preemptions")(row) / PREEMPTIONS_RATIO),
        )

    row = min(runs, key=distance)
    values = (f"{ratio(measure)(row):.2f}" for measure in ("nodes", "preemptions"))
    return f"The nearest of {len(runs)} runs has {' and '.join(values)} (*{_name(row.variant)}*)."


def _is_like_theirs(row: ScavengingRow) -> bool:
    few = ratio("preemptions")(row) <= PREEMPTIONS_RATIO
    return few and ratio("nodes")(row) >= NODES_RATIO


def _delays(s: ScavengingSamples) -> Iterator[str]:
    yield from ("", "## Section 4.3.3: delays of local jobs [s]")
    rows = []
    for poll_s in (5.0, paper.POLL_S, 20.0, 60.0):
        known = delays(s, poll_s).values()
        means = [
            sum(values) / len(values)
            for values in zip(*((one.lowest_s, one.highest_s, one.noticing_s, one.reclaiming_s)
                                for one in known), strict=True)
        ]  # fmt: skip
        theirs = "{:g}–{:g}".format(*paper.LOCAL_DELAYS_S) if poll_s == paper.POLL_S else ""
        rows.append((f"{poll_s:g}", theirs, *map(number, means)))
    header = ("poll", "thesis", "5th percentile", "95th", "mean until a poll", "from then on")
    yield from table(header, rows)


def _name(variant: str) -> str:
    return "as above" if variant == BASE else variant


def _variants(
    samples: ScavengingSamples, scale: ScavengingScale, found: Sequence[Answer]
) -> Iterator[str]:
    yield from ("", "### Free choices", "")
    yield (
        f"{scale.varied_seeds} runs of each, with both policies and workloads. + holds, – does "
        "not hold, ? not distinguishable; sums are of all owners with WBlock and PerSite."
    )
    counted = [one for one in found if not one.claim.always]
    rows = []
    letters = dict(zip(VARIANTS, (*ascii_lowercase, "aa", "ab", "ac", "ad"), strict=False))
    for variant in (BASE, *scale.variants):
        of = samples.varied(variant)
        answers = found if variant == BASE else answer(CLAIMS, of)
        marks = [one for one in answers if not one.claim.always]
        sums = [number(of.of(WBLOCK, PER_SITE, total(measure)).mean) for measure in MEASURES]
        rows.append(
            (
                letters.get(variant, ""), _name(variant), *(MARKS[one.verdict] for one in marks),
                str(sum(one.holds for one in marks)), *sums,
            )
        )  # fmt: skip
    header = ("", "", *(str(one.number) for one in counted), "hold", *MEASURES.values())
    yield from table(header, rows)
    yield from ("", "### WBurst: tasks/min, nodes and preemptions of the owners by mean nodes")
    burst_rows = []
    for variant in (BASE, *scale.variants):
        of = samples.varied(variant)
        cells = [_name(variant)]
        for policy, measure in product((PER_SITE, ALL), MEASURES):
            values = [of.of(WBURST, policy, owner_value(measure, n)).mean for n in range(3)]
            cells.append(", ".join(map(number, values)))
        burst_rows.append(cells)
    header_ = ["", *(f"{p}: {title}" for p in ("PerSite", "All") for title in MEASURES.values())]
    yield from table(header_, burst_rows)
