"""Metrics of bags with optional tasks, beside what they are by hand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.engine.optional.test_optional import bag, world_of
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import OptionalTasks
from wfrun.runners.inspect.statistics.statistics_table import print_statistics
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.metrics.log import run_timings
from wfrun.runners.metrics.optional_bags import deserved_core_s, optional_shares
from wfrun.runners.metrics.statistics import run_statistics


def test_the_metrics_of_two_owners_by_hand() -> None:
    """One slot. Tasks of a take 4 s, those of b 1 s; all of a come first. a: 0 to 4, 4 to 8, and
    8 until its deadline at 10. b, from 2: one from 10 to 11, after its deadline at 10.

    Deserved: a 2 s + 8 s / 2 = 6 core seconds, b 4. Satisfaction: a 10 / 6, b 1 / 4.
    """
    bags = [bag("a", 3, 4.0, OptionalTasks(2, within_s=10.0))]
    bags.append(bag("b", 3, 1.0, OptionalTasks(1, within_s=8.0)))
    world = world_of(*bags, slots=(1,), selection="s-bot", arrive_s=(0.0, 2.0))
    assert world.run() == "done"
    shares = optional_shares(world.core.state)
    assert shares is not None
    a, b = shares.owners
    assert (a.owner, a.unhappy, a.completed) == ("a", False, 2)
    assert (b.owner, b.unhappy, b.completed) == ("b", True, 1)
    assert [a.deserved_core_s, b.deserved_core_s] == pytest.approx([6, 4])
    assert [a.allocated_core_s, b.allocated_core_s] == pytest.approx([10, 1])
    assert (shares.unhappy_owners, shares.completed) == (1, 3)
    assert shares.unfairness == pytest.approx(10 / 6 - 1 / 4)

    console = Console(record=True, width=120, file=io.StringIO())
    console.print(summary(world.core.state))
    documents = {str(number): one for number, one in enumerate(bags)}
    timings = run_timings(world.log, documents)
    statistics = run_statistics(Path("run"), world.core.state, timings, "done")
    assert statistics.optional == shares
    print_statistics(console, [statistics])
    text = console.export_text()
    line = "bags with optional tasks: 3 tasks done, 1 of 2 owners unhappy, unfairness 1.42"
    assert line in text
    rows = [line.split() for line in text.splitlines()]
    assert ["unhappy", "owners", "1"] in rows
    assert ["unfairness", "1.42"] in rows
    assert ["b", "1", "no", "0.000278", "0.00111", "0.25"] in rows


def test_bags_of_one_owner_that_overlap_are_one_presence() -> None:
    """Alone: 0 to 1, with 1 to 3; again alone: 3 to 5; nobody from 5 to 7."""
    present_s = {"a": [(0.0, 3.0), (2.0, 5.0), (7.0, 8.0)], "b": [(1.0, 3.0)], "c": [(4.0, 4.0)]}
    assert deserved_core_s(present_s, 2) == pytest.approx({"a": 2 + 2 + 4 + 2, "b": 2, "c": 0})


def test_an_owner_whose_mandatory_task_fails_for_good_is_unhappy_once_it_is_due() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome("exit", exit_code=1) if task == 0 else Outcome("done")

    asked = OptionalTasks(2, within_s=50.0)
    world = world_of(bag("a", 60, 4.0, asked), slots=(1,), result=result)
    unhappy: dict[int, float] = {}
    for _ in world.steps():
        shares = optional_shares(world.core.state)
        if shares is not None:
            unhappy.setdefault(shares.unhappy_owners, world.core.state.now_s)
    assert world.core.state.ended == "failed"
    assert set(unhappy) == {0, 1}
    assert unhappy[1] >= 50


def test_runs_without_optional_tasks_have_none_of_it() -> None:
    world = world_of(bag("a", 3, 1.0, None))
    assert world.run() == "done"
    assert optional_shares(world.core.state) is None
