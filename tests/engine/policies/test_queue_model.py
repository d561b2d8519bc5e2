"""Models of queues, and the profiles of free cores that they use."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine import events as ev
from wfrun.engine.capabilities.view import StateView
from wfrun.engine.core.core import Core
from wfrun.engine.model import Resources, SiteSpec, Task, Workflow
from wfrun.engine.queues.profile import Profile
from wfrun.engine.queues.queue_model import (
    NEAR_STEPS,
    BackfillModel,
    Expected,
    QueueModel,
    make_queue_model,
)

BOTH = pytest.mark.parametrize("backfills", [False, True])


def view_of(site: SiteSpec, *tasks: tuple[int, float]) -> StateView:
    """A site, and a bag of (cores, run time) tasks that are not placed yet."""
    bag = [Task(str(i), "x", "x", resources=Resources(c), runtime_s=s)
           for i, (c, s) in enumerate(tasks)]  # fmt: skip
    core = Core({"0": Workflow("bag", "bag.dax", bag, [], [()] * len(bag))})
    core.step(ev.RunStarted(0.0, "r", ev.Settings(policy="heft"), (site, SiteSpec("b", 8)), (), 1))
    core.step(ev.SitePaused(0.0, 0, "by the test"))
    core.step(ev.SitePaused(0.0, 1, "by the test"))
    running = ev.BackgroundJob("1", 1, 0.0, 10.0)
    waiting = ev.BackgroundJob("2", 2, None, 10.0)
    core.step(ev.SiteObserved(0.0, 0, (running, waiting)))
    core.step(ev.WorkflowAdded(0.0, 0, "bag", "0"))
    return StateView(core.run, core.state.workflows[0])


def test_staging_is_a_part_of_the_hole_that_a_task_needs() -> None:
    """One of 2 cores is held for 10 s; a later job needs both."""
    view = view_of(SiteSpec("a", 2, 2.0, backfills=True), (1, 16.0), (2, 16.0), (3, 16.0))
    assert view.estimate_completion_s(0, 0) == 8.0
    assert view.estimate_completion_s(0, 0, 2.0) == 10.0
    assert view.estimate_start_s(0, 0, 3.0) == 20.0  # 3 s and 8 s do not fit before 10 s
    assert view.estimate_completion_s(0, 0, 3.0) == 31.0
    assert view.estimate_start_s(0, 1) == 20.0
    in_order = view_of(SiteSpec("a", 2, 2.0), (1, 16.0))
    assert in_order.estimate_completion_s(0, 0) == 28.0
    assert in_order.estimate_completion_s(0, 0, 3.0) == 31.0


@pytest.mark.parametrize(("backfills", "idle"), [(False, 0), (True, 3), (None, 3)])
def test_cores_behind_a_blocked_head_are_idle_only_where_tasks_may_pass_it(
    backfills: bool | None, idle: int
) -> None:
    """One of 4 cores is held, and a later job waits. Batch systems let others pass; the strict
    first come, first served of simulations does not."""
    view = view_of(SiteSpec("a", 4, backfills=backfills), (1, 1.0))
    assert (view.idle(0), view.idle(1)) == (idle, 8)


def test_unknown_and_overdue_jobs_of_others_are_not_taken_as_ended() -> None:
    """With predicted run times (HEFT-P). Nothing has ended yet: a running job is half done, one
    that waits is long. Then jobs of 10 s have ended, and the running one is overdue."""
    task = Task("t", "x", "x", runtime_s=5.0)
    core = Core({"0": Workflow("w", "w.dax", [task], [], [()])})
    sites = (SiteSpec("a", 1), SiteSpec("b", 1))
    core.step(ev.RunStarted(0.0, "r", ev.Settings(policy="heft-p"), sites, (), 1))
    for site in (0, 1):
        core.step(ev.SitePaused(0.0, site, "by the test"))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "0"))
    view = StateView(core.run, core.state.workflows[0])
    running, waiting = ev.BackgroundJob("1", 1, -40.0), ev.BackgroundJob("2", 1)
    core.step(ev.SiteObserved(0.0, 0, (running,)))
    assert view.estimate_start_s(0, 0) == 40.0
    core.step(ev.SiteObserved(0.0, 0, (running, waiting)))
    assert view.estimate_start_s(0, 0) == 40.0 + 3600.0
    core.step(ev.SiteObserved(0.0, 1, (ev.BackgroundJob("3", 1, 0.0),)))
    core.step(ev.SiteObserved(10.0, 1, (ev.BackgroundJob("4", 1, 10.0), waiting)))
    assert view.estimate_start_s(1, 0) == 20.0
    core.step(ev.SiteObserved(25.0, 1, (ev.BackgroundJob("4", 1, 10.0), waiting)))
    assert view.estimate_start_s(1, 0) == 5.0 + 10.0  # twice as long as predicted
    core.step(ev.SiteObserved(35.0, 1, (ev.BackgroundJob("4", 1, 10.0), waiting)))
    assert view.estimate_start_s(1, 0) == 15.0 + 10.0  # four times


def test_jobs_of_others_are_predicted_from_those_of_the_same_user_and_application() -> None:
    """HEFT-P knows the jobs that ended before the run, as the site has them (thesis 7.2.1)."""
    core = Core({"0": Workflow("w", "w.dax", [Task("t", "x", "x", runtime_s=5.0)], [], [()])})
    sites = (SiteSpec("a", 1),)
    core.step(ev.RunStarted(0.0, "r", ev.Settings(policy="heft-p"), sites, (), 1))
    core.step(ev.SitePaused(0.0, 0, "by the test"))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "0"))
    view = StateView(core.run, core.state.workflows[0])
    past: tuple[ev.EndedJob, ...] = (
        ev.EndedJob(1, 10.0, "u", "a"),
        ev.EndedJob(1, 20.0, "u", "a"),
        ev.EndedJob(1, 70.0, "u", "b"),
        ev.EndedJob(1, 500.0, "v", "a"),
        ev.EndedJob(1, 700.0, "v", "a"),
    )
    for owner, application, expected_s in (
        ("u", "a", 15.0),  # its own last two
        ("u", "c", 45.0),  # those of the user
        ("v", "a", 600.0),
        ("w", "a", 600.0),  # of anyone
        ("", "", 600.0),
    ):
        job = ev.BackgroundJob("1", 1, 0.0, None, owner, application)
        core.step(ev.SiteObserved(0.0, 0, (job,), past))
        past = ()
        assert view.estimate_start_s(0, 0) == expected_s


@BOTH
def test_a_task_that_is_larger_than_the_site_never_starts_there(backfills: bool) -> None:
    view = view_of(SiteSpec("a", 2, backfills=backfills), (1, 1.0), (3, 1.0))
    assert view.estimate_start_s(0, 1) == view.estimate_completion_s(0, 1) == float("inf")


def test_logs_from_before_queues_were_told_apart_still_load() -> None:
    started = ev.RunStarted(0.0, "r", ev.Settings(policy="heft"), (SiteSpec("a", 2),), (), 1)
    document = msgspec.to_builtins(started)
    assert document["sites"][0].pop("backfills") is None
    assert msgspec.convert(document, ev.RunStarted) == started


def drive(model: QueueModel, seed: int, *, ask: bool) -> list[float]:
    """Estimates after a random history with many deviations from the plan."""
    random, questions = Random(seed), Random(0)
    now_s = 0.0
    keys: list[str] = []
    for number in range(200):
        now_s += random.random() * 3
        kind = random.choice("ppse" if keys else "p")
        key = random.choice(keys) if kind != "p" else f"k{number}"
        if kind == "p":
            keys.append(key)
            runtime_s = random.random() * 20
            model.place(key, random.randint(1, 4), runtime_s, now_s, now_s + random.random())
        elif kind == "s":
            model.start(key, now_s)
        else:
            keys.remove(key)
            model.end(key, now_s)
        if number % 40 == 0:
            model.observe([Expected(2, 30.0, now_s - 1), Expected(9, 5.0, None)], now_s)
        if ask:
            model.start_s(questions.randint(1, 5), questions.random() * 9, now_s)
    return [model.start_s(cores, 5.0, now_s) for cores in (1, 2, 3, 4)]


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_questions_change_nothing(backfills: bool, seed: int) -> None:
    asked = drive(make_queue_model(4, backfills=backfills), seed, ask=True)
    silent = drive(make_queue_model(4, backfills=backfills), seed, ask=False)
    assert asked == silent


@BOTH
def test_running_jobs_have_their_cores_before_anybody_who_waits(backfills: bool) -> None:
    """Our job holds the only core for 100 s; another user's job waits behind it."""
    model = make_queue_model(1, backfills=backfills)
    model.place("ours", 1, 100.0, 0.0, 0.0)
    model.start("ours", 0.0)
    model.observe([Expected(1, 50.0, None)], 0.0)
    assert model.start_s(1, 1.0, 0.0) == 150.0
    model.observe([], 90.0)
    assert model.start_s(1, 1.0, 90.0) == 100.0


def test_a_long_queue_does_not_make_a_plan_of_many_steps() -> None:
    """Wide and narrow jobs whose inputs arrive later leave an unlimited number of holes."""
    model, random = BackfillModel(16), Random(1)
    most, now_s = 0, 0.0
    for number in range(5000):
        ready_s = now_s + random.random() * 1000 * number
        model.place(str(number), random.choice([1, 16]), random.random(), now_s, ready_s)
        most = max(most, len(model._profile))
    assert NEAR_STEPS < most <= 2 * (16 + NEAR_STEPS)


def test_a_hole_of_many_steps_is_found_as_by_trying_every_time() -> None:
    random = Random(2)
    profile = Profile(40, 0.0)
    for _ in range(150):
        start_s = random.randint(0, 300)
        end_s = start_s + random.randint(1, 300)
        if profile.min_free(start_s, end_s):
            profile.add(start_s, end_s, -1)
    steps = profile.steps()
    assert len(steps) > 100
    for cores in range(1, 41):
        length_s, from_s = random.randint(50, 500), random.randint(0, 300)
        times_s = [from_s, *(at_s for at_s, _ in steps if at_s > from_s)]
        found_s = next(t for t in times_s if profile.min_free(t, t + length_s) >= cores)
        assert profile.earliest_s(cores, length_s, from_s) == found_s


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    profile = Profile(5, 0.0)
    for start_s, length_s, cores in draw(
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10), st.integers(1, 5)), max_size=15)
    ):
        at_s = profile.earliest_s(cores, length_s, start_s)
        profile.add(at_s, at_s + length_s, -cores)
    return profile


@given(profile=profiles(), first=st.integers(0, 12))
def test_what_stays_of_a_profile_without_far_holes(profile: Profile, first: int) -> None:
    before = profile.steps()
    profile.give_up_holes(first)
    after = profile.steps()
    assert after[:first] == before[:first]
    assert all(a[1] != b[1] for a, b in pairwise(after))
    from_s = before[first][0] if first < len(before) else float("inf")
    for at_s, level in before:
        kept = max(step for step in after if step[0] <= at_s)[1]
        lasting = min(other for time_s, other in before if time_s >= at_s)
        assert kept == (lasting if at_s >= from_s else level)
