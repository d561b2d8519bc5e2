"""Grid1 of the JGC paper, and its models of run times."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.places import CORPUS
from wfrun.engine.prediction.job import Job
from wfrun.studies.grids.jgc_grids import MACHINES, WEEK_S, jobs_of
from wfrun.studies.predictions.jgc.jgc import (
    ACTUAL,
    ESTIMATE,
    STRATEGIES,
    JgcCell,
    JgcRow,
    cells,
    logs_of,
    mean_degradation,
    mean_degradation_over,
    predictor_of,
    run,
)
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.workloads import workloads_of


def row(model: str, wait_s: float, slowdown: float, weighted: float, window: int = 0) -> JgcRow:
    return JgcRow(strategy="MST", model=model, window=window, weeks=1, jobs=1, wait_s=wait_s,
                  slowdown=slowdown, weighted_completion=weighted, utilization=0.5)  # fmt: skip


def test_the_degradation_is_the_mean_of_three_metrics_in_percent() -> None:
    ideal = row(ACTUAL, 10.0, 2.0, 1000.0)
    one, other = row("M1", 20.0, 3.0, 1000.0, 1), row("M1", 10.0, 2.0, 1030.0, 2)
    assert mean_degradation(one, ideal) == pytest.approx((100 + 50 + 0) / 3)
    assert mean_degradation(other, ideal) == pytest.approx(1.0)
    assert mean_degradation_over([one, other], ideal) == pytest.approx(25.5)


def test_without_the_logs_there_is_nothing_to_simulate() -> None:
    assert cells(PartSetting(True, workloads_of(None, ()))) == []


def test_the_models_by_name() -> None:
    def predicted_s(model: str, window: int) -> float | None:
        predictor = predictor_of(JgcCell(strategy="MST", model=model, window=window, weeks=1))
        assert predictor is not None
        job = Job("", "ann", cores=4, estimate_s=100.0)
        predictor.observe(job, 10.0)
        predictor.observe(job._replace(cores=2), 50.0)
        found = predictor.predict(job)
        return None if found is None else found.value_s

    assert predicted_s(ESTIMATE, 0) == 100.0
    assert predicted_s("M1", 2) == 30.0
    assert predicted_s("M4", 1) == 10.0
    assert predicted_s("M4", 2) == 100.0, "the window is not full"
    assert predicted_s("M8", 2) == 10.0
    assert predictor_of(JgcCell(strategy="MST", model=ACTUAL, window=0, weeks=1)) is None


@pytest.mark.corpus
@pytest.mark.slow
def test_a_week_of_grid1() -> None:
    setting = PartSetting(True, workloads_of(CORPUS, ()))
    logs = logs_of(setting)
    assert logs is not None
    jobs = jobs_of(logs, 1)
    assert 5_000 < len(jobs) < 7_000
    assert all(a.submit_s <= b.submit_s for a, b in pairwise(jobs))
    assert jobs[0].submit_s >= 0
    assert jobs[-1].submit_s < WEEK_S + 9 * 3600, "midnight in California"
    assert all(job.estimate_s and job.cores <= max(MACHINES.values()) for job in jobs)
    rows = {
        (strategy, model): run(
            setting, JgcCell(strategy=strategy, model=model, window=window, weeks=1)
        )
        for strategy in STRATEGIES
        for model, window in ((ACTUAL, 0), (ESTIMATE, 0), ("M1", 5), ("M4", 5))
    }
    mst = {model: one.wait_s for (strategy, model), one in rows.items() if strategy == "MST"}
    assert mst[ACTUAL] < mst[ESTIMATE] < mst["M1"]
    assert mst[ACTUAL] < mst["M4"] < mst["M1"]
