"""Workloads of bags in the simulator: schedules by hand, `wfrun simulate average`, bad input."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from tests.runners.harness import User, assert_refused
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload, SubmittedBag
from wfrun.runners.experiments.cells import SIZES, Cell, Row, size_class
from wfrun.runners.experiments.experiment import Experiment
from wfrun.runners.experiments.subjects.load_of_arrivals import at_load_of_arrivals
from wfrun.runners.experiments.subjects.loads import loads_of
from wfrun.runners.experiments.subjects.workloads import Workloads, row_of
from wfrun.runners.simulate.bags import BagsOutcome, simulate_bags
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.model import SiteModel

TWO = Catalog((SiteSpec("slow", 1), SiteSpec("fast", 1, speed_ratio=2.0)))
CELL = Cell(workload="hand", selection="s-t", policy="fplt")


def bag(
    at_s: float, *runtimes_s: float, user: str = "u", cluster: int = 0, told_s: Sequence[float] = ()
) -> SubmittedBag:
    times = array("d", runtimes_s)
    return SubmittedBag(at_s, cluster, user, f"{user}.a", times, array("d", told_s or times))


def run(
    *bags: SubmittedBag,
    architecture: str = "csp",
    policy: str = "fplt",
    selection: str = "s-t",
    catalog: Catalog = TWO,
    replicas: int | None = None,
) -> BagsOutcome:
    names = tuple(spec.name for spec in catalog.sites)
    workload = BotWorkload("hand", names, bags, 3.0, bags[-1].arrival_s)
    settings = Settings(policy=policy, selection=selection, replicas=replicas)
    return simulate_bags(workload, Platform(catalog), architecture, settings)


def row(*bags: SubmittedBag, **how: str) -> Row:
    return row_of(CELL, run(*bags, **how))  # type: ignore[arg-type]


# Architectures


def test_csp_shares_all_processors() -> None:
    # 20 to the fast site until 10, 10 to the slow one until 10
    done = run(bag(0, 10, 20))
    assert done.makespans_s == [10]
    assert done.work_s == [30]


def test_the_tasks_of_a_bag_may_be_submitted_one_after_another() -> None:
    """10 runs from 0 to 5 at the fast site, 4 from 3 at the slow one to 7, 2 from 8 to 9: the bag
    ends 9 s after its first task was submitted."""
    late = replace(bag(0, 10, 4, 2), delay_s=array("d", [0, 3, 8]))
    done = run(late, bag(20, 2))
    assert done.makespans_s == [9, 1]
    assert done.sizes == [3, 1]
    assert row_of(CELL, run(late)).last_arrival_s == 8
    assert run(late, architecture="sep-c").makespans_s == [16]


def test_csp_learns_of_idle_processors_at_the_next_report() -> None:
    """The fast site runs 10 from 0 to 5, which csp learns at 8; the second bag, which arrives at 6
    and finds no other processor, runs there from 8 to 9. Makespans end with the tasks, not with
    the reports."""
    fast = Catalog((SiteSpec("fast", 1, speed_ratio=2.0),))
    platform = Platform(fast, SiteModel(poll_s=8))
    workload = BotWorkload("hand", ("fast",), (bag(0, 10), bag(6, 2)), 2.0, 6)
    done = simulate_bags(workload, platform, "csp", Settings(policy="fplt", selection="s-t"))
    assert done.makespans_s == [5, 3]


def test_sep_c_keeps_a_bag_at_its_own_cluster() -> None:
    # the larger first: 20 until 20, then 10 until 30; on the fast site 4 s of the second bag
    done = run(bag(0, 10, 20), bag(1, 8, cluster=1), architecture="sep-c")
    assert done.makespans_s == [30, 4]


def test_fcondor_sends_users_on_when_their_tasks_have_to_wait() -> None:
    # 10 starts at the slow site, 20 waits there until 30, and u goes on with the fast one: 8 runs
    # there from 2 to 6. v begins at the slow one, waits there until 31, and goes on, too: 6 runs
    # from 7 to 10.
    done = run(
        bag(0, 10, 20),
        bag(2, 8),
        bag(3, 1, user="v"),
        bag(7, 6, user="v"),
        architecture="fcondor",
    )
    assert done.makespans_s == [30, 4, 28, 3]


def test_fcondor_may_keep_bags_together() -> None:
    # 10 and 20 go to the slow site, where one waits; the next bag, which could start there at 30,
    # goes to the fast one
    done = run(bag(0, 10, 20), bag(30, 8), bag(31, 6), architecture="fcondor-bag")
    assert done.makespans_s == [30, 4, 6]


def test_fcondor_puts_the_pieces_of_a_bag_together_again() -> None:
    # slow: 3 (until 3) and 5 (until 8); fast, which is next and free: 4 (until 2), then 6, which
    # waits there; the next is at the slow one again
    done = run(bag(0, 3, 5, 4, 6), architecture="fcondor")
    assert done.makespans_s == [8]
    assert done.sizes == [4]


def test_bags_that_arrive_when_one_ends_find_no_processor_of_its() -> None:
    done = run(bag(0, 4), bag(4, 10), architecture="sep-c", policy="fpf")
    assert done.makespans_s == [4, 10]


# What policies know, and what is so


def test_policies_decide_by_estimates_and_tasks_take_their_run_times() -> None:
    # The first claims to be the larger one and goes to the fast site: 5 s; the other takes 20.
    done = run(bag(0, 10, 20, told_s=[20, 10]))
    assert done.makespans_s == [20]


def test_selection_policies_are_used() -> None:
    # Of all tasks the largest is next, b's from 10 to 25; or a's whole bag goes before it.
    one = Catalog((SiteSpec("slow", 1),))
    bags = (bag(0, 10, 10, user="a"), bag(1, 15, user="b"))
    assert run(*bags, selection="s-t", catalog=one).makespans_s == [35, 24]
    assert run(*bags, selection="s-bot", catalog=one).makespans_s == [20, 34]


# Metrics


def test_the_monitoring_period_of_csp_is_not_that_of_separate_managers() -> None:
    experiment = Experiment(subject=Workloads(monitoring_s=60.0), platform=Platform(TWO),
                            policies=("fpf",))  # fmt: skip
    cell = Cell(workload="average", policy="fpf", selection="s-t", load=0.6, tasks=200)
    without = msgspec.structs.replace(experiment, subject=Workloads())
    polled = msgspec.structs.replace(without, platform=Platform(TWO, SiteModel(poll_s=60.0)))
    separate = msgspec.structs.replace(cell, architecture="sep-c")
    assert experiment.simulate(cell) == polled.simulate(cell) != without.simulate(cell)
    assert experiment.simulate(separate) == without.simulate(separate)


def test_metrics_of_a_run() -> None:
    # slow: 10 from 0 to 10; fast: 20 from 0 to 10, then 4 of the second bag from 10 to 12
    measured = row(bag(0, 10, 20), bag(8, 4, user="v"))
    assert measured.makespan_s == (10 + 4) / 2
    assert measured.nsl == pytest.approx((10 / 30 + 4 / 4) / 2)
    assert (measured.bags, measured.done) == (2, 3)
    assert measured.completed_share == 0  # nothing is done by 8
    assert measured.completed_later_share == 1  # all is done by 16
    assert measured.utilization == 1
    assert (measured.last_arrival_s, measured.last_end_s) == (8, 12)
    assert measured.class_bags == (1, 1, *[0] * 8)
    assert measured.class_makespan_s[:2] == (4, 10)
    assert measured.class_nsl[:2] == pytest.approx((1, 1 / 3))
    assert (measured.replicas_started, measured.wasted_share) == (0, 0)


def test_replicas_are_counted_and_what_they_waste() -> None:
    # Both sites run the one task: it is done at 5, when the slow site has wasted 5 s.
    measured = row(bag(0, 10), policy="rr")
    assert measured.makespan_s == 5
    assert measured.replicas_started == 1
    assert measured.wasted_share == 0.5
    assert measured.last_end_s == 5


def test_the_number_of_replicas_can_be_chosen() -> None:
    assert run(bag(0, 10), policy="rr", replicas=0).makespans_s == [10]


def test_classes_of_sizes() -> None:
    named = [SIZES[size_class(size)][1] for size in (1, 2, 4, 5, 19, 20, 499, 500, 1000, 9999)]
    assert named == ["1", "2-4", "2-4", "5-9", "10-19", "20-49", "200-499", "500-999", "1000+",
                     "1000+"]  # fmt: skip


def test_failed_tasks_are_counted_and_free_the_place_that_they_were_sent_to() -> None:
    # Every attempt fails. u has a site for itself again when its first bag has failed, so that the
    # second one begins there: a task starts, the next one waits, and the third goes on.
    bags = (bag(0, 10), bag(100, 10, 10, 10))
    workload = BotWorkload("hand", ("slow", "fast"), bags, 3.0, 100.0)
    platform = Platform(TWO, SiteModel(failure_rate=1.0))
    settings = Settings(policy="fplt", selection="s-t", retries=0)
    done = simulate_bags(workload, platform, "fcondor", settings)
    measured = row_of(CELL, done)
    assert (measured.done, measured.failed, measured.completed_share) == (0, 4, 0)
    assert [len(w.workflow.tasks) for w in done.state.workflows] == [1, 2, 1]


# Workloads


def test_the_grid_of_the_thesis() -> None:
    sites = das3_grid5000().sites
    assert len(sites) == 20
    assert sum(site.slots for site in sites) > 3500
    speeds = [site.speed_ratio for site in sites]
    assert (min(speeds), max(speeds)) == (1.0, 1.75)


@pytest.mark.slow
def test_all_loads_have_the_same_bags_and_no_task_outlasts_the_arrivals() -> None:
    cells = [
        Cell(workload="average", policy="fplt", load=load, tasks=12000) for load in (0.2, 0.95)
    ]
    low, high = (Workloads().workload_of(cell, das3_grid5000().sites) for cell in cells)
    assert 0.2 < low.load < 0.95 < high.load  # which count what is done after the last arrival
    assert [b.runtime_s for b in low.bags] == [b.runtime_s for b in high.bags]
    longest_s = max(s for b in high.bags for s in b.runtime_s)
    assert longest_s <= max(300, 0.55 * high.work_s / high.capacity)
    assert "are cut to" in high.remarks[0]


@pytest.mark.slow
def test_the_load_may_change_the_rate_and_leave_the_days() -> None:
    """Workloads with tasks in proportion to the load last for the same time, and have the same days
    and the same longest task, except for what chance makes of few bags."""
    sites = das3_grid5000().sites
    cells = [
        Cell(workload="average", policy="fplt", load=load, tasks=round(12_000 * load / 0.6))
        for load in (0.3, 0.6, 0.9)
    ]
    by_rate = Workloads(day_load=0.6)
    low, same, high = (by_rate.workload_of(cell, sites) for cell in cells)
    assert same == Workloads().workload_of(cells[1], sites)
    for other in (low, high):
        assert other.pace == pytest.approx(same.pace, rel=0.2)
        assert other.span_s == pytest.approx(same.span_s, rel=0.2)
    by_day = Workloads().workload_of(cells[2], sites)
    assert by_day.span_s == pytest.approx(same.span_s, rel=0.2)
    assert by_day.pace < 0.8 * same.pace  # more of the model's days in the same time
    assert "day_load=0.6" in by_rate.identity


def test_variations_of_a_workload() -> None:
    sites = das3_grid5000().sites
    cell = Cell(
        workload="average",
        policy="fplt",
        load=0.6,
        tasks=3000,
        mean_runtime_s=3600.0,
        inaccuracy=100.0,
    )
    varied = Workloads().workload_of(cell, sites)
    assert varied.work_s / varied.tasks == pytest.approx(3600, rel=0.02)
    wrong = [e / s for b in varied.bags for e, s in zip(b.estimate_s, b.runtime_s, strict=True)]
    assert min(wrong) < 0.2
    assert max(wrong) > 1.8
    at_once = Workloads().workload_of(msgspec.structs.replace(cell, arrival="at-once"), sites)
    assert {b.arrival_s for b in at_once.bags} == {0}


def test_the_load_is_that_of_the_time_in_which_bags_arrive() -> None:
    # What comes last does not count. 20 s are a quarter of 40 s on two processors; 40 s and half
    # of another 40 s, which come at half time, are three quarters.
    two = (SiteSpec("s", 2),)

    def scaled(load: float, *bags: SubmittedBag) -> BotWorkload:
        given = BotWorkload("hand", ("s",), bags, 2.0, bags[-1].arrival_s)
        return at_load_of_arrivals(given, load, two)

    assert scaled(0.25, bag(0, 20), bag(100, 15)).span_s == pytest.approx(40, rel=1e-3)
    found = scaled(0.75, bag(0, 40), bag(50, 40), bag(100, 40))
    assert found.span_s == pytest.approx(40, rel=1e-3)
    assert [b.arrival_s for b in found.bags] == pytest.approx([0, 20, 40], rel=1e-3)
    assert not found.remarks
    few = scaled(0.6, bag(0, 10), bag(100, 10))  # one of two processors, at the most
    assert few.span_s == pytest.approx(20 / 2 / 1.2)
    assert "2 tasks are too few to keep 60% of the processors busy" in few.remarks[0]


def test_the_sites_are_as_busy_as_the_load_says() -> None:
    catalog = Catalog((SiteSpec("a", 40), SiteSpec("b", 20, speed_ratio=1.5)))
    cell = Cell(workload="average", policy="fpf", load=0.4, tasks=3000)
    workload = Workloads().workload_of(cell, catalog.sites)
    done = row_of(cell, simulate_bags(workload, Platform(catalog), "csp", Settings("fpf")))
    assert done.utilization == pytest.approx(0.4, abs=0.04)


def test_ranges_of_loads() -> None:
    assert loads_of(None) is None
    assert loads_of("0.2:0.95") == (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
    assert loads_of("0.6, 0.1:0.3:0.1,0.2") == (0.6, 0.1, 0.2, 0.3)
    assert loads_of("0.5:0.5") == (0.5,)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "0.2:", "0.9:0.2", "0.1:0.2:0",
                                  "0:1", "0.1:0.2:0.1:0.1", "x", "0.1:1:0.000001"])  # fmt: skip
def test_loads_that_are_none(text: str) -> None:
    with pytest.raises(InvalidError, match="--load"):
        loads_of(text)


# The command

SITES = """\
sites:
  near: {slots: 4}
  far: {slots: 8, speed: 2}
"""
WORDS = ("simulate", "average", "--tasks", "120", "--sites", "sites.yaml")


@pytest.mark.slow
def test_an_experiment_is_continued(user: User) -> None:
    user.catalog(SITES)
    words = (*WORDS, "--architecture", "all", "--policy", "fplt,rr", "--load", "0.3:0.6:0.3",
             "--selection", "s-t,s-bot", "-o", "out.csv", "--plot", "out.png")  # fmt: skip
    first = user.ask(*words, "--jobs", "1")
    assert first.status == 0, first.text
    lines = (user.folder / "out.csv").read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 4 * 2 * 2 * 2
    makespans, nsl, in_time, _, sizes = first.out.split("\n\n")
    for table, heading in ((makespans, "makespan s"), (nsl, "NSL"), (in_time, "in time %")):
        title, keys, *variants = table.strip().splitlines()
        assert title == f"{heading}, by load"
        assert keys.split() == ["architecture", "selection", "policy", "0.3", "0.6"]
        assert len(variants) == 4 * 2 * 2
    assert "at a load of 0.6" in sizes
    assert (user.folder / "out.png").stat().st_size > 1000
    kept = lines[:1] + lines[3:-1] + [lines[-1][:20]]
    (user.folder / "out.csv").write_text("".join(kept))
    second = user.wfrun(*words, "--jobs", "2")
    assert "the last line was cut off" in second.err
    assert second.out == first.out
    assert sorted((user.folder / "out.csv").read_text().splitlines(keepends=True)) == sorted(lines)
    rows = list(csv.DictReader(lines))
    assert {float(r["nsl"]) > 0 for r in rows} == {True}


@pytest.mark.slow
def test_the_table_says_what_is_compared(user: User) -> None:
    user.catalog(SITES)
    done = user.ask(*WORDS, "--policy", "all", "--load", "0.9", "--seeds", "2")
    assert done.status == 0, done.text
    rows = {line.split()[0]: line for line in done.out.splitlines() if line}
    for policy in ("ect", "fplt", "rr", "wqr", "dfplt", "ect-p", "stfr", "fpf"):
        assert policy in rows
    assert "±" in done.out
    assert "best" in done.out
    assert "NSL by the number of tasks of a bag" in done.out


def test_logs_are_workloads(user: User) -> None:
    user.catalog(SITES)
    lines = (
        f"{i} {400 * (i // 5) + i % 5} -1 {60 + i % 7} 1 -1 -1 1 200 -1 1 {i // 5 % 3} 1 1 1 -1 -1 "
        "-1\n"
        for i in range(200)
    )
    (user.folder / "log.swf").write_text("; MaxProcs: 8\n" + "".join(lines))
    done = user.wfrun("simulate", "bags:log.swf", "--sites", "sites.yaml", "--policy",
                      "ect", "--load", "0.5", "-o", "log.csv")  # fmt: skip
    assert done.status == 0, done.text
    (found,) = csv.DictReader((user.folder / "log.csv").read_text().splitlines())
    assert found["workload"].startswith("log.swf #")
    assert float(found["makespan_s"]) > 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("averag",), "did you mean 'average'"),
        (("bags:averag",), "did you mean 'average'"),
        (("bags:no.swf",), "No such file"),
        (("average", "--load", "0"), "above 0"),
        (("average", "--architecture", "cps"), "did you mean 'csp'"),
        (("average", "--selection", "s-bott"), "did you mean 's-bot'"),
        (("average", "--policy", "ectp"), "no placement policy 'ectp'"),
        (("average", "--runtime", "3"), "--runtime does not apply to workloads of bags"),
        (("average", "x.dax"), "average stands for workloads of bags, and x.dax for documents"),
        (("x.dax", "--architecture", "csp"), "--architecture does not apply to documents"),
        (("--workload", "average", "--each"), "--separately does not apply to workloads of bags"),
    ],
)
def test_bad_input_is_refused(user: User, words: tuple[str, ...], told: str) -> None:
    assert_refused(user.ask("simulate", *words), 2, [told])


def test_another_experiment_does_not_get_into_the_file(user: User) -> None:
    user.catalog(SITES)
    assert user.ask(*WORDS, "--policy", "ect", "-o", "out.csv").status == 0
    user.catalog(SITES.replace("slots: 8", "slots: 9"))
    done = user.ask(*WORDS, "--policy", "ect", "-o", "out.csv")
    assert_refused(done, 2, ["another value of sites"])
