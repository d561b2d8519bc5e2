"""Statistics of runs, and ``wfrun stats``."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wfrun
from tests.engine.core.old_logs import KINDS, read
from tests.runners.harness import Job, User, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.core.interpreter import Interpreter
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import (
    Access,
    Catalog,
    LauncherSpec,
    Resources,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.runners.inspect.report_html.figures import figures
from wfrun.runners.inspect.statistics.statistics_table import METRICS, notes
from wfrun.runners.metrics.log import TimeSpans, TimingCollector, run_timings
from wfrun.runners.metrics.statistics import RunReading, RunStatistics, run_statistics
from wfrun.testing.fake_sites import Behaviour, LauncherPlan
from wfrun.testing.fake_world import FakeWorld


class LateLaunchers(Behaviour):
    def launcher(self, key: str) -> LauncherPlan:
        return LauncherPlan(wait_s=100)


class StatesTimes(Behaviour):
    reports_times = True


def bag_of(count: int, runtime_s: float = 10) -> Workflow:
    tasks = [Task(f"t{n}", "sleep", "x", runtime_s=runtime_s) for n in range(count)]
    return Workflow("bag", "bag", tasks, [], [() for _ in tasks])


def statistics_of(world: FakeWorld, workflow: Workflow) -> RunStatistics:
    interpreter = Interpreter({"0": workflow})
    collector = TimingCollector(interpreter.state)
    for event in collector.passed(world.log):
        interpreter.apply(event)
    return run_statistics(Path("run"), interpreter.state, collector.timings(), "done")


def test_the_wait_at_the_throttle_and_that_for_cores() -> None:
    workflow = bag_of(3)
    one = Catalog((SiteSpec("one", 1),))
    world = FakeWorld([workflow], one, ev.Settings("round-robin", throttle=1))
    world.run()
    total = statistics_of(world, workflow).total
    assert (total.wait_s, total.throttle_s, total.room_s, total.queue_s) == (10, 10, 0, 0)
    world = FakeWorld([workflow], one, ev.Settings("round-robin"))
    world.run()
    total = statistics_of(world, workflow).total
    assert (total.wait_s, total.throttle_s, total.room_s, total.queue_s) == (10, 0, 0, 10)


def test_the_wait_for_the_first_launcher() -> None:
    workflow = bag_of(2)
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=1, max=1))
    cluster = SiteSpec("cluster", 1, kind="slurm", access=access)
    world = FakeWorld(
        [workflow],
        Catalog((cluster,)),
        ev.Settings("rr", replicas=0),
        behaviour=LateLaunchers(),
    )
    assert world.run() == "done"
    found = statistics_of(world, workflow)
    total, (site,) = found.total, found.sites
    assert total.launcher_s == 100
    assert site.launcher_core_s == 20
    capacity = run_timings(world.log, {"0": workflow}).capacity
    assert capacity[:2] == ((0, 0), (100, 1))
    assert total.wait_s == pytest.approx(100 + (total.room_s or 0) + (total.queue_s or 0))
    assert total.wait_s == 105


def test_idle_cores_of_launchers_count_as_theirs() -> None:
    workflow = bag_of(3)
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=2, max=1))
    cluster = SiteSpec("cluster", 2, kind="slurm", access=access)
    world = FakeWorld(
        [workflow], Catalog((cluster,)), ev.Settings("rr", replicas=0), behaviour=LateLaunchers()
    )
    assert world.run() == "done"
    found = statistics_of(world, workflow)
    (row,) = [row for row in METRICS if row.label == "core-hours of launchers"]
    assert (found.total.used_core_s, row.value(found)) == (30, 40)


def test_speedup_and_efficiency_count_the_work_on_the_fastest_site() -> None:
    workflow = bag_of(4)
    sites = Catalog((SiteSpec("fast", 1, 2.0), SiteSpec("slow", 1, 1.0)))
    world = FakeWorld([workflow], sites, ev.Settings("round-robin"))
    world.run()
    found = statistics_of(world, workflow)
    assert found.total.makespan_s == 20  # two tasks of 10 s each at slow
    assert found.total.speedup == 1  # 4 * 5 s at fast
    assert found.total.efficiency == 0.5
    fast, slow = found.sites
    assert (fast.utilization, slow.utilization) == (0.5, 1)
    assert (fast.runtime_s, slow.runtime_s) == (5, 10)
    assert found.total.used_core_s == 30


def test_core_time_of_failed_attempts_is_lost() -> None:
    workflow = bag_of(1)

    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome(cause="exit" if key.endswith(".1") else "done", exit_code=1)

    world = FakeWorld(
        [workflow], Catalog((SiteSpec("one", 1),)), ev.Settings("round-robin"), result=result
    )
    world.run()
    found = statistics_of(world, workflow)
    assert (found.total.done, found.total.failed, found.total.failed_attempts) == (1, 0, 1)
    assert (found.total.used_core_s, found.total.failed_core_s) == (20, 10)
    (kind,) = found.types
    assert (kind.name, kind.tasks, kind.failed_attempts) == ("sleep", 1, 1)


def test_attempts_of_a_run_that_goes_on_count_until_now() -> None:
    workflow = bag_of(4)
    one = Catalog((SiteSpec("one", 1),))
    world = FakeWorld([workflow], one, ev.Settings("round-robin", throttle=2))
    world.run()
    interpreter = Interpreter({"0": workflow})
    collector = TimingCollector(interpreter.state)
    for event in collector.passed(event for event in world.log if event.at_s < 20):
        interpreter.apply(event)
    timings = collector.timings(18.0)
    assert timings.end_s == 18
    assert [(t.start_s, t.end_s, t.done) for t in timings.running] == [(10, 18, False)]
    waits = sorted((w.eligible_s, w.placed_s or -1, w.tasks) for w in timings.waiting)
    assert waits == [(0, -1, 1), (0, 10, 1)]
    found = run_statistics(Path("run"), interpreter.state, timings, "running")
    assert (found.elapsed_s, found.sites[0].utilization, found.total.done) == (18, 1, 1)
    drawn = figures(RunReading(interpreter.state, timings, True, found))
    assert [bar["name"] for bar in drawn["gantt"]["data"]] == ["sleep", "not ended"]
    eligible, at_site, running = (line["y"] for line in drawn["activity"]["data"])
    assert (eligible[-1], at_site[-1], running[-1]) == (1, 1, 1)
    assert drawn["gantt"]["layout"]["yaxis"]["categoryarray"] == ["one 1"]


def test_prices_and_watts_give_cost_and_energy_of_the_sites_that_state_them() -> None:
    workflow = bag_of(4, runtime_s=3600)
    priced = SiteSpec("priced", 1, price_per_core_hour=0.5, currency="EUR", watts_per_core=100.0)
    world = FakeWorld(
        [workflow], Catalog((priced, SiteSpec("other", 1))), ev.Settings("round-robin")
    )
    world.run()
    found = statistics_of(world, workflow)
    assert (found.total.cost, found.currency, found.total.energy_kwh) == (1.0, "EUR", 0.2)
    assert [(site.cost, site.energy_kwh) for site in found.sites] == [(1.0, 0.2), (None, None)]
    assert [*notes(found)] == [
        "the programs' use of resources was not measured: tasks were emulated, simulated or reused",
        "cost leaves out sites without a price: other",
        "energy leaves out sites without watts: other",
    ]


@given(st.lists(st.booleans(), max_size=30))
def test_spans_are_summed_as_a_plain_list_is(states: list[bool]) -> None:
    spans = TimeSpans()
    for at_s, holds in enumerate(states):
        spans.set(holds, at_s)
    for begin in range(len(states) + 1):
        for end in range(begin, len(states) + 1):
            assert spans.within(begin, end) == sum(states[begin:end])


@pytest.mark.slow
def test_a_run_with_failures_and_one_without_are_compared(user: User) -> None:
    good, bad = user.folder / "good", user.folder / "bad"
    jobs = [Job("a", "true"), Job("b", "true")]
    assert wfrun.run(make_workflow(jobs), run_dir=good).outcome == "done"
    jobs[1] = Job("b", "exit 3")
    assert wfrun.run(make_workflow(jobs), run_dir=bad, retries=1).outcome == "failed"
    shown = user.ask("stats", good).out
    assert "makespan" in shown
    assert "wait by type" in shown
    compared = user.ask("stats", good, bad).out
    assert "good" in compared.splitlines()[0]
    assert "bad" in compared.splitlines()[0]
    (one, other) = json.loads(user.ask("stats", good, bad, "--json").out)
    assert (one["state"], one["total"]["done"], one["total"]["failed_attempts"]) == ("done", 2, 0)
    assert one["total"]["makespan_s"] > 0
    total = other["total"]
    assert (other["state"], total["failed"], total["failed_attempts"]) == ("failed", 1, 2)
    assert total["makespan_s"] is None
    rows = list(csv.DictReader(io.StringIO(user.ask("stats", good, bad, "--csv").out)))
    assert [row["scope"] for row in rows if row["run"] == "good"] == [
        "run", "workflow", "type", "site",
    ]  # fmt: skip
    assert user.ask("stats", good, "--csv", "--json").status == 2


@pytest.mark.slow
def test_requests_are_compared_with_what_exit_records_measured(user: User) -> None:
    run = user.folder / "run"
    burn = "import time; b = bytearray(150 << 20); e = time.process_time() + 1.2\n"
    burn += "while time.process_time() < e: pass"
    script = f"{sys.executable} -S -c '{burn}'"
    asked = Resources(cores=2, memory_bytes=1 << 30, walltime_s=3600)
    workflow = make_workflow([Job("a", script, resources=asked)])
    sites = user.catalog("sites:\n  here: {slots: 2, price_per_core_hour: 2.5 EUR}\n")
    assert wfrun.run(workflow, sites=sites, run_dir=run).outcome == "done"
    (found,) = json.loads(user.ask("stats", run, "--json").out)
    use = found["types"][0]["use"]
    assert (use["measured"], use["requested_cores"], use["suggested_cores"]) == (1, 2, 1)
    assert 150 << 20 < use["peak_memory_bytes"] < 300 << 20
    assert use["peak_memory_bytes"] < use["suggested_memory_bytes"] < 1 << 29
    assert use["requested_walltime_s"] == 3600
    assert use["runtime_max_s"] < use["suggested_walltime_s"]
    assert use["suggested_walltime_s"] % 60 == 0
    hours = found["total"]["used_core_s"] / 3600
    assert found["total"]["cost"] == pytest.approx(2.5 * hours)
    shown = user.ask("stats", run).out
    assert "requested / used → next" in shown
    assert "EUR" in shown
    assert "not measured" not in shown


@pytest.mark.slow
def test_use_of_emulated_tasks_is_not_measured(user: User) -> None:
    run = user.folder / "run"
    wfrun.run(make_workflow([Job("a", "true")]), run_dir=run, emulate=True, time_scale=0.01)
    assert "use of resources was not measured" in user.ask("stats", run).out
    (found,) = json.loads(user.ask("stats", run, "--json").out)
    assert found["types"][0]["use"]["suggested_memory_bytes"] is None


@pytest.mark.slow
def test_names_are_no_formulas_and_no_escapes(user: User) -> None:
    run = user.folder / "run"
    starts = "=+-@\t\r\n＝＋－＠"
    names = [f"{start}cmd|' /C calc'!A0\x1b[31m" for start in starts]
    tasks = [Task(str(number), name, "true") for number, name in enumerate(names)]
    named = Workflow(names[0], "jobs", tasks, [], [() for _ in tasks])
    assert wfrun.run(named, run_dir=run).outcome == "done"
    for words in ([], ["--csv"], ["--json"]):
        out = user.ask("stats", run, *words).out
        assert "calc" in out
        assert "\x1b" not in out
    rows = list(csv.DictReader(io.StringIO(user.ask("stats", run, "--csv").out)))
    found = [row["name"] for row in rows if "calc" in row["name"]]
    assert len(found) == 1 + len(names)  # the workflow and the types
    assert [cell for cell in found if cell[0] in starts] == []


def test_a_run_with_nothing_finished(user: User) -> None:
    run = user.folder / "run"
    wfrun.run(make_workflow([Job("a", "exit 1")]), run_dir=run, retries=0)
    found = json.loads(user.ask("stats", run, "--json").out)[0]
    assert found["total"]["runtime_s"] is None
    assert user.ask("stats", run).status == 0


def test_core_time_of_superseded_attempts_is_that_of_replicas() -> None:
    workflow = bag_of(1, runtime_s=100)
    sites = Catalog((SiteSpec("slow", 1, 1.0), SiteSpec("fast", 1, 10.0)))
    world = FakeWorld([workflow], sites, ev.Settings("rr", replicas=1), behaviour=StatesTimes())
    assert world.run() == "done"
    total = statistics_of(world, workflow).total
    assert (total.done, total.failed_attempts) == (1, 0)
    assert total.used_core_s > total.replica_core_s > 0
    assert total.failed_core_s == 0


@pytest.mark.parametrize("kind", KINDS)
def test_logs_of_earlier_versions_have_statistics_and_charts(kind: str) -> None:
    events, documents = read(kind)
    interpreter = Interpreter(documents)
    collector = TimingCollector(interpreter.state)
    for event in collector.passed(events):
        interpreter.apply(event)
    state, timings = interpreter.state, collector.timings()
    found = run_statistics(Path("run"), state, timings, "done")
    assert (found.total.tasks, found.total.done) == (state.tasks, state.done)
    assert (
        sum(one.done for one in found.types) == sum(w.done for w in found.workflows) == state.done
    )
    assert found.total.failed_attempts == sum(site.failed for site in state.sites)
    parts = [found.total.throttle_s, found.total.launcher_s, found.total.room_s,
             found.total.staging_s, found.total.queue_s]  # fmt: skip
    assert sum(part or 0 for part in parts) == pytest.approx(found.total.wait_s or 0)
    drawn = figures(RunReading(state, timings, False, found))
    assert "gantt" in drawn or not timings.tasks
