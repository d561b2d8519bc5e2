"""Tasks of a run by the names that a user gives."""

from __future__ import annotations

from difflib import get_close_matches

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.foreign import number_of

_COMPARED = 5000
"""Maximum number of tasks of a workflow whose names are compared with a wrong one."""
_NAMED = 4
"""Maximum number of tasks, and of workflows, that a message names."""


def find_tasks(state: RunState, run: str, task: str) -> list[tuple[int, int]]:
    """The tasks with this id in the workflows of a run, as (workflow, task). Raises InvalidError if
    there is none, with similar ids."""
    found = [(w.index, index) for w in state.workflows for index in _named(w.workflow, task)]
    if not found:
        raise InvalidError(f"run {run} has no task {task!r}", hint=_near(state, task))
    return found


def _named(workflow: Workflow, task: str) -> list[int]:
    """The tasks of a workflow with this id. Ids in a bag end with the number of the task."""
    if workflow.bag is None:
        return [index for index, record in enumerate(workflow.tasks) if record.id == task]
    index = number_of(task.rpartition("-")[2])
    if index is None or index >= len(workflow.tasks) or workflow.tasks[index].id != task:
        return []
    return [index]


def _near(state: RunState, task: str) -> str:
    """Text with similar task ids, and with ids of tasks of the run."""
    ids = [t.id for w in state.workflows for t in w.workflow.tasks[:_COMPARED]]
    near = get_close_matches(task, ids, n=3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    named = "; ".join(_ids(w.workflow) for w in state.workflows[:_NAMED])
    more = f"; and {len(state.workflows) - _NAMED} more" if len(state.workflows) > _NAMED else ""
    return f"{hint}tasks of the run: {named}{more}"


def _ids(workflow: Workflow) -> str:
    """The first and the last ids of a workflow."""
    count = len(workflow.tasks)
    if count <= _NAMED:
        return ", ".join(t.id for t in workflow.tasks)
    if workflow.bag is not None:
        return f"{workflow.tasks[0].id} to {workflow.tasks[count - 1].id}"
    some = ", ".join(t.id for t in workflow.tasks[:_NAMED])
    return f"{some} and {count - _NAMED} more"
