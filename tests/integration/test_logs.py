"""What a task at a cluster printed is read there, and where it is is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import wfrun
from tests.testbed import faults
from tests.testbed.testbed import Testbed
from wfrun.engine.events import Event, SiteCounted
from wfrun.engine.model import Task, Workflow
from wfrun.runners.display.logs import print_logs
from wfrun.runners.run.directory import RunDir
from wfrun.runners.run.session import read_state


def test_logs_of_a_task_that_failed_at_two_clusters(
    testbed: Testbed, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sites = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump({"sites": {n: sites[n] for n in ("alpha", "delta")}}))
    words = "echo $WFRUN_ATTEMPT says hello; echo but fails >&2; exit 3"
    task = Task(id="A", name="sh", executable="sh", arguments=("-c", words))
    told: list[Event] = []
    result = wfrun.run(
        Workflow("fails", "fails", [task], [], [()]),
        sites=catalog,
        policy="round-robin",
        run_dir=tmp_path / "run",
        retries=1,
        retry_delay_s=0,
        observer=told.extend,
    )
    assert result.failed == 1
    counted = {e.site: e for e in told if isinstance(e, SiteCounted)}
    assert counted[0].commands["sbatch"] == 1
    assert [counted[site].connections for site in (0, 1)] == [1, 1]

    print_logs(RunDir(tmp_path / "run"), "A")
    lines = capfd.readouterr().out.splitlines()
    first, second = (line.split()[0] for line in lines if line.endswith("says hello"))
    assert first.endswith(".0.0.1")
    assert second.endswith(".0.0.2")
    assert lines.count("but fails") == 2

    faults.stop(testbed, "delta.sshd")
    print_logs(RunDir(tmp_path / "run"), "A")
    said = capfd.readouterr().out
    assert f"{first} says hello" in said
    assert f"{second} says hello" not in said
    assert "delta cannot be reached: Connection refused" in said
    directory = read_state(RunDir(tmp_path / "run")).site_directory
    assert f"delta:~/scratch/{directory}/attempts/{second}.out" in said
    assert "but fails" in said.partition(f"{second} at delta")[2]  # as its record has it
