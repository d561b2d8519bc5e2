"""Exit records that leave out or make up outputs: no run is done without them."""

from __future__ import annotations

import pytest

from tests.engine.capabilities.test_defects_sites import Run
from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec


@pytest.mark.parametrize("sizes", [(), (None,), (5,), (5, 6, 7)])
def test_a_missing_output_is_asked_for(sizes: tuple[int | None, ...]) -> None:
    """The copy finds out whether it is there; the record alone proves nothing."""
    workflow = make_workflow([Job("A", "true", outputs=["f"], collect=["f"])])
    run = Run([workflow], ev.Settings(policy="heft"), (SiteSpec("alpha", 2),))
    run.add(0)
    run.end("r.0.0.1", 1.0, Outcome("done", sizes=sizes))
    assert isinstance(run.actions[-1], act.CopyFile)
    assert run.core.state.ended is None
    run.step(ev.TransferFailed(2.0, 0, 0, 0, -1, "it is absent", transient=False))
    assert run.core.state.ended != "done"
