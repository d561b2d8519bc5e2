"""The study of RR-7365: its experiments, page and claims, on part of a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.places import CORPUS
from wfrun.engine.jobs.reallocation import ALGORITHMS
from wfrun.runners.cli.simulate.simulate import study
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.reallocation import command
from wfrun.studies.reallocation.claims import CLAIMS
from wfrun.studies.reallocation.experiments import (
    FULL,
    ReallocationCell,
    ReallocationScale,
    Study,
    cells,
    moldable_jobs,
)
from wfrun.studies.reallocation.traces import (
    DAY_S,
    MONTHS,
    PWA,
    TRACES,
    log_of,
    sites_of,
    trace_of,
)

SMALL = ReallocationScale(2, 0.2, ("June",), ("June",))


def test_the_experiments_of_the_paper() -> None:
    """Section 4.5: 2 * 2 * 2 * 7 * 2 * 10 experiments, and references."""
    base = [cell for cell in cells(FULL) if cell.variant == "base"]
    assert len(base) * len(ALGORITHMS) == 2 * 2 * 2 * 7 * 2 * 10


def test_generated_months_have_the_numbers_of_table_1() -> None:
    jobs = trace_of("June", (None, None), 400.0)
    for site, count in enumerate(MONTHS["June"]):
        assert sum(job.site == site for job in jobs) == count
    assert all(job.runtime_s <= job.walltime_s for job in jobs)
    assert set(TRACES) == {*MONTHS, PWA}


@pytest.mark.parametrize("days", [3.0, 400.0])
def test_generated_months_have_the_load_that_is_asked_for(days: float) -> None:
    jobs = trace_of("June", (None, None), days, 0.4)
    processors = sum(site.slots for site in sites_of("June", heterogeneous=False))
    work_s = sum(job.cores * job.runtime_s for job in jobs)
    assert work_s / processors / min(days, 30) / DAY_S == pytest.approx(0.4)


def test_types_and_origins_are_drawn_by_the_seed() -> None:
    """Table 2: half of the parallel jobs are of type t1; a third of all is ours."""
    trace = trace_of("June", (None, None), 400.0)
    jobs = moldable_jobs(trace, 1, dedicated=False)
    ours = [job for job in jobs if job.home < 0]
    assert len(ours) / len(jobs) == pytest.approx(1 / 3, abs=0.03)
    limits = [len(job.runtimes.sizes) for job in ours if len(job.runtimes.sizes) > 1]
    assert limits.count(32) / len(limits) == pytest.approx(0.5, abs=0.05)
    drawn = [
        [(job.home, len(job.runtimes.sizes)) for job in moldable_jobs(trace, seed, dedicated=False)]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_job_keeps_its_walltime_at_the_size_of_the_trace() -> None:
    """Section 4.2.2."""
    trace = trace_of("June", (None, None), 3.0)
    for before, job in zip(trace, moldable_jobs(trace, 3, dedicated=True), strict=True):
        assert job.runtimes.runtime_s(before.cores) == pytest.approx(before.walltime_s)


@pytest.mark.slow
def test_the_study_is_continued_and_writes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "QUICK", SMALL)
    words = ["reallocation", "--quick", "--output", str(tmp_path), "--jobs", "1"]
    first = CliRunner().invoke(study, words)
    assert first.exit_code == 0, first.output
    assert "jobs are generated" in first.output
    results = tmp_path / "results.csv"
    lines = results.read_text().splitlines()
    assert len(lines) == 1 + len(cells(SMALL))
    page = (tmp_path / "page.md").read_text()
    for text in ("Figures 17 to 20", "one reference", "MinMin-can", f"| {len(CLAIMS)} | 5.5 |"):
        assert text in page
    results.write_text("\n".join(lines[:-1]) + "\n")
    again = CliRunner().invoke(study, words)
    assert again.exit_code == 0, again.output
    assert results.read_text().splitlines() == lines
    assert (tmp_path / "page.md").read_text() == page


def test_the_scale_is_that_of_the_options(tmp_path: Path) -> None:
    options = StudyOptions(output=tmp_path, quick=True, days=3, seeds=7)
    scale = command.scale_of(options)
    assert (scale.days, scale.seeds, scale.traces) == (3, 7, TRACES)
    assert "--quick --days 3 --seeds 7 --output" in command.words_of(options)
    assert command.scale_of(StudyOptions(output=tmp_path)) == FULL
    assert command.length_of(FULL).endswith("hours")
    refused = CliRunner().invoke(study, ["bags", "--days", "3"])
    assert refused.exit_code == 2
    assert "no --days" in refused.output


@pytest.mark.corpus
def test_the_logs_of_the_archive() -> None:
    ctc, sdsc = log_of("ctc", CORPUS), log_of("sdsc", CORPUS)
    assert ctc is not None
    assert sdsc is not None
    row = Study(ctc, sdsc).simulate(
        ReallocationCell(trace=PWA, heterogeneous="no", dedicated="no", days=1.0, seed=0)
    )
    assert row.jobs > 20
