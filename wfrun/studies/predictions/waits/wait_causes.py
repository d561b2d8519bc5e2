"""Causes of differences from thesis section 7.3.2: one thing is changed at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isnan, nan
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from wfrun.engine.prediction.waits.accuracy import JudgedWait, judge
from wfrun.engine.prediction.waits.bursts import in_bursts
from wfrun.engine.prediction.waits.replay import (
    Event,
    ReplayedJob,
    recorded_events,
    simulated_events,
)
from wfrun.engine.prediction.waits.upper_bounds import WaitBounds
from wfrun.engine.queues import make_lrm
from wfrun.runners.forecast.wait_accuracy import TRAINING
from wfrun.studies.common.claim import Claims
from wfrun.studies.common.page import table
from wfrun.studies.predictions.part import PartSetting, Pictures, StudyPart
from wfrun.studies.predictions.waits import queue_waits
from wfrun.studies.predictions.waits.queue_waits import Waits, site_of

DELAY_S = 6 * 3600.0
"""Maximum delay in seconds of a job of a burst in the change *spread*."""
COPIES = 3
SHIFTS = 200
"""Number of places to which the bursts are moved."""
LOADS = (2, 4)
"""Factors by which the load of the research grids is multiplied."""
BOUNDS = {"bmbp": "BMBP", "chebyshev": "Chebyshev"}


class WaitCauseCell(msgspec.Struct, frozen=True, kw_only=True):
    """One replay with both bounds."""

    workload: str
    site: str
    jobs: int | None
    """Maximum number of jobs of the site; None: all."""
    waits: Waits
    change: str
    """The change. base: none. spread: each job of a burst arrives up to DELAY_S later. larger: each
    job of a burst is submitted COPIES times. known: a wait enters the history when its job is
    submitted. calm: waits of jobs of bursts never enter the history. load N: arrivals are N times
    as fast."""


class WaitCauseRow(WaitCauseCell, frozen=True, kw_only=True):
    """The measures of a replay. Pairs have the values of BMBP and Chebyshev. Jobs of bursts are
    those that were in a burst before the change."""

    nonzero: float
    accuracy: tuple[float, float]
    waited_accuracy: tuple[float, float]
    """Mean accuracy over the jobs that waited."""
    above: tuple[float, float]
    """Mean bound of the jobs that waited, divided by their mean wait."""
    in_bursts: float
    """Share of the jobs that are in bursts."""
    within: tuple[float, float]
    """Share of the jobs in bursts that waited no longer than predicted."""
    moved_low: tuple[float, float]
    """5th percentile of ``within`` with the bursts moved to SHIFTS other places in the sequence of
    jobs."""
    moved_high: tuple[float, float]
    """95th percentile of ``within`` with the bursts moved to SHIFTS other places in the sequence of
    jobs."""


class _Trial(NamedTuple):
    """Jobs, whether each is in a burst, the events of the replay, and the waits."""

    jobs: Sequence[ReplayedJob]
    bursts: Sequence[bool]
    events: Sequence[Event]
    waits_s: Sequence[float]


def cells(setting: PartSetting) -> list[WaitCauseCell]:
    """The places of the part ``waits``, each with every change that applies."""
    kinds = {w.label: w for w in setting.workloads}
    places = dict.fromkeys(
        (c.workload, c.site, c.waits, c.jobs) for c in queue_waits.cells(setting)
    )
    found = []
    for label, site, waits, jobs in places:
        changes = ["base", "known", "calm", *(["spread", "larger"] if waits == "fcfs" else [])]
        if kinds[label].kind == "research":
            changes += [f"load {factor}" for factor in LOADS]
        found += [
            WaitCauseCell(workload=label, site=site, jobs=jobs, waits=waits, change=change)
            for change in changes
        ]
    return found


def run(setting: PartSetting, cell: WaitCauseCell) -> WaitCauseRow:
    """Replay the site's jobs with one thing changed."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    site = site_of(workload, int(cell.site), cell.jobs, cell.waits)
    bursts = in_bursts([job.submit_s for job in site.jobs])
    jobs: Sequence[ReplayedJob] = site.jobs
    if cell.change == "spread":
        jobs, bursts = spread(jobs, bursts)
    elif cell.change == "larger":
        copies = [COPIES if burst else 1 for burst in bursts]
        jobs = [job for job, count in zip(jobs, copies, strict=True) for _ in range(count)]
        bursts = [count > 1 for count in copies for _ in range(count)]
    elif cell.change.startswith("load"):
        factor = float(cell.change.split()[1])
        jobs = [job._replace(submit_s=job.submit_s / factor) for job in jobs]
    trial = _trial(tuple(jobs), tuple(bursts), None if cell.waits == "logged" else site.processors)
    found = [_judged(trial, _bounds(trial, bound, cell.change)) for bound in BOUNDS]
    results = [judge(waits) for waits in found]
    moved = [moved_shares(waits) for waits in found]
    return WaitCauseRow(
        **msgspec.structs.asdict(cell),
        nonzero=results[0].waited or 0.0,
        accuracy=_pair([one.accuracy for one in results]),
        waited_accuracy=_pair([one.accuracy_waited for one in results]),
        above=_pair([_above(waits) for waits in found]),
        in_bursts=results[0].in_bursts or 0.0,
        within=_pair([one.within_in_bursts for one in results]),
        moved_low=_pair([shares[len(shares) // 20] for shares in moved]),
        moved_high=_pair([shares[-1 - len(shares) // 20] for shares in moved]),
    )


def _pair(values: Sequence[float | None]) -> tuple[float, float]:
    return values[0] or 0.0, values[1] or 0.0


def spread(
    jobs: Sequence[ReplayedJob], bursts: Sequence[bool]
) -> tuple[list[ReplayedJob], list[bool]]:
    """Delay each job of a burst at random, by up to DELAY_S. Return the jobs in the new order of
    submission, and whether each is in a burst."""
    random = Random(0)
    later = [
        (job._replace(submit_s=job.submit_s + random.uniform(0, DELAY_S)) if burst else job, burst)
        for job, burst in zip(jobs, bursts, strict=True)
    ]
    later.sort(key=lambda one: one[0].submit_s)
    return [job for job, _ in later], [burst for _, burst in later]


@lru_cache(maxsize=1)  # changes of the history alone follow the base
def _trial(
    jobs: tuple[ReplayedJob, ...], bursts: tuple[bool, ...], processors: int | None
) -> _Trial:
    """Replay the jobs. ``processors`` is the size of the simulated cluster; None takes the waits of
    the log."""
    if processors is None:
        events = list(recorded_events(jobs))
    else:
        events = list(simulated_events(jobs, make_lrm("fcfs", processors)))
    waits_s = [nan] * len(jobs)
    for what, i, now_s in events:
        if what == "started":
            waits_s[i] = now_s - jobs[i].submit_s
    return _Trial(jobs, bursts, events, waits_s)


def _bounds(trial: _Trial, bound: str, change: str) -> list[float]:
    """The bound predicted at each submission."""
    bounds = WaitBounds(bound)
    predicted_s = [nan] * len(trial.jobs)
    for what, i, _ in trial.events:
        cores = trial.jobs[i].job.cores
        if what == "submitted":
            value_s = bounds.predict(cores)
            predicted_s[i] = nan if value_s is None else value_s
        observed = "submitted" if change == "known" else "ended"
        if what == observed and not (change == "calm" and trial.bursts[i]):
            bounds.observe(cores, trial.waits_s[i])
    return predicted_s


def _judged(trial: _Trial, predicted_s: Sequence[float]) -> list[JudgedWait]:
    first = int(TRAINING * len(trial.jobs))
    found = map(JudgedWait, trial.waits_s[first:], predicted_s[first:], trial.bursts[first:])
    return [one for one in found if not isnan(one.predicted_s)]


def _above(waits: Sequence[JudgedWait]) -> float:
    total_s = sum(one.wait_s for one in waits)
    return sum(one.predicted_s for one in waits if one.wait_s > 0) / total_s if total_s else 0.0


def moved_shares(waits: Sequence[JudgedWait]) -> list[float]:
    """For each of SHIFTS moves of all bursts along the sequence of jobs: the share of the jobs in
    bursts that waited no longer than predicted. The shares are ascending. Bursts that leave the end
    of the sequence continue at its beginning. Without jobs in bursts the result is [0.0]."""
    count = len(waits)
    within = _bits([one.wait_s - one.predicted_s < 0.5 for one in waits])
    members = _bits([one.in_burst for one in waits])
    if not members:
        return [0.0]
    around = within | within << count
    return sorted(
        (around >> shift * count // (SHIFTS + 1) & members).bit_count() / members.bit_count()
        for shift in range(1, SHIFTS + 1)
    )


def _bits(flags: Sequence[bool]) -> int:
    """The number whose bit i is flag i. Two such numbers compare the flags of 20,000 jobs at
    once."""
    return int("".join("01"[flag] for flag in reversed(flags)) or "0", 2)


class WaitCauseSamples:
    """Results by place and change."""

    def __init__(self, setting: PartSetting, rows: Sequence[WaitCauseRow], every: bool) -> None:
        self._workloads = {w.label: w for w in setting.workloads}
        self._rows = {(row.workload, row.site, row.waits, row.change): row for row in rows}

    def title(self, row: WaitCauseRow) -> str:
        workload = self._workloads[row.workload]
        number = f" {row.site}" if workload.generated else ""
        return workload.title + number + ("" if row.waits == "fcfs" else ", logged")

    def bases(self) -> list[WaitCauseRow]:
        """The places where some jobs waited."""
        return [row for row in self._rows.values() if row.change == "base" and row.nonzero]

    def changed(self, base: WaitCauseRow, change: str) -> WaitCauseRow | None:
        return self._rows.get((base.workload, base.site, base.waits, change))


def page(samples: WaitCauseSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "### What changes the bounds"
    yield ""
    yield (
        "Share of the jobs in bursts that waited at most as long as the bound of BMBP, where one "
        f"thing is changed. *Moved*: the same bounds and waits, with all bursts at {SHIFTS} other "
        "places of the sequence of jobs: the range of 90% of these shares. A share within it is "
        f"not one of bursts. *Spread*: the jobs of bursts arrive up to {DELAY_S / 3600:.0f} hours "
        f"later, at random. *Larger*: each of them is submitted {COPIES} times. *Known*: a wait "
        "is in the history from the submission of its job. *Calm*: waits of jobs in bursts are "
        "never in the history."
    )
    changes = ("spread", "larger", "known", "calm")
    bases = samples.bases()
    yield from table(
        ("site", "jobs in bursts", "within", "moved", *changes),
        (
            (samples.title(base), f"{base.in_bursts:.0%}", f"{base.within[0]:.1%}",
             f"{base.moved_low[0]:.1%} to {base.moved_high[0]:.1%}",
             *(_within(samples.changed(base, change)) for change in changes))
            for base in bases
        ),
    )  # fmt: skip
    yield ""
    yield from _verdict(samples, bases)
    yield ""
    yield (
        "Accuracy of BMBP and of Chebyshev's inequality, and share of the jobs that waited, at "
        "the research grids with bursts whose jobs arrive later (*spread*) and with higher loads:"
    )
    others = ("spread", *(f"load {factor}" for factor in LOADS))
    yield from table(
        ("site", "as generated", "spread", *(f"{factor} times the load" for factor in LOADS)),
        (
            (samples.title(base), _accuracy(base),
             *(_accuracy(samples.changed(base, change)) for change in others))
            for base in bases if samples.changed(base, f"load {LOADS[0]}")
        ),
    )  # fmt: skip


def _within(row: WaitCauseRow | None) -> str:
    return "-" if row is None else f"{row.within[0]:.1%}"


def _accuracy(row: WaitCauseRow | None) -> str:
    if row is None:
        return "-"
    return f"{row.accuracy[0]:.3f}, {row.accuracy[1]:.3f}; {row.nonzero:.0%}"


def _verdict(samples: WaitCauseSamples, bases: Sequence[WaitCauseRow]) -> Iterator[str]:
    lower = [samples.title(base) for base in bases if base.within[0] < base.moved_low[0]]
    yield (
        f"The share is below the range at {len(lower)} of {len(bases)} sites"
        f"{': ' if lower else ''}{', '.join(lower)}."
    )
    for kind, title in ((True, "generated"), (False, "logged")):
        chosen = [
            (base, later)
            for base in bases
            if base.workload.startswith("grid:") is kind
            and (later := samples.changed(base, "spread")) is not None
        ]
        if chosen:
            before, after = (sum(pair[i].within[0] >= 0.95 for pair in chosen) for i in (0, 1))
            yield (
                f"With simulated waits of {title} jobs, the bound holds for 95% of the jobs in "
                f"bursts at {before} of {len(chosen)} sites, and if these arrive later at {after}."
            )


def draw(samples: WaitCauseSamples, folder: Path) -> dict[str, str]:
    """Draw nothing: the section is tables."""
    return {}


PART = StudyPart("wait-causes", WaitCauseCell, WaitCauseRow, cells, run, WaitCauseSamples,
            Claims[WaitCauseSamples](), page, draw)  # fmt: skip
