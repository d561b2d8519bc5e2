"""Walltimes that are learned from the run times of earlier tasks.

Without a learned walltime, the batch job of a single task requests the maximum walltime of its
site, and launchers request a walltime by the run times that this run has observed. A walltime is
learned only from enough run times of the same class at the same site. It never replaces a walltime
that a document states, and never exceeds what the catalog allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.observations import Class, in_order
from wfrun.engine.core.capability import EVERY_HOOK, Capability, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.prediction.intervals import ClassBounds
from wfrun.engine.prediction.job import is_plausible
from wfrun.engine.prediction.methods import RunningMean

MIN_WALLTIME_S = 300.0
"""Minimum walltime of a single job in seconds: starting the task takes time, too, and the shortest
gaps of a schedule are longer."""
HEADROOM = 1.5
"""Ratio of the time within which a task should end to the conformal bound of its class. 95% of the
tasks of the class do not exceed this bound. Each task that exceeds it enlarges the margin of the
bound."""
KILLED_GROWTH = 2.0
"""Minimum ratio of the time within which a task should end to the longest time after which a task
of its class was killed."""
SAFETY = 2.0
"""Ratio of a learned walltime to the time within which the task should end: a killed task costs far
more than a request that is too long."""
MAX_KINDS = 1000
"""Maximum number of kinds of tasks (owner, application, cores) for which the walltime of a launcher
is learned."""

_Kind = tuple[str, str, int]
"""Owner, application and cores of a task."""


class _Series:
    """The run times of a class at a site."""

    __slots__ = ("bounds", "killed_s", "mean")

    def __init__(self) -> None:
        self.bounds = ClassBounds()
        self.mean = RunningMean()
        self.killed_s = 0.0
        """Longest time after which a task of the class was killed at the end of its walltime, in
        seconds; 0: none was killed."""

    def observe(self, runtime_s: float) -> None:
        """Observe the run time of a task that has ended by itself."""
        self.bounds.observe(runtime_s)
        self.mean.observe(runtime_s)

    def bound_s(self) -> float | None:
        """The run time in seconds within which the next task should end; None if too few tasks have
        ended."""
        upper_s = self.bounds.upper_s()
        return None if upper_s is None else max(HEADROOM * upper_s, KILLED_GROWTH * self.killed_s)


class LauncherWork(NamedTuple):
    """The work of all unfinished tasks of the run, if it were done by the launchers of one site."""

    core_s: float | None
    """Sum over the tasks of expected run time times cores, in core seconds; None if the expected
    run time of a task is unknown."""
    longest_s: float
    """Longest known time within which a task should end, in seconds; 0 if none is known."""


class Walltimes(Capability):
    """Learns walltimes, in runs with a history.

    Cost: constant, and nothing in runs without a history; of `work_at`, the number of kinds of
    tasks.
    """

    dormant = EVERY_HOOK

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._series: dict[Class, _Series] = {}
        self._left: Counter[_Kind] = Counter()
        """Number of tasks that are not done, by kind."""
        self._missed: set[tuple[int, int]] = set()
        """Tasks that were killed at the end of a learned walltime, as (workflow, task)."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Always: any run may get a history."""
        return True

    def take_over(self, before: Walltimes) -> None:
        self._series, self._left = before._series, before._left
        self._missed = before._missed
        if not before.dormant:
            self._wake()

    def _wake(self) -> None:
        if self.dormant:
            self.run.hooks.wake(self)

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.HistoryRead: self._history_read}

    def _history_read(self, event: ev.HistoryRead) -> None:
        if not any(site.spec.has_batch_system for site in self.state.sites):
            return  # Nothing of this run has a walltime.
        self._wake()
        for job, runtime_s in in_order(event):
            self._observe(Class(job.owner, job.application, job.cores, job.site), runtime_s)

    # Observations

    def on_workflow_added(self, w: WorkflowState) -> None:
        tasks = w.workflow.tasks
        if w.workflow.bag is not None and tasks:
            self._left[_kind(w, 0)] += len(tasks)
        else:
            owner = w.workflow.owner
            self._left.update((owner, task.name, task.resources.cores) for task in tasks)
        for part in w.reused:
            for task in part.tasks:
                self._left[_kind(w, task)] -= 1

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        w = self.state.workflows[attempt.workflow]
        self._left[_kind(w, attempt.task)] -= 1
        if outcome.started_s is None or outcome.ended_s is None:
            return
        runtime_s = outcome.ended_s - outcome.started_s
        if is_plausible(runtime_s):
            self._observe(self._class(w, attempt.task, attempt.site), runtime_s)

    def on_redone(self, w: WorkflowState, task: int) -> None:
        self._left[_kind(w, task)] += 1

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        """Raise the bound of the class of a task that outlasted its job or launcher. A task that
        was killed at a learned walltime does not get a learned walltime again."""
        if outcome.cause not in ("walltime", "expired"):
            return
        w = self.state.workflows[attempt.workflow]
        if attempt.walltime_s is not None:
            self._missed.add((attempt.workflow, attempt.task))
        if outcome.started_s is not None and outcome.ended_s is not None:
            series = self._series.get(self._class(w, attempt.task, attempt.site))
            if series is not None:
                series.killed_s = max(series.killed_s, outcome.ended_s - outcome.started_s)

    def _observe(self, kind: Class, runtime_s: float) -> None:
        series = self._series.get(kind)
        if series is None:
            series = self._series[kind] = _Series()
        series.observe(runtime_s)

    def _class(self, w: WorkflowState, task: int, site: int) -> Class:
        return Class(*_kind(w, task), self.state.sites[site].spec.name)

    # Walltimes

    def bound_s(self, w: WorkflowState, task: int, site: int) -> float | None:
        """The run time in seconds within which a task should end at a site, learned from its class
        there. None if too few run times are known, or if the document of the task states a
        walltime."""
        if w.asked(task).walltime_s is not None:
            return None
        series = self._series.get(self._class(w, task, site))
        return None if series is None else series.bound_s()

    def limit_walltime(self, w: WorkflowState, task: int, site: int) -> float | None:
        spec = self.state.sites[site].spec
        # Without the limit of the site, a request could be longer than what its queue grants.
        if spec.walltime_s is None or not spec.has_batch_system or spec.has_launchers:
            return None
        if (w.index, task) in self._missed:
            return None  # It gets the longest walltime of the site.
        bound_s = self.bound_s(w, task, site)
        if bound_s is None:
            return None
        walltime_s = rounded_s(max(MIN_WALLTIME_S, SAFETY * bound_s))
        return walltime_s if walltime_s < spec.walltime_s else None

    def work_at(self, site: int) -> LauncherWork:
        """The work that the launchers of a site may have to do."""
        name, core_s, longest_s = self.state.sites[site].spec.name, 0.0, 0.0
        is_known = not self.dormant and len(self._left) <= MAX_KINDS
        for kind, count in self._left.items() if is_known else ():
            if count <= 0:
                continue
            series = self._series.get(Class(*kind, name))
            bound_s = None if series is None else series.bound_s()
            if series is None or bound_s is None:
                is_known = False
                continue
            core_s += count * (series.mean.predict() or 0.0) * kind[2]
            longest_s = max(longest_s, bound_s)
        return LauncherWork(core_s if is_known else None, longest_s)


def _kind(w: WorkflowState, task: int) -> _Kind:
    record = w.workflow.tasks[task]
    return w.workflow.owner, record.name, record.resources.cores


def rounded_s(walltime_s: float) -> float:
    """A walltime rounded up to whole minutes, or to multiples of ten minutes if it is half an hour
    or longer. Tasks with equal walltimes are submitted together."""
    step_s = 60.0 if walltime_s < 1800 else 600.0
    return step_s * ceil(walltime_s / step_s)
