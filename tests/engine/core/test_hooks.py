"""The order in which capabilities are called."""

from __future__ import annotations

from wfrun.engine.core.capability import EVERY_HOOK, Capability, Run
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.events import RunStarted


class First(Capability):
    dormant = EVERY_HOOK

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return True

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        return mask & ~1


class Last(Capability):
    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return True

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        """Leaves out a site only while others remain."""
        return mask & ~2 or mask


def test_candidates_are_limited_in_registry_order() -> None:
    """Though the first capability is the last to wake."""
    run = Run(RunState({}))
    first = First(run)
    run.hooks.add(first)
    run.hooks.add(Last(run))
    run.hooks.wake(first)
    mask = 3
    for limit in run.hooks.limit_candidates:
        mask = limit(WorkflowState.__new__(WorkflowState), 0, 1, mask)
    assert mask == 2
