"""Run times by size, and the search of the size with the earliest completion."""

from __future__ import annotations

import re

import pytest

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.jobs.moldable import (
    Amdahl,
    MoldableRunTimes,
    RunTimeTable,
    binary_search,
    exhaustive_search,
    fixed,
)
from wfrun.engine.queues.profile import Profile


class Cluster:
    """A cluster whose processors are reserved for intervals: (from, until, processors)."""

    def __init__(self, processors: int, *reserved: tuple[float, float, int]) -> None:
        self._profile = Profile(processors, 0.0)
        for start_s, end_s, cores in reserved:
            self._profile.add(start_s, end_s, -cores)
        self.asked: list[int] = []

    def completion_s(self, size: int, runtime_s: float) -> float:
        self.asked.append(size)
        return self._profile.earliest_s(size, runtime_s, 0.0) + runtime_s


class Line:
    """An estimator whose completions have one minimum."""

    def __init__(self, best: int) -> None:
        self._best = best

    def completion_s(self, size: int, runtime_s: float) -> float:
        return abs(size - self._best) + size / 1000


FIVE = Amdahl(7.0, 1.0, 5)
"""Seven minutes of perfectly parallel work."""


def figure_1() -> Cluster:
    """The load of Fig. 1, in minutes, from its completions: 7 with one processor, 6.5 with two
    (from 3), 7.33 with three (from 5), 1.75 with four (from 0), 7.4 with five (from 6). Four
    processors are free until 2, one until 3, two until 5 and four until 6."""
    return Cluster(5, (0, 2, 1), (2, 3, 4), (3, 5, 3), (5, 6, 1))


def test_the_example_of_figure_1() -> None:
    found = exhaustive_search(FIVE, figure_1(), 5)
    assert (found.size, found.completion_s, found.estimates) == (4, 1.75, 5)
    cluster = figure_1()
    found = binary_search(FIVE, cluster, 5)
    assert (found.size, found.completion_s) == (2, 6.5)
    assert cluster.asked == [1, 5, 3, 2]
    assert [round(figure_1().completion_s(n, 7 / n), 2) for n in (1, 5, 3)] == [7, 7.4, 7.33]


@pytest.mark.parametrize("best", [1, 2, 17, 324, 325, 649, 650])
def test_at_most_twelve_estimates_for_650_processors(best: int) -> None:
    runtimes = Amdahl(1e6, 0.999, 650)
    for search in (binary_search, exhaustive_search):
        found = search(runtimes, Line(best), 650)
        assert found.runtime_s == runtimes.runtime_s(found.size)
        if search is binary_search:
            assert found.estimates <= 12
            # The middle is compared with the ends alone: the better end is the nearer one.
            assert found.completion_s <= 325
        else:
            assert found.size == best


def test_an_idle_cluster_gives_all_that_help() -> None:
    for search in (binary_search, exhaustive_search):
        assert search(Amdahl(600, 0.8, 32), Cluster(100), 100).size == 32
        assert search(Amdahl(600, 0.8, 32), Cluster(20), 20).size == 20
        assert search(Amdahl(600, 0.0, 32), Cluster(20), 20).size == 1
        assert search(fixed(7, 60.0), Cluster(20), 20)[:3] == (7, 60.0, 60.0)


def test_a_job_that_a_site_cannot_run() -> None:
    with pytest.raises(InfeasibleError, match="at least 8 processors, the site admits 4"):
        binary_search(RunTimeTable({8: 9.0, 16: 5.0}), Cluster(4), 4)


def test_amdahl_and_tables() -> None:
    t1 = Amdahl(100.0, 0.8, 32)
    assert t1.runtime_s(1) == pytest.approx(100)
    assert t1.runtime_s(4) == pytest.approx(40)
    table: MoldableRunTimes = RunTimeTable({4: 30.0, 1: 100.0})
    assert list(table.sizes) == [1, 4]
    assert table.runtime_s(4) == 30.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Amdahl(0.0, 0.5, 4), "serial_s is 0"),
        (lambda: Amdahl(9.0, 1.5, 4), "parallel is 1.5"),
        (lambda: Amdahl(9.0, 0.5, 0), "limit is 0"),
        (lambda: RunTimeTable({}), "is empty"),
        (lambda: RunTimeTable({0: 9.0}), "has the size 0"),
        (lambda: RunTimeTable({1: -1.0}), "run time of size 1 is -1"),
        (
            lambda: RunTimeTable({1: 9.0, 2: 5.0, 4: 6.0}),
            "not monotonic: 5 s with 2 processors, 6 s with 4",
        ),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidError, match=re.escape(message)):
        make()
