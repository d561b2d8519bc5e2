"""Metrics of workflows and their tasks (thesis sections 5.3.2 and 6.2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.engine.tasks.graph import topological_order
from wfrun.runners.metrics.jobs import JobTiming


class TaskTiming(msgspec.Struct, frozen=True, gc=False):
    """The times of one attempt that has run. They divide the wait of its task into three parts.

    From ``eligible_s`` to ``placed_s`` the task waits in the engine, because of the throttle or
    because no site has free cores. From ``placed_s`` to ``ready_s`` its input files are
    transferred. From ``ready_s`` to ``start_s`` it waits in the queue of the site. A task becomes
    eligible again before each retry.
    """

    workflow: int
    task: int
    site: int
    cores: int
    eligible_s: float
    placed_s: float
    ready_s: float
    start_s: float
    end_s: float
    done: bool
    """Whether the attempt is the first successful attempt of its task."""
    runtime_s: float = 0.0
    """Run time in the exit record, in seconds; without an exit record, the time between the events
    of start and end."""
    stated_start_s: float | None = None
    """Start by the clock of the site, in seconds; None: the exit record has no times."""
    superseded: bool = False
    """Whether another attempt of the task succeeded first."""
    throttle_s: float = 0.0
    """Part of ``held_s`` during which the workflow was at its throttle."""
    launcher_s: float = 0.0
    """Part of ``held_s`` during which no site had cores, because no launcher was ready."""
    overhead_s: float | None = None
    """Time from the arrival of the last input to the report of the end, minus the run time, in
    seconds. None: the exit record has no times, or the site had no free cores at the placement, so
    that the time would include a queue wait."""
    earlier_waits_s: tuple[float, ...] = ()
    """Waits in seconds that earlier, unsuccessful attempts of the task had: at the throttle, for a
    launcher, for free cores, for files, in a queue. Empty: there was no earlier attempt."""
    cpu_s: float | None = None
    peak_memory_bytes: int | None = None

    @property
    def core_s(self) -> float:
        """Used core time in core-seconds: cores times run time."""
        return self.cores * self.runtime_s

    @property
    def room_s(self) -> float:
        """Rest of ``held_s``: no site had free cores for the task, no site was open to it, or the
        policy waited."""
        return max(0.0, self.held_s - self.throttle_s - self.launcher_s)

    @property
    def held_s(self) -> float:
        """Wait in the engine, from eligible to placed, in seconds."""
        return self.placed_s - self.eligible_s

    @property
    def staging_s(self) -> float:
        """File transfer delay (FTD), in seconds."""
        return self.ready_s - self.placed_s

    @property
    def queue_wait_s(self) -> float:
        """Queue wait time (QWT) at the site, in seconds."""
        return self.start_s - self.ready_s

    @property
    def wait_s(self) -> float:
        """Wait time from eligible to start: the sum of ``held_s``, ``staging_s`` and
        ``queue_wait_s``."""
        return self.start_s - self.eligible_s

    def job(self) -> JobTiming:
        """The attempt as a job. Its submission is the time at which its task became eligible."""
        return JobTiming(self.eligible_s, self.start_s, self.end_s, self.cores, self.site)


class WorkflowTiming(msgspec.Struct, frozen=True):
    """One workflow of a run."""

    name: str
    submit_s: float
    end_s: float | None
    """End of the workflow's last task, in seconds; None: the workflow has not ended."""
    tasks: int
    """Number of its tasks."""
    done: int
    """Number of its tasks that are done."""
    critical_path_s: float | None
    """Length of the critical path in seconds, as computed by the function ``critical_path_s``.
    None: the run time of a task is neither documented nor measured."""
    transfers: int
    """Number of files transferred between sites (NFT). Copies from and to ORIGIN, the machine of
    wfrun, do not count."""
    moved_bytes: int
    """Total size of the files transferred between sites, in bytes."""

    @property
    def makespan_s(self) -> float | None:
        """Time from submission to the end of the last task, in seconds; None: not all tasks are
        done."""
        if self.end_s is None or self.done < self.tasks:
            return None
        return self.end_s - self.submit_s

    @property
    def nsl(self) -> float | None:
        """Normalized schedule length: makespan divided by the length of the critical path. None:
        there is no makespan, or the length of the critical path is unknown or 0."""
        makespan_s = self.makespan_s
        if makespan_s is None or not self.critical_path_s:
            return None
        return makespan_s / self.critical_path_s


class WorkflowMetrics(msgspec.Struct, frozen=True):
    """The metrics of thesis section 6.2.4 of one workflow.

    Means are over the successful attempts of its tasks, in seconds. They are None if no task is
    done.
    """

    name: str
    makespan_s: float | None
    nsl: float | None
    wait_s: float | None
    """Mean wait time of a task: the sum of the next three fields."""
    held_s: float | None
    """Mean wait time in the engine."""
    queue_wait_s: float | None
    """Mean queue wait time (QWT)."""
    staging_s: float | None
    """Mean file transfer delay (FTD)."""
    transfers: int
    moved_bytes: int


def workflow_metrics(timing: WorkflowTiming, tasks: Iterable[TaskTiming]) -> WorkflowMetrics:
    """The metrics of a workflow. ``tasks`` are the attempts of its tasks; failed attempts are
    ignored."""
    done = [task for task in tasks if task.done]
    return WorkflowMetrics(
        name=timing.name,
        makespan_s=timing.makespan_s,
        nsl=timing.nsl,
        wait_s=_mean([task.wait_s for task in done]),
        held_s=_mean([task.held_s for task in done]),
        queue_wait_s=_mean([task.queue_wait_s for task in done]),
        staging_s=_mean([task.staging_s for task in done]),
        transfers=timing.transfers,
        moved_bytes=timing.moved_bytes,
    )


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def total_makespan_s(workflows: Iterable[WorkflowTiming]) -> float | None:
    """The makespan of several workflows in seconds: from the first submission to the last end. None
    if a workflow has tasks that are not done. Raises InvalidError without workflows."""
    known = list(workflows)
    if not known:
        raise InvalidError("without workflows there is no makespan")
    ends = [w.end_s for w in known if w.end_s is not None and w.makespan_s is not None]
    if len(ends) < len(known):
        return None
    return max(ends) - min(w.submit_s for w in known)


def critical_path_s(workflow: Workflow, runtimes_s: Sequence[float]) -> float:
    """The length of a critical path in seconds: the largest sum of run times along a path. 0 for a
    workflow without tasks.

    ``runtimes_s`` are the run times of the tasks in seconds on the reference processor (speed ratio
    1.0). So a normalized schedule length may be below 1 on faster sites. The thesis does not state
    the processor for workflows; for bags it uses a reference processor (section 5.3.2). File
    transfers take no time, as on a path within one site.
    """
    ends_s = [0.0] * len(workflow.tasks)
    for task in topological_order(workflow.parents, workflow.children()):
        begin_s = max((ends_s[parent] for parent in workflow.parents[task]), default=0.0)
        ends_s[task] = begin_s + runtimes_s[task]
    return max(ends_s, default=0.0)


def bag_schedule_length(makespan_s: float, runtimes_s: Iterable[float]) -> float | None:
    """The normalized schedule length of a bag: makespan divided by the sum of its tasks' run times
    on the reference processor (thesis section 5.3.2). None if the sum is 0."""
    total_s = fsum(runtimes_s)
    return makespan_s / total_s if total_s else None
