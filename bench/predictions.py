"""Measures what predictions of run times cost, and how accurate ``auto`` is.

First the time of an observation and of a prediction, by predictors that have seen 1,000,000 jobs of
500 users, 10,000 applications and five sites. Then the decisions of policies: heft beside heft-p,
which predicts the run times of other users' jobs at the five sites of the DAS-3, and ect beside
ect-p, which predicts those of the tasks of bags. Then, where there are real logs, the accuracy of
``auto`` beside the best single method, on the jobs that the single one predicts, and the share of
the jobs inside their intervals.

    python bench/predictions.py [--records 1000000] [--rounds 3] [--corpus FOLDER]
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table

from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.estimates import HISTORY_MODELS, UserEstimate, UserHistory
from wfrun.engine.prediction.intervals import Intervals
from wfrun.engine.prediction.job import Job, Predictor, is_plausible
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.registry import class_chain
from wfrun.engine.prediction.replay import Moment, accuracy, replay
from wfrun.parsers.generate import generate
from wfrun.parsers.logs import read_swf
from wfrun.runners.experiments.cells import Cell
from wfrun.runners.experiments.subjects.workloads import Workloads
from wfrun.runners.forecast.log_accuracy import log_history
from wfrun.runners.simulate.bags import simulate_bags
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.catalog import read_catalog
from wfrun.testing.fake_world import FakeWorld

CORPUS = Path(os.environ.get("WFRUN_CORPUS", Path(__file__).parents[2] / "shared" / "data"))
CATALOG = Path(__file__).parent.parent / "examples" / "das3.yaml"
GOAL_US = 20.0
RATE_GOAL = 0.7
ACCURACY_GOAL = 0.98
TIMED = 100_000
"""Number of observations and predictions that are timed, after all others."""
TASKS = 2000
FOREIGN = 200
"""Other users' jobs at each site."""
LEAVING = 10
"""Of these end between two observations, and as many come."""
OBSERVED_EVERY_S, OBSERVATIONS = 60.0, 100


def records(count: int) -> Iterator[tuple[Job, float]]:
    """Jobs whose users run one application for a while, with other run times each time."""
    random = Random(1)
    busy: dict[int, tuple[int, float]] = {}
    for _ in range(count):
        user = int(random.paretovariate(0.5)) % 500
        if user not in busy or random.random() < 0.05:
            busy[user] = random.randrange(20), random.lognormvariate(6.0, 2.0)
        application, scale_s = busy[user]
        job = Job(
            f"s{random.randrange(5)}", f"u{user}", f"a{application}", 1 << random.randrange(3),
            random.choice((3600.0, 36_000.0)),
        )  # fmt: skip
        yield job, scale_s * random.uniform(0.5, 2.0)


def cost_table(count: int) -> Table:
    table = Table(title=f"predictors after {count:,} jobs; goal: {GOAL_US:g} µs each")
    for heading in ("predictor", "µs/observation", "µs/prediction", "goal"):
        table.add_column(heading, justify="right")
    predictors: dict[str, Predictor] = {
        "last2": class_chain("last2"),
        "auto": Auto(),
        "auto with intervals": Intervals(Auto()),
    }
    for name, predictor in predictors.items():
        found = records(count)
        for job, runtime_s in islice(found, max(0, count - TIMED)):
            predictor.observe(job, runtime_s)
        timed = list(found)
        gc.collect()
        begun_s = time.process_time()
        for job, runtime_s in timed:
            predictor.observe(job, runtime_s)
        observed_s = time.process_time()
        for job, _ in timed:
            predictor.predict(job)
        ended_s = time.process_time()
        each_us = [1e6 * s / len(timed) for s in (observed_s - begun_s, ended_s - observed_s)]
        met = "met" if max(each_us) <= GOAL_US else "not met"
        table.add_row(name, *(f"{us:.1f}" for us in each_us), met)
    return table


class SharedWorld(FakeWorld):
    """Sites with other users' jobs, some of which end between two observations."""

    def __init__(self, workflow: Workflow, catalog: Catalog, settings: ev.Settings) -> None:
        super().__init__([workflow], catalog, settings, keep_log=False)
        random = Random(1)
        self._jobs = [
            ev.BackgroundJob(str(n), 1 << random.randrange(4), -50.0, random.lognormvariate(5, 1))
            for n in range(FOREIGN + LEAVING * OBSERVATIONS)
        ]
        self.core_s = 0.0
        step = self.core.step

        def timed(event: ev.Event) -> Any:
            begun_s = time.thread_time()
            result = step(event)
            self.core_s += time.thread_time() - begun_s
            return result

        self.core.step = timed  # type: ignore[method-assign]

    def steps(self) -> Iterator[ev.Event]:
        for number, event in enumerate(super().steps()):
            for turn in range(OBSERVATIONS if number == 0 else 0):
                at_s, first = turn * OBSERVED_EVERY_S, turn * LEAVING
                jobs = tuple(self._jobs[first : first + FOREIGN])
                for site in range(len(self.catalog.sites)):
                    self.post(at_s - 1e-3, ev.SiteObserved(at_s, site, jobs))
            yield event


def heft_table(rounds: int) -> Table:
    workflow, catalog = generate("layered", TASKS, seed=1), read_catalog(CATALOG)
    table = Table(
        title=f"decisions beside {FOREIGN} other jobs a site; goal: {RATE_GOAL:g} of heft"
    )
    for heading in ("policy", "predictor", "µs/task in the core", "rate beside heft", "goal"):
        table.add_column(heading, justify="right")
    runs = [("heft", "last2"), ("heft-p", "last2"), ("heft-p", "auto")]
    spent: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
    for _ in range(rounds):
        for policy, predictor in runs:
            settings = ev.Settings(policy=policy, predictor=predictor)  # type: ignore[arg-type]
            world = SharedWorld(workflow, catalog, settings)
            gc.collect()
            if world.run() != "done":
                raise SystemExit(f"{policy}: the run ended as {world.core.state.ended}")
            spent[policy, predictor].append(world.core_s / TASKS * 1e6)
    return _compared(table, spent, RATE_GOAL)


def ect_table(rounds: int) -> Table:
    platform = Platform(das3_grid5000())
    cell = Cell(workload="average", policy="", load=0.6, tasks=15_000)
    workload = Workloads().workload_of(cell, platform.catalog.sites)
    table = Table(title=f"simulated bags of {workload.tasks:,} tasks")
    for heading in ("policy", "predictor", "µs/task", "rate beside ect", "goal"):
        table.add_column(heading, justify="right")
    runs = [("ect", "last2"), ("ect-p", "last2"), ("ect-p", "auto")]
    spent: dict[tuple[str, str], list[float]] = {run: [] for run in runs}
    for _ in range(rounds):
        for policy, predictor in runs:
            settings = ev.Settings(policy=policy, selection="s-t", predictor=predictor)  # type: ignore[arg-type]
            begun_s = time.process_time()
            simulate_bags(workload, platform, "csp", settings)
            spent[policy, predictor].append((time.process_time() - begun_s) / workload.tasks * 1e6)
    return _compared(table, spent, None)


def _compared(table: Table, spent: dict[tuple[str, str], list[float]], goal: float | None) -> Table:
    """Medians, and the ratios of the first one's rate to those of the others."""
    first = next(iter(spent.values()))
    for (policy, predictor), each_us in spent.items():
        ratio = statistics.median(a / b for a, b in zip(first, each_us, strict=True))
        met = "" if goal is None or each_us is first else "met" if ratio >= goal else "not met"
        table.add_row(policy, predictor, f"{statistics.median(each_us):.0f}", f"{ratio:.2f}", met)
    return table


def by_job(moments: Sequence[Moment], predictor: Predictor) -> dict[int, float]:
    """The accuracy of each job that was predicted, by its place in the log."""
    return {
        number: accuracy(prediction.value_s, past.runtime_s)
        for number, (past, prediction) in enumerate(replay(moments, predictor))
        if prediction is not None and is_plausible(past.runtime_s)
    }


def bounded(moments: Sequence[Moment]) -> tuple[float, float, float]:
    """Share of the jobs with an interval, and of these those not above it and those inside."""
    jobs = stated = above = inside = 0
    for past, prediction in replay(moments, Intervals(Auto())):
        jobs += 1
        if prediction is not None and prediction.high_s < inf and is_plausible(past.runtime_s):
            stated += 1
            above += past.runtime_s > prediction.high_s
            inside += prediction.low_s <= past.runtime_s <= prediction.high_s
    return stated / jobs, 1 - above / stated, inside / stated


def accuracy_table(paths: Sequence[Path]) -> Table:
    table = Table(
        title=f"real logs; goals: {ACCURACY_GOAL:g} of the best single, 0.95 not above the interval"
    )
    for heading in ("log", "auto", "best single", "its accuracy", "ratio, same jobs",
                    "with interval", "not above", "inside"):  # fmt: skip
        table.add_column(heading, justify="right")
    for path in paths:
        moments = log_history(read_swf(path).jobs, is_grid=False).moments
        auto = by_job(moments, Auto())
        least, best, its = inf, "", 0.0
        singles: dict[str, Predictor] = {
            f"{method} of {classification}": ByClass(method, classification)
            for method in METHODS
            for classification in CLASSIFICATIONS
            if classification != "user"  # one site: as user-site
        }
        singles["M6 of Table 5, k = 1"] = UserHistory(HISTORY_MODELS["M6"], 1)
        singles["estimate"] = UserEstimate()
        for name, single in singles.items():
            other = by_job(moments, single)
            if other and (ratio := sum(auto[n] for n in other) / sum(other.values())) < least:
                least, best, its = ratio, name, statistics.fmean(other.values())
        table.add_row(
            path.name.split("-cln")[0], f"{statistics.fmean(auto.values()):.3f}", best,
            f"{its:.3f}", f"{least:.3f}", *(f"{share:.3f}" for share in bounded(moments)),
        )  # fmt: skip
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    options = parser.parse_args()
    console = Console(width=120)
    console.print(cost_table(options.records))
    console.print(heft_table(options.rounds))
    console.print(ect_table(options.rounds))
    paths = sorted((options.corpus / "swf").glob("*.swf.gz"))
    if paths:
        console.print(accuracy_table(paths))
    else:
        console.print(f"no logs in {options.corpus / 'swf'}: accuracy is not measured")


if __name__ == "__main__":
    main()
