"""The critical path of a run as it happened, and the parts of its time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from wfrun.engine.model import SiteSpec, Workflow
from wfrun.runners.metrics.workflows import TaskTiming, WorkflowTiming

PARTS = {
    "earlier_s": "earlier attempts",
    "throttle_s": "throttle",
    "launcher_s": "launcher",
    "room_s": "free cores",
    "staging_s": "files",
    "queue_s": "queue",
    "runtime_s": "run time",
    "report_s": "report of ends",
}
"""The parts of the time of a step in their order: field, and name in tables."""
_WAITS = ("throttle_s", "launcher_s", "room_s", "staging_s", "queue_s")
"""The parts in `TaskTiming.earlier_waits_s`, in their order."""


class PathStep(msgspec.Struct, frozen=True):
    """A task of a critical path. The parts of a step add up to the time from the end of the
    previous step, or from the submission of the workflow, to the end of the task."""

    task: str
    """Id of the task."""
    type: str
    site: str
    begin_s: float
    """Begin of the step, in seconds since the submission of the workflow."""
    earlier_s: float
    """Run times of failed attempts, delays before retries, and waits for inputs that were made
    again, in seconds. Other waits of earlier attempts are in the other parts."""
    throttle_s: float
    launcher_s: float
    room_s: float
    staging_s: float
    queue_s: float
    runtime_s: float
    report_s: float
    """Time from the end of the task to the event that reports it, in seconds. It includes the
    collection of outputs."""

    @property
    def parts_s(self) -> tuple[float, ...]:
        """The parts of the step in seconds, in the order of `PARTS`."""
        return tuple(getattr(self, name) for name in PARTS)

    @property
    def end_s(self) -> float:
        return self.begin_s + sum(self.parts_s)


class CriticalPath(msgspec.Struct, frozen=True):
    """The chain of tasks that ends with the last task of the run to end. Each task is preceded by
    its parent that ended last."""

    workflow: str
    index: int
    """Number of the workflow in its run."""
    steps: tuple[PathStep, ...]
    """The tasks of the path in order of execution."""

    @property
    def parts_s(self) -> tuple[float, ...]:
        """Sum of each part over all steps in seconds, in the order of `PARTS`."""
        return tuple(map(sum, zip(*(step.parts_s for step in self.steps), strict=True)))

    @property
    def length_s(self) -> float:
        return self.steps[-1].end_s - self.steps[0].begin_s


def critical_path(
    workflows: Sequence[Workflow],
    timings: Sequence[WorkflowTiming],
    attempts: Iterable[TaskTiming],
    sites: Sequence[SiteSpec],
) -> CriticalPath | None:
    """The critical path of the workflow whose last task ended last. In an unfinished run, the path
    ends with the last task that is done. Reused tasks take no time. None: no task is done."""
    done: list[dict[int, TaskTiming]] = [{} for _ in workflows]
    last: TaskTiming | None = None
    for attempt in attempts:
        if attempt.done:
            done[attempt.workflow][attempt.task] = attempt
            if last is None or attempt.end_s >= last.end_s:
                last = attempt
    if last is None:
        return None
    workflow, submit_s = workflows[last.workflow], timings[last.workflow].submit_s
    chain = _chain(last, workflow, done[last.workflow])
    steps, before_s = [], submit_s
    for attempt in chain:
        steps.append(_step(attempt, workflow, sites[attempt.site].name, before_s, submit_s))
        before_s = max(before_s, attempt.end_s)
    return CriticalPath(workflow.name, last.workflow, tuple(steps))


def _chain(
    last: TaskTiming, workflow: Workflow, done: Mapping[int, TaskTiming]
) -> list[TaskTiming]:
    """The successful attempts on the path that ends with ``last``, in order of execution."""
    chain = [last]
    while True:
        # A parent that ended after the start was made again for another task.
        begun_s = chain[-1].start_s
        parents = (done.get(parent) for parent in workflow.parents[chain[-1].task])
        known = [p for p in parents if p is not None and p.end_s <= begun_s]
        if not known:
            return chain[::-1]
        chain.append(max(known, key=lambda attempt: attempt.end_s))


def _step(
    t: TaskTiming, workflow: Workflow, site: str, before_s: float, submit_s: float
) -> PathStep:
    placed_s = max(before_s, t.placed_s)
    eligible_s = min(max(before_s, t.eligible_s), placed_s)
    held_s = placed_s - eligible_s
    throttle_s = min(t.throttle_s, held_s)
    launcher_s = min(t.launcher_s, held_s - throttle_s)
    ready_s, start_s, end_s = (max(before_s, at_s) for at_s in (t.ready_s, t.start_s, t.end_s))
    runtime_s = min(t.runtime_s, end_s - start_s)
    task = workflow.tasks[t.task]
    earlier_s, waits_s = eligible_s - before_s, [0.0] * len(_WAITS)
    for number, wait_s in enumerate(t.earlier_waits_s):
        waits_s[number] = min(wait_s, earlier_s)
        earlier_s -= waits_s[number]
    waits = dict(zip(_WAITS, waits_s, strict=True))
    return PathStep(
        task=task.id,
        type=task.name,
        site=site,
        begin_s=before_s - submit_s,
        earlier_s=earlier_s,
        throttle_s=throttle_s + waits["throttle_s"],
        launcher_s=launcher_s + waits["launcher_s"],
        room_s=held_s - throttle_s - launcher_s + waits["room_s"],
        staging_s=ready_s - placed_s + waits["staging_s"],
        queue_s=start_s - ready_s + waits["queue_s"],
        runtime_s=runtime_s,
        report_s=end_s - start_s - runtime_s,
    )
