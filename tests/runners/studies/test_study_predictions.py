"""``wfrun study predictions`` on small workloads."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from wfrun.runners.cli.main import cli
from wfrun.studies.predictions import burst, paper
from wfrun.studies.predictions.generated import GRIDS, generate_grid
from wfrun.studies.predictions.grids import grid_causes, grids
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.parts import PARTS
from wfrun.studies.predictions.runtimes import runtimes
from wfrun.studies.predictions.waits import queue_waits
from wfrun.studies.predictions.workloads import workloads_of


def test_generated_grids_are_those_of_table_7_1() -> None:
    for grid in GRIDS.values():
        jobs, processors = generate_grid(grid, 1000, 0)
        assert len(jobs) == 1000
        assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
        assert len({job.site for job in jobs}) <= grid.clusters
        parallel = sum((job.processors or 0) > 1 for job in jobs) / len(jobs)
        assert abs(parallel - grid.parallel) < 0.25
        assert processors % grid.clusters == 0
        assert min(job.wait_s or 0.0 for job in jobs) == 0


def test_the_history_holds_what_had_ended(tmp_path: Path) -> None:
    """The second job is submitted before the first one ends, the third one after it."""
    lines = ("1 0 0 100 1", "2 50 0 300 1", "3 150 0 200 1")
    rest = " -1 -1 1 -1 -1 1 7 1 1 1 1 -1 -1\n"
    log = tmp_path / "small.swf"
    log.write_text("".join(line + rest for line in lines))
    setting = PartSetting(True, workloads_of(None, [log])[:1])
    cell = next(c for c in runtimes.cells(setting) if c.method == "last")
    row = runtimes.run(setting, cell)
    assert (row.predicted, row.unknown) == (1, 2)
    assert row.accuracy == 0.5
    assert row.error_s == 100


@pytest.fixture(name="small")
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "QUICK_JOBS", 300)
    monkeypatch.setattr(queue_waits, "QUICK_JOBS", 200)
    monkeypatch.setattr(queue_waits, "GRIDS", ("grid:das-3",))
    monkeypatch.setattr(burst, "QUICK_JOBS", 200)
    monkeypatch.setattr(grids, "QUICK_PART", 0.002)
    monkeypatch.setattr(grid_causes, "QUICK_PARTS", {"das3": 0.0005, "auver": 0.002})


@pytest.mark.usefixtures("small")
@pytest.mark.slow
def test_the_study_goes_on_where_it_was(tmp_path: Path) -> None:
    output = tmp_path / "study"
    words = ["study", "predictions", "--quick", "--output", str(output), "--jobs", "1"]
    first = CliRunner().invoke(cli, words)
    assert first.exit_code == 0, first.output
    assert "all workloads are generated" in first.output
    page = (output / "page.md").read_text()
    assert "No log was given" in page
    for number in range(2, 12):
        assert f"### Figure 7.{number}:" in page
        assert (output / f"figure-7.{number}.png").stat().st_size > 1000
    assert "### Table 7.2" in page
    assert page.count(", thesis | ") >= len(paper.TABLE_7_2) + 2 * len(paper.TABLE_7_3["bmbp"])
    kept = {part.name: (output / f"{part.name}.csv").read_text() for part in PARTS}
    assert len(kept) == len(PARTS)
    torn = output / "runtimes.csv"
    torn.write_text(kept["runtimes"][:-20])
    second = CliRunner().invoke(cli, words)
    assert second.exit_code == 0, second.output
    assert {part.name: (output / f"{part.name}.csv").read_text() for part in PARTS} == kept
    assert (output / "page.md").read_text() == page


def test_a_corpus_without_logs_is_refused(tmp_path: Path) -> None:
    words = ["study", "predictions", "--corpus", str(tmp_path), "--output", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code != 0
    assert "no workload log" in str(result.exception) + result.output
    assert not (tmp_path / "out").exists()


def test_other_studies_take_no_logs(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["study", "bags", str(tmp_path / "log.swf")])
    assert result.exit_code == 2
    assert "takes no logs" in result.output
