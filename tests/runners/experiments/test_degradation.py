"""Degradations and ranks, also on the paper's own tables."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from wfrun.runners.metrics.degradation import degradations, mean_degradations, ranks
from wfrun.runners.metrics.grid import GRID_METRICS
from wfrun.studies.allocation.paper import TABLE_4, TABLE_6


def test_the_degradation_is_relative_to_the_best() -> None:
    assert degradations({"a": 10.0, "b": 25.0, "c": 10.0}) == {"a": 0.0, "b": 150.0, "c": 0.0}
    # A competitive factor that is 25% larger is a loss of 20% of the utilization.
    found = degradations({"a": 0.5, "b": 0.4}, "larger")
    assert found == {"a": 0.0, "b": pytest.approx(20.0)}


def test_a_best_value_of_zero_has_no_ratio() -> None:
    assert degradations({"a": 0.0, "b": 3.0}) == {"a": 0.0, "b": inf}
    found = degradations({"a": nan, "b": 2.0})
    assert isnan(found["a"])
    assert found["b"] == 0.0


def test_ranks_begin_with_the_best_and_are_shared() -> None:
    mean = mean_degradations([{"a": 0, "b": 10, "c": 4}, {"a": 6, "b": 0, "c": 2}])
    assert mean == {"a": 3.0, "b": 5.0, "c": 3.0}
    assert ranks(mean) == {"a": 1, "c": 1, "b": 3}


@pytest.mark.parametrize("grid", TABLE_4)
def test_the_mean_of_table_4_is_that_of_its_three_metrics(grid: str) -> None:
    table = TABLE_4[grid]
    metrics = [{name: line[n] for name, line in table.items()} for n in range(3)]
    for name, mean in mean_degradations(metrics).items():
        assert mean == pytest.approx(table[name].mean, abs=1.0), "of rounded numbers"


@pytest.mark.parametrize(("symbol", "place"), [("t_w", 0), ("SD_b", 1), ("SWCT_w", 2)])
def test_table_6_is_the_mean_of_both_grids_of_table_4(symbol: str, place: int) -> None:
    grids = [{name: line[place] for name, line in TABLE_4[grid].items()} for grid in TABLE_4]
    assert TABLE_6[symbol] == pytest.approx(mean_degradations(grids), abs=1.0)


def test_the_metrics_are_those_of_table_6() -> None:
    assert set(TABLE_6) == set(GRID_METRICS)
