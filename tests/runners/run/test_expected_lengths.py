"""What a launcher is told of how long a task will take: never that none could begin it, unless one
has been filled by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Access, LauncherSpec, SiteSpec, Task, Workflow
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.requests import AttemptRequests

LAUNCHER = LauncherSpec(cores=4, max=4, walltime_s=1000.0)
SITE = SiteSpec(
    "a", 16, 2.0, kind="slurm", access=Access(("h",), dispatch="launchers", launchers=LAUNCHER)
)


def expected_s(documented_s: float | None, ran_s: float | None = None) -> float | None:
    """Of a task at a site of speed 2, which may have been cut off there after ``ran_s``."""
    task = Task("t", "t", "true", runtime_s=documented_s)
    core = Core({"d": Workflow("w", "w.dax", [task], [], [()])})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (SITE,), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.LauncherStarted(1.0, 0, "r.L0.1", "n", 4, None, "tcp", 0.1))
    (key,) = core.state.attempts
    if ran_s is not None:
        core.step(ev.AttemptStarted(1.0, key, "r.L0.1"))
        end = Outcome("expired", started_s=1.0, ended_s=1.0 + ran_s)
        core.step(ev.AttemptEnded(1.0 + ran_s, key, end))
    requests = AttemptRequests(core.state, RunDir(Path("run")), [SITE])
    return requests.attempt("r.0.0.2", 0, 0, 0).expected_s


@pytest.mark.parametrize(
    ("documented_s", "ran_s", "expected"),
    [
        (None, None, None),
        (100.0, None, 50.0),
        (1e6, None, 750.0),
        (None, 200.0, 300.0),
        (1000.0, 200.0, 500.0),
        (None, 700.0, 750.0),
        (None, 800.0, 1200.0),
    ],
)
def test_expected_length(
    documented_s: float | None, ran_s: float | None, expected: float | None
) -> None:
    assert expected_s(documented_s, ran_s) == (expected and pytest.approx(expected))
