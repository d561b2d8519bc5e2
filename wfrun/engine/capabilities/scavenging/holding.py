"""The launchers and attempts of one owner at one site."""

from __future__ import annotations

from math import inf

from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase
from wfrun.engine.core.state import Attempt


class Holding:
    """The launchers of an owner at a site, and the attempts that were placed for them."""

    __slots__ = ("attempts", "closed", "coming_slots", "committed", "launchers", "live_slots",
                 "widest")  # fmt: skip

    def __init__(self) -> None:
        self.launchers: dict[str, Launcher] = {}
        """Launchers that have not ended, by key."""
        self.attempts: dict[str, Attempt] = {}
        """Open attempts, by key."""
        self.committed = 0
        """Number of cores of the open attempts."""
        self.live_slots = self.coming_slots = self.widest = 0
        """Slots of the launchers that take tasks, slots of the launchers that are on their way, and
        slots of the widest launcher that takes tasks."""
        self.closed: list[Launcher] = []
        """Launchers that take no tasks; tasks may still run in them."""

    def refresh(self) -> None:
        """Bring the sums over the launchers up to date."""
        launchers = self.launchers.values()
        slots = [x.slots for x in launchers if x.phase is LauncherPhase.LIVE and not x.stopped]
        self.live_slots, self.widest = sum(slots), max(slots, default=0)
        self.coming_slots = sum(x.asked_slots for x in launchers if x.is_coming)
        self.closed = [x for x in launchers if x.stopped or x.phase is not LauncherPhase.LIVE]

    @property
    def free(self) -> int:
        """Number of slots, in launchers that take tasks, for which no attempt was placed. Negative
        if there are more attempts than slots."""
        return self.live_slots + sum(x.busy_cores for x in self.closed) - self.committed

    @property
    def kept(self) -> list[Launcher]:
        """The launchers that are not stopped, queued ones first."""
        kept = [x for x in self.launchers.values() if not x.stopped]
        return sorted(kept, key=lambda x: not x.is_queued)

    def pulled_s(self, launchers: list[Launcher]) -> list[float]:
        """Time when each launcher started the latest of its running tasks, in seconds; infinite for
        launchers without a task, whose end loses no work."""
        latest: dict[str, float] = {}
        for attempt in self.attempts.values():
            if attempt.started_s is not None:
                before_s = latest.get(attempt.launcher, -inf)
                latest[attempt.launcher] = max(before_s, attempt.started_s)
        return [latest.get(x.request.key, inf) for x in launchers]

    def waiting(self) -> list[Attempt]:
        """Attempts that no launcher has started, the latest first."""
        found = [a for a in self.attempts.values() if a.started_s is None]
        return found[::-1]
