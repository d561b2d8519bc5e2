"""The latest run times of each class of tasks of this run, for the history across runs; and the
conversion of tasks to the jobs of predictors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.core.capability import EVERY_HOOK, Capability, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.prediction.job import Job, is_plausible

MAX_OBSERVATIONS = 50
"""Maximum number of run times that the history keeps of a class of tasks at a site."""
MAX_CLASSES = 10_000
"""Maximum number of classes that the history keeps: the classes observed last."""


class Class(NamedTuple):
    """A class of tasks with a common series of run times: classification 4 of thesis section
    7.2.1."""

    owner: str
    application: str
    cores: int
    site: str


class Observation(NamedTuple):
    """The run time of a task."""

    ended_s: float
    """End in seconds since the epoch, by the clock of the engine."""
    runtime_s: float
    key: str
    """Key of the attempt. It identifies the observation, so that a history can recognize it."""
    requested_s: float | None = None
    """Walltime that the document states, in seconds; None if it states none."""
    input_bytes: float | None = None
    """Total size of the inputs of the task in bytes; None if unknown."""


def in_order(event: ev.HistoryRead) -> Iterator[tuple[Job, float]]:
    """The plausible run times of a history, each with its job, in the order in which the tasks
    ended."""
    found = []
    for number, one in enumerate(event.classes):
        for n, runtime_s in enumerate(one.runtimes_s):
            ended_s = one.ended_s[n] if one.ended_s else 0.0
            if is_plausible(runtime_s):
                found.append((ended_s, number, n))
    found.sort()
    for _, number, n in found:
        one = event.classes[number]
        requested_s = one.requested_s[n] if one.requested_s else None
        input_bytes = one.input_bytes[n] if one.input_bytes else None
        kind = one.owner, one.application, one.cores
        yield Job(one.site, *kind, requested_s, input_bytes), one.runtimes_s[n]


class Observations(Capability):
    """Keeps the latest run times of each class, in runs with a history.

    Cost: that of `job_of` for each task that ends; nothing in runs without a history.
    """

    dormant = EVERY_HOOK

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.by_class: dict[Class, deque[Observation]] = {}
        """The latest observations of each class, the oldest first. The class with the most recent
        observation is the last key."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Always: any run may get a history."""
        return True

    def take_over(self, before: Observations) -> None:
        self.by_class = before.by_class
        if not before.dormant:
            self._wake()

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.HistoryRead: self._history_read}

    def _history_read(self, event: ev.HistoryRead) -> None:
        self._wake()

    def _wake(self) -> None:
        if self.dormant:
            self.run.hooks.wake(self)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.started_s is None or outcome.ended_s is None:
            return
        runtime_s = outcome.ended_s - outcome.started_s
        if not is_plausible(runtime_s):
            return
        site = self.state.sites[attempt.site].spec.name
        job = job_of(self.state.workflows[attempt.workflow], attempt.task, site)
        latest = self._latest(job)
        latest.append(
            Observation(self.state.now_s, runtime_s, attempt.key, job.estimate_s, job.input_bytes)
        )

    def _latest(self, job: Job) -> deque[Observation]:
        """Return the observations of the job's class, and make this class the last key of
        `by_class`."""
        kind = Class(job.owner, job.application, job.cores, job.site)
        latest = self.by_class.pop(kind, None)
        if latest is None:
            latest = deque(maxlen=MAX_OBSERVATIONS)
            if len(self.by_class) >= MAX_CLASSES:
                del self.by_class[next(iter(self.by_class))]
        self.by_class[kind] = latest
        return latest


def job_of(w: WorkflowState, task: int, site: str) -> Job:
    """A task at a site as its predictor sees it. Its ``estimate_s`` is the walltime that the
    document states.

    Cost: the number of its inputs.
    """
    record = w.workflow.tasks[task]
    asked = record.resources
    return Job(
        site, w.workflow.owner, record.name, asked.cores, asked.walltime_s, _input_bytes(w, task)
    )


def _input_bytes(w: WorkflowState, task: int) -> float | None:
    """Total size of the inputs of a task in bytes; None if it has no input, or the size of an input
    is unknown."""
    size_bytes = 0
    inputs = w.workflow.tasks[task].inputs
    for file in inputs:
        one = w.sizes[file]
        if one < 0:
            return None
        size_bytes += one
    return float(size_bytes) if inputs else None
