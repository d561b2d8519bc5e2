"""What the model check reads of the state of a core, because no event states it."""

from __future__ import annotations

from wfrun.engine.capabilities.usage import Usages
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus


def usage_s(core: Core, owner: str, now_s: float) -> float:
    """Core seconds of an owner, as the core counts them."""
    usages = core.state.find(Usages)
    usage = None if usages is None else usages.by_owner.get(owner)
    return 0.0 if usage is None else usage.until(now_s)


def keeps_usage(core: Core) -> bool:
    """Whether the run counts usage: it has a selection policy."""
    return bool(core.state.queues)


def waiting_tasks(core: Core) -> int:
    """Number of waiting tasks of all workflows, as the core counts them."""
    return core.state.counts[TaskStatus.WAITING]
