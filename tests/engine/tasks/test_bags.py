"""Expansion of bags on access, bag policies, and predictions."""

from __future__ import annotations

from array import array
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.amounts import examples
from tests.engine.strategies import catalogs, settings_of_runs
from wfrun.engine import events as ev
from wfrun.engine.capabilities.binding import MAX_COMMITTED_RATIO
from wfrun.engine.capabilities.estimates.performance import Performance
from wfrun.engine.capabilities.estimates.predictions import UNKNOWN_S
from wfrun.engine.capabilities.estimates.queue_estimates import QueueEstimates
from wfrun.engine.capabilities.placing.selecting import Selecting
from wfrun.engine.capabilities.view import StateView
from wfrun.engine.core.core import Core
from wfrun.engine.errors import InvalidError
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import H, Information, K
from wfrun.engine.model import (
    Axis,
    Bag,
    BagFile,
    Catalog,
    DictionaryColumn,
    PackedColumn,
    Progression,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.engine.prediction.job import Prediction
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.run_times import JobClass, RunTimes
from wfrun.engine.tasks.bag import expand
from wfrun.engine.tasks.templates import TemplatePart, parse_template, placeholders
from wfrun.testing.fake_world import FakeWorld

# Expansion


def test_tasks_are_all_combinations_the_last_axis_varying_fastest() -> None:
    ligands = DictionaryColumn(PackedColumn.of(["ala", "gly"]), array("I", [1, 0, 1]).tobytes())
    charges = PackedColumn.of(["-1", "", "ä"])
    bag = Bag(
        "b", "b.yaml", "dock",
        ("{ligand}/{charge}", "-s{seed:03}", "{{{x}}}"),
        axes=(
            Axis(("ligand", "charge"), (ligands, charges)),
            Axis(("seed",), (Progression(7, -5, 3),)),
            Axis(("x",), (Progression(-5, 25, 2, decimals=2),)),
        ),
    )  # fmt: skip
    rows = [("gly", "-1"), ("ala", ""), ("gly", "ä")]
    wanted = [
        (f"{ligand}/{charge}", f"-s{seed:03}", f"{{{x}}}")
        for (ligand, charge), seed, x in product(rows, (7, 2, -3), ("-0.05", "0.20"))
    ]
    workflow = expand(bag)
    assert [task.arguments for task in workflow.tasks] == wanted
    assert workflow.tasks[-1].arguments == wanted[-1]
    assert [t.arguments for t in workflow.tasks[3:5]] == wanted[3:5]
    assert workflow.tasks[0].id == "dock-0"
    with pytest.raises(IndexError):
        workflow.tasks[18]


def test_tasks_with_equal_values_share_their_inputs() -> None:
    ligands = DictionaryColumn(PackedColumn.of(["ala", "gly"]), array("I", [1, 0, 1]).tobytes())
    bag = Bag(
        "b", "b.yaml", "dock", axes=(Axis(("ligand",), (ligands,)),
                                     Axis(("seed",), (Progression(1, 1, 2),))),
        inputs=(BagFile("receptor"), BagFile("{ligand}.pdb", sizes=array("q", [5, 6]).tobytes())),
        outputs=(BagFile("{index}.out"), BagFile("{ligand}{seed}-{index}.log")),
        stdout="{index}.out",
    )  # fmt: skip
    workflow = expand(bag)
    reads = [[workflow.files[f].name for f in task.inputs] for task in workflow.tasks]
    assert reads == [["receptor", f"{name}.pdb"] for name in ("gly", "ala", "gly") for _ in "ab"]
    assert len({file for task in workflow.tasks for file in task.inputs}) == 3
    assert [workflow.files[n].size_bytes for n in range(3)] == [None, 5, 6]
    for number, task in enumerate(workflow.tasks):
        written = [workflow.files[file] for file in task.outputs]
        assert all(file.producer == number and file.collect for file in written)
        assert written[0].name == f"{number}.out"
        assert task.stdout == task.outputs[0]
    assert len(workflow.files) == 3 + 12


@st.composite
def bags(draw: st.DrawFn) -> Bag:
    axes = tuple(
        Axis((name,), (Progression(0, 1, draw(st.integers(1, 4))),))
        for name in ("a", "b")[: draw(st.integers(0, 2))]
    )
    named = [axis.names[0] for axis in axes]
    return Bag(
        "b", "b.yaml", "x", axes=axes,
        inputs=tuple(BagFile(f"{{{name}}}.in") for name in named),
        outputs=(BagFile("{index}.out"),) if draw(st.booleans()) else (),
        resources=Resources(cores=draw(st.integers(1, 2))),
        estimate=draw(st.sampled_from(["2", "{index}"])),
        owner=draw(st.sampled_from(["u", "v"])),
        priority=draw(st.integers(0, 2)),
    )  # fmt: skip


@hypothesis_settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(bags(), min_size=1, max_size=3),
    catalogs(),
    settings_of_runs().filter(lambda s: bool(s.selection)),
    st.integers(0, 40),
)
def test_an_expanded_bag_runs_as_the_same_tasks_written_out(
    several: list[Bag], catalog: Catalog, settings: ev.Settings, crash_at: int
) -> None:
    """The same events follow under all conditions, also after a crash."""

    def log_of(workflows: list[Workflow]) -> list[ev.Event]:
        world = FakeWorld(workflows, catalog, settings)
        for count, _ in enumerate(world.steps(), start=1):
            if count == crash_at + len(several) + 1:
                break
        if world.core.state.ended is None:
            world.crash()
        world.run()
        return world.log

    lazy = [expand(bag) for bag in several]
    written_out = [
        Workflow(w.name, w.source, list(w.tasks), list(w.files), list(w.parents), owner=w.owner,
                 priority=w.priority)
        for w in lazy
    ]  # fmt: skip
    assert log_of(lazy) == log_of(written_out)


def test_templates() -> None:
    assert placeholders("{a}-{b:04}-{a}-{{c}}") == ("a", "b")
    (part,) = parse_template("{n:06.2f}")
    assert part.formatted("3.14159") == "003.14"
    for spec, value, text in (
        ("05", "0.5", "000.5"), ("05", "-7", "-0007"), (">5", "ab", "   ab"), ("0>4", "b", "000b"),
        ("+", "1.5", "+1.5"), (".2", "abc", "ab"),
    ):  # fmt: skip
        assert TemplatePart("", "x", spec).formatted(value) == text
    with pytest.raises(ValueError, match="'b' is not a number"):
        TemplatePart("", "x", "03").formatted("b")
    for wrong in ("{", "}", "{a!r}", "{a.b}", "{a[0]}", "{}", "{1}", "{a:q}"):
        with pytest.raises(InvalidError):
            parse_template(wrong)


# Policies

TWO = Catalog((SiteSpec("slow", slots=1), SiteSpec("fast", slots=1, speed_ratio=2.0)))


def one_bag(*runtimes_s: float) -> Workflow:
    tasks = [Task(f"t{i}", "app", "x", runtime_s=s) for i, s in enumerate(runtimes_s)]
    return Workflow("w", "b", tasks, [], [()] * len(tasks), owner="u")


def placements(
    policy: str, workflow: Workflow, catalog: Catalog = TWO, **settings: object
) -> list[tuple[float, int, str]]:
    """(time, task, site) of every attempt, in order."""
    wanted = ev.Settings(policy=policy, selection="s-t", **settings)  # type: ignore[arg-type]
    world = FakeWorld([workflow], catalog, wanted)
    assert world.run() == "done"
    return [
        (e.at_s, e.task, catalog.sites[e.site].name)
        for e in world.log
        if isinstance(e, ev.AttemptPlaced)
    ]


def test_fplt_gives_the_largest_task_to_the_fastest_processor() -> None:
    assert placements("fplt", one_bag(4, 10, 6)) == [
        (0, 1, "fast"), (0, 2, "slow"), (5, 0, "fast"),
    ]  # fmt: skip


def test_max_min_places_the_longest_task_first_where_it_ends_first() -> None:
    # t1: 10 at slow, 5 at fast; then t2: 6 or 5 + 3; then t0: 6 + 4 or 5 + 2, held until 5
    assert placements("max-min", one_bag(4, 10, 6)) == [
        (0, 1, "fast"), (0, 2, "slow"), (5, 0, "fast"),
    ]  # fmt: skip
    assert placements("ect", one_bag(4, 10, 6))[0] == (0, 0, "fast")


def test_fpf_keeps_the_order_and_takes_the_fastest_processor() -> None:
    assert placements("fpf", one_bag(4, 10, 6)) == [
        (0, 0, "fast"), (0, 1, "slow"), (2, 2, "fast"),
    ]  # fmt: skip


def test_stfr_begins_with_the_shortest_and_replicates_once() -> None:
    # slow ends t0 at 4 when nothing waits: t1, at fast since 3, gets a replica, which is too late
    assert placements("stfr", one_bag(4, 10, 6)) == [
        (0, 0, "slow"), (0, 2, "fast"), (3, 1, "fast"), (4, 1, "slow"),
    ]  # fmt: skip


def test_rr_takes_clusters_in_turn_and_replicates_once() -> None:
    # t1 (10) is at fast, t0 (9) at slow: fast is free at 5 and does t0 again by 9.5; slow is first
    assert placements("rr", one_bag(9, 10)) == [(0, 0, "slow"), (0, 1, "fast"), (5, 0, "fast")]


def test_wqr_replicates_the_least_replicated_first_up_to_the_number() -> None:
    sites = Catalog(tuple(SiteSpec(name, slots=1) for name in ("a", "b", "c", "d")))
    for most, copies in ((1, 2), (2, 3), (3, 4)):
        placed = placements("wqr", one_bag(50), sites, replicas=most)
        assert [site for _, _, site in placed] == ["a", "b", "c", "d"][:copies]
    placed = placements("wqr", one_bag(50, 60), sites, replicas=3)
    assert [(task, site) for at_s, task, site in placed if at_s == 0] == [
        (0, "a"), (1, "b"), (0, "c"), (1, "d"),
    ]  # fmt: skip


def test_replicas_keep_within_their_share_of_the_cores() -> None:
    sites = Catalog(tuple(SiteSpec(name, slots=1) for name in ("a", "b", "c", "d")))
    placed = placements("wqr", one_bag(50), sites, replicas=3, replica_share=0.25)
    assert [site for _, _, site in placed] == ["a", "b"]


def test_ect_takes_the_cluster_where_the_task_ends_first() -> None:
    # both go to fast: 10 / 2 = 5, then 5 + 8 / 2 = 9 against 8 on slow; the third goes to fast when
    # that is free
    assert placements("ect", one_bag(10, 8, 2)) == [(0, 0, "fast"), (0, 1, "slow"), (5, 2, "fast")]


def test_ect_plans_a_task_at_a_busy_cluster_and_lets_the_next_one_pass() -> None:
    # the second task ends at 1 + 10 / 2 on fast, and at 10 on slow; the third one behind it there
    assert placements("ect", one_bag(2, 10, 3)) == [(0, 0, "fast"), (0, 2, "slow"), (1, 1, "fast")]


@pytest.mark.parametrize("policy", ["ect", "ect-p", "max-min"])
def test_bad_estimates_bind_no_task_to_a_queue(policy: str) -> None:
    """All tasks take 10 s, whatever their estimates are; two clusters of equal speed."""
    world = FakeWorld(
        [one_bag(1, 900, 1, 50, 7, 300, 1, 1)],
        Catalog((SiteSpec("a", slots=2), SiteSpec("b", slots=2))),
        ev.Settings(policy=policy, selection="s-t"),
        runtime_s=lambda w, t, s: 10.0,
    )
    assert world.run() == "done"
    assert world.core.state.now_s == pytest.approx(20.0, abs=0.1)


@pytest.mark.parametrize("selection", ["s-t", "s-bot", "s-u-rr", "s-u-grr"])
def test_a_replay_passes_over_the_tasks_that_were_planned(selection: str) -> None:
    """No log states which tasks were planned."""
    bags = [one_bag(2, 10, 3), one_bag(9, 4, 1, 1)]
    world = FakeWorld(bags, TWO, ev.Settings(policy="ect", selection=selection))
    for _ in world.steps():
        again = Core(world.core.state.documents)
        again.replay(world.log)
        found, wanted = (core.state.get(Selecting).managers[0] for core in (again, world.core))
        assert found._selected == wanted._selected
        assert list(found.waiting) == list(wanted.waiting)
        assert not found._planned
        eligible = [
            [w.eligible.counts for w in core.state.workflows] for core in (again, world.core)
        ]
        assert eligible[0] == eligible[1]
    assert world.core.state.done == 7


@pytest.mark.parametrize("selection", ["s-t", ""])
@pytest.mark.parametrize("crash_at", range(3, 6))
def test_planned_tasks_of_a_bag_stay_eligible_over_a_crash(selection: str, crash_at: int) -> None:
    """The second task is planned behind the first one; the third one passes it."""
    axis = Axis(("s",), (PackedColumn.of(["9", "40", "12"]),))
    bag = expand(Bag("b", "b", "x", axes=(axis,), estimate="{s}"))
    world = FakeWorld([bag], TWO, ev.Settings(policy="ect", selection=selection))
    for count, _ in enumerate(world.steps(), start=1):
        if count == crash_at:
            break
    assert world.core.state.workflows[0].eligible.count
    world.crash()
    assert world.run() == "done"


def test_sites_get_no_more_than_they_have_room_for() -> None:
    """Policies that bind late and those that plan again fill free slots; with bags, workflow
    policies fill twice the slots."""
    bag = expand(Bag("b", "b", "x", axes=(Axis(("i",), (Progression(0, 1, 50),)),), estimate="9"))
    for policy, times in (
        ("fpf", 1),
        ("rr", 1),
        ("ect", 1),
        ("round-robin", MAX_COMMITTED_RATIO),
    ):
        world = FakeWorld([bag], TWO, ev.Settings(policy=policy, selection="s-bot", replicas=0))
        for event in world.steps():
            if isinstance(event, ev.WorkflowAdded):
                break
        assert [s.committed_cores for s in world.core.state.sites] == [times, times]
        assert world.run() == "done"


def test_dfplt_ranks_clusters_by_what_they_did() -> None:
    """The catalog is wrong: the site with the higher speed is the slower one."""
    catalog = Catalog((SiteSpec("a", slots=1, speed_ratio=9.0), SiteSpec("b", slots=1)))
    world = FakeWorld(
        [one_bag(8, 8, 4, 4, 4)], catalog, ev.Settings(policy="dfplt", selection="s-t"),
        runtime_s=lambda w, t, s: 20.0 if s == 0 else 5.0,
        result=lambda key, w, t: Outcome("done"),
    )  # fmt: skip
    assert world.run() == "done"
    assert _performance(world.core) is None  # the exit records have no times
    world = FakeWorld(
        [one_bag(8, 8, 4, 4, 4)], catalog, ev.Settings(policy="dfplt", selection="s-t")
    )
    world.run()
    state = world.core.state
    assert state.workflows[0].done == 5


def _performance(core: Core) -> float | None:
    performance = core.state.find(Performance)
    assert performance is not None
    return performance.by_site[0]


def test_performance_is_the_speed_that_tasks_show() -> None:
    core = Core({"b": one_bag(10, 10)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="dfplt", selection="s-t"),
                            (SiteSpec("one", slots=2),), (), 1))  # fmt: skip
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    core.step(ev.AttemptEnded(5, "r.0.0.1", Outcome("done", started_s=0, ended_s=5)))
    assert _performance(core) == 2.0
    core.step(ev.AttemptEnded(10, "r.0.1.1", Outcome("done", started_s=0, ended_s=10)))
    assert _performance(core) == pytest.approx(1.8)  # the latest counts a fifth


def test_a_policy_sees_history_only_as_declared() -> None:
    core = Core({"b": one_bag(10)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="ect-p", selection="s-t"),
                            (SiteSpec("one", slots=2),), (), 1))  # fmt: skip
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    w = core.state.workflows[0]
    predicting = StateView(core.run, w, Information(task_runtime=H))
    assert predicting.predict_s(0, 0) == UNKNOWN_S
    for refused in (predicting.runtime_s, predicting.performance):
        with pytest.raises(InvalidError):
            refused(0)
    ranking = StateView(core.run, w, Information(processing_speed=H, task_runtime=K))
    with pytest.raises(InvalidError):
        ranking.speed_ratio(0)
    knowing = StateView(core.run, w, Information(processing_speed=K))
    with pytest.raises(InvalidError):
        knowing.performance(0)


# Predictions


def test_run_times_are_predicted_by_class_and_site() -> None:
    times = RunTimes()
    mine, other = JobClass("u", "dock", 1), JobClass("u", "dock", 4)
    assert times.predict_s(mine, "a", 1.0) is None
    for runtime_s in (8.0, 4.0, 6.0):
        times.observe(mine, "a", runtime_s, 2.0)
    assert times.predict_s(mine, "a", 2.0) == 5.0  # the last two
    assert times.predict_s(mine, "b", 1.0) == 10.0  # at another site: by its speed
    assert times.predict_s(other, "a", 2.0) == 5.0  # of another class: what anything took


def test_predictions_of_what_waits_are_corrected_when_tasks_of_its_class_end() -> None:
    """Thesis section 7.3.1: when the first tasks have shown their run times, the plan for the
    others is made again."""
    core = Core({"b": one_bag(*[0.0] * 40)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="ect-p", selection="s-t"),
                            (SiteSpec("one", slots=10),), (), 1))  # fmt: skip
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    estimates = core.state.find(QueueEstimates)
    assert estimates is not None
    model = estimates.models[0]
    assert model.start_s(10, 1.0, 0.0) == UNKNOWN_S
    for task in range(10):
        core.step(ev.AttemptStarted(0, f"r.0.{task}.1"))
    for task in range(5):
        done = Outcome("done", started_s=0, ended_s=100)
        core.step(ev.AttemptEnded(100, f"r.0.{task}.1", done))
    # Those that run are taken to be half done, those that follow take 100 s.
    assert model.start_s(10, 1.0, 100.0) == pytest.approx(200.0, abs=1.0)


def test_what_earlier_runs_have_seen_is_known_at_once() -> None:
    core = Core({"b": one_bag(1)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="ect-p", selection="s-t"),
                            (SiteSpec("one", slots=1),), (), 1))  # fmt: skip
    classes = (
        ev.ClassHistory("u", "app", 1, "one", (3.0, 5.0)),
        ev.ClassHistory("u", "app", 1, "elsewhere", (90.0,)),
    )
    core.step(ev.HistoryRead(0, "h", classes, {}))
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    view = StateView(core.run, core.state.workflows[0], Information(task_runtime=H))
    assert view.predict_s(0, 0) == 4.0
    assert view.predict(0, 0) == Prediction(
        4.0, "mean of the last two of (User + Application + Size) on Site", 2
    )


@pytest.mark.parametrize(
    ("predictor", "expected_s"),
    [("es", 30.0), ("rm", 25.0), ("sm", 20.0), ("last", 40.0), ("last2", 30.0)],
)
def test_the_run_chooses_the_predictor(predictor: Any, expected_s: float) -> None:
    core = Core({"b": one_bag(*[0.0] * 10)})
    settings = ev.Settings(policy="ect-p", selection="s-t", predictor=predictor)
    core.step(ev.RunStarted(0, "r", settings, (SiteSpec("one", slots=10),), (), 1))
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    view = StateView(core.run, core.state.workflows[0], Information(task_runtime=H))
    assert view.predict(0, 0) is None
    assert view.predict_s(0, 0) == UNKNOWN_S
    for task in range(4):
        core.step(ev.AttemptStarted(0, f"r.0.{task}.1"))
    # Clocks that were set back or far ahead do not count.
    for task, runtime_s in enumerate((20.0, 20.0, -5.0, 20.0, 1e12, 40.0)):
        done = Outcome("done", started_s=100, ended_s=100 + runtime_s)
        core.step(ev.AttemptEnded(200, f"r.0.{task}.1", done))
    found = view.predict(0, 0)
    assert found is not None
    assert (found.value_s, found.observations) == (expected_s, 4)
    assert found.method.startswith(METHODS[predictor].title)


def test_tasks_of_zero_seconds_are_predicted_as_such() -> None:
    core = Core({"b": one_bag(*[0.0] * 3)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="ect-p", selection="s-t"),
                            (SiteSpec("one", slots=1),), (), 1))  # fmt: skip
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    core.step(ev.AttemptStarted(5, "r.0.0.1"))
    core.step(ev.AttemptEnded(5, "r.0.0.1", Outcome("done", started_s=5, ended_s=5)))
    view = StateView(core.run, core.state.workflows[0], Information(task_runtime=H))
    assert view.predict_s(1, 0) == 0.0


def test_a_documented_run_time_is_named_as_such() -> None:
    core = Core({"b": one_bag(30.0)})
    core.step(ev.RunStarted(0, "r", ev.Settings(policy="ect", selection="s-t"),
                            (SiteSpec("one", slots=1, speed_ratio=2.0),), (), 1))  # fmt: skip
    core.step(ev.WorkflowAdded(0, 0, "b", "b"))
    view = StateView(core.run, core.state.workflows[0], Information(task_runtime=K))
    assert view.predict(0, 0) == Prediction(15.0, "documented", 0)
