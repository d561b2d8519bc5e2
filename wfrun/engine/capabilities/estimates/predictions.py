"""Predictions of run times from tasks of the same class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.observations import in_order, job_of
from wfrun.engine.core.capability import Part, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import Knowledge
from wfrun.engine.prediction.job import MAX_RUNTIME_S, Prediction
from wfrun.engine.prediction.run_times import (
    NO_DETAILS,
    Details,
    JobClass,
    RunTimes,
    make_run_times,
)
from wfrun.engine.queues.queue_model import Predict

UNKNOWN_S = 3600.0
"""Expected run time in seconds, on the reference processor, of a task of which nothing is known. It
is long, so that an idle processor is preferred to a fast but busy one."""


class _Prediction:
    """A function that returns the current prediction of the run time of a class of tasks at a
    site."""

    __slots__ = ("_details", "_kind", "_run_times", "_site", "_speed_ratio")

    def __init__(
        self, run_times: RunTimes, kind: JobClass, site: str, speed_ratio: float, details: Details
    ) -> None:
        self._run_times, self._kind, self._details = run_times, kind, details
        self._site, self._speed_ratio = site, speed_ratio

    def __call__(self) -> float | None:
        return self._run_times.predict_s(self._kind, self._site, self._speed_ratio, self._details)


class Predictions(Part):
    """Expected run times of tasks: documented ones for policies that know them, otherwise
    predictions.

    Cost: constant.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.run_times = make_run_times(self.state.settings.predictor)
        self._observes = self.state.information.task_runtime is Knowledge.HISTORICAL
        """Whether run times are observed: for the predictions of the policy, or for later runs."""
        if not self._observes:
            self.dormant = frozenset({"on_done"})
        self._last: tuple[WorkflowState, int, JobClass, Details] | None = None
        """Cache: the class of the task that the policy asked about last. A policy asks about one
        task at every site."""

        self._uses_sizes = self.state.information.file_size is not Knowledge.UNKNOWN
        """Whether predictions may use sizes of inputs: the policy declares file sizes, or the run
        has a history. A policy that does not declare file sizes must not use those of a
        document."""

    def take_over(self, before: Predictions) -> None:
        self.run_times = before.run_times
        if before._observes:
            self._observe()
        self._uses_sizes = self._uses_sizes or before._uses_sizes

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {ev.HistoryRead: self._history_read}

    def _history_read(self, event: ev.HistoryRead) -> None:
        self._observe()
        self._uses_sizes = True
        speeds = {site.spec.name: site.spec.speed_ratio for site in self.state.sites}
        for job, runtime_s in in_order(event):
            if job.site in speeds:
                kind = JobClass(job.owner, job.application, job.cores)
                details = Details(job.estimate_s, job.input_bytes)
                self.run_times.observe(kind, job.site, runtime_s, speeds[job.site], details)

    def _observe(self) -> None:
        """Observe run times from now on."""
        if not self._observes:
            self._observes = True
            self.run.hooks.wake(self)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.started_s is None or outcome.ended_s is None:
            return
        kind, details = self._class_of(self.state.workflows[attempt.workflow], attempt.task)
        spec = self.state.sites[attempt.site].spec
        elapsed_s = outcome.ended_s - outcome.started_s
        # A clock that was set back or far ahead shows what no task takes. Tasks of 0 s are real:
        # clocks of simulations and of documents are exact.
        if 0.0 <= elapsed_s <= MAX_RUNTIME_S:
            self.run_times.observe(kind, spec.name, elapsed_s, spec.speed_ratio, details)

    def expected_s(self, w: WorkflowState, task: int, site: int) -> float:
        """Expected run time of a task at a site in seconds: the documented one if the policy
        declares ``task_runtime=K``, otherwise the predicted one. If nothing is known, `UNKNOWN_S`
        divided by the speed of the site."""
        spec = self.state.sites[site].spec
        if w.runtimes_s is not None:
            return w.runtimes_s[task] / spec.speed_ratio
        kind, details = self._class_of(w, task)
        known_s = self.run_times.predict_s(kind, spec.name, spec.speed_ratio, details)
        return UNKNOWN_S / spec.speed_ratio if known_s is None else known_s

    def predict(self, w: WorkflowState, task: int, site: int) -> Prediction | None:
        """The expected run time of a task at a site, with its method and number of observations;
        None if nothing is known."""
        spec = self.state.sites[site].spec
        if w.runtimes_s is not None:
            return Prediction(w.runtimes_s[task] / spec.speed_ratio, "documented", 0)
        kind, details = self._class_of(w, task)
        return self.run_times.predict(kind, spec.name, spec.speed_ratio, details)

    def prediction(self, w: WorkflowState, task: int, site: int) -> Predict | None:
        """A function that returns the current prediction of a run time. None if the run time is
        documented, and so constant."""
        if w.runtimes_s is not None:
            return None
        spec = self.state.sites[site].spec
        kind, details = self._class_of(w, task)
        return _Prediction(self.run_times, kind, spec.name, spec.speed_ratio, details)

    def _class_of(self, w: WorkflowState, task: int) -> tuple[JobClass, Details]:
        last = self._last
        if last is not None and last[0] is w and last[1] == task:
            return last[2], last[3]
        record = w.workflow.tasks[task]
        kind = JobClass(w.workflow.owner, record.name, record.resources.cores)
        details = NO_DETAILS
        if self.run_times.uses_details:
            job = job_of(w, task, "")
            details = Details(job.estimate_s, job.input_bytes if self._uses_sizes else None)
        self._last = w, task, kind, details
        return kind, details
