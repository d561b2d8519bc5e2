"""Causes of differences from thesis section 7.2: one thing is changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
from msgspec.structs import replace

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.methods import METHODS, AllMethods
from wfrun.engine.prediction.replay import Moment, PastJob, accuracy, moments_of
from wfrun.parsers.logs import LoggedJob
from wfrun.runners.forecast.log_accuracy import log_history
from wfrun.studies.common.claim import Claims
from wfrun.studies.common.page import table
from wfrun.studies.predictions import generated
from wfrun.studies.predictions.part import PartSetting, Pictures, StudyPart
from wfrun.studies.predictions.runtimes import runtimes
from wfrun.studies.predictions.runtimes.runtimes import mean
from wfrun.studies.predictions.workloads import Workload, jobs_of

APART_S = 30.0
"""Seconds between the tasks of a bag that do not arrive together."""
HIGH = 0.9

Moments = Sequence[Moment]


def _bags(jobs: Sequence[LoggedJob]) -> Iterator[list[LoggedJob]]:
    for _, bag in groupby(jobs, key=lambda job: (job.user, job.application, job.submit_s)):
        yield list(bag)


def alike(jobs: Sequence[LoggedJob]) -> Sequence[LoggedJob]:
    """Give all tasks of a bag the bag's mean run time."""
    changed: list[LoggedJob] = []
    for bag in _bags(jobs):
        runtime_s = fmean(job.runtime_s or 0.0 for job in bag)
        changed += [replace(job, runtime_s=runtime_s) for job in bag]
    return changed


def apart(jobs: Sequence[LoggedJob]) -> Sequence[LoggedJob]:
    """Submit the tasks of a bag APART_S apart."""
    return [
        replace(job, submit_s=job.submit_s + number * APART_S)
        for bag in _bags(jobs)
        for number, job in enumerate(bag)
    ]


def shuffled(past: Sequence[PastJob]) -> list[PastJob]:
    """Shuffle the run times among the jobs of each user. The distribution of the user's run times
    stays the same, but series of similar jobs are broken up. Waits stay the same, too."""
    by_owner: dict[str, list[float]] = {}
    for job in past:
        by_owner.setdefault(job.job.owner, []).append(job.runtime_s)
    random = Random(0)
    for values in by_owner.values():
        random.shuffle(values)
    return [_lasting(job, by_owner[job.job.owner].pop()) for job in past]


def _lasting(past: PastJob, runtime_s: float) -> PastJob:
    return past._replace(runtime_s=runtime_s, ended_s=past.ended_s - past.runtime_s + runtime_s)


GRID_CHANGES: dict[str, tuple[str, generated.Change]] = {
    "base": ("as generated", lambda jobs: jobs),
    "alike": ("alike", alike),
    "apart": ("apart", apart),
    "both": ("both", lambda jobs: apart(alike(jobs))),
}
LOG_CHANGES: dict[str, tuple[str, Callable[[Sequence[PastJob]], Sequence[PastJob]]]] = {
    "base": ("as logged", lambda past: past),
    "shuffled": ("shuffled", shuffled),
}
"""(title, change) by name."""


class RuntimeCauseCell(msgspec.Struct, frozen=True, kw_only=True):
    """One replay with all methods under all classifications."""

    workload: str
    jobs: int | None
    change: str


class RuntimeCauseRow(RuntimeCauseCell, frozen=True, kw_only=True):
    """Measures of each method (in the order of METHODS) under each classification that the workload
    serves (in the order of CLASSIFICATIONS). The values of one classification are adjacent."""

    own: tuple[float, ...]
    """Mean accuracy over the jobs that have a prediction under the classification."""
    same: tuple[float, ...]
    """Mean accuracy over the jobs that have a prediction under every classification."""
    high: tuple[float, ...]
    """Share of the predictions with an accuracy above 0.9."""
    common: float
    """Share of the jobs that have a prediction under every classification."""


def cells(setting: PartSetting) -> list[RuntimeCauseCell]:
    """Every change of each workload."""
    limit = runtimes.QUICK_JOBS if setting.quick else None
    return [
        RuntimeCauseCell(workload=workload.label, jobs=limit, change=change)
        for workload in setting.workloads
        for change in (GRID_CHANGES if workload.generated else LOG_CHANGES)
    ]


def run(setting: PartSetting, cell: RuntimeCauseCell) -> RuntimeCauseRow:
    """Replay the changed workload."""
    workload = next(w for w in setting.workloads if w.label == cell.workload)
    if workload.generated:
        grid = generated.GRIDS[workload.label.removeprefix("grid:")]
        jobs, _ = generated.generate_grid(
            grid, cell.jobs or grid.jobs, 0, GRID_CHANGES[cell.change][1]
        )
        history = log_history(jobs, is_grid=True)
        moments, missing = history.moments, history.missing
    else:
        found = jobs_of(workload, cell.jobs)
        missing = found.history.missing
        moments = moments_of(LOG_CHANGES[cell.change][1](found.past))
    return measured(cell, moments, served(missing))


def served(missing: Sequence[str]) -> list[str]:
    """The classifications that do not need any of the fields in ``missing``."""
    return [name for name, kind in CLASSIFICATIONS.items() if not set(kind.needs) & set(missing)]


def measured(cell: RuntimeCauseCell, moments: Moments, names: Sequence[str]) -> RuntimeCauseRow:
    """Compute the measures of a replay under the classifications ``names``."""
    own: list[list[float]] = [[] for _ in names for _ in METHODS]
    same: list[list[float]] = [[] for _ in own]
    jobs = 0
    for accuracies in _replayed(moments, names):
        jobs += 1
        everywhere = all(accuracies)
        for number, values in enumerate(accuracies):
            for method, value in enumerate(values):
                own[number * len(METHODS) + method].append(value)
                if everywhere:
                    same[number * len(METHODS) + method].append(value)
    return RuntimeCauseRow(
        **msgspec.structs.asdict(cell),
        own=tuple(map(mean, own)),
        same=tuple(map(mean, same)),
        high=tuple(mean([float(v > HIGH) for v in values]) for values in own),
        common=len(same[0]) / jobs if same and jobs else 0.0,
    )


def _replayed(moments: Moments, names: Sequence[str]) -> Iterator[list[list[float]]]:
    """Yield for each job, in the order of submission, a list for each classification with the
    accuracy of each method. The list is empty if the job's class has no history."""
    keys = [CLASSIFICATIONS[name].key for name in names]
    series: list[dict[object, AllMethods]] = [{} for _ in names]
    for past, is_end in moments:
        if is_end:
            for key, known in zip(keys, series, strict=True):
                known.setdefault(key(past.job), AllMethods()).observe(past.runtime_s)
            continue
        found = (known.get(key(past.job)) for key, known in zip(keys, series, strict=True))
        yield [
            [] if one is None else [accuracy(value_s, past.runtime_s) for value_s in one.values_s]
            for one in found
        ]


class RuntimeCauseSamples:
    """Results by workload and change."""

    def __init__(self, setting: PartSetting, rows: Sequence[RuntimeCauseRow], every: bool) -> None:
        self.workloads = setting.workloads
        self._rows = {(row.workload, row.change): row for row in rows}

    def row(self, workload: Workload, change: str) -> RuntimeCauseRow:
        return self._rows[workload.label, change]

    def best(self, workload: Workload, change: str, measure: str = "own") -> float:
        """The measure of the best method under the best classification."""
        return max(getattr(self.row(workload, change), measure), default=0.0)


def by_class(values: Sequence[float]) -> list[float]:
    """The value of the best method under each classification."""
    size = len(METHODS)
    return [max(values[at : at + size]) for at in range(0, len(values), size)]


def page(samples: RuntimeCauseSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    yield ""
    yield "### What changes the accuracy"
    yield ""
    yield (
        "One thing is changed at a time. First, the jobs: the best method of each class, of the "
        "jobs that it predicts, and of those that all classes predict (*same jobs*). If more "
        "specific classes are less accurate because they leave out other jobs, the accuracy of the "
        "same jobs increases to the right."
    )
    yield from table(
        ("workload", "jobs", "share", *(kind.title for kind in CLASSIFICATIONS.values())),
        _same_jobs(samples),
    )
    yield ""
    yield from _verdict(samples)
    yield ""
    yield (
        "Second, the series of similar jobs. Of the generated grids, all tasks of a bag take the "
        f"mean of the bag (*alike*), or are submitted {APART_S:.0f} s apart (*apart*), or both. Of "
        "the logs, the run times of each user are shuffled among the user's jobs, with the "
        "distribution as it is. Accuracy of the best method and class."
    )
    yield from table(
        ("workload", "kind", *(title for title, _ in GRID_CHANGES.values()), "above 0.9, both"),
        (
            (w.title, w.kind, *(f"{samples.best(w, c):.3f}" for c in GRID_CHANGES),
             f"{samples.best(w, 'both', 'high'):.0%}")
            for w in samples.workloads if w.generated
        ),
    )  # fmt: skip
    logs = [w for w in samples.workloads if not w.generated]
    if logs:
        yield from table(
            ("log", "kind", *(title for title, _ in LOG_CHANGES.values())),
            ((w.title, w.kind, *(f"{samples.best(w, c):.3f}" for c in LOG_CHANGES)) for w in logs),
        )
    yield ""
    yield from _pairs(samples)


def _same_jobs(samples: RuntimeCauseSamples) -> Iterator[Sequence[str]]:
    for workload in samples.workloads:
        row = samples.row(workload, "base")
        if len(row.own) < len(CLASSIFICATIONS) * len(METHODS):
            continue
        own, same = ([f"{v:.3f}" for v in by_class(values)] for values in (row.own, row.same))
        yield (workload.title, "predicted by the class", "", *own)
        yield (workload.title, "same jobs", f"{row.common:.0%}", *same)


def _verdict(samples: RuntimeCauseSamples) -> Iterator[str]:
    yield (
        f"The accuracy falls from one class to the next on {_falling(samples, 'base', 'own')} with "
        f"the jobs of each class, and on {_falling(samples, 'base', 'same')} with the same jobs. "
        "With the same jobs of grids whose bags are changed as below, it falls on "
        f"{_falling(samples, 'alike', 'same')} (*alike*), on {_falling(samples, 'apart', 'same')} "
        f"(*apart*) and on {_falling(samples, 'both', 'same')} (*both*)."
    )


def _falling(samples: RuntimeCauseSamples, change: str, measure: str) -> str:
    """Titles of the workloads on which the accuracy falls from one classification to the next. Only
    workloads with all classifications are considered."""
    falling = []
    for workload in samples.workloads:
        if change not in (GRID_CHANGES if workload.generated else LOG_CHANGES):
            continue
        row = samples.row(workload, change)
        values = by_class(getattr(row, measure))
        if len(values) == len(CLASSIFICATIONS) and values != sorted(values):
            falling.append(workload.title)
    return _named(falling)


def _named(titles: Sequence[str]) -> str:
    return ", ".join(titles) or "no workload"


def _pairs(samples: RuntimeCauseSamples) -> Iterator[str]:
    made = [w for w in samples.workloads if w.generated]
    words = []
    for change, (title, _) in GRID_CHANGES.items():
        research, production = (
            [samples.best(w, change) for w in made if w.kind == kind]
            for kind in ("research", "production")
        )
        higher = sum(one > other for one in research for other in production)
        words.append(
            f"{title} {fmean(research):.2f} and {fmean(production):.2f}, higher in {higher} of "
            f"{len(research) * len(production)} pairs"
        )
    yield f"Means of the generated research and production grids: {'; '.join(words)}."


def draw(samples: RuntimeCauseSamples, folder: Path) -> dict[str, str]:
    """Draw nothing: the section is tables."""
    return {}


PART = StudyPart("runtime-causes", RuntimeCauseCell, RuntimeCauseRow, cells, run,
                 RuntimeCauseSamples, Claims[RuntimeCauseSamples](), page, draw)  # fmt: skip
