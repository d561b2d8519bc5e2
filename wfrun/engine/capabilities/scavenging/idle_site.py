"""The processors of one site that owners may scavenge."""

from __future__ import annotations

from math import inf

from wfrun.engine.capabilities.growing.malleability import SETTLE_S
from wfrun.engine.jobs.scavenging.idleness import (
    Occupancy,
    ScavengeRules,
    next_change_s,
    scavengeable,
)
from wfrun.engine.model import SiteSpec


class IdleSite:
    """The processors that other users' jobs leave idle at a site, as last observed.

    For each waiting job, as many processors as it requests are left free. If jobs still wait after
    ``settle_s``, the batch system cannot use these processors for them, for example because they
    are on several nodes. The number of processors that waiting jobs request is then left free in
    addition.
    """

    __slots__ = ("extra", "is_known", "late_until_s", "next_s", "queued", "rules", "running",
                 "settle_s", "slots", "unit")  # fmt: skip

    def __init__(self, spec: SiteSpec) -> None:
        self.rules = spec.scavenge or ScavengeRules()
        self.slots = spec.slots
        launchers = None if spec.access is None else spec.access.launchers
        self.unit = 1 if launchers is None else launchers.cores
        """Processors of each launcher."""
        poll_s = 0.0 if spec.access is None else spec.access.poll_min_s
        self.settle_s = max(SETTLE_S, 2 * poll_s)
        """Maximum time in seconds from the return of processors until the waiting job that gets
        them is observed to run."""
        self.running = self.queued = 0
        """Number of processors that other users' running jobs hold, and number that their waiting
        jobs request."""
        self.extra = 0
        """Number of processors left free for waiting jobs in addition to the number that they
        request."""
        self.next_s = inf
        """Time at which further processors are left free, as many as waiting jobs request;
        infinite: never."""
        self.late_until_s = -inf
        """No further launcher is requested before this time, since the last ones waited too long in
        the queue."""
        self.is_known = True
        """Whether this engine has observed the site, or has waited `scavenging.LOOK_S` for an
        observation."""

    def observe(self, running: int, queued: int, now_s: float) -> None:
        """Note the processors that other users' running jobs hold, and that their queued jobs
        request."""
        if not queued:
            self.extra, self.next_s = 0, inf
        elif queued != self.queued:
            self.extra = max(0, self.extra - max(0, self.queued - queued))
            self.next_s = now_s + self.settle_s
        self.running, self.queued, self.is_known = running, queued, True

    def advance(self, now_s: float) -> None:
        """Leave more processors free if jobs have waited for too long. Called before each
        decision."""
        if now_s >= self.next_s:
            self.extra = min(self.slots, self.extra + self.queued)
            self.next_s = now_s + self.settle_s if self.extra < self.slots else inf

    def processors(self, now_s: float) -> int:
        """Number of processors that owners may hold."""
        use = Occupancy(
            processors=self.slots, held=self.running, waited_for=self.queued + self.extra
        )
        return scavengeable(self.rules, use, now_s + self.rules.utc_offset_s)

    def launchers(self, now_s: float) -> int:
        """Number of launchers that owners may have."""
        return self.processors(now_s) // self.unit

    def changes_s(self, now_s: float) -> float:
        """Time at which `processors` or `launchers` next changes without an event; infinite:
        never."""
        local_s = now_s + self.rules.utc_offset_s
        return min(self.next_s, now_s + next_change_s(self.rules, local_s))
