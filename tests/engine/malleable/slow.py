"""Chapter 3 of the thesis, written one processor and one second at a time from its text."""

from __future__ import annotations

from dataclasses import dataclass

from wfrun.engine.jobs.malleable.simulation import Rules, ScaledJob


def shares_to_grow(jobs: int, idle: int) -> list[int]:
    """Deal processors like cards, the earliest started job first."""
    shares = [0] * jobs
    for card in range(idle if jobs else 0):
        shares[card % jobs] += 1
    return shares


def shares_to_shrink(can_give: list[int], needed: int) -> list[int]:
    """Collect one processor from each that has one, the latest started job first, until enough."""
    shares = [0] * len(can_give)
    while needed and shares != can_give:
        for n in reversed(range(len(can_give))):
            if needed and shares[n] < can_give[n]:
                shares[n] += 1
                needed -= 1
    return shares


@dataclass
class Slow:
    number: int
    job: ScaledJob
    size: int = 0
    site: int = -1
    left: float = 1.0
    started: int = -1


def accepted(job: ScaledJob, processors: int) -> int:
    """The largest accepted size."""
    sizes = range(job.bounds.least, job.bounds.most + 1)
    powers = {1 << n for n in range(12)}
    usable = [n for n in sizes if n <= processors and (job.shape == "any" or n in powers)]
    return max(usable, default=job.bounds.least)


class SlowSimulation:
    """Jobs whose run times and arrivals are whole seconds on a clock of one second. Returns the
    sizes of all jobs at each second until the last has ended."""

    def __init__(self, jobs: list[ScaledJob], processors: list[int], rules: Rules) -> None:
        self.idle = list(processors)
        self.rules = rules
        self.coming = [Slow(n, job) for n, job in enumerate(jobs)]
        self.queue: list[Slow] = []
        self.running: list[Slow] = []

    def run(self, limit_s: int) -> list[dict[int, int]]:
        history: list[dict[int, int]] = []
        for now_s in range(limit_s):
            events = False
            for one in list(self.running):
                one.left -= 1 / one.job.run_time_s(one.size) if now_s else 0
                if one.left < 1e-9:
                    self.idle[one.site] += one.size
                    self.running.remove(one)
                    events = True
            for one in list(self.coming):
                if one.job.arrival_s == now_s:
                    self.coming.remove(one)
                    self.queue.append(one)
                    events = True
            if events:
                self.one_pass()
            if not (self.coming or self.queue or self.running):
                return history
            history.append({one.number: one.size for one in self.running})
        raise AssertionError("not done")

    def one_pass(self) -> None:
        if self.rules.precedence == "pra":
            self.grow()
            self.place()
            return
        self.place()
        while self.queue and self.make_room():
            self.place()
        self.grow()

    def place(self) -> None:
        for one in list(self.queue):
            best = max(range(len(self.idle)), key=lambda s: (self.idle[s], -s))
            if self.idle[best] >= one.job.bounds.least:
                self.queue.remove(one)
                one.size, one.site = one.job.bounds.least, best
                self.idle[best] -= one.size
                self.running.append(one)

    def malleable(self, site: int) -> list[Slow]:
        return [
            o for o in self.running if o.site == site and o.job.bounds.least < o.job.bounds.most
        ]

    def grow(self) -> None:
        for site in range(len(self.idle)):
            here = self.malleable(site)
            spare = max(0, self.idle[site] - self.rules.threshold)
            shares = shares_to_grow(len(here), spare)
            for place, one in enumerate(here):
                offer = shares[place] if self.rules.policy == "egs" else spare
                before = one.size
                one.size = max(before, accepted(one.job, before + offer))
                self.idle[site] -= one.size - before
                spare -= one.size - before

    def make_room(self) -> bool:
        needed = self.queue[0].job.bounds.least
        found = None
        for site, idle in enumerate(self.idle):
            room = sum(o.size - o.job.bounds.least for o in self.malleable(site))
            if idle + room >= needed and (found is None or idle > self.idle[found]):
                found = site
        if found is None:
            return False
        here = self.malleable(found)
        missing = needed - self.idle[found]
        shares = shares_to_shrink([o.size - o.job.bounds.least for o in here], missing)
        for place in reversed(range(len(here))):
            one = here[place]
            spare = one.size - one.job.bounds.least
            ask = shares[place] if self.rules.policy == "egs" else max(0, min(missing, spare))
            if ask:
                after = accepted(one.job, one.size - ask)
                self.idle[found] += one.size - after
                missing -= one.size - after
                one.size = after
        return True
