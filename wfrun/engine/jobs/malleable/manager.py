"""The malleability manager: when jobs are placed, grown and shrunk (thesis section 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wfrun.engine.jobs.coallocation.policies import worst_fit
from wfrun.engine.jobs.malleable.policies import (
    POLICIES,
    Change,
    SizedJob,
    grow,
    reclaimable,
    shrink,
)

PRECEDENCES = {
    "pra": "precedence to running applications: waiting jobs are placed when none can grow",
    "pwa": "precedence to waiting applications: running jobs are shrunk for the first waiting one",
}
"""Descriptions of the precedences between running and waiting jobs, by name."""


class SizeBounds(NamedTuple):
    """The processors that a job needs and can use. A rigid job has equal bounds."""

    least: int
    most: int


class Resized(NamedTuple):
    """A change of the size of a job: a placement, a growth or a shrink."""

    job: int
    site: int
    before: int
    """Size before the change; 0 for a placement."""
    after: int
    asked: int
    """Number of processors offered (growth), reclaimed (shrink) or needed (placement)."""


Reply = Callable[[int, int, int], int]
"""Callback that returns the new size of a job. Arguments: number of the job, its present size, and
the requested change in processors (negative: a shrink)."""


@dataclass
class MalleableSite:
    """The processors of one site."""

    idle: int
    running: dict[int, int] = field(default_factory=dict)
    """Sizes of the malleable jobs, in the order of their start."""


class Manager:
    """Places jobs by Worst Fit with their minimum sizes, in the order of their submission, and
    grows and shrinks running jobs.

    The manager places and grows jobs in `run_pass` only; the caller decides when. With precedence
    to running jobs, a job cannot grow in the pass that places it. A waiting job that does not fit
    does not hold up later jobs: the thesis scans the whole queue.

    ``threshold``: processors of each site that growth leaves to local users; placement may use
    them. ``returned_first``: whether processors that jobs refuse are offered again in the same
    pass. Raises ValueError for an unknown policy or precedence.
    """

    def __init__(
        self,
        idle: Sequence[int],
        policy: str,
        precedence: str,
        reply: Reply,
        threshold: int = 0,
        returned_first: bool = False,
    ) -> None:
        if policy not in POLICIES or precedence not in PRECEDENCES:
            raise ValueError(f"no policy {policy} with precedence {precedence}")
        self.sites = [MalleableSite(count) for count in idle]
        self.policy = policy
        self.precedence = precedence
        self.threshold = threshold
        self.waiting: dict[int, SizeBounds] = {}
        self._reply = reply
        self._returned_first = returned_first
        self._bounds: dict[int, SizeBounds] = {}
        self._where: dict[int, tuple[int, int]] = {}
        """By running job: its site, and its minimum size, which is the size of a rigid job."""

    def submit(self, job: int, bounds: SizeBounds) -> None:
        """Add a job at the tail of the queue. Raises ValueError for invalid bounds."""
        if not 1 <= bounds.least <= bounds.most:
            raise ValueError(f"a job from {bounds.least} to {bounds.most} processors")
        self.waiting[job] = bounds

    def size(self, job: int) -> int:
        """Present size of a running job."""
        site, size = self._where[job]
        return self.sites[site].running.get(job, size)

    def end(self, job: int) -> None:
        """Remove a running job that has ended; its processors become idle."""
        size = self.size(job)
        site = self.sites[self._where.pop(job)[0]]
        site.running.pop(job, None)
        site.idle += size
        del self._bounds[job]

    def observe(self, site: int, change: int) -> list[Resized]:
        """Add ``change`` to the idle processors of a site: negative if local users have taken
        processors, positive if they have given some back. If they take more than are idle,
        malleable jobs shrink immediately; returns these shrinks. If the minimum sizes do not allow
        enough, the number of idle processors is negative until jobs end. (The thesis polls
        instead.)"""
        here = self.sites[site]
        here.idle += change
        return self._shrink(site, -here.idle) if here.idle < 0 else []

    def run_pass(self) -> list[Resized]:
        """Place, grow and shrink jobs as far as possible now; returns the changes in order."""
        if self.precedence == "pra":
            return self._grow_all() + self._scan()
        changes = self._scan()
        while self.waiting and (shrunk := self._make_room()):
            changes += shrunk + self._scan()
        return changes + self._grow_all()

    def _scan(self) -> list[Resized]:
        """Place each waiting job that fits."""
        placed = []
        idle = [site.idle for site in self.sites]
        known: set[int] = set()
        for job, bounds in list(self.waiting.items()):
            if bounds.least in known:
                continue
            found = worst_fit([bounds.least], idle)
            if found is None:
                known.add(bounds.least)
                continue
            ((site, size),) = found
            idle[site] -= size
            placed.append(self._place(job, site))
        return placed

    def _place(self, job: int, site: int) -> Resized:
        bounds = self._bounds[job] = self.waiting.pop(job)
        here = self.sites[site]
        here.idle -= bounds.least
        if bounds.most > bounds.least:
            here.running[job] = bounds.least
        self._where[job] = site, bounds.least
        return Resized(job, site, 0, bounds.least, bounds.least)

    def _make_room(self) -> list[Resized]:
        """Shrink running jobs to make room for the first waiting job, at the site where the fewest
        processors have to be reclaimed. Shrinks no job if the minimum sizes leave no site enough
        room."""
        needed = next(iter(self.waiting.values())).least
        rooms = [
            (needed - here.idle, site) for site, here in enumerate(self.sites)
            if here.idle + reclaimable(self._sized(here)) >= needed
        ]  # fmt: skip
        if not rooms:
            return []
        missing, site = min(rooms)
        return self._shrink(site, missing)

    def _sized(self, site: MalleableSite) -> list[SizedJob]:
        return [SizedJob(size, *self._bounds[job]) for job, size in site.running.items()]

    def _grow_all(self) -> list[Resized]:
        changes: list[Resized] = []
        for number, site in enumerate(self.sites):
            while site.running and site.idle > self.threshold:
                grown = self._grow(number)
                changes += grown
                if not grown or not self._returned_first:
                    break
        return changes

    def _grow(self, site: int) -> list[Resized]:
        jobs = list(self.sites[site].running)
        changes: list[Resized] = []

        def answer(offer: Change) -> int:
            return self._resize(site, jobs[offer.place], offer.processors, changes)

        grow(self.policy, len(jobs), self.sites[site].idle - self.threshold, answer)
        return changes

    def _shrink(self, site: int, needed: int) -> list[Resized]:
        jobs = list(self.sites[site].running)
        changes: list[Resized] = []

        def answer(demand: Change) -> int:
            return -self._resize(site, jobs[demand.place], -demand.processors, changes)

        shrink(self.policy, self._sized(self.sites[site]), needed, answer)
        return changes

    def _resize(self, site: int, job: int, change: int, changes: list[Resized]) -> int:
        """Request a change of the size of a job, apply the job's answer, and return the actual
        change. An answer outside of the allowed range counts as the nearest allowed size."""
        here = self.sites[site]
        before = here.running[job]
        bounds = self._bounds[job]
        low = before if change > 0 else bounds.least
        high = min(before + change, bounds.most) if change > 0 else before + change
        after = max(low, min(self._reply(job, before, change), high))
        here.running[job] = after
        here.idle -= after - before
        if after != before:
            changes.append(Resized(job, site, before, after, abs(change)))
        return after - before
