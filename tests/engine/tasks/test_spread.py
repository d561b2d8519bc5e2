"""Bags of short tasks are spread over the sites, in virtual time: no site gets more than it can
start soon, and what waits where others are idle is taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.withdrawals import MAX_ANSWER_S
from wfrun.engine.core.state import Phase
from wfrun.engine.explain.idleness import explain_idleness
from wfrun.engine.fitting.information import Information, K
from wfrun.engine.model import (
    Access,
    Axis,
    Bag,
    Catalog,
    Progression,
    Resources,
    SiteSpec,
    Workflow,
)
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.tasks.bag import expand
from wfrun.engine.tasks.prefetch import MIN_WAIT_RATIO
from wfrun.testing.fake_sites import Behaviour
from wfrun.testing.fake_world import FakeWorld

CLUSTER = Access(("head",))


def cluster(name: str, slots: int, kind: str = "slurm") -> SiteSpec:
    return SiteSpec(name, slots, kind=kind, access=CLUSTER)


FOUR = (
    cluster("alpha", 16),
    cluster("beta", 16),
    cluster("gamma", 8, "grid-engine"),
    cluster("delta", 2, "ssh"),
)
LATENCIES_S = (1.0, 1.5, 2.5, 0.1)


def bag_of(count: int) -> Workflow:
    return expand(Bag("b", "b", "x", axes=(Axis(("i",), (Progression(0, 1, count),)),)))


class Latency(Behaviour):
    """Reports of each site take its latency. So do withdrawals."""

    reports_times = True

    def __init__(self, latencies_s: tuple[float, ...]) -> None:
        self._latencies_s = latencies_s
        self.site: dict[str, int] = {}

    def report_delay_s(self, key: str) -> float:
        return self._latencies_s[self.site[key]]

    def cancel_s(self, key: str) -> float:
        return self._latencies_s[self.site[key]]


class World:
    """A bag on sites with latencies. ``stuck`` maps sites to the time until which other users'
    jobs, which nobody observes, keep the queue from starting anything."""

    def __init__(
        self,
        durations_s: list[float],
        *,
        sites: tuple[SiteSpec, ...] = FOUR,
        latencies_s: tuple[float, ...] = LATENCIES_S,
        policy: str = "file-aware",
        stuck: Mapping[int, float] | None = None,
    ) -> None:
        behaviour = Latency(latencies_s)
        self.sites = sites
        self.world = FakeWorld(
            [bag_of(len(durations_s))],
            Catalog(sites),
            ev.Settings(policy, selection="s-bot", replicas=0),
            runtime_s=lambda workflow, task, site: durations_s[task],
            behaviour=behaviour,
        )
        self._site = behaviour.site
        self._stuck = dict(stuck or {})
        self.idle_while_others_wait_s = 0.0
        """The longest time for which a site was idle while attempts waited at another one."""
        self.withdrawn: Counter[int] = Counter()
        """Number of withdrawals, by task."""
        self.reasons: set[str] = set()
        """Reasons that users read for the idleness of sites from which tasks were withdrawn."""

    def run(self) -> float:
        """Run to the end; returns the makespan."""
        world = self.world
        for site, until_s in self._stuck.items():
            self._block(site, until_s)
        place = world.core.place
        site_of = self._site

        def noted(w, task, site, allowed):  # type: ignore[no-untyped-def]
            site_of[f"w.{w.index}.{task}.{w.attempts_of[task] + 1}"] = site
            place(w, task, site, allowed)

        world.core.place = noted  # type: ignore[method-assign]
        since_s: float | None = None
        for _ in world.steps():
            if not self._is_unbalanced():
                since_s = None
            elif since_s is None:
                since_s = world.now_s
            else:
                lasted_s = world.now_s - since_s
                self.idle_while_others_wait_s = max(lasted_s, self.idle_while_others_wait_s)
            for reason in explain_idleness(world.core.state)[:1]:
                if reason is not None and "taken back" in reason.text:
                    self.reasons.add(reason.text)
        assert world.core.state.ended == "done"
        for decision in world.log:
            if isinstance(decision, ev.AttemptsWithdrawn):
                self.withdrawn.update(int(key.split(".")[2]) for key in decision.keys)
        return world.now_s

    def _block(self, site: int, until_s: float) -> None:
        queue = self.world._sites[site]
        slots, queue._free = queue._free, 0

        def free() -> None:
            queue._free += slots
            queue.start_waiting()

        self.world.at(until_s, free)

    def _is_unbalanced(self) -> bool:
        """Whether a site has idle slots while attempts wait behind others, or for a queue that does
        not start them."""
        state = self.world.core.state
        idle = {i for i, s in enumerate(state.sites) if s.committed_cores < s.slots} - set(
            self._stuck
        )
        waiting = {
            attempt.site
            for attempt in state.attempts.values()
            if attempt.phase is Phase.QUEUED
            and not attempt.withdrawn
            and (
                state.sites[attempt.site].committed_cores > self.sites[attempt.site].slots
                or attempt.site in self._stuck
            )
        }
        return any(waiting - {site} for site in idle)

    @property
    def done(self) -> list[int]:
        return [site.done for site in self.world.core.state.sites]


def short_tasks(count: int = 500, least: float = 0.1, most: float = 2.0) -> list[float]:
    random = Random(1)
    return [random.uniform(least, most) for _ in range(count)]


def best_split_s(durations_s: list[float]) -> float:
    """Lower bound of the makespan of a static split: all slots are busy from the start to the end,
    which is known at each site after its latency."""
    slots = sum(site.slots for site in FOUR)
    late_s = sum(s.slots * t for s, t in zip(FOUR, LATENCIES_S, strict=True))
    return (sum(durations_s) + late_s) / slots


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "count", "least", "most"),
    [
        ("file-aware", 500, 0.1, 2.0),
        ("all-clusters", 500, 0.1, 2.0),
        ("cluster-min", 500, 0.1, 2.0),
        ("rr", 500, 0.1, 2.0),
        ("file-aware", 3000, 0.2, 0.2),
        ("rr", 4000, 0.2, 0.2),
        ("file-aware", 500, 5.0, 60.0),
        ("rr", 500, 5.0, 60.0),
    ],
)
def test_a_bag_takes_little_longer_than_its_best_static_split(
    policy: str, count: int, least: float, most: float
) -> None:
    durations_s = short_tasks(count, least, most)
    world = World(durations_s, policy=policy)
    # In a static split the last task of a site may begin as late as any.
    assert world.run() <= 1.3 * (best_split_s(durations_s) + most)


def test_the_first_ends_do_not_fill_one_site() -> None:
    """413 of 500 tasks were placed at one site in the instant after the fourth end."""
    world = World(short_tasks())
    world.run()
    committed = Counter[int]()
    most = Counter[int]()
    site_of = {e.key: e.site for e in world.world.log if isinstance(e, ev.AttemptPlaced)}
    for event in world.world.log:
        if isinstance(event, ev.AttemptPlaced):
            committed[event.site] += 1
            most[event.site] = max(most[event.site], committed[event.site])
        elif isinstance(event, ev.AttemptEnded):
            committed[site_of[event.key]] -= 1
    for index, (spec, latency_s) in enumerate(zip(FOUR, LATENCIES_S, strict=True)):
        assert most[index] <= max(2, 2 + 2 * latency_s) * spec.slots
    ideal = [500 * site.slots / 42 for site in FOUR]
    assert all(abs(a - b) <= 0.35 * b for a, b in zip(world.done, ideal, strict=True)), world.done


class Favourite(BasePlacement):
    """A policy of a user's own: the fastest site that is a candidate, always."""

    name = "favourite"
    information = Information(processing_speed=K)
    summary = "the fastest site"

    def place(self, task: int) -> int | None:
        return max(self.view.candidates(task), key=self.view.speed_ratio)


def test_a_policy_that_favours_one_site_leaves_no_other_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PLACEMENT, Favourite.name, Favourite)
    durations_s = short_tasks()
    world = World(durations_s, policy=Favourite.name)
    assert world.run() <= 1.3 * (best_split_s(durations_s) + 2.0)
    assert min(world.done) >= 15


def test_nothing_waits_for_long_behind_others_while_a_site_is_idle() -> None:
    """The last tasks at the slow site are long, and wait behind long ones."""
    durations_s = [2.0] * 60 + [50.0] * 40
    sites, latencies_s = (cluster("slow", 8), cluster("quick", 8)), (8.0, 0.5)
    world = World(durations_s, sites=sites, latencies_s=latencies_s)
    world.run()
    longest_s = MIN_WAIT_RATIO * (MAX_ANSWER_S + 8.0) + 8.0
    assert world.idle_while_others_wait_s <= longest_s
    assert world.withdrawn


def test_tasks_leave_a_queue_that_does_not_start_them() -> None:
    sites, latencies_s = (cluster("stuck", 8), cluster("moves", 8)), (0.5, 0.5)
    world = World(
        [5.0] * 40, sites=sites, latencies_s=latencies_s, stuck={0: 1e5}, policy="round-robin"
    )
    assert world.run() <= 100
    assert world.done == [0, 40]
    assert world.withdrawn
    assert world.reasons == {"its queue started nothing, and its tasks were taken back"}


def test_a_queue_that_moves_again_gets_tasks_again() -> None:
    sites, latencies_s = (cluster("stuck", 8), cluster("moves", 2)), (0.5, 0.5)
    world = World([10.0] * 200, sites=sites, latencies_s=latencies_s, stuck={0: 300.0})
    world.run()
    assert world.done[0] > 100


def test_tasks_are_rarely_moved_between_queues_that_do_not_start_them() -> None:
    """Each move in vain doubles the time until the next one from that site."""
    sites = (cluster("a", 8), cluster("b", 8))
    world = World(
        [1.0] * 12, sites=sites, latencies_s=(0.5, 0.5), stuck={0: 1e4, 1: 1.1e4}
    )  # fmt: skip
    world.run()
    assert max(world.withdrawn.values(), default=0) <= 10


def test_a_policy_that_estimates_queues_is_not_overruled() -> None:
    """ECT lets tasks wait at a fast site where they end sooner than at an idle slow one."""
    fast, slow = SiteSpec("fast", 2, speed_ratio=10.0), SiteSpec("slow", 2)
    bag = expand(Bag("b", "b", "x", axes=(Axis(("i",), (Progression(0, 1, 4),)),), estimate="100"))
    settings = ev.Settings("ect", selection="s-bot", replicas=0)
    world = FakeWorld([bag], Catalog((fast, slow)), settings)
    assert world.run() == "done"
    assert [site.done for site in world.core.state.sites] == [4, 0]
    assert not any(isinstance(event, ev.AttemptsWithdrawn) for event in world.log)


def test_a_policy_that_wants_one_site_alone_gets_it_although_others_hold_its_cores() -> None:
    """Single Cluster stays at the second site, where others have taken a core that the rest of the
    tasks needs. The run ended: "places none of the eligible tasks"."""
    axes = (Axis(("i",), (Progression(0, 1, 3),)),)
    bag = expand(Bag("b", "b", "x", axes=axes, resources=Resources(cores=2)))
    world = FakeWorld(
        [bag],
        Catalog((SiteSpec("first", 2), SiteSpec("second", 2))),
        ev.Settings("single-cluster", selection="s-bot"),
        arrive_s=(1.0,),
        runtime_s=lambda workflow, task, site: 10.0,
    )
    one, two = (tuple(ev.BackgroundJob(str(n), 1, 0.0) for n in range(count)) for count in (1, 2))
    world.post(0.0, ev.SiteObserved(0.0, 0, two))
    world.post(5.0, ev.SiteObserved(5.0, 0, ()))
    world.post(5.0, ev.SiteObserved(5.0, 1, one))
    assert world.run() == "done"
    assert [site.done for site in world.core.state.sites] == [0, 3]


class Keeping(Behaviour):
    """Sites keep everything when the engine dies."""

    def keeps(self, key: str, crash: int, *, started: bool) -> bool:
        return True


def test_a_site_that_is_added_by_a_resume_gets_what_waits_elsewhere() -> None:
    sites = (SiteSpec("stuck", 8), SiteSpec("added", 8))
    settings = ev.Settings("round-robin", selection="s-bot")
    world = FakeWorld([bag_of(8)], Catalog(sites[:1]), settings, behaviour=Keeping(),
                      runtime_s=lambda workflow, task, site: 10.0)  # fmt: skip
    world._sites[0]._free = 0
    steps = world.steps()
    while not isinstance(next(steps), ev.AttemptsSubmitted):
        pass
    world.crash()
    world.change(ev.RunChanged(0.0, settings, sites, (), ()))
    assert world.run() == "done"
    assert [site.done for site in world.core.state.sites] == [0, 8]
    assert world.now_s <= 60
