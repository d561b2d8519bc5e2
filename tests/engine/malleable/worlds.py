"""Worlds of malleable jobs at real sites, and what must hold in each of them at every step."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.engine.claims import worlds as claims_worlds
from tests.engine.claims.worlds import SLOTS, sites_of
from tests.engine.malleable.claim_auditor import ClaimAuditor, Faults
from wfrun.engine import events as ev
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import LauncherRequest, claim_of
from wfrun.engine.model import Moldable, Resources, Task, Workflow
from wfrun.testing.fake_programs import ProgramPlan
from wfrun.testing.fake_world import FakeWorld


def jobs_of(*bounds: tuple[int, ...], runtime_s: float = 50.0, ppn: int | None = None) -> Workflow:
    """Jobs with these sizes; those with one are rigid."""
    tasks, moldable = [], {}
    for number, sizes in enumerate(bounds):
        asked = Resources(sizes[0], walltime_s=500.0, parallel=True)
        tasks.append(Task(f"j{number}", "j", "j", resources=asked, runtime_s=runtime_s))
        if len(sizes) > 1:
            moldable[number] = Moldable(sizes, (500.0,) * len(sizes), ppn, malleable=True)
    return Workflow("jobs", "jobs", tasks, [], [()] * len(tasks), moldable=moldable)


def any_size(least: int, most: int) -> tuple[int, ...]:
    return tuple(range(least, most + 1))


class RandomPrograms(Faults):
    """Programs that answer, leave or break the protocol, drawn from a seed."""

    def program(self, key: str) -> ProgramPlan:
        random = self._random("program", key)
        return ProgramPlan(
            random.choice([None, 0.0, 1.0, 1.0, 1.0, 5.0]),
            random.choice([0.0, 0.1, 1.0, 20.0]),
            random.choice([0, 1, 2, 100, 100]),
            random.choice([0] * 8 + [1, 3]),
            random.choice([0] * 8 + [1, 3]),
        )


class SizeAuditor(ClaimAuditor):
    """Checks the log of a run with malleable jobs, step by step."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world.catalog)
        self._threshold = world.core.state.settings.threshold
        self._running = [0] * len(self._slots)
        self._open: dict[str, int] = {}
        """Number of the open question, by claim."""
        self._grown: dict[str, tuple[int, LauncherRequest]] = {}
        """Placeholders that jobs grow by and that have not ended, with their sites."""
        self.counts: Counter[str] = Counter()

    def apply(self, event: ev.Event) -> None:
        super().apply(event)
        self.counts[type(event).__name__] += 1
        if isinstance(event, ev.SiteLoadObserved):
            self._running[event.site] = event.running_cores
        elif isinstance(event, ev.RunResumed):
            self._running = [0] * len(self._slots)  # sites report to a new engine what is not zero
        elif isinstance(event, ev.GrowthAsked):
            site = next(iter(self._parts[event.claim].values())).site
            self._grown.update({each.key: (site, each) for each in event.launchers})
            self._check_room(event, site)
        elif isinstance(event, (ev.GrowthOffered, ev.ShrinkAsked)):
            # The first question to an attempt that is submitted again, as after a crash.
            is_first = event.number == 1
            is_open = event.claim in self._open and not is_first
            self._require(event, not is_open, "one question at a time")
            self._open[event.claim] = event.number
        elif isinstance(event, ev.LauncherEnded):
            self._grown.pop(event.key, None)
        elif isinstance(event, ev.ClaimEnded):
            self._open.pop(event.key, None)
        elif isinstance(event, ev.JobResized):
            claims = {claim_of(key) for key in event.launchers}
            self._require(event, len(claims) < 2, "a job has processors of its claim alone")
            workflow, task = map(int, event.key.split(".")[-3:-1])
            claim = self._jobs.get((workflow, task), "")
            if event.number >= self._open.get(claim, 1 << 30):
                del self._open[claim]

    def _check_room(self, event: ev.Event, site: int) -> None:
        used = sum(p.launcher.cores for p in self._held.values() if p.site == site)
        used += sum(each.cores for where, each in self._grown.values() if where == site)
        room = self._slots[site] - self._threshold - self._running[site]
        self._require(event, used <= room, "growth leaves the threshold idle")


def facts_of(core: Core) -> object:
    """What a core knows of sizes, to compare a replayed one with one that lived."""
    found = core.state.get(Malleability)
    return (
        claims_worlds.facts_of(core),
        {
            key: (job.size, job.question, job.answered, job.has_joined, job.can_join, job.refused,
                  [part.request.key for part in job.spares], job.left)
            for key, job in found.jobs.items()
        },
        found.sizes,
    )  # fmt: skip


def random_world(seed: int) -> FakeWorld:
    """A world of malleable and rigid jobs, with local users and faults."""
    random = Random(f"sizes {seed}")
    bounds: list[tuple[int, ...]] = []
    for _ in range(random.randint(1, 6)):
        least = random.randint(1, 6)
        most = least + random.randint(1, 10)
        powers = tuple(1 << n for n in range(5) if least <= 1 << n)
        bounds.append(random.choice([any_size(least, most), powers, (least,)]) or (least,))
    settings = ev.Settings(
        "mlp", place="wf", malleable=random.choice(["egs", "fpsma"]),
        precedence=random.choice(["pra", "pwa"]), threshold=random.choice([0, 0, 3]),
        claim_wait_s=random.choice([5.0, 60.0]), retries=3, retry_delay_s=1.0,
    )  # fmt: skip
    world = FakeWorld(
        [jobs_of(*bounds, runtime_s=random.choice([0.0, 5.0, 50.0, 150.0]))],
        sites_of(*SLOTS),
        settings,
        behaviour=RandomPrograms(seed, random.choice([0.0, 0.1, 0.3])),
    )  # fmt: skip
    for _ in range(random.choice([0, 4, 12])):
        at_s, site = round(random.uniform(0, 150), 1), random.randrange(3)
        load = random.randint(0, SLOTS[site] // 2), random.choice([0, 1, 4, 20])
        world.post(at_s, ev.SiteLoadObserved(at_s, site, *load))
    for site in range(3):
        world.post(200.0, ev.SiteLoadObserved(200.0, site, 0, 0))
    return world
