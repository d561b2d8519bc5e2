"""Each placement policy against what thesis section 6.1.3 says of it, on small cases worked out
by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.view import StateView
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.information import Information, Knowledge
from wfrun.engine.model import Catalog, File, LinkSpec, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import (
    BAG_POLICIES,
    PLACEMENT,
    WORKFLOW_POLICIES,
    placement_class,
    placement_options,
)
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.coarsening import coarsen
from wfrun.engine.policies.placement.heft import upward_ranks_s
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.testing.fake_world import FakeWorld


def bag(count: int, runtime_s: float = 10.0, cores: int = 1) -> Workflow:
    """Independent tasks."""
    tasks = [
        Task(f"t{i}", "x", "x", resources=Resources(cores), runtime_s=runtime_s)
        for i in range(count)
    ]
    return Workflow("bag", "bag.dax", tasks, [], [()] * count)


def chain(*edges: tuple[int, int, int], runtimes_s: list[float]) -> Workflow:
    """A DAG of (parent, child, bytes) edges, with a file for each edge."""
    count = len(runtimes_s)
    files = [File(f"{p}-{c}", size_bytes=size, producer=p) for p, c, size in edges]
    parents: list[list[int]] = [[] for _ in range(count)]
    for parent, child, _ in edges:
        parents[child].append(parent)
    tasks = [
        Task(
            f"t{i}",
            "x",
            "x",
            inputs=tuple(f for f, (_, c, _) in enumerate(edges) if c == i),
            outputs=tuple(f for f, (p, _, _) in enumerate(edges) if p == i),
            runtime_s=runtimes_s[i],
        )
        for i in range(count)
    ]
    return Workflow("dag", "dag.dax", tasks, files, [tuple(sorted(p)) for p in parents])


def sites(*slots_and_speeds: tuple[int, float]) -> Catalog:
    names = ("alpha", "beta", "gamma", "delta")
    return Catalog(
        tuple(
            SiteSpec(n, slots=slots, speed_ratio=speed)
            for n, (slots, speed) in zip(names, slots_and_speeds, strict=False)
        )
    )


def places(world: FakeWorld) -> dict[str, int]:
    """Site of the first attempt, by task id."""
    found: dict[str, int] = {}
    for event in world.log:
        if isinstance(event, ev.AttemptPlaced):
            workflow = world.core.state.workflows[event.workflow].workflow
            found.setdefault(f"{event.workflow}/{workflow.tasks[event.task].id}", event.site)
    return found


def run(policy: str, workflows: list[Workflow], catalog: Catalog, **options: object) -> FakeWorld:
    settings = ev.Settings(policy=policy, **options)  # type: ignore[arg-type]
    world = FakeWorld(workflows, catalog, settings)
    assert world.run() == "done"
    return world


def test_round_robin_takes_the_sites_in_turn_whatever_their_size() -> None:
    world = run("round-robin", [bag(5)], sites((1, 1.0), (8, 2.0), (8, 1.0)))
    assert list(places(world).values()) == [0, 1, 2, 0, 1]


def test_round_robin_passes_over_a_site_that_is_too_small() -> None:
    world = run("round-robin", [bag(4, cores=2)], sites((4, 1.0), (1, 1.0), (4, 1.0)))
    assert list(places(world).values()) == [0, 2, 0, 2]


def test_single_cluster_keeps_a_workflow_together_and_spreads_workflows() -> None:
    world = run("single-cluster", [bag(6), bag(2), bag(1)], sites((4, 1.0), (4, 1.0), (2, 1.0)))
    placed = places(world)
    assert {placed[f"0/t{i}"] for i in range(6)} == {0}  # all idle: the first of the catalog
    assert {placed[f"1/t{i}"] for i in range(2)} == {1}  # 6/4 on the first
    assert placed["2/t0"] == 2  # 6/4, 2/4, 0/2


def test_all_clusters_balances_the_load_over_sizes() -> None:
    world = run("all-clusters", [bag(6)], sites((4, 1.0), (2, 1.0)))
    assert list(places(world).values()) == [0, 1, 0, 0, 1, 0]


def test_file_aware_goes_where_the_files_are_while_cores_are_idle() -> None:
    """t0 writes 1 GB for t1 and t2: one core is idle where it is, so the second task goes
    elsewhere."""
    workflow = chain((0, 1, 10**9), (0, 2, 10**9), runtimes_s=[1.0, 5.0, 5.0])
    world = run("file-aware", [workflow], sites((1, 1.0), (4, 1.0)))
    placed = places(world)
    assert placed["0/t0"] == 0
    assert placed["0/t1"] == 0
    assert placed["0/t2"] == 1


def test_file_aware_prefers_the_faster_link_of_two() -> None:
    workflow = chain((0, 1, 10**9), (0, 2, 10**9), runtimes_s=[1.0, 5.0, 5.0])
    catalog = Catalog(
        sites((1, 1.0), (4, 1.0), (4, 1.0)).sites,
        (LinkSpec("alpha", "beta", 1e6), LinkSpec("alpha", "gamma", 1e8)),
    )
    assert places(run("file-aware", [workflow], catalog))["0/t2"] == 2


def test_cluster_min_fills_the_fastest_then_the_next_then_the_last_used() -> None:
    world = run("cluster-min", [bag(6)], sites((2, 1.0), (2, 3.0), (1, 2.0)))
    assert list(places(world).values()) == [1, 1, 2, 0, 0, 0]


def test_heft_ranks_are_those_worked_out_by_hand() -> None:
    """A diamond: with 100 MB/s between sites, edges of 1 GB cost 10 s."""
    workflow = chain(
        (0, 1, 10**9), (0, 2, 0), (1, 3, 10**8), (2, 3, 2 * 10**9), runtimes_s=[3.0, 5.0, 7.0, 2.0]
    )
    view = _view(workflow, sites((1, 1.0), (1, 1.0)), PLACEMENT["heft"].information)
    # t3: 2; t1: 5+1+2; t2: 7+20+2; t0: 3+max(10+8, 0+29)
    assert upward_ranks_s(view) == pytest.approx([32.0, 8.0, 29.0, 2.0])


def test_heft_places_the_highest_rank_first_at_the_earliest_completion() -> None:
    """One core each; the long task gets the fast site, the short one waits less elsewhere."""
    workflow = chain(runtimes_s=[2.0, 30.0])
    placed = places(run("heft", [workflow], sites((1, 1.0), (1, 3.0))))
    assert placed == {"0/t1": 1, "0/t0": 0}


def test_heft_waits_for_a_fast_site_when_that_ends_earlier() -> None:
    workflow = chain(runtimes_s=[10.0, 10.0])
    world = run("heft", [workflow], sites((1, 0.1), (1, 1.0)))
    assert set(places(world).values()) == {1}  # 20 s behind the other beats 100 s alone
    assert world.core.state.now_s == pytest.approx(20.0)


def test_heft_and_heft_p_differ_by_what_they_know_of_others_jobs() -> None:
    """A job of another user runs for 100 s more at alpha; the last two there took 1 s."""
    decided = {}
    for policy in ("heft", "heft-p"):
        core = Core({"0": bag(1, runtime_s=5.0)})
        catalog = sites((1, 1.0), (1, 0.5))
        core.step(ev.RunStarted(0.0, "r", ev.Settings(policy=policy), catalog.sites, (), 1))
        for at_s, job in ((0.0, "a"), (1.0, "b")):
            core.step(ev.SiteObserved(at_s, 0, (ev.BackgroundJob(job, 1, at_s),)))
            core.step(ev.SiteObserved(at_s + 1.0, 0, ()))
        core.step(ev.SiteObserved(2.0, 0, (ev.BackgroundJob("c", 1, 2.0, 100.0),)))
        placed, _ = core.step(ev.WorkflowAdded(2.0, 0, "bag", "0"))
        assert isinstance(placed[0], ev.AttemptPlaced)
        decided[policy] = placed[0].site
    assert decided == {"heft": 1, "heft-p": 0}


def test_file_aware_keeps_a_workflow_in_one_cluster_and_begins_several_in_different_ones() -> None:
    """Thesis Table 6.3 has no transfers of small workflows. One that is alone keeps to the first
    cluster, of two that arrive together each keeps to its own."""
    workflow = chain((0, 2, 10**6), (1, 3, 10**6), runtimes_s=[1.0, 2.0, 1.0, 1.0])
    catalog = sites((8, 1.0), (8, 1.0))
    assert set(places(run("file-aware", [workflow], catalog)).values()) == {0}
    placed = places(run("file-aware", [workflow, workflow], catalog))
    assert [{site for task, site in placed.items() if task[0] == w} for w in "01"] == [{0}, {1}]
    in_order = run("file-aware", [workflow, workflow], catalog, policy_options={"ties": "catalog"})
    assert set(places(in_order).values()) == {0}


def test_file_aware_fills_one_cluster_after_the_other_and_then_balances() -> None:
    """Without files all clusters cost the same. None stays empty when the first is full, and when
    all are, the rest is shared by load."""
    placed = list(
        places(run("file-aware", [bag(12)], sites((2, 1.0), (2, 1.0), (4, 1.0)))).values()
    )
    assert placed[:8] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert sorted(placed[8:]) == [0, 1, 2, 2]


def test_coarsening_shrinks_to_the_size_along_heavy_edges() -> None:
    workflow = chain(
        *((i, i + 1, 10**9 if i % 2 == 0 else 1) for i in range(9)), runtimes_s=[1.0] * 10
    )
    view = _view(workflow, sites((1, 1.0)), PLACEMENT["coarsening"].information)
    group = coarsen(view, 5)
    assert len(set(group)) == 5
    for i in range(0, 10, 2):
        assert group[i] == group[i + 1], "a heavy edge was cut"


@pytest.mark.parametrize("size", [1, 2, 10, 100])
def test_coarsening_reaches_the_size_also_through_a_hub(size: int) -> None:
    """A star stalls matching, which merges one leaf per level. The rest is merged edge by edge."""
    edges = [(0, i, i) for i in range(1, 200)]
    view = _view(chain(*edges, runtimes_s=[1.0] * 200), sites((1, 1.0)),
                 PLACEMENT["coarsening"].information)  # fmt: skip
    assert len(set(coarsen(view, size))) == size


def test_coarsening_runs_a_group_where_its_first_task_went() -> None:
    workflow = chain((0, 1, 10**9), (2, 3, 10**9), runtimes_s=[1.0, 1.0, 1.0, 1.0])
    world = run("coarsening", [workflow], sites((1, 1.0), (1, 1.0)), policy_options={"size": 2})
    placed = places(world)
    assert placed["0/t0"] == placed["0/t1"]
    assert placed["0/t2"] == placed["0/t3"]
    assert placed["0/t0"] != placed["0/t2"]


def test_the_information_is_that_of_table_6_1() -> None:
    rows = {
        name: "".join(
            k.value
            for k in (p.information.status, p.information.processing_speed,
                      p.information.link_speed, p.information.task_runtime,
                      p.information.file_size)
        )
        for name, p in ((p.name, p) for p in WORKFLOW_POLICIES)
    }  # fmt: skip
    assert rows == {
        "round-robin": "UUUUU",
        "single-cluster": "RUUUU",
        "all-clusters": "RUUUU",
        "file-aware": "RUKUR",
        "coarsening": "RUKUK",
        "cluster-min": "RKUUU",
        "heft": "RKKKK",
        "heft-p": "RKKKK",
    }


def test_bag_policies_stand_where_table_5_1_has_them() -> None:
    """(information on resources, information on tasks)."""
    places = {
        p.name: p.information.processing_speed.value + p.information.task_runtime.value
        for p in BAG_POLICIES
    }
    assert places == {
        "ect": "KK",
        "fplt": "KK",
        "rr": "UU",
        "wqr": "UU",
        "dfplt": "HK",
        "ect-p": "KH",
        "stfr": "UK",
        "fpf": "KU",
        "max-min": "KK",
    }


def _view(workflow: Workflow, catalog: Catalog, information: Information) -> StateView:
    core = Core({"0": workflow})
    policy = "heft" if information.task_runtime is Knowledge.KNOWN else "file-aware"
    core.step(ev.RunStarted(0.0, "r", ev.Settings(policy=policy), catalog.sites, (), 1))
    core.step(ev.WorkflowAdded(0.0, 0, "w", "0"))
    return StateView(core.run, core.state.workflows[0], information)


@pytest.mark.parametrize(
    ("piece", "ask"),
    [
        ("status", lambda v: v.idle(0)),
        ("status", lambda v: v.load(0)),
        ("processing_speed", lambda v: v.speed_ratio(0)),
        ("link_speed", lambda v: v.transfer_s(0, 0)),
        ("link_speed", lambda v: v.reference_seconds_per_byte()),
        ("task_runtime", lambda v: v.runtime_s(0)),
        ("status", lambda v: v.estimate_start_s(0, 0)),
        ("task_runtime", lambda v: v.estimate_start_s(0, 0)),
        ("status", lambda v: v.estimate_completion_s(0, 0)),
        ("task_runtime", lambda v: v.estimate_completion_s(0, 0)),
        ("processing_speed", lambda v: v.estimate_completion_s(0, 0)),
        ("file_size", lambda v: v.size_bytes(0)),
        ("file_size", lambda v: v.transfer_s(0, 0)),
    ],
)
def test_the_view_refuses_what_is_not_declared(
    piece: str, ask: Callable[[StateView], object]
) -> None:
    workflow = chain((0, 1, 5), runtimes_s=[1.0, 1.0])
    everything = PLACEMENT["heft"].information
    ask(_view(workflow, sites((1, 1.0)), everything))  # declared: an answer
    blind = msgspec.structs.replace(everything, **{piece: Knowledge.UNKNOWN})
    with pytest.raises(InvalidError, match=piece):
        ask(_view(workflow, sites((1, 1.0)), blind))


class _Wrong(BasePlacement):
    name = "wrong"
    information = Information()
    summary = "places where it must not"
    answer: object = 7

    def place(self, task: int) -> int | None:
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize("answer", [7, -1, "alpha", 1.0, True])
def test_a_decision_that_is_no_candidate_is_an_error_that_names_it(
    answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACEMENT, "wrong", _Wrong)
    monkeypatch.setattr(_Wrong, "answer", answer)
    with pytest.raises(PolicyError, match=r"'wrong' placed task 't0' at site") as failed:
        run("wrong", [bag(1)], sites((1, 1.0)))
    assert failed.value.source == __file__
    assert failed.value.line == _Wrong.place.__code__.co_firstlineno
    assert "wfrun resume" in str(failed.value.hint)


class _Disordered(_Wrong):
    name = "disordered"
    given: object = None

    def order(self) -> Sequence[float] | None:
        return self.given  # type: ignore[return-value]


@pytest.mark.parametrize("order", [5, "abc", [1.0], [None, None, None], ["1", "2", "3"]])
def test_an_order_that_is_none_is_an_error_that_names_it(
    order: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLACEMENT, "disordered", _Disordered)
    monkeypatch.setattr(_Disordered, "given", order)
    with pytest.raises(PolicyError, match="'disordered' gave no order of its tasks") as failed:
        run(
            "disordered", [chain((0, 1, 5), (1, 2, 5), runtimes_s=[1.0, 1.0, 1.0])], sites((1, 1.0))
        )
    assert failed.value.line == _Disordered.order.__code__.co_firstlineno


def test_a_policy_that_places_nothing_ends_the_run_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PLACEMENT, "wrong", _Wrong)
    monkeypatch.setattr(_Wrong, "answer", None)
    world = FakeWorld([bag(1)], sites((1, 1.0)), ev.Settings(policy="wrong"))
    assert world.run() == "failed"
    assert "places none" in str(world.core.state.end_reason)


def test_a_policy_declares_late_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plugin(_Wrong):
        name = "plugin"
        answer = 0

    declared: dict[str, bool]
    for declared, placed_at_once in (({}, 5), ({"binds_late": True}, 2)):
        policy = type("Policy", (Plugin,), dict(declared))
        monkeypatch.setitem(PLACEMENT, "plugin", policy)
        world = FakeWorld([bag(5)], sites((2, 1.0)), ev.Settings(policy="plugin"))
        world.run()
        assert sum(isinstance(e, ev.AttemptPlaced) and e.at_s == 0 for e in world.log) == (
            placed_at_once
        )


def test_unknown_names_get_the_nearest_right_one() -> None:
    with pytest.raises(InvalidError, match="did you mean 'cluster-min'"):
        placement_class("cluster_min")
    with pytest.raises(InvalidError, match="no option 'sizes': it has size, ties"):
        placement_options(PLACEMENT["coarsening"], {"sizes": 3})
    with pytest.raises(InvalidError, match="not of type int"):
        placement_options(PLACEMENT["coarsening"], {"size": "many"})
    with pytest.raises(InvalidError, match=r"'ties' .* is 'first': not one of last, catalog"):
        placement_options(PLACEMENT["file-aware"], {"ties": "first"})


def test_order_of_eligible_tasks_is_priority_then_arrival() -> None:
    tasks = [Task(f"t{i}", "x", "x", runtime_s=1.0, priority=p) for i, p in enumerate([0, 5, 0, 9])]
    workflow = Workflow("w", "w", tasks, [], [()] * 4)
    world = run("round-robin", [workflow], sites((1, 1.0)), throttle=1)
    assert list(places(world)) == ["0/t3", "0/t1", "0/t0", "0/t2"]


def test_the_patience_with_an_earlier_pause_does_not_end_a_later_one() -> None:
    """The site is paused at 0 and at 50: the timer of the first pause fires at 60, that of the
    second at 110."""
    core = Core({"0": bag(1)})
    catalog = sites((1, 1.0))
    settings = ev.Settings(policy="round-robin")
    core.step(ev.RunStarted(0.0, "r", settings, catalog.sites, (), 1))
    core.step(ev.SitePaused(0.0, 0, "closed by the test"))
    core.step(ev.SiteReopened(50.0, 0))
    core.step(ev.SitePaused(50.0, 0, "closed by the test"))
    core.step(ev.WorkflowAdded(55.0, 0, "bag", "0"))
    ends = []
    for at_s in (60.0, 110.0):
        core.step(ev.TimerFired(at_s, "paused:0"))
        ends.append(core.state.ended)
    assert ends == [None, "failed"]
    assert "closed by the test" in str(core.state.end_reason)


def test_states_keep_no_more_than_the_open_attempts() -> None:
    world = run("heft", [bag(50)], sites((4, 1.0)))
    state: RunState = world.core.state
    assert not state.attempts
    assert not state.copies
    assert isinstance(state.workflows[0], WorkflowState)
    assert state.workflows[0].dispatched == 0
