"""What is known of the launchers of one site."""

from __future__ import annotations

from enum import IntEnum
from math import inf

from wfrun.engine.exchange import Cause, LauncherRequest
from wfrun.engine.model import LauncherSpec
from wfrun.engine.policies.prediction import Last2
from wfrun.engine.prefetch import prefetch_per_slot

_WINDOW = 20
"""Number of observations that are averaged as they are; of more, the latest count more."""


class LauncherPhase(IntEnum):
    """Where a launcher stands."""

    ASKED = 0
    QUEUED = 1
    LIVE = 2
    DRAINING = 3  # takes no more tasks
    AWAY = 4  # lived when the engine before this one saw it last
    ENDED = 5


class Launcher:
    """One launcher, from the decision to start it on."""

    __slots__ = ("asked_s", "busy_cores", "cause", "channel", "done", "ended_s", "ends_s", "host",
                 "idle_since_s", "latency_s", "phase", "queued_s", "ran", "reason", "request",
                 "slots", "started_s", "stopped")  # fmt: skip

    def __init__(self, request: LauncherRequest, asked_s: float) -> None:
        self.request = request
        self.phase = LauncherPhase.ASKED
        self.asked_s = asked_s
        self.queued_s: float | None = None
        self.started_s: float | None = None
        """When it first took tasks."""
        self.ended_s: float | None = None
        self.host = ""
        self.slots = 0
        """Cores, as it told itself."""
        self.ends_s: float | None = None
        """When its walltime is over."""
        self.channel = ""
        self.latency_s = 0.0
        self.busy_cores = 0
        self.ran = 0
        """Attempts that have started in it."""
        self.done = 0
        """Of these, those that succeeded."""
        self.idle_since_s: float | None = None
        """None: something runs in it, or it has not started."""
        self.stopped = False
        """It was told to end, since no work waits for it."""
        self.cause: Cause | None = None
        self.reason: str | None = None
        """Why it drains, or how it ended."""

    @property
    def is_coming(self) -> bool:
        """Whether its slots may still come to be there, or be there again."""
        coming = (LauncherPhase.ASKED, LauncherPhase.QUEUED, LauncherPhase.AWAY)
        return self.phase in coming and not self.stopped

    @property
    def is_queued(self) -> bool:
        return self.phase in (LauncherPhase.ASKED, LauncherPhase.QUEUED)

    @property
    def asked_slots(self) -> int:
        return self.request.cores * self.request.nodes


class LauncherPool:
    """The launchers of a site, and what was learnt of them."""

    __slots__ = ("_staged", "_tasks", "busy_cores", "closed_cores", "coming_slots", "ended",
                 "failures", "latency_s", "launchers", "live_slots", "made", "paused_until_s",
                 "pauses", "queued", "reason", "spec", "prefetch", "staging_s", "task_s",
                 "unclear_cores", "waits")  # fmt: skip

    def __init__(self, spec: LauncherSpec) -> None:
        self.spec = spec
        self.launchers: dict[str, Launcher] = {}
        """That have not ended, by key."""
        self.ended: list[Launcher] = []
        self.made = 0
        self.live_slots = 0
        self.coming_slots = 0
        """Of launchers that may still come to be there, or be there again."""
        self.queued = 0
        """Launchers that were asked for and have not started."""
        self.busy_cores = 0
        self.closed_cores = 0
        """Of these, those in launchers that take no more, or can't be reached: they are no load on
        the others."""
        self.unclear_cores = 0
        """Of attempts that the engine before gave to some launcher, perhaps one that is not back:
        likewise, until they start."""
        self.latency_s = 0.0
        """The longest of the live ones."""
        self.task_s: float | None = None
        """What a task takes, averaged over the last ones."""
        self.staging_s = 0.0
        """What its inputs take, likewise."""
        self._tasks = 0
        self._staged = 0
        self.prefetch = 0
        """Tasks held in advance for each slot."""
        self.waits = Last2()
        """In the queue."""
        self.failures = 0
        """Launchers in a row that have run nothing."""
        self.pauses = 0
        self.paused_until_s = -inf
        """No more are asked for before; infinite: never."""
        self.reason: str | None = None
        """Why not."""

    @property
    def capacity(self) -> int:
        """Cores of attempts that the site takes now, counting all that it has."""
        return self.live_slots * (1 + self.prefetch) + self.closed_cores + self.unclear_cores

    def refresh(self) -> None:
        """What follows from the launchers as they are now."""
        launchers = self.launchers.values()
        live = [x for x in launchers if x.phase is LauncherPhase.LIVE]
        self.coming_slots = sum(x.asked_slots for x in launchers if x.is_coming)
        self.queued = sum(1 for x in launchers if x.is_queued)
        self.busy_cores = sum(x.busy_cores for x in launchers)
        self.closed_cores = self.busy_cores - sum(x.busy_cores for x in live)
        self.live_slots = sum(launcher.slots for launcher in live)
        self.latency_s = max((launcher.latency_s for launcher in live), default=0.0)
        self._set_prefetch()

    def ran(self, task_s: float) -> None:
        """A task took so long."""
        self._tasks += 1
        self.task_s = _average(self.task_s, task_s, self._tasks)
        self._set_prefetch()

    def staged(self, staging_s: float) -> None:
        """The inputs of an attempt took so long."""
        self._staged += 1
        self.staging_s = _average(self.staging_s, staging_s, self._staged)

    def _set_prefetch(self) -> None:
        self.prefetch = prefetch_per_slot(self.latency_s + self.staging_s, self.task_s)


def _average(before: float | None, value: float, count: int) -> float:
    return value if before is None else before + (value - before) / min(count, _WINDOW)
