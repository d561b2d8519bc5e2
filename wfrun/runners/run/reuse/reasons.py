"""Why the tasks of a new run are not reused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wfrun.engine.core.state import TaskStatus, WorkflowState
from wfrun.engine.model import Task, Workflow
from wfrun.runners.run.reuse.identities import Record
from wfrun.runners.run.reuse.plan import ReusableTasks, Reuse


class RerunReason(NamedTuple):
    """Why a task runs and is not reused."""

    task: str
    """Id of the task."""
    text: str


def reasons(reuse: Reuse) -> Iterator[RerunReason]:
    """Yield the reason for each task that runs although the user asked to reuse earlier runs."""
    for tasks in reuse.workflows:
        yield from _Reasons(reuse, tasks).all()


class _Reasons:
    """Finds the reasons for the tasks of one workflow, by comparison with the latest earlier run
    that has a workflow of the same name."""

    def __init__(self, reuse: Reuse, tasks: ReusableTasks) -> None:
        self._reuse, self._tasks = reuse, tasks
        self._earlier: WorkflowState | None = None
        self._record = Record()
        for run in reuse.runs:
            for w in run.state.workflows:
                if w.workflow.name == tasks.workflow.name:
                    self._earlier, self._record = w, run.record
                    self._numbers = {task.id: n for n, task in enumerate(w.workflow.tasks)}
                    return

    def all(self) -> Iterator[RerunReason]:
        workflow = self._tasks.workflow
        for number, task in enumerate(workflow.tasks):
            if number not in self._tasks.reused:
                yield RerunReason(task.id, self._reason(number, task))

    def _reason(self, number: int, task: Task) -> str:
        tasks, workflow = self._tasks, self._tasks.workflow
        if number in tasks.gone:
            return "was done, but its output is gone"
        earlier = self._earlier
        before = None if earlier is None else self._numbers.get(task.id)
        if earlier is None or before is None:
            return "is new"
        then = earlier.workflow.tasks[before]
        if (changed := self._change(task, then, earlier.workflow)) is not None:
            return changed
        if any(parent not in tasks.sources for parent in workflow.parents[number]):
            return "follows a task that changed or was not done"
        if earlier.status[before] != TaskStatus.DONE:
            return "was not done"
        return "has another program or another predecessor"

    def _change(self, task: Task, then: Task, before: Workflow) -> str | None:
        """The first difference from the earlier task ``then`` with the same id, of the workflow
        ``before``; None: there is none."""
        if (task.executable, task.arguments) != (then.executable, then.arguments):
            return "has another command"
        if (task.env or {}) != (then.env or {}):
            return "has another environment"
        if task.resources.container != then.resources.container:
            return "has another container"
        files = self._tasks.workflow.files
        now_names = {files[file].name: files[file].url for file in task.inputs}
        then_names = {before.files[file].name: before.files[file].url for file in then.inputs}
        if now_names.keys() != then_names.keys():
            return "has other inputs"
        for name, url in now_names.items():
            if self._token(self._reuse.record, url) != self._token(self._record, then_names[name]):
                return f"has another content of {name}"
        return None

    def _token(self, record: Record, url: str | None) -> bytes | None:
        identity = record.files.get(url or "")
        return None if identity is None else self._reuse.identifier.token(url or "", identity)
