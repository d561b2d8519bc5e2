"""Simulated sites pass the suite that every site passes, and behave as their model says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.sites.rig import Rig, VirtualProbe, other, task
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import AttemptRequest, LauncherRequest
from wfrun.engine.model import NodeGroup, SiteSpec
from wfrun.engine.protocols import LauncherSite
from wfrun.runners.run.clock import VirtualClock
from wfrun.sites.simulated.launchers import SimulatedLauncherSite
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.site import SimulatedSite
from wfrun.testing.any_site import AnySiteConformance

SCALE = 100.0
"""The suite's tasks take fractions of a second, which queues with reservations round up."""


class Simulated(AnySiteConformance):
    model: SiteModel

    def nodes(self, slots: int) -> tuple[NodeGroup, ...]:
        return ()

    def make(self, directory: Path, slots: int) -> SimulatedSite:
        self.clock = VirtualClock()
        spec = SiteSpec("there", slots, nodes=self.nodes(slots))
        return SimulatedSite(spec, 0, self.clock, self.model)

    def make_probe(self) -> VirtualProbe:
        return VirtualProbe(self.clock)

    def task(
        self,
        key: str,
        takes_s: float,
        *,
        exit_code: int = 0,
        cores: int = 1,
        walltime_s: float | None = None,
    ) -> AttemptRequest:
        asked_s = None if walltime_s is None else walltime_s * SCALE
        return task(key, takes_s * SCALE, exit_code=exit_code, cores=cores, walltime_s=asked_s)


class TestFcfs(Simulated):
    model = SiteModel(lrm="fcfs")


class TestEasy(Simulated):
    model = SiteModel(lrm="easy")


class TestConservative(Simulated):
    model = SiteModel(lrm="conservative")


class OnNodes(Simulated):
    def nodes(self, slots: int) -> tuple[NodeGroup, ...]:
        """One of a core, and the others of two, so that wide tasks span nodes."""
        return (NodeGroup(slots % 2, 1), NodeGroup(slots // 2, 2))[1 - slots % 2 : slots]


class TestFcfsOnNodes(OnNodes):
    model = SiteModel(lrm="fcfs")


class TestEasyOnNodes(OnNodes):
    model = SiteModel(lrm="easy")


class TestConservativeOnNodes(OnNodes):
    model = SiteModel(lrm="conservative")


class TestThroughASlowHeadNode(Simulated):
    """What is cancelled or asked for may still be on its way to the queue."""

    model = SiteModel(submit_s=0.01, overload_jobs=10, poll_s=0.05)


class WithLauncher(SimulatedLauncherSite):
    """With the one launcher that a core would have asked for."""

    async def open(self, post: Callable[[ev.Event], None]) -> None:
        await super().open(post)
        request = LauncherRequest("x.L0.1", 1, self.spec.slots, 0, 0, 1e6)
        await self.start_launchers([request])


class TestInALauncher(Simulated):
    model = SiteModel()

    def make(self, directory: Path, slots: int) -> SimulatedSite:
        self.clock = VirtualClock()
        site: LauncherSite = WithLauncher(SiteSpec("there", slots), 0, self.clock, self.model)
        return cast(SimulatedSite, site)


# -- one site and its events


@pytest.mark.parametrize(
    ("lrm", "expected"),
    [
        # 4 slots: a and b run, wide waits for both, short would fit beside a until wide starts
        ("fcfs", {"a": 0, "b": 0, "wide": 10, "short": 15, "long": 15}),
        ("easy", {"a": 0, "b": 0, "wide": 10, "short": 0, "long": 15}),
        ("conservative", {"a": 0, "b": 0, "wide": 10, "short": 0, "long": 15}),
    ],
)
async def test_each_queue_starts_jobs_in_its_own_order(lrm: str, expected: dict[str, int]) -> None:
    rig = Rig(SiteModel(lrm=lrm), slots=4)
    await rig.run(
        60.0,
        task("a", 10, cores=2),
        task("b", 4, cores=1),
        task("wide", 5, cores=4),
        task("short", 9, cores=1),
        task("long", 12, cores=2),
    )
    assert rig.starts() == expected


async def test_a_task_plans_with_its_walltime_and_runs_as_long_as_it_takes() -> None:
    """Backfilling goes by what was asked for; a task that asks for too much waits."""
    rig = Rig(SiteModel(lrm="easy"))
    await rig.run(
        60.0,
        task("a", 5, walltime_s=10),
        task("wide", 5, cores=2, walltime_s=10),
        task("careful", 2, walltime_s=20),
        task("right", 2, walltime_s=10),
    )
    assert rig.starts() == {"a": 0, "right": 0, "wide": 5, "careful": 10}


async def test_estimates_for_policies_that_may_ask() -> None:
    rig = Rig()
    await rig.run(1.0, task("a", 10), task("b", 20))
    assert rig.site.lrm.estimate_start_s(1, 5.0, 1.0) == 10.0
    assert rig.site.lrm.estimate_start_s(2, 5.0, 1.0) == 20.0


@pytest.mark.parametrize(("kill", "cause", "end_s"), [(True, "walltime", 10), (False, "done", 25)])
async def test_overruns_are_killed_or_not(kill: bool, cause: str, end_s: float) -> None:
    rig = Rig(SiteModel(kill_overruns=kill))
    await rig.run(60.0, task("k", 25, walltime_s=10))
    assert rig.causes() == {"k": cause}
    assert rig.ends() == {"k": end_s}


# -- the head node


async def test_submissions_pass_the_head_node_one_after_another() -> None:
    rig = Rig(SiteModel(submit_s=2.0), slots=8)
    await rig.run(60.0, *(task(f"k{n}", 1) for n in range(4)))
    assert list(rig.starts().values()) == [2, 4, 6, 8]
    assert rig.all(ev.AttemptsSubmitted)[0].at_s == 0.0


async def test_an_overloaded_head_node_is_slower() -> None:
    rig = Rig(SiteModel(submit_s=1.0, overload_jobs=2), slots=8)
    await rig.run(100.0, *(task(f"k{n}", 1000) for n in range(4)), at_once=False)
    costs_s = [1 + (jobs / 2) ** 2 for jobs in (1, 2, 3, 4)]
    assert list(rig.starts().values()) == [sum(costs_s[: n + 1]) for n in range(4)]


async def test_an_idle_head_node_forgets_its_load() -> None:
    rig = Rig(SiteModel(submit_s=1.0, overload_jobs=2), slots=8)
    await rig.run(100.0, task("k0", 1))
    await rig.site.submit([task("k1", 1)])
    await rig.probe.let_pass(10.0)
    assert rig.starts()["k1"] - 100.0 == rig.starts()["k0"] == 1.25


async def test_ends_become_known_at_polls() -> None:
    rig = Rig(SiteModel(poll_s=30.0))
    await rig.run(100.0, task("a", 5), task("b", 30), task("c", 31))
    assert rig.ends() == {"a": 30, "b": 30, "c": 60}
    ended_s = {e.key: e.outcome.ended_s for e in rig.all(ev.AttemptEnded)}
    assert ended_s == {"a": 5, "b": 30, "c": 36}


async def test_tasks_hold_their_cores_after_their_end() -> None:
    rig = Rig(SiteModel(hold_s=3.0), slots=2)
    await rig.run(100.0, task("a", 5), task("b", 10), task("c", 1), task("d", 1, cores=2))
    assert rig.ends() == {"a": 5, "b": 10, "c": 9, "d": 14}
    assert rig.starts() == {"a": 0, "b": 0, "c": 8, "d": 13}


@pytest.mark.parametrize("lrm", ["fcfs", "easy", "conservative"])
async def test_each_queue_plans_with_held_cores(lrm: str) -> None:
    rig = Rig(SiteModel(lrm=lrm, hold_s=3.0), slots=2)
    await rig.run(100.0, task("a", 5), task("wide", 10, cores=2), task("short", 1))
    assert rig.starts() == {"a": 0, "wide": 8, "short": 0 if lrm != "fcfs" else 21}


# -- other users


async def test_other_users_take_slots_and_are_told_of() -> None:
    rig = Rig(background=[other(0, 50, 2), other(1, 30, 1)])
    await rig.site.open(rig.probe.post)
    await rig.probe.let_pass(2.0)
    await rig.site.submit([task("mine", 5)])
    await rig.probe.let_pass(118.0)
    assert rig.starts() == {"mine": 50}
    first, second = rig.all(ev.SiteObserved)
    assert first.at_s == 60.0  # the information service tells every minute, where it changed
    assert [(job.cores, job.started_s) for job in first.background] == [(1, 50)]
    assert (second.at_s, second.background) == (120.0, ())


async def test_running_jobs_are_told_of_first_then_the_queue_in_order() -> None:
    rig = Rig(SiteModel(observe_s=5.0), background=[other(n, 100, 1) for n in range(4)])
    await rig.run(6.0)
    (seen,) = rig.all(ev.SiteObserved)
    assert [(job.id, job.started_s) for job in seen.background] == [
        ("0", 0),
        ("1", 1),
        ("2", None),
        ("3", None),
    ]
    assert {job.runtime_s for job in seen.background} == {100}


async def test_other_users_are_killed_at_their_request_too() -> None:
    rig = Rig(slots=1, background=[other(0, 1000, 1, requested_s=20)])
    await rig.site.open(rig.probe.post)
    await rig.probe.let_pass(1.0)
    await rig.site.submit([task("mine", 5)])
    await rig.probe.let_pass(50.0)
    assert rig.starts() == {"mine": 20}


async def test_nothing_is_told_before_anybody_listens() -> None:
    rig = Rig(background=[other(0, 500, requested_s=500.0)], observed_from_s=300.0)
    await rig.run(400.0)
    assert [event.at_s for event in rig.all(ev.SiteObserved)] == [300.0]


async def test_the_first_report_has_the_jobs_that_ended_before_it() -> None:
    """In the order of their ends; a report of loads has no jobs."""
    past = [other(0, 90, 2, owner="u", application="a"), other(1, 40, owner="v")]
    now = other(200, 500, requested_s=500.0, owner="u", application="b")
    jobs = [*past, now, other(210, 20)]
    rig = Rig(slots=4, background=jobs, observed_from_s=300.0)
    await rig.run(800.0)
    first, *later = rig.all(ev.SiteObserved)
    assert first.ended == (
        ev.EndedJob(1, 40.0, "v"),
        ev.EndedJob(2, 90.0, "u", "a"),
        ev.EndedJob(1, 20.0),
    )
    (running,) = first.background
    assert (running.owner, running.application) == ("u", "b")
    assert [event.ended for event in later] == [()]


# -- failures


async def test_a_share_of_attempts_fails_at_a_point_of_its_run() -> None:
    rig = Rig(SiteModel(failure_rate=0.3), slots=1000)
    await rig.run(11.0, *(task(f"k{n}", 10) for n in range(1000)))
    failed = [e.outcome for e in rig.all(ev.AttemptEnded) if e.outcome.cause == "exit"]
    assert 250 < len(failed) < 350
    assert all(outcome.exit_code == 1 and outcome.message for outcome in failed)
    assert 4 < sum(outcome.ended_s or 0 for outcome in failed) / len(failed) < 6


async def test_which_attempts_fail_depends_on_the_seed_alone() -> None:
    keys = [f"k{n}" for n in range(20)]
    causes = []
    for seed, order in ((1, keys), (1, keys[::-1]), (2, keys)):
        rig = Rig(SiteModel(failure_rate=0.5), slots=1, seed=seed)
        await rig.run(100.0, *(task(key, 1) for key in order))
        causes.append(rig.causes())
    assert causes[0] == causes[1] != causes[2]


async def test_an_outage_loses_what_is_there_and_ends() -> None:
    model = SiteModel(outage_every_s=1000.0, outage_s=100.0)
    rig = Rig(model, slots=1, background=[other(0, 10), other(1, 100_000, 1, 200_000)])
    await rig.run(1.0, task("running", 100_000), task("queued", 100_000))
    await rig.probe.until(lambda: bool(rig.all(ev.SiteReopened)))
    (paused,), (reopened,) = rig.all(ev.SitePaused), rig.all(ev.SiteReopened)
    assert paused.at_s < reopened.at_s
    assert rig.causes() == {"running": "lost", "queued": "lost"}
    assert set(rig.ends().values()) == {paused.at_s}
    await rig.site.submit([task("after", 1)])
    await rig.probe.let_pass(2.0)
    assert rig.causes()["after"] == "done"
    assert rig.starts()["after"] == reopened.at_s


async def test_what_comes_during_an_outage_waits_for_its_end() -> None:
    """Its inputs may have been on their way when the site went down."""
    rig = Rig(SiteModel(outage_every_s=10_000.0, outage_s=100.0))
    await rig.run(0.0)
    await rig.probe.until(lambda: bool(rig.all(ev.SitePaused)))
    await rig.site.submit([task("late", 1), task("never", 1)])
    await rig.site.cancel(["never"])
    assert (await rig.site.find(["late"]))["late"].state == "active"
    await rig.probe.ended("late")
    assert rig.causes() == {"never": "cancelled", "late": "done"}
    assert rig.starts() == {"late": rig.all(ev.SiteReopened)[0].at_s}


# -- what makes no sense


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("submit_s", -1.0),
        ("overload_jobs", -1),
        ("poll_s", -0.1),
        ("hold_s", -0.1),
        ("failure_rate", 1.5),
        ("failure_rate", float("nan")),
        ("outage_every_s", -5.0),
        ("outage_s", -5.0),
        ("observe_s", 0.0),
    ],
)
def test_a_model_that_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidError, match=name):
        SiteModel(**{name: value})  # type: ignore[arg-type]


def test_an_unknown_queue_is_refused() -> None:
    with pytest.raises(InvalidError, match="esay"):
        Rig(SiteModel(lrm="esay"))
