"""The inputs that a request names: all that are there; of absent ones, none that may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import File, SiteSpec, Task, Workflow
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.requests import AttemptRequests

SITE = SiteSpec("one", slots=1)


def inputs(size: int | None, *, writer: bool = False, reader: bool = False) -> list[str]:
    """The inputs of C in its request, after P has written a file of this size; None: there is
    none. ``writer``, ``reader``: the task takes the file for optional."""
    tasks = [
        Task("P", "x", "x", outputs=(0,), optional=(0,) if writer else ()),
        Task("C", "x", "x", inputs=(0,), optional=(0,) if reader else ()),
    ]
    core = Core({"d": Workflow("w", "w.dax", tasks, [File("f", producer=0)], [(), (0,)])})
    core.step(ev.RunStarted(0.0, "r", ev.Settings("round-robin"), (SITE,), (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "d"))
    core.step(ev.AttemptEnded(1.0, "r.0.0.1", Outcome("done", sizes=(size,))))
    # An exit record alone cannot say that a required file is absent.
    core.state.workflows[0].present[0] = size is not None
    requests = AttemptRequests(core.state, RunDir(Path("run")), [SITE])
    return [link.name for link in requests.attempt("r.0.1.1", 0, 1, 0).inputs]


def test_an_input_that_is_there_is_named() -> None:
    assert inputs(1) == ["f"]


def test_an_absent_input_that_must_be_there_is_a_defect() -> None:
    with pytest.raises(AssertionError, match=r"'C'.*'f'.*wfrun resume"):
        inputs(None)


@pytest.mark.parametrize(("writer", "reader"), [(True, False), (False, True), (True, True)])
def test_an_absent_input_that_is_optional_is_left_out(writer: bool, reader: bool) -> None:
    assert inputs(None, writer=writer, reader=reader) == []
