"""Clusters and sweeps of tests of owners who scavenge, and what must hold in each of them."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.core.core import Core
from wfrun.engine.exchange import LauncherRequest, Outcome, claim_of
from wfrun.engine.jobs.scavenging.idleness import ScavengeRules
from wfrun.engine.model import Access, Catalog, LauncherSpec, Resources, SiteSpec, Task, Workflow
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakeWorld


def sites_of(*slots: int, unit: int = 1, rules: ScavengeRules | None = None) -> Catalog:
    """Clusters of these numbers of processors, with launchers of ``unit`` each."""
    launchers = LauncherSpec(unit, walltime_s=3600.0)
    return Catalog(
        tuple(
            SiteSpec(name, n, kind="slurm", scavenge=rules,
                     access=Access(dispatch="launchers", launchers=launchers))
            for name, n in zip(["alpha", "beta", "gamma"], slots, strict=False)
        )
    )  # fmt: skip


def sweep_of(owner: str, tasks: int, runtime_s: float = 50.0, cores: int = 1) -> Workflow:
    asked = Resources(cores)
    made = [Task(f"t{n}", "t", "t", resources=asked, runtime_s=runtime_s) for n in range(tasks)]
    return Workflow(owner, owner, made, [], [()] * tasks, owner=owner)


def load(site: int, at_s: float, running: int, queued: int = 0) -> ev.SiteLoadObserved:
    return ev.SiteLoadObserved(at_s, site, running, queued)


class Audit:
    """Checks the log of a run of owners who scavenge, event by event."""

    def __init__(self, world: FakeWorld) -> None:
        self._slots = [site.slots for site in world.catalog.sites]
        self._load = [(0, 0)] * len(self._slots)
        self._kept: dict[str, tuple[int, LauncherRequest]] = {}
        """Launchers that have neither ended nor been stopped."""
        self._claims: dict[str, str] = {}
        """By attempt: the claim of its owner."""
        self._owners: list[str] = []
        self._names: dict[int, str] = {}
        self.done: Counter[tuple[int, int]] = Counter()
        self.counts: Counter[str] = Counter()
        self.division: ev.ProcessorsShared | None = None

    def apply(self, event: ev.Event, world: FakeWorld) -> None:
        self.counts[type(event).__name__] += 1
        if isinstance(event, ev.WorkflowAdded):
            name = world.documents[event.digest].owner
            self._names[event.workflow] = name
            if name not in self._owners:
                self._owners.append(name)
        elif isinstance(event, ev.SiteLoadObserved):
            self._load[event.site] = event.running_cores, event.queued_cores
        elif isinstance(event, ev.RunResumed):
            self._load = [(0, 0)] * len(self._slots)
        elif isinstance(event, ev.ProcessorsShared):
            self.division = event
            for site, count in enumerate(event.idle):
                assert sum(row[site] for row in event.held) <= count
        elif isinstance(event, ev.LaunchersAsked):
            self._kept.update({each.key: (event.site, each) for each in event.launchers})
            running, queued = self._load[event.site]
            kept = sum(each.cores for site, each in self._kept.values() if site == event.site)
            assert kept + running <= self._slots[event.site], event
            assert not queued, f"{event}: others wait"
        elif isinstance(event, ev.LaunchersStopped):
            assert event.now is (event.cause != "unneeded")
            self.counts[event.cause] += len(event.keys)
            for key in event.keys:
                del self._kept[key]
        elif isinstance(event, ev.LauncherEnded):
            self._kept.pop(event.key, None)
        elif isinstance(event, ev.AttemptPlaced):
            owner = self._owners.index(self._names[event.workflow])
            self._claims[event.key] = f"w.C{owner + 1}"
        elif isinstance(event, ev.AttemptStarted):
            assert claim_of(event.launcher) == self._claims[event.key], event
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            workflow, task = map(int, event.key.split(".")[-3:-1])
            self.done[workflow, task] += 1


def run_through(world: FakeWorld, crashes: tuple[int, ...] = ()) -> Audit:
    """Run a world to its end, with a new engine after these numbers of steps."""
    audit, seen = Audit(world), 0
    for steps, _ in enumerate(world.steps()):
        assert steps < 50_000, "the run does not end"
        for each in world.log[seen:]:
            audit.apply(each, world)
        seen = len(world.log)
        if steps in crashes and world.core.state.ended is None:
            lived = facts_of(world.core)
            world.crash(away_s=Random(steps).choice([0.0, 5.0]))
            assert facts_of(world.core) == lived
    return audit


def facts_of(core: Core) -> object:
    """What a core knows of shares, to compare a replayed one with one that lived."""
    found = core.state.get(Scavenging)
    found.owners.refresh()
    return (
        found.division,
        found.reclaims,
        [
            [(sorted(h.launchers), sorted(h.attempts), h.committed, h.live_slots, h.coming_slots)
             for h in row]
            for row in found.held
        ],
        [(idle.running, idle.queued, idle.late_until_s) for idle in found.idle],
        found.owners.admitted(),
    )  # fmt: skip


class RandomSites(Behaviour):
    """Launchers that wait, die and are refused, and orders that are late, drawn from a seed."""

    def __init__(self, seed: int, rate: float) -> None:
        self._seed, self._rate = seed, rate

    def _random(self, *what: object) -> Random:
        return Random(f"{self._seed} {what}")

    def report_delay_s(self, key: str) -> float:
        return self._random("report", key).choice([0.0, 0.0, 0.5])

    def cancel_s(self, key: str) -> float:
        return self._random("cancel", key).choice([0.0, 0.3, 2.0])

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        return self._random("keeps", key, crash).random() > self._rate

    def outcome(self, key: str, site: int) -> Outcome | None:
        if self._random("outcome", key).random() < self._rate / 4:
            return Outcome("node", message="a fault of the test")
        return None

    def launcher(self, key: str) -> LauncherPlan:
        random = self._random("launcher", key)
        wait_s = random.choice([0.0, 1.0, 1.0, 5.0])
        # Sites where too many fail in a row are closed for good.
        if random.random() < self._rate and int(key.rpartition(".")[2]) <= 8:
            return LauncherPlan(
                wait_s=random.choice([wait_s, 100.0]), dies_s=random.choice([1, 30])
            )
        return LauncherPlan(wait_s=wait_s, drains_s=random.choice([None, 20.0]))


def random_world(seed: int) -> FakeWorld:
    """A world of owners, with local users and faults."""
    random = Random(f"scavenging {seed}")
    unit = random.choice([1, 1, 2, 4])
    slots = [random.randint(1, 4) * 4 for _ in range(random.randint(1, 3))]
    catalog = sites_of(
        *slots, unit=unit, rules=random.choice([None, ScavengeRules(idle_share=0.2)])
    )
    if random.random() < 0.3:  # short launchers
        catalog = msgspec.structs.replace(catalog, sites=tuple(map(_shorter, catalog.sites)))
    names = random.sample(["ann", "bea", "cho", "dan"], random.randint(1, 4))
    workflows = [
        sweep_of(random.choice(names), random.randint(1, 40), random.choice([0.0, 5.0, 20.0]),
                 random.choice([1, unit]))
        for _ in range(random.randint(1, 5))
    ]  # fmt: skip
    settings = ev.Settings(
        scavenge=random.choice(["persite", "all"]),
        most_scavengers=random.choice([None, None, 1, 2]),
        throttle=random.choice([None, None, 3]), retries=20, retry_delay_s=1.0,
    )  # fmt: skip
    world = FakeWorld(
        workflows, catalog, settings,
        behaviour=RandomSites(seed, random.choice([0.0, 0.1, 0.3])),
        arrive_s=sorted(random.choice([0.0, 0.0, 30.0, 60.0]) for _ in workflows),
    )  # fmt: skip
    for _ in range(random.choice([0, 4, 12])):
        at_s, site = round(random.uniform(0, 150), 1), random.randrange(len(slots))
        running = random.randint(0, slots[site])
        world.post(at_s, load(site, at_s, running, random.choice([0, 0, 1, 4, 20])))
    for site in range(len(slots)):
        world.post(200.0, load(site, 200.0, 0))
    return world


def _shorter(site: SiteSpec) -> SiteSpec:
    assert site.access is not None
    assert site.access.launchers is not None
    launchers = msgspec.structs.replace(site.access.launchers, walltime_s=60.0)
    access = msgspec.structs.replace(site.access, launchers=launchers)
    return msgspec.structs.replace(site, access=access)
