"""The changes by which the study of bags tests causes."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.runners.studies.test_study_bags import TINY
from wfrun.parsers.generate.bots import generate_workload
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.studies.bags import causes
from wfrun.studies.bags.cause_tables import all_cells, cause_page, tables_of
from wfrun.studies.bags.causes import CHANGES, BagCauseCell, BagCauseRow, simulate
from wfrun.studies.bags.experiments import BASE, STAND_IN
from wfrun.studies.bags.readings import readings

WORKLOAD = generate_workload(das3_grid5000().sites, tasks=2_000)


def runtimes() -> list[float]:
    return sorted(s for bag in WORKLOAD.bags for s in bag.runtime_s)


def test_bursts_move_arrivals_alone() -> None:
    burst = causes.in_bursts(WORKLOAD)
    assert len({bag.arrival_s for bag in burst.bags}) == causes.BURSTS
    for before, after in zip(WORKLOAD.bags, burst.bags, strict=True):
        assert 0 <= before.arrival_s - after.arrival_s <= WORKLOAD.span_s / causes.BURSTS
        assert before.runtime_s is after.runtime_s


def test_shuffled_run_times_are_the_same_ones() -> None:
    shuffled = causes.shuffled(WORKLOAD)
    assert [len(bag) for bag in shuffled.bags] == [len(bag) for bag in WORKLOAD.bags]
    assert sorted(s for bag in shuffled.bags for s in bag.runtime_s) == runtimes()
    assert [bag.runtime_s for bag in shuffled.bags] != [bag.runtime_s for bag in WORKLOAD.bags]


def test_common_users_have_the_bags_of_all_clusters() -> None:
    common = causes.with_common_users(WORKLOAD)
    of_user = {bag.cluster for bag in common.bags if bag.user == "u1"}
    assert len(of_user) > 10
    assert all(bag.application.startswith(f"{bag.user}.") for bag in common.bags)


def test_equal_speeds_keep_the_capacity() -> None:
    before, after = das3_grid5000(), causes.with_equal_speeds(das3_grid5000())
    assert len({site.speed_ratio for site in after.sites}) == 1
    assert sum(s.slots * s.speed_ratio for s in after.sites) == pytest.approx(
        sum(s.slots * s.speed_ratio for s in before.sites)
    )


@pytest.mark.slow
def test_every_change_changes_a_run() -> None:
    """Not those that have no effect here: generated bags are submitted whole, users matter only
    where many tasks wait, and FPLT has no replicas."""
    cell = BagCauseCell(**{**msgspec.structs.asdict(BASE), "change": "base", "load": 0.95,
                        "tasks": 1_500, "selection": "s-u-t", "architecture": "csp"})  # fmt: skip
    found = {}
    for change in CHANGES:
        architecture = "sep-c" if change == "streams" else "csp"
        one = msgspec.structs.replace(cell, change=change, architecture=architecture)
        found[change] = simulate(None, one)
    for without_effect in ("whole", "users", "replicas"):
        assert found.pop(without_effect).nsl == found["base"].nsl
    assert len({row.nsl for row in found.values()}) == len(found)


def test_the_page_names_tables_that_it_has() -> None:
    titles = [table.title.partition(" (claim")[0] for table in tables_of(TINY, STAND_IN)]
    named = set(re.findall(r"\*([A-Z][^*]+)\*", "\n".join(readings()))) - {"Avg"}
    assert len(named) > 5
    assert named <= set(titles)


def test_the_page_has_every_line() -> None:
    tables = tables_of(TINY, STAND_IN)
    rows = {
        cell: BagCauseRow(
            **msgspec.structs.asdict(cell), makespan_s=3.0, nsl=2.0, completed_share=0.5,
            completed_later_share=0.75, class_nsl=(1.0,) * 10, class_makespan_s=(4.0,) * 10,
        )
        for cell in all_cells(tables, TINY)
    }  # fmt: skip
    page = "\n".join(cause_page(tables, rows, TINY))
    for table in tables:
        assert f"### {table.title}" in page
        for line in table.lines:
            assert f"| {line.title or CHANGES[line.change].title} | " in page
    assert "| 0.5 | 0.75 | 0.5 | 0.75 |" in page
