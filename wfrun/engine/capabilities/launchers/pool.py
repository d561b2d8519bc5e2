"""The launchers of one site."""

from __future__ import annotations

from enum import IntEnum
from math import inf

from wfrun.engine.exchange import Cause, LauncherRequest
from wfrun.engine.model import LauncherSpec
from wfrun.engine.prediction.methods import Last2
from wfrun.engine.tasks.prefetch import prefetch_per_slot

_WINDOW = 20
"""Number of first observations that have equal weights in a mean. Each further observation gets the
weight 1/20."""


class LauncherPhase(IntEnum):
    """Phase of a launcher."""

    ASKED = 0
    QUEUED = 1
    LIVE = 2
    DRAINING = 3  # takes no more tasks
    AWAY = 4  # was live at the end of the previous engine
    ENDED = 5


class Launcher:
    """A launcher, from the decision to request it until after its end."""

    __slots__ = ("asked_s", "busy_cores", "cause", "channel", "done", "ended_s", "ends_s", "host",
                 "idle_since_s", "latency_s", "phase", "queued_s", "ran", "reason", "request",
                 "slots", "started_s", "stopped")  # fmt: skip

    def __init__(self, request: LauncherRequest, asked_s: float) -> None:
        self.request = request
        self.phase = LauncherPhase.ASKED
        self.asked_s = asked_s
        self.queued_s: float | None = None
        self.started_s: float | None = None
        """Time when the launcher first took tasks; None before."""
        self.ended_s: float | None = None
        self.host = ""
        self.slots = 0
        """Number of cores, as reported by the launcher."""
        self.ends_s: float | None = None
        """Time when the walltime of the launcher ends; None if unknown."""
        self.channel = ""
        self.latency_s = 0.0
        self.busy_cores = 0
        self.ran = 0
        """Number of attempts that started in the launcher."""
        self.done = 0
        """Number of attempts that succeeded in the launcher."""
        self.idle_since_s: float | None = None
        """Time since which nothing runs in the launcher; None while something runs, and before its
        start."""
        self.stopped = False
        """Whether the core decided to stop the launcher, or the engine dismissed it with the
        run."""
        self.cause: Cause | None = None
        self.reason: str | None = None
        """Why the launcher drains, or how it ended."""

    @property
    def is_coming(self) -> bool:
        """Whether the launcher may still start, or reconnect, and then take tasks."""
        coming = (LauncherPhase.ASKED, LauncherPhase.QUEUED, LauncherPhase.AWAY)
        return self.phase in coming and not self.stopped

    @property
    def is_queued(self) -> bool:
        """Whether the launcher has not started."""
        return self.phase in (LauncherPhase.ASKED, LauncherPhase.QUEUED)

    @property
    def asked_slots(self) -> int:
        """Number of slots that were requested."""
        return self.request.cores * self.request.nodes


class LauncherPool:
    """The launchers of a site, and what was observed of them."""

    __slots__ = ("_prefetches", "_staged", "_tasks", "busy_cores", "closed_cores", "coming_slots",
                 "ended", "failures", "latency_s", "launchers", "live_slots", "made",
                 "paused_until_s", "pauses", "queued", "reason", "spec", "prefetch", "staging_s",
                 "task_s", "unlocated_cores", "waits")  # fmt: skip

    def __init__(self, spec: LauncherSpec, *, prefetches: bool = True) -> None:
        self.spec = spec
        self._prefetches = prefetches
        self.launchers: dict[str, Launcher] = {}
        """Launchers that have not ended, by key."""
        self.ended: list[Launcher] = []
        self.made = 0
        self.live_slots = 0
        self.coming_slots = 0
        """Number of slots of launchers that may still start or reconnect."""
        self.queued = 0
        """Number of launchers that were requested and have not started."""
        self.busy_cores = 0
        self.closed_cores = 0
        """Busy cores in launchers that take no more tasks or cannot be reached. They use no slots
        of the live launchers."""
        self.unlocated_cores = 0
        """Cores of attempts that the previous engine gave to a launcher, as long as this launcher
        may not have reconnected yet. Until the start of such an attempt is reported, it uses no
        slots of the live launchers."""
        self.latency_s = 0.0
        """Longest latency of the live launchers."""
        self.task_s: float | None = None
        """Mean run time of recent tasks in seconds; None before the first task has ended."""
        self.staging_s = 0.0
        """Mean staging time of recent attempts."""
        self._tasks = 0
        self._staged = 0
        self.prefetch = 0
        """Number of prefetched tasks per slot."""
        self.waits = Last2()
        """Predictor of the time in seconds that a launcher waits in the queue."""
        self.failures = 0
        """Number of launchers in a row that ran nothing, since the last success or pause."""
        self.pauses = 0
        self.paused_until_s = -inf
        """No launchers are requested before this time; infinite: never."""
        self.reason: str | None = None
        """Why requests for launchers were last paused; None if they were not paused since the last
        request, success or resume."""

    @property
    def capacity(self) -> int:
        """Maximum number of cores of dispatched attempts. Cores in closed launchers, and cores of
        attempts that are not located, use no live slots and are added."""
        return self.live_slots * (1 + self.prefetch) + self.closed_cores + self.unlocated_cores

    def refresh(self) -> None:
        """Recompute the sums over launchers."""
        launchers = self.launchers.values()
        live = [x for x in launchers if x.phase is LauncherPhase.LIVE]
        self.coming_slots = sum(x.asked_slots for x in launchers if x.is_coming)
        self.queued = sum(1 for x in launchers if x.is_queued)
        self.busy_cores = sum(x.busy_cores for x in launchers)
        self.closed_cores = self.busy_cores - sum(x.busy_cores for x in live)
        self.live_slots = sum(launcher.slots for launcher in live)
        self.latency_s = max((launcher.latency_s for launcher in live), default=0.0)
        self._set_prefetch()

    def observe_runtime(self, task_s: float) -> None:
        """Observe the run time of a task."""
        self._tasks += 1
        self.task_s = _average(self.task_s, task_s, self._tasks)
        self._set_prefetch()

    def observe_staging(self, staging_s: float) -> None:
        """Observe the staging time of an attempt."""
        self._staged += 1
        self.staging_s = _average(self.staging_s, staging_s, self._staged)

    def _set_prefetch(self) -> None:
        if self._prefetches:
            self.prefetch = prefetch_per_slot(self.latency_s + self.staging_s, self.task_s)


def _average(before: float | None, value: float, count: int) -> float:
    return value if before is None else before + (value - before) / min(count, _WINDOW)
