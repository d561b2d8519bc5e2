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
"""When policies are initiated, by name."""


class SizeBounds(NamedTuple):
    """The processors that a job needs and can use. A rigid job has equal bounds."""

    least: int
    most: int


class Resized(NamedTuple):
    """A job was placed, has grown or has shrunk."""

    job: int
    site: int
    before: int
    """Size before the change; 0: it was placed."""
    after: int
    asked: int
    """Processors offered, reclaimed or, at its placement, needed."""


Reply = Callable[[int, int, int], int]
"""Callback that returns the new size of a job, from its number, its present size, and the change
that is asked of it in processors (negative: a shrink)."""


@dataclass
class MalleableSite:
    """The processors of one site."""

    idle: int
    running: dict[int, int] = field(default_factory=dict)
    """Sizes of the malleable jobs, in the order of their start."""


class Manager:
    """Places jobs by Worst Fit with their minimum sizes, in the order of their submission, and
    keeps the sizes of running ones.

    The manager does nothing between passes, so that the caller says when it polls. With precedence
    to running jobs, one that a pass places can grow in the next pass. Jobs that do not fit are
    passed by later ones that do: the thesis scans the whole queue.

    ``threshold``: processors of each site that growth leaves to local users; placement may use
    them. ``returned_first`` offers what jobs refuse again within the pass.
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
        """Site of each running job, and its size when it is rigid."""

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
        """Give the processors of a running job back."""
        size = self.size(job)
        site = self.sites[self._where.pop(job)[0]]
        site.running.pop(job, None)
        site.idle += size
        del self._bounds[job]

    def observe(self, site: int, change: int) -> list[Resized]:
        """Note that local users took (negative ``change``) or gave back processors. When they take
        more than are idle, grown processors are given back immediately. If jobs at their minimum
        sizes cannot give enough, the site has a negative number of idle processors until jobs end.
        (This is ours; the thesis polls.)"""
        here = self.sites[site]
        here.idle += change
        return self._shrink(site, -here.idle) if here.idle < 0 else []

    def run_pass(self) -> list[Resized]:
        """Place, grow and shrink what can be now."""
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
        """Shrink jobs for the first job that waits, at the site where this reclaims the fewest
        processors. Shrinks none if no site has enough above the minimum sizes."""
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
        """Change the size of a job as far as it agrees, and return the change. An answer that is
        not allowed counts as the nearest one that is."""
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
