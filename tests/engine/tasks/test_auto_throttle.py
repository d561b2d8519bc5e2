"""The throttle that tunes itself: what it holds back, and what it must not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.engine.policies.test_policies import chain, sites
from wfrun.engine import events as ev
from wfrun.engine.capabilities.placements import Placements
from wfrun.engine.capabilities.placing import auto_throttle
from wfrun.engine.capabilities.placing.auto_throttle import AutoThrottle, Planned
from wfrun.engine.core.state import WorkflowState
from wfrun.engine.model import Axis, Bag, Catalog, Progression, Resources, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT, throttle_of
from wfrun.engine.policies.placement.heft import Heft
from wfrun.engine.queues.queue_model import make_queue_model
from wfrun.engine.tasks.bag import expand
from wfrun.engine.tasks.eligible import Entry
from wfrun.testing.fake_world import FakeWorld

Throttled = ev.Settings("heft")
Free = ev.Settings("heft", throttle="none")


def independent(runtimes_s: Sequence[float], cores: Sequence[int] = ()) -> Workflow:
    wide = cores or [1] * len(runtimes_s)
    tasks = [
        Task(f"t{i}", "x", "x", resources=Resources(wide[i]), runtime_s=runtime_s)
        for i, runtime_s in enumerate(runtimes_s)
    ]
    return Workflow("bag", "bag.dax", tasks, [], [()] * len(tasks))


class Ran:
    """A run to its end: its makespan, and the site and start of each task."""

    def __init__(self, world: FakeWorld) -> None:
        assert world.run() == "done"
        self.end_s = world.now_s
        self.begun_s: dict[int, float] = {}
        self.site: dict[int, int] = {}
        self.placed_s: dict[int, float] = {}
        for event in world.log:
            if isinstance(event, ev.AttemptPlaced):
                self.placed_s[event.task], self.site[event.task] = event.at_s, event.site
            elif isinstance(event, ev.AttemptStarted):
                self.begun_s[int(event.key.split(".")[2])] = event.at_s


def ran(workflow: Workflow, catalog: Catalog, settings: ev.Settings) -> Ran:
    return Ran(FakeWorld([workflow], catalog, settings))


def test_a_task_of_high_rank_goes_before_those_that_were_eligible_earlier() -> None:
    """Task 1 has the highest rank of the eligible tasks as soon as task 0 is done. A queue that is
    first come, first served would start three other tasks before it."""
    workflow = chain((0, 1, 1), runtimes_s=[1.0, 10.0, 3.0, 3.0, 3.0, 3.0])
    throttled, free = (ran(workflow, sites((2, 1.0)), s) for s in (Throttled, Free))
    assert throttled.begun_s[1] == 1.0
    assert throttled.end_s == 12.0
    assert free.begun_s[1] > 1.0
    assert free.end_s > 12.0


def test_a_task_waits_for_a_fast_site_without_a_place_in_its_queue() -> None:
    """Tasks 2 and 3 rather wait for the fast site than run at the slow one, which is idle. Task 1,
    which is larger, still goes before them when it becomes eligible."""
    workflow = chain((0, 1, 1), runtimes_s=[8.0, 40.0, 6.0, 6.0])
    done = ran(workflow, sites((1, 10.0), (1, 0.1)), Throttled)
    assert set(done.site.values()) == {0}
    assert sorted(done.begun_s, key=lambda task: done.begun_s[task]) == [0, 1, 2, 3]


def test_idle_slots_are_used_by_the_tasks_behind_those_that_wait_for_a_faster_site() -> None:
    """The tasks are too long for a queue of all of them at the fast site."""
    done = ran(independent([10.0] * 12), sites((1, 2.0), (4, 1.0)), Throttled)
    assert {task for task, at_s in done.begun_s.items() if at_s == 0.0 and done.site[task]} != set()
    assert done.end_s == 20.0


@pytest.mark.parametrize("most", [1, 4, 16])
def test_more_tasks_than_are_planned_keep_their_order(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tasks wait for the fast site. More than can be planned are dispatched to its queue, and
    they are the first ones."""
    monkeypatch.setattr(auto_throttle, "MAX_PLANNED", most)
    runtimes_s = [float(s) for s in Random(1).sample(range(20, 100), 40)]
    done = ran(independent(runtimes_s), sites((1, 1000.0), (1, 1.0)), Throttled)
    assert set(done.site.values()) == {0}
    starts = sorted(done.begun_s, key=lambda task: done.begun_s[task])
    assert starts == sorted(range(40), key=lambda task: -runtimes_s[task])


@pytest.mark.parametrize("policy", ["ect", "max-min"])
@pytest.mark.parametrize("throttle", [1, 2, 7])
def test_a_throttle_below_the_free_slots_lets_all_tasks_run(policy: str, throttle: int) -> None:
    settings = ev.Settings(policy, throttle=throttle)
    for workflow in (independent([10.0] * 6), chain((0, 1, 1), runtimes_s=[1.0] * 6)):
        ran(workflow, sites((8, 1.0)), settings)
        ran(workflow, sites((8, 1.0), (2, 4.0)), settings)


def test_throttled_workflows_beside_each_other_all_end() -> None:
    """A workflow is not asked about while it is throttled: the sites that others did not choose
    are offered to it once it may have a task again."""
    many = [chain((0, 1, 1), (0, 2, 1), (0, 3, 1), runtimes_s=[10.0 + n, 17.0, 29.0, 31.0 + n])
            for n in range(100)]  # fmt: skip
    world = FakeWorld(many, sites((4, 1.0), (2, 1.2), (2, 0.8)), ev.Settings("ect", throttle=1))
    assert world.run() == "done"


def test_narrow_tasks_do_not_starve_a_wide_one() -> None:
    workflow = independent([10.0, *[float(s) for s in range(1, 10)]], [4] + [1] * 9)
    done = ran(workflow, sites((4, 1.0)), Throttled)
    assert done.begun_s[0] == 0.0
    late = chain((0, 1, 1), runtimes_s=[1.0, 20.0, 3.0, *[2.0] * 30])
    tasks = list(late.tasks)
    tasks[1] = Task("t1", "x", "x", inputs=tasks[1].inputs, resources=Resources(4), runtime_s=20.0)
    done = ran(Workflow("dag", "dag.dax", tasks, late.files, late.parents), sites((4, 1.0)),
               Throttled)  # fmt: skip
    assert done.begun_s[1] <= 4.0


def test_nothing_is_held_back_from_a_queue_where_others_wait() -> None:
    """A later task would be queued behind them. Where others only run, it is held back."""
    at = [ev.BackgroundJob("1", 2, 0.0, 5.0), ev.BackgroundJob("2", 2, None, 5.0)]
    for background, placed in (at, {0.0}), (at[:1], {0.0, 10.0, 20.0}):
        world = FakeWorld([independent([10.0] * 6)], sites((4, 1.0)), Throttled, arrive_s=[0.0])
        world._future.insert(1, (0.0, -1, ev.SiteObserved(0.0, 0, tuple(background))))
        assert set(Ran(world).placed_s.values()) == placed


def test_a_site_without_a_core_of_ours_gets_a_task_even_if_others_hold_all() -> None:
    world = FakeWorld([independent([1.0])], sites((2, 1.0)), Throttled)
    world._future.insert(
        1, (0.0, -1, ev.SiteObserved(0.0, 0, (ev.BackgroundJob("1", 2, 0.0, 5.0),)))
    )
    assert Ran(world).end_s == 1.0


def test_policies_that_do_not_estimate_queues_are_followed_while_a_site_is_idle() -> None:
    """Round-robin places tasks at both sites in turn, as without a throttle, until none is idle."""
    settings = ev.Settings("round-robin", throttle="auto")
    done = ran(independent([10.0] * 20), sites((1, 1.0), (4, 1.0)), settings)
    assert [done.site[task] for task in range(8)] == [0, 1] * 4
    assert {done.placed_s[task] for task in range(8)} == {0.0}
    assert min(done.placed_s[task] for task in range(8, 20)) > 0.0


def test_the_default_is_that_of_the_policy() -> None:
    auto = {name for name in PLACEMENT if throttle_of(ev.Settings(name)) == "auto"}
    assert {"heft", "heft-p", "max-min"} <= auto
    assert {"file-aware", "rr"}.isdisjoint(auto)
    assert throttle_of(Free) is None
    assert throttle_of(ev.Settings("heft", throttle=7)) == 7
    assert throttle_of(ev.Settings("round-robin", throttle="auto")) == "auto"


@pytest.mark.parametrize("policy", sorted(PLACEMENT))
def test_policies_that_order_tasks_have_a_throttle_or_bind_late(policy: str) -> None:
    world = FakeWorld([independent([1.0, 2.0])], sites((2, 1.0)), ev.Settings(policy))
    assert world.run() == "done"
    ordered = world.core.state.workflows[0].order is not None
    has_auto = world.core.state.find(AutoThrottle) is not None
    replans = PLACEMENT[policy].replans
    assert has_auto is ((ordered or replans) and not PLACEMENT[policy].binds_late)


@pytest.mark.parametrize("backfills", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_plan_leaves_no_trace_in_the_model_of_a_queue(backfills: bool, seed: int) -> None:
    """A model in which tasks are planned between placements equals one in which none are, and
    placements come before what is planned."""
    random = Random(seed)
    plain, planned = (make_queue_model(4, backfills=backfills) for _ in range(2))
    for step in range(30):
        now_s = float(step)
        for _ in range(random.randint(0, 3)):
            planned.plan(random.randint(1, 4), random.uniform(1, 20), now_s)
        cores, runtime_s = random.randint(1, 4), random.uniform(1, 20)
        for model in plain, planned:
            model.place(str(step), cores, runtime_s, now_s, now_s)
        planned.end_plan()
        asked = random.randint(1, 4), random.uniform(1, 20), now_s
        assert planned.start_s(*asked) == plain.start_s(*asked)
        for model in plain, planned:
            if step > 5 and step % 3 == 0:
                model.start(str(step - 5), now_s)
                model.end(str(step - 5), now_s)


class Asked:
    """Counts the questions to HEFT."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.questions = 0
        ask = Heft.place

        def place(policy: Heft, task: int) -> int | None:
            self.questions += 1
            return ask(policy, task)

        monkeypatch.setattr(Heft, "place", place)


def test_tasks_that_wait_for_a_busy_site_are_not_asked_about_at_each_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All wait for the fast site, while the slow one is idle."""
    asked = Asked(monkeypatch)
    runtimes_s = [float(s) for s in Random(1).sample(range(20, 100), 40)]
    done = ran(independent(runtimes_s), sites((1, 1000.0), (1, 1.0)), Throttled)
    assert set(done.site.values()) == {0}
    assert asked.questions <= 2 * 40


def test_a_task_that_becomes_eligible_is_the_only_one_that_is_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten chains of four tasks each: the successor of a task comes after all tasks that wait."""
    asked = Asked(monkeypatch)
    edges = [(task, task + 10, 0) for task in range(30)]
    done = ran(chain(*edges, runtimes_s=[60.0] * 40), sites((1, 1000.0), (1, 1.0)), Throttled)
    assert set(done.site.values()) == {0}
    assert asked.questions <= 2 * 40


class Checked:
    """Asks the policy also where the throttle does not, and compares the answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.recalled = 0
        recall = AutoThrottle.recall

        def checked(
            auto: AutoThrottle, w: WorkflowState, entry: Entry, mask: int
        ) -> Planned | None:
            planned = recall(auto, w, entry, mask)
            if planned is not None:
                policy = auto.state.get(Placements).by_workflow[planned.w.index]
                assert policy.place(entry[2]) == planned.found.site
                self.recalled += 1
            return planned

        monkeypatch.setattr(AutoThrottle, "recall", checked)


@pytest.mark.parametrize("seed", range(10))
def test_what_is_not_asked_again_would_be_answered_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exact run times and without files, which would arrive later."""
    checked = Checked(monkeypatch)
    random = Random(seed)
    edges = [(random.randrange(task), task, 0) for task in range(12, 120)]
    runtimes_s = [random.uniform(1, 50) for _ in range(120)]
    assert ran(chain(*edges, runtimes_s=runtimes_s), sites((2, 8.0), (8, 1.0)), Throttled)
    assert checked.recalled


@pytest.mark.parametrize("policy", ["mwt", "mct", "mst", "cluster-min"])
def test_other_policies_are_asked_about_all_tasks_at_each_decision(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their answers change with the time: tasks end later than expected here."""
    checked = Checked(monkeypatch)
    random = Random(3)
    runtimes_s = [random.uniform(1, 50) for _ in range(60)]
    settings = ev.Settings(policy, throttle="auto")
    world = FakeWorld(
        [independent(runtimes_s)], sites((2, 2.0), (4, 1.0)), settings,
        runtime_s=lambda workflow, task, site: 3 * runtimes_s[task],
    )  # fmt: skip
    assert world.run() == "done"
    assert not checked.recalled


def test_the_policy_is_asked_again_when_a_bag_limits_the_capacity_of_sites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More tasks are in the queue of the fast site than it takes from then on."""
    Checked(monkeypatch)
    axis = Axis(("n",), (Progression(0, 1, 5),))
    bag = expand(Bag("b", "b.yaml", "x", axes=(axis,), estimate="60"))
    workflows = [independent([60.0] * 40), bag]
    catalog = sites((1, 1000.0), (1, 1.0))
    assert Ran(FakeWorld(workflows, catalog, Throttled, arrive_s=[0.0, 0.1])).end_s


def test_the_policy_is_asked_again_when_the_site_that_tasks_wait_for_is_paused() -> None:
    world = FakeWorld([independent([60.0] * 6)], sites((1, 100.0), (1, 1.0)), Throttled)
    world.post(1.0, ev.SitePaused(1.0, 0, "away"))
    done = Ran(world)
    assert done.site == {0: 0, 1: 0, **dict.fromkeys(range(2, 6), 1)}
    assert done.placed_s[2] == 1.0


def test_the_policy_is_asked_again_when_others_take_the_site_that_tasks_wait_for() -> None:
    world = FakeWorld([independent([60.0] * 6)], sites((2, 100.0), (1, 1.0)), Throttled)
    others = (ev.BackgroundJob("1", 1, 0.0, 9999.0), ev.BackgroundJob("2", 1, None, 9999.0))
    world.post(0.1, ev.SiteObserved(0.1, 0, others))
    done = Ran(world)
    assert 1 in done.site.values()
    assert min(done.placed_s[task] for task, site in done.site.items() if site == 1) == 0.1
