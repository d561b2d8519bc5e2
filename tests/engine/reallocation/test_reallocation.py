"""Reallocation of waiting jobs between queues that are planned by conservative backfilling."""

from __future__ import annotations

from random import Random

import pytest

from wfrun.engine.jobs.moldable import Amdahl, MoldableRunTimes, fixed
from wfrun.engine.jobs.reallocation import ALGORITHMS, Limits, LrmQueues, QueueJob, reallocate
from wfrun.engine.queues import Lrm, QueuedJob, make_lrm

JobSpec = tuple[str, int, MoldableRunTimes]
"""(name, site, run times)."""


def queues(
    busy: list[tuple[int, int, float]], jobs: list[JobSpec], files_s: float = 0.0
) -> LrmQueues:
    """Sites as (processors, busy ones, until), and our jobs in the order of submission."""
    lrms: list[Lrm] = []
    for processors, used, until_s in busy:
        lrm = make_lrm("conservative", processors)
        if used:
            lrm.occupy(QueuedJob(-1, used, until_s), 0.0)
        lrms.append(lrm)
    made = LrmQueues(lrms, [1.0] * len(lrms), files_s=lambda job, site: files_s)
    for number, (name, site, runtimes) in enumerate(jobs):
        made.jobs[name] = QueueJob(runtimes, float(number))
        offer = made.offer_of(runtimes, site)
        assert offer is not None
        made.enter(name, offer)
    made.changed.clear()
    return made


def moves(made: LrmQueues, algorithm: str, limits: Limits = Limits()) -> dict[str, int]:  # noqa: B008
    """The jobs that moved, and where to."""
    placed = reallocate(made, algorithm, limits)
    return {str(each.job.id): each.offer.site for each in placed if each.is_moved}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_example_of_figure_2(algorithm: str) -> None:
    """Two equal clusters: the first is busy, the second idle. A job that would start sooner
    there moves, with the size that is best there."""
    job = Amdahl(1000.0, 1.0, 4)
    made = queues([(4, 4, 5000.0), (4, 0, 0.0)], [("h", 0, fixed(4, 800.0)), ("i", 0, job)])
    assert moves(made, algorithm) == {"h": 1, "i": 1}
    assert made.jobs["i"].site == 1
    assert made.lrms[0].queued == 0
    assert made.changed == {0, 1}
    assert made.lrms[1].schedule(0.0)


@pytest.mark.parametrize("algorithm", ["mct-reg", "minmin-reg"])
@pytest.mark.parametrize(("until_s", "is_moved"), [(59.0, False), (60.0, False), (61.0, True)])
def test_a_move_gains_more_than_a_minute(algorithm: str, until_s: float, is_moved: bool) -> None:
    made = queues([(4, 4, until_s), (4, 0, 0.0)], [("j", 0, fixed(4, 100.0))])
    assert bool(moves(made, algorithm)) is is_moved


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_move_gains_more_than_its_files_cost(algorithm: str) -> None:
    for files_s, expected in ((400.0, {"j": 1}), (600.0, {})):
        made = queues([(4, 4, 500.0), (4, 0, 0.0)], [("j", 0, fixed(4, 100.0))], files_s)
        assert moves(made, algorithm) == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_settled_job_moves_only_where_it_starts_immediately(algorithm: str) -> None:
    """A job that has used up its moves keeps its place, except for a site that is idle."""
    for until_s, expected in ((50.0, {}), (0.0, {"j": 1})):
        busy = [(4, 4, 5000.0), (4, 4 if until_s else 0, until_s)]
        made = queues(busy, [("j", 0, fixed(4, 100.0))])
        made.jobs["j"].moves = 3
        assert moves(made, algorithm, Limits(most_moves=3)) == expected
        made.jobs["j"].moves = 2
        assert moves(made, algorithm, Limits(most_moves=3)) == ({} if expected else {"j": 1})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_only_job_behind_others_jobs_leaves_for_an_idle_site(algorithm: str) -> None:
    """It is the oldest of its site by definition. Younger jobs do not take the idle site first."""
    jobs = [(name, 0, fixed(4, 100.0)) for name in ("alone", "young", "younger")]
    made = queues([(4, 4, 5000.0), (4, 0, 0.0)], jobs)
    placed = reallocate(made, algorithm, Limits(keeps_oldest=True))
    assert made.lrms[1].schedule(0.0) == ["alone"]
    assert next(each.job.id for each in placed if each.is_moved) == "alone"


def test_the_job_that_waits_longest_keeps_its_place() -> None:
    jobs = [(name, 0, fixed(4, 100.0)) for name in ("a", "b")]
    busy = [(4, 4, 5000.0), (4, 4, 50.0)]
    assert moves(queues(busy, jobs), "mct-can") == {"a": 1, "b": 1}
    assert moves(queues(busy, jobs), "mct-can", Limits(keeps_oldest=True)) == {"b": 1}
    assert moves(queues(busy, jobs), "mct-reg", Limits(keeps_oldest=True)) == {"b": 1}


def test_minmin_takes_the_earliest_completion_first() -> None:
    """Of a long and a short job, both better at the other site, the short one goes first."""
    jobs = [("long", 0, fixed(4, 900.0)), ("short", 0, fixed(4, 100.0))]
    made = queues([(4, 4, 5000.0), (4, 0, 0.0)], jobs)
    assert [each.job.id for each in reallocate(made, "minmin-reg")] == ["short", "long"]
    made = queues([(4, 4, 5000.0), (4, 0, 0.0)], jobs)
    assert [each.job.id for each in reallocate(made, "mct-reg")] == ["long", "short"]


def test_minmin_looks_at_the_20_oldest_jobs() -> None:
    jobs = [(f"j{n}", 0, fixed(1, 1000.0 - n)) for n in range(25)]
    made = queues([(1, 1, 1e6), (100, 0, 0.0)], jobs)
    assert sorted(moves(made, "minmin-reg")) == sorted(f"j{n}" for n in range(20))
    made = queues([(1, 1, 1e6), (100, 0, 0.0)], jobs)
    placed = [str(each.job.id) for each in reallocate(made, "minmin-can")]
    assert placed[20:] == [f"j{n}" for n in range(20, 25)]
    assert placed[0] == "j19"  # the shortest of the 20 oldest


@pytest.mark.parametrize("seed", range(12))
def test_no_job_is_lost_and_regular_worsens_no_estimate(seed: int) -> None:
    """In random grids every job waits in exactly one queue afterwards. A regular round completes
    each moved job earlier than where it was."""
    random = Random(seed)
    sizes = [random.randint(4, 40) for _ in range(3)]
    busy = [(n, random.randint(1, n), random.uniform(10, 1e4)) for n in sizes]
    jobs: list[JobSpec] = [
        (f"j{n}", random.randrange(3), Amdahl(random.uniform(10, 1e4), 0.9, random.randint(1, 40)))
        for n in range(30)
    ]
    for algorithm in ALGORITHMS:
        made = queues(busy, jobs)
        before = {job.id: made.completion_s(job) for job in made.waiting()}
        placed = reallocate(made, algorithm)
        assert sum(lrm.queued for lrm in made.lrms) == len(jobs)
        assert {job.id for job in made.waiting()} == {name for name, _, _ in jobs}
        for each in made.waiting():
            made.lrms[each.site].planned_start_s(each.id, 0.0)  # it is there
        if algorithm.endswith("reg"):
            assert all(each.is_moved for each in placed)
            assert all(each.offer.completion_s + 60 < before[each.job.id] for each in placed)
        else:
            assert len(placed) == len(jobs)


def test_a_site_that_is_too_small_makes_no_offer() -> None:
    made = queues([(8, 8, 5000.0), (4, 0, 0.0)], [("j", 0, fixed(8, 100.0))])
    assert moves(made, "mct-reg") == {}
    assert moves(made, "minmin-reg") == {}
    assert moves(made, "mct-can") == {}
    assert made.best_offer(fixed(9, 1.0)) is None
