"""Sites and hosts with repeated failures: paused, tried with one attempt, avoided."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.health import FAILURES_IN_A_ROW, MAX_PAUSES, Breaker, Health
from wfrun.engine.core.actions import CopyFile
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.model import Access, Catalog, File, SiteSpec, Task, Workflow
from wfrun.testing.fake_world import FakeWorld

DONE = Outcome("done", exit_code=0)


def bag(count: int, runtime_s: float = 10.0) -> Workflow:
    tasks = [Task(f"t{i}", "x", "x", runtime_s=runtime_s) for i in range(count)]
    return Workflow("w", "w.dax", tasks, [], [()] * count)


def health_of(state: RunState) -> Health:
    health = state.find(Health)
    assert health is not None
    return health


def breaker_of(state: RunState) -> Breaker | None:
    """Of the first site."""
    return health_of(state).sites[0].breaker


class Trouble:
    """A world in which attempts at the first site end as ``how`` says, as soon as they start."""

    def __init__(
        self,
        tasks: int,
        sites: int,
        how: Callable[[float, int], Outcome],
        *,
        slots: int = 1,
        throttle: int | None = None,
        retries: int = 0,
        runtime_s: float = 10.0,
    ) -> None:
        self.how = how
        self.started = 0
        """Number of attempts that the first site has started."""
        specs = tuple(SiteSpec(name, slots) for name in ("alpha", "beta", "gamma")[:sites])
        settings = ev.Settings("round-robin", throttle=throttle, retries=retries)
        self.world = FakeWorld(
            [bag(tasks, runtime_s)], Catalog(specs), settings, result=self._result, runtime_s=None
        )

    def _result(self, key: str, workflow: int, task: int) -> Outcome:
        state = self.world.core.state
        if state.attempts[key].site:
            return DONE
        self.started += 1
        return self.how(state.now_s, self.started)

    def placed_s(self, site: int = 0) -> list[float]:
        return [
            e.at_s for e in self.world.log if isinstance(e, ev.AttemptPlaced) and e.site == site
        ]


def always(cause: Cause, host: str | None = None) -> Callable[[float, int], Outcome]:
    return lambda now_s, number: Outcome(cause, message="out of order", host=host)


def test_a_site_that_keeps_failing_is_paused_and_others_do_the_work() -> None:
    trouble = Trouble(200, 2, always("node"), throttle=2)
    state = trouble.world.core.state
    assert trouble.world.run() == "done"
    placed_s = trouble.placed_s()
    assert placed_s[:4] == [0.0, 10.0, 20.0, 90.0]  # 60 s after the third failure, at 30 s
    gaps_s = [b - a for a, b in pairwise(placed_s[3:])]
    assert gaps_s[:3] == [130.0, 250.0, 490.0]  # 10 s of the task itself, then twice as long
    assert state.done == 200
    assert state.now_s < 2200


def test_the_pause_and_its_reason_are_shown() -> None:
    trouble = Trouble(50, 2, always("lost"), throttle=2)
    reasons: list[str | None] = []
    for _ in trouble.world.steps():
        reason = trouble.world.core.state.sites[0].pause_reason if trouble.started else None
        if not reasons or reason != reasons[-1]:
            reasons.append(reason)
    what = "3 failures in a row, the last by lost: out of order"
    assert reasons[:3] == [
        None,
        f"{what} (it gets no more for 1 min)",
        f"it is tried with one attempt at a time after {what}",
    ]


def test_one_success_opens_the_site_again() -> None:
    def mended(now_s: float, number: int) -> Outcome:
        return DONE if now_s >= 60 else Outcome("node")

    trouble = Trouble(60, 1, mended, slots=4, throttle=4)
    for _ in trouble.world.steps():
        state = trouble.world.core.state
        if state.sites and breaker_of(state) is not None and state.now_s > 90:
            assert sum(state.sites[0].phases) <= 1
    assert state.ended == "done"
    assert breaker_of(state) is None
    trials = [s for s in trouble.placed_s() if s > 60]
    assert trials[0] != trials[1]  # one alone
    assert trials[1:5] == [trials[1]] * 4  # then as many as ever


def test_many_attempts_lost_at_once_are_one_incident() -> None:
    trouble = Trouble(
        12, 1, lambda now_s, number: Outcome("node") if number <= 8 else DONE, slots=8
    )
    for _ in trouble.world.steps():
        assert not trouble.world.core.state.sites or (
            trouble.world.core.state.sites[0].pause_reason is None
        )
    assert trouble.world.core.state.ended == "done"


def test_attempts_that_waited_together_and_failed_in_turn_are_failures_in_a_row() -> None:
    trouble = Trouble(9, 1, lambda now_s, number: Outcome("node") if number <= 9 else DONE)
    for event in trouble.world.steps():
        sites = trouble.world.core.state.sites
        assert not sites or (sites[0].pause_reason is not None) == (30 <= event.at_s < 100)
    assert trouble.world.core.state.ended == "done"


def test_failures_on_as_many_hosts_pause_a_site_at_once() -> None:
    trouble = Trouble(
        8, 1, lambda now_s, n: Outcome("node", host=f"n{n}") if n <= 8 else DONE, slots=8
    )
    assert trouble.world.run() == "done"
    assert not [s for s in trouble.placed_s() if 0 < s < 60]


def test_tasks_that_fail_by_themselves_pause_nothing() -> None:
    for cause in ("exit", "signal", "output", "memory", "walltime", "preempted"):
        trouble = Trouble(30, 2, always(cause), throttle=4)
        for _ in trouble.world.steps():
            assert all(s.pause_reason is None for s in trouble.world.core.state.sites)


def test_a_program_that_is_absent_counts_where_other_sites_do_well() -> None:
    alone = Trouble(30, 1, always("launch-failed"))
    assert alone.world.run() == "failed"
    assert alone.started == 30
    beside = Trouble(30, 2, always("launch-failed"), throttle=2, retries=1)
    assert beside.world.run() == "done"
    assert beside.started < 8


def test_a_full_disk_pauses_a_site_at_the_first_attempt() -> None:
    trouble = Trouble(8, 2, always("disk-full"), throttle=2)
    assert trouble.world.run() == "done"
    assert trouble.started == 1


def test_the_end_of_a_run_waits_for_no_pause() -> None:
    trouble = Trouble(8, 2, always("disk-full"), throttle=2)
    trouble.world.run()
    assert trouble.world.core.state.now_s == 80.0  # seven at beta, and one again


def test_a_run_whose_only_site_fails_waits_long_and_ends_with_the_reason() -> None:
    trouble = Trouble(30, 1, always("node"))
    assert trouble.world.run() == "failed"
    state = trouble.world.core.state
    assert 7000 < state.now_s < 9000
    reason = state.end_reason or ""
    assert reason.startswith("no site is left that could run the rest: alpha: it is given up")
    assert f"after {MAX_PAUSES} pauses" in reason
    assert "node: out of order" in reason
    trouble.how = lambda now_s, number: DONE
    trouble.world.crash()
    assert trouble.world.run() == "done"


def test_an_environment_that_has_never_worked_is_not_waited_for() -> None:
    alone = Trouble(30, 1, always("environment"), throttle=1)
    assert alone.world.run() == "failed"
    assert alone.started == FAILURES_IN_A_ROW
    assert alone.world.core.state.now_s < 60
    reason = alone.world.core.state.end_reason or ""
    assert "alpha: it is given up after 3 failures in a row, the last by environment" in reason
    worked = Trouble(30, 1, lambda now_s, number: DONE if number <= 1 else Outcome("environment"))
    assert worked.world.run() == "failed"
    assert worked.world.core.state.now_s > 7000


def test_the_reason_has_what_the_attempt_printed_last() -> None:
    message = "podman could not start; the end of its stderr:\n  trying\n  Error: no manifest\n"
    alone = Trouble(30, 1, lambda *_: Outcome("environment", message=message), throttle=1)
    assert alone.world.run() == "failed"
    reason = alone.world.core.state.end_reason or ""
    assert reason.endswith("by environment: podman could not start: Error: no manifest")


def test_a_trial_need_not_last_as_long_as_its_task() -> None:
    trouble = Trouble(
        20,
        1,
        lambda now_s, number: Outcome("node") if now_s < 50_000 else DONE,
        slots=4,
        throttle=4,
        runtime_s=20_000.0,
    )
    assert trouble.world.run() == "done"
    placed_s = trouble.placed_s()
    trial = next(i for i, s in enumerate(placed_s) if s > 50_000)
    assert placed_s[trial + 1] == placed_s[trial] + 60.0
    assert placed_s[trial + 1 : trial + 4] == [placed_s[trial + 1]] * 3


def test_a_site_that_says_so_itself_is_not_judged_too() -> None:
    trouble = Trouble(4, 1, lambda now_s, n: Outcome("lost") if n <= 4 else DONE, slots=1)
    trouble.world.post(5.0, ev.SitePaused(5.0, 0, "an outage"))
    trouble.world.post(45.0, ev.SiteReopened(45.0, 0))
    assert trouble.world.run() == "done"
    assert breaker_of(trouble.world.core.state) is None


@pytest.mark.parametrize(("access", "patience_s"), [(None, 60.0), (Access(hosts=("h",)), 3600.0)])
def test_a_run_waits_longer_for_a_cluster_than_for_this_machine(
    access: Access | None, patience_s: float
) -> None:
    catalog = Catalog((SiteSpec("alpha", 1, access=access),))
    world = FakeWorld([bag(2)], catalog, ev.Settings("round-robin", throttle=1))
    world.post(5.0, ev.SitePaused(5.0, 0, "out of reach"))
    assert world.run() == "failed"
    assert world.core.state.end_reason == (
        "no site is left that could run the rest: alpha: out of reach"
    )
    assert world.core.state.now_s == 5.0 + patience_s


@pytest.mark.parametrize(("outage_s", "end"), [(1800.0, "done"), (7200.0, "failed")])
def test_a_file_that_only_a_paused_site_has_is_waited_for(outage_s: float, end: str) -> None:
    """A site that reports a problem is awaited; failures in this time do not count."""
    catalog = Catalog((SiteSpec("alpha", 1, access=Access(hosts=("h",))),))
    task = Task("t", "x", "x", outputs=(0,), runtime_s=10.0)
    file = File("f", size_bytes=9, producer=0, collect=True)
    workflow = Workflow("w", "w.dax", [task], [file], [()])

    def fails(action: CopyFile) -> Literal["transient"] | None:
        return "transient" if 5.0 <= world.core.state.now_s < outage_s else None

    world = FakeWorld([workflow], catalog, ev.Settings("round-robin"), fails=fails)
    world.post(5.0, ev.SitePaused(5.0, 0, "out of reach"))
    world.post(outage_s, ev.SiteReopened(outage_s, 0))
    assert world.run() == end
    assert world.core.state.done == 1
    assert len(world.core.state.uncollected) == (end == "failed")


def test_health_follows_from_the_log() -> None:
    trouble = Trouble(40, 2, always("node", "n1"), throttle=3)
    world = trouble.world
    for number, _ in enumerate(world.steps()):
        if number % 7 == 0 and world.core.state.sites:
            live = world.core.state
            core = Core({"0": bag(40)})
            core.replay(world.log)
            again = core.state
            assert again.timers == live.timers
            for one, other in zip(again.sites, live.sites, strict=True):
                assert one.is_healthy == other.is_healthy
                assert one.pause_reason == other.pause_reason
            breaker, lived = breaker_of(again), breaker_of(live)
            for slot in breaker.__slots__ if breaker else ():
                assert getattr(breaker, slot) == getattr(lived, slot)


# Hosts


def black_hole(now_s: float, number: int) -> Outcome:
    """Host n1 fails every attempt, n2 and n3 none."""
    host = f"n{number % 3 + 1}"
    return Outcome("exit", host=host) if host == "n1" else Outcome("done", host=host)


def test_a_host_that_fails_what_others_do_is_avoided_for_an_hour() -> None:
    trouble = Trouble(20, 1, black_hole, retries=9, throttle=1)
    told: list[tuple[str, ...]] = []
    for _ in trouble.world.steps():
        if trouble.world.core.state.sites:
            told.append(health_of(trouble.world.core.state).avoided_hosts(0))
    assert told[0] == ()
    assert told[-1] == ("n1",)
    trouble.world.core.state.now_s += 3600
    assert health_of(trouble.world.core.state).avoided_hosts(0) == ()


def test_no_host_is_avoided_where_all_fail() -> None:
    trouble = Trouble(20, 1, lambda now_s, n: Outcome("exit", host=f"n{n % 3}"), retries=1)
    assert trouble.world.run() == "failed"
    assert health_of(trouble.world.core.state).avoided_hosts(0) == ()


def test_a_success_clears_a_host() -> None:
    def mended(now_s: float, number: int) -> Outcome:
        return black_hole(now_s, number) if number < 20 else Outcome("done", host="n1")

    trouble = Trouble(20, 1, mended, retries=9, throttle=1)
    assert trouble.world.run() == "done"
    assert health_of(trouble.world.core.state).avoided_hosts(0) == ()


def test_never_more_hosts_are_avoided_than_do_well() -> None:
    def most_fail(now_s: float, number: int) -> Outcome:
        host = f"n{number % 5}"
        return Outcome("done", host=host) if host == "n0" else Outcome("exit", host=host)

    trouble = Trouble(10, 1, most_fail, retries=20, throttle=1)
    trouble.world.run()
    assert len(health_of(trouble.world.core.state).avoided_hosts(0)) == 1
