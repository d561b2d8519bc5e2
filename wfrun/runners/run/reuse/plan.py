"""Chooses the tasks of a new run that are reused, and finds their outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from wfrun.engine.model import SiteSpec, Workflow
from wfrun.runners.run.prepare.prepare import Plan
from wfrun.runners.run.reuse.earlier import EarlierRun, KeptFile, earlier_runs
from wfrun.runners.run.reuse.identities import Identifier, Record
from wfrun.runners.run.reuse.keys import make_record, task_keys

MAX_USELESS = 2
"""Number of successive earlier runs without a further reusable task after which no older run is
read."""

Source = tuple[EarlierRun, int, int]
"""(earlier run, workflow, task): a task that an earlier run did."""


class ReusableTasks:
    """The tasks of one workflow that earlier runs did."""

    def __init__(self, workflow: Workflow, sites: Sequence[SiteSpec]) -> None:
        self.workflow = workflow
        self.sources: dict[int, list[Source]] = {}
        """For each task: the earlier tasks with an equal content key, the task of the latest run
        first."""
        self.gone: dict[int, int] = {}
        """For each task that an earlier run did but that must run again: a needed output that no
        longer exists."""
        self.reused: dict[int, Source] = {}
        self._sites = sites
        self._kept: dict[int, KeptFile | None] = {}

    def set_sources(
        self,
        keys: Sequence[bytes],
        runs: Sequence[tuple[EarlierRun, dict[bytes, tuple[int, int]]]],
    ) -> None:
        """Set ``sources``: for each task, the done tasks of ``runs`` with an equal key. ``keys``
        has the key of each task; each run comes with its done tasks by key."""
        self._kept.clear()
        self.sources = {}
        for task, key in enumerate(keys):
            found = [(run, *done[key]) for run, done in runs if key in done]
            if found:
                self.sources[task] = found

    def choose(self, missing: Collection[int] = ()) -> None:
        """Choose the tasks to reuse: the tasks that earlier runs did, except tasks with a needed
        output that no longer exists. ``missing`` are outputs that were not found where ``kept``
        locates them.

        An output is needed if it is a final output, or if a task that is not reused reads it.
        """
        workflow = self.workflow
        self.gone.clear()
        reused = {task: sources[0] for task, sources in self.sources.items()}
        again: list[int] = []
        for task in reused:
            for file in workflow.tasks[task].outputs:
                if workflow.files[file].collect and self._is_gone(task, file, missing):
                    self.gone.setdefault(task, file)
                    again.append(task)
        runs = [task for task in range(len(workflow.tasks)) if task not in reused]
        for task in (*runs, *again):
            reused.pop(task, None)
        pending = [*runs, *dict.fromkeys(again)]
        while pending:
            for file in workflow.tasks[pending.pop()].inputs:
                producer = workflow.files[file].producer
                if producer in reused and self._is_gone(producer, file, missing):
                    self.gone[producer] = file
                    del reused[producer]
                    pending.append(producer)
        self.reused = reused

    def _is_gone(self, task: int, file: int, missing: Collection[int]) -> bool:
        """Whether the earlier task wrote an output that no place has any more."""
        if not self.was_written(task, file):
            return False
        return file in missing or self.kept(task, file) is None

    def was_written(self, task: int, file: int) -> bool:
        """Whether the latest earlier task wrote this output."""
        run, workflow, earlier = self.sources[task][0]
        return run.was_written(workflow, self._earlier_file(task, file, (run, workflow, earlier)))

    def _earlier_file(self, task: int, file: int, source: Source) -> int:
        run, workflow, earlier = source
        place = self.workflow.tasks[task].outputs.index(file)
        return run.state.workflows[workflow].workflow.tasks[earlier].outputs[place]

    def kept(self, task: int, file: int) -> KeptFile | None:
        """The copy of an output in the latest earlier run that still has one; None if no run has
        one."""
        if file not in self._kept:
            found = None
            for source in self.sources[task]:
                run, workflow, _ = source
                found = run.kept(workflow, self._earlier_file(task, file, source), self._sites)
                if found is not None:
                    break
            self._kept[file] = found
        return self._kept[file]

    def needed(self) -> dict[int, KeptFile]:
        """The outputs of reused tasks that the new run needs."""
        workflow, needed = self.workflow, {}
        read = {
            file
            for task in range(len(workflow.tasks))
            if task not in self.reused
            for file in workflow.tasks[task].inputs
        }
        for task in self.reused:
            for file in workflow.tasks[task].outputs:
                if workflow.files[file].collect or file in read:
                    kept = self.kept(task, file)
                    if kept is not None and self.was_written(task, file):
                        needed[file] = kept
        return needed


class Reuse:
    """The tasks that a new run takes over from earlier runs."""

    def __init__(
        self,
        record: Record,
        tasks: Sequence[ReusableTasks],
        runs: Sequence[EarlierRun],
        identifier: Identifier,
    ) -> None:
        self.record = record
        """Identities of the files that the new run reads on the submit host."""
        self.workflows = tasks
        self.runs = runs
        """The earlier runs that were read, the latest first."""
        self.identifier = identifier

    @property
    def count(self) -> int:
        """Number of reused tasks."""
        return sum(len(tasks.reused) for tasks in self.workflows)

    def by_run(self) -> Counter[str]:
        """Number of reused tasks by the directory of the earlier run."""
        return Counter(
            str(run.run.path) for tasks in self.workflows for run, _, _ in tasks.reused.values()
        )


def plan_reuse(plan: Plan, choice: str) -> Reuse:
    """Find the tasks of a new run that earlier runs did; ``choice`` is the value of ``--reuse``.
    Connects to no site. Raises InvalidError for a named run that cannot be reused, and
    InfeasibleError for an input that cannot be read."""
    tasks = [ReusableTasks(workflow, plan.catalog.sites) for workflow in plan.workflows]
    identifier = Identifier()
    runs: list[EarlierRun] = []
    useless = 0
    for run in earlier_runs(choice, plan.workflows) if choice != "none" else ():
        runs.append(run)
        identifier.add(run.record)
        before = sum(len(one.sources) for one in tasks)
        _match(plan, tasks, runs, identifier)
        count = sum(len(one.sources) for one in tasks)
        useless = useless + 1 if count == before else 0
        if useless == MAX_USELESS or (
            count == sum(len(w.tasks) for w in plan.workflows) and not any(t.gone for t in tasks)
        ):
            break
    record = make_record(plan.workflows, plan.catalog, identifier)
    return Reuse(record, tasks, runs, identifier)


def _match(
    plan: Plan,
    tasks: Sequence[ReusableTasks],
    runs: Sequence[EarlierRun],
    identifier: Identifier,
) -> None:
    """Set the sources of all tasks from ``runs``, and choose the tasks to reuse."""
    record = make_record(plan.workflows, plan.catalog, identifier)
    done = [dict(run.done_tasks(identifier)) for run in runs]
    for one in tasks:
        keys = task_keys(one.workflow, record, identifier)
        one.set_sources(keys, list(zip(runs, done, strict=True)))
        one.choose()
