"""``wfrun study demt``: its jobs, and a small study."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner

from wfrun.engine.jobs.packing import PackedJob
from wfrun.runners.cli.main import cli
from wfrun.studies.common.claim import answer
from wfrun.studies.demt import command
from wfrun.studies.demt.claims import CLAIMS
from wfrun.studies.demt.experiments import (
    ALGORITHMS,
    BASE,
    DEMT,
    FULL,
    MAKESPAN,
    VARIANTS,
    WEIGHTED,
    DemtCell,
    DemtSamples,
    Scale,
    cells,
    run_cell,
    variants_of,
)
from wfrun.studies.demt.workloads import (
    CIRNE,
    HIGHLY,
    MIXED,
    WEAKLY,
    WORKLOADS,
    downey_speedup,
    make_jobs,
    recurrence_times,
)

TINY = Scale(2, (10, 20))


def speedup(job: PackedJob) -> float:
    return job.times_s[0] / job.times_s[-1]


def test_highly_parallel_jobs_are_highly_parallel() -> None:
    """The printed recurrence gives 1.6 on 200 processors with X = 0.9, and 62 with X = 0.1."""
    printed = [recurrence_times(1.0, x) for x in (0.9, 0.1)]
    assert [1 / times[-1] for times in printed] == pytest.approx([1.6, 62], rel=0.05)
    highly = fmean(speedup(job) for job in make_jobs(HIGHLY, 400, 0))
    weakly = fmean(speedup(job) for job in make_jobs(WEAKLY, 400, 0))
    assert 40 < highly < 70
    assert weakly < 4
    swapped = fmean(speedup(job) for job in make_jobs(HIGHLY, 400, 0, as_printed=True))
    assert swapped == pytest.approx(weakly, rel=0.2)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_jobs_are_monotonic_with_weights_and_run_times_of_the_text(workload: str) -> None:
    jobs = make_jobs(workload, 50, 3)
    for job in jobs:
        assert job.sizes == tuple(range(1, 201))
        assert 1 <= job.weight <= 10
        assert workload == MIXED or 1 <= job.times_s[0] <= 10
        for place in range(199):
            assert job.times_s[place + 1] <= job.times_s[place] * (1 + 1e-12)
            assert job.work(place + 1) >= job.work(place) * (1 - 1e-12)
    again = make_jobs(workload, 50, 3)
    assert [job.times_s for job in again] == [job.times_s for job in jobs]


def test_downeys_speedups() -> None:
    """Linear up to A without variance, half of that at A with σ = 2; never above A."""
    assert downey_speedup(8, 16, 0) == 8
    assert downey_speedup(32, 16, 0) == 16
    assert downey_speedup(16, 16, 1) == pytest.approx(16 * 16 / (16 + 7.5))
    assert downey_speedup(16, 16, 2) == pytest.approx(16 * 16 * 3 / (2 * 31 + 16))
    for sigma in (0.5, 1.0, 2.0):
        values = [downey_speedup(size, 10.5, sigma) for size in range(1, 60)]
        assert values[0] == pytest.approx(1.0)
        assert values == sorted(values)
        assert values[-1] == 10.5
    assert downey_speedup(7, 12, 1.0) == pytest.approx(downey_speedup(7, 12, 1.0 + 1e-9))


def test_the_experiments_of_the_paper() -> None:
    base = [cell for cell in cells(FULL) if cell.variant == BASE]
    assert len(base) == 40 * 4 * 5
    assert {cell.tasks for cell in base} == {25, 50, 100, 200, 400}
    varied = {variant for workload in WORKLOADS for variant in variants_of(workload)}
    assert varied == set(VARIANTS)


def test_a_ratio_is_that_of_the_sums() -> None:
    pytest.importorskip("scipy.optimize")
    rows = [
        run_cell(DemtCell(workload=w, tasks=n, seed=seed))
        for w in WORKLOADS for n in (10, 20) for seed in range(2)
    ]  # fmt: skip
    samples = DemtSamples(rows)
    for criterion in (MAKESPAN, WEIGHTED):
        for name in ALGORITHMS:
            ratio = samples.ratio(CIRNE, 20, name, criterion)
            assert samples.sample(CIRNE, 20, name, criterion).mean == pytest.approx(ratio)
            assert ratio >= 1
    two = samples.of(WEAKLY, 10)
    mean = sum(row.makespans[0] for row in two) / sum(row.makespan_bound for row in two)
    assert samples.ratio(WEAKLY, 10, DEMT, MAKESPAN) == pytest.approx(mean)
    assert len(answer(CLAIMS, samples)) == len(CLAIMS)


@pytest.mark.slow
def test_the_study_is_continued_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("scipy.optimize")
    monkeypatch.setattr(command, "QUICK", TINY)
    words = ["study", "demt", "--quick", "--jobs", "1", "--output", str(tmp_path)]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    assert f"of {len(CLAIMS)} claims hold" in result.output
    page = (tmp_path / "page.md").read_text()
    assert page.count("## Figure") == 5
    assert "This is a quick study" in page
    results = (tmp_path / "results.csv").read_text()
    again = CliRunner().invoke(cli, words)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "results.csv").read_text() == results
