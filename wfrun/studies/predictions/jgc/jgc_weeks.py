"""JGC paper, section 6.2: MWT in other weeks. Only the week differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean

import msgspec
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.prediction.estimates import MAX_WINDOW
from wfrun.runners.simulate.grid.model import GridJob
from wfrun.studies.common.claim import Claims
from wfrun.studies.common.numbers import number
from wfrun.studies.common.page import table
from wfrun.studies.grids.jgc_grids import WEEK_S, Logs, jobs_of
from wfrun.studies.predictions.jgc.jgc import (
    ACTUAL,
    ESTIMATE,
    FIGURES,
    JgcCell,
    JgcRow,
    logs_of,
    mean_degradation,
    measured,
)
from wfrun.studies.predictions.part import PartSetting, Pictures, StudyPart

STRATEGY = "MWT"
QUICK_WEEKS, FULL_WEEKS = 5, 26
MODELS = (ESTIMATE, *FIGURES)
TITLES = {ESTIMATE: "user's estimate"}


class WeekCell(JgcCell, frozen=True, kw_only=True):
    """One simulation of one week."""

    week: int
    """Number of the week, from 1 on."""


class WeekRow(JgcRow, frozen=True, kw_only=True):
    week: int


def cells(setting: PartSetting) -> list[WeekCell]:
    """Each week with known run times, with user estimates, and with the models of the figures."""
    if logs_of(setting) is None:
        return []
    weeks = QUICK_WEEKS if setting.quick else FULL_WEEKS
    return [
        WeekCell(
            strategy=STRATEGY,
            model=model,
            window=MAX_WINDOW if model in FIGURES else 0,
            weeks=weeks,
            week=week,
        )
        for week in range(1, weeks + 1)
        for model in (ACTUAL, *MODELS)
    ]


def run(setting: PartSetting, cell: WeekCell) -> WeekRow:
    """Simulate the jobs of one week in a grid that is empty and has no history. Raises InvalidError
    without the logs of Grid1."""
    logs = logs_of(setting)
    if logs is None:
        raise InvalidError("a log of Grid1 of the JGC paper is missing")
    row = measured(cell, _jobs(logs, cell.weeks, cell.week))
    return WeekRow(**msgspec.structs.asdict(row), week=cell.week)


@lru_cache(maxsize=1)  # the next cell often has the same
def _jobs(logs: Logs, weeks: int, week: int) -> tuple[GridJob, ...]:
    start_s = (week - 1) * WEEK_S
    return tuple(
        replace(job, submit_s=job.submit_s - start_s)
        for job in jobs_of(logs, weeks)
        if start_s <= job.submit_s < start_s + WEEK_S
    )


class WeekSamples:
    """Degradations in percent, by week and model."""

    def __init__(self, setting: PartSetting, rows: Sequence[WeekRow], every: bool) -> None:
        found = {(row.week, row.model): row for row in rows}
        self.weeks = sorted({row.week for row in rows})
        self.ideal = {week: found[week, ACTUAL] for week in self.weeks}
        self.degradation = {
            (week, model): mean_degradation(found[week, model], self.ideal[week])
            for week in self.weeks
            for model in MODELS
        }


def page(samples: WeekSamples, pictures: Pictures) -> Iterator[str]:
    """The section of the page, in Markdown."""
    if not samples.weeks:
        return
    yield ""
    yield "### MWT in other weeks"
    yield ""
    yield (
        f"Mean degradation in percent with k = {MAX_WINDOW}, as in Figure JGC 7, of each of the "
        "weeks alone: only the week is changed. If the order of the models is noise of one week, "
        "it differs between weeks."
    )
    header = ("week", "jobs", "wait [s], known run times",
              *(TITLES.get(m, m) for m in MODELS), "best")  # fmt: skip
    yield from table(header, _rows(samples))
    yield ""
    yield (
        f"The user's estimate is the best in {_times(samples, ESTIMATE, MODELS)} of "
        f"{len(samples.weeks)} weeks; of the histories, M4 (Hrecent_k_size&p') is the best in "
        f"{_times(samples, 'M4', FIGURES)}, and M1 (Hrecent_k) the worst in "
        f"{_times(samples, 'M1', FIGURES, worst=True)}."
    )


def _rows(samples: WeekSamples) -> Iterator[Sequence[str]]:
    for week in samples.weeks:
        values = {model: samples.degradation[week, model] for model in MODELS}
        best = min(values, key=lambda model: values[model])
        ideal = samples.ideal[week]
        yield (str(week), f"{ideal.jobs:,}", number(ideal.wait_s),
               *(number(value) for value in values.values()), TITLES.get(best, best))  # fmt: skip
    means = {m: fmean(samples.degradation[week, m] for week in samples.weeks) for m in MODELS}
    best = min(means, key=lambda model: means[model])
    yield ("mean", "", "", *(number(v) for v in means.values()), TITLES.get(best, best))


def _times(samples: WeekSamples, model: str, among: Sequence[str], *, worst: bool = False) -> int:
    """Number of weeks in which the model has the smallest degradation among the models ``among``;
    the largest, if ``worst``."""
    choose = max if worst else min
    return sum(
        choose(among, key=lambda one: samples.degradation[week, one]) == model
        for week in samples.weeks
    )


def draw(samples: WeekSamples, folder: Path) -> dict[str, str]:
    """Draw nothing: the section is a table."""
    return {}


PART = StudyPart("jgc-weeks", WeekCell, WeekRow, cells, run, WeekSamples,
            Claims[WeekSamples](), page, draw)  # fmt: skip
