"""Co-allocated jobs in virtual time, beside a second implementation that was written from the
thesis: second by second, with policies of its own."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from wfrun.engine.jobs.coallocation import NodeLinks, Placement, PlacementRequest
from wfrun.runners.simulate.grid.coallocated import CoallocatedJob, simulate_coallocated

Parts = dict[int, int]
"""Processors by cluster."""


class SlowJob(NamedTuple):
    arrival: int
    size: int
    run: int
    """Run time on one cluster; each further one adds as much again."""


def slow_wf(size: int, idle: list[int]) -> Parts | None:
    """Section 2.3.1, one component: the cluster with the most idle processors."""
    most = max(idle)
    return {idle.index(most): size} if size <= most else None


def fill(size: int, order: list[int], idle: list[int]) -> Parts | None:
    """A component of all idle processors on one cluster after the other."""
    parts: Parts = {}
    for cluster in order:
        if size and idle[cluster]:
            parts[cluster] = min(size, idle[cluster])
            size -= parts[cluster]
    return None if size else parts


def slow_fcm(size: int, idle: list[int]) -> Parts | None:
    """Section 2.3.2."""
    return fill(size, sorted(range(len(idle)), key=lambda c: -idle[c]), idle)


def slow_ca(size: int, idle: list[int], latency: list[list[float]]) -> Parts | None:
    """Section 2.3.3."""
    clusters = range(len(idle))
    for cluster in sorted(clusters, key=lambda c: latency[c][c]):
        if idle[cluster] >= size:
            return {cluster: size}
    return fill(size, sorted(clusters, key=lambda c: sum(latency[c]) / len(idle)), idle)


def slow_run(
    jobs: list[SlowJob], nodes: list[int], policy: str, latency: list[list[float]],
    poll: int | None, blocks: bool,
) -> list[tuple[int, Parts]]:  # fmt: skip
    """The start and the processors of each job: time goes by in seconds."""
    idle = list(nodes)
    queue: list[int] = []
    running: list[tuple[int, int]] = []
    found: dict[int, tuple[int, Parts]] = {}

    def start(job: int, now: int) -> bool:
        size = jobs[job].size
        parts = (
            slow_wf(size, idle) if policy == "wf"
            else slow_fcm(size, idle) if policy == "fcm"
            else slow_ca(size, idle, latency)
        )  # fmt: skip
        if parts is None:
            return False
        for cluster, count in parts.items():
            idle[cluster] -= count
        found[job] = now, parts
        running.append((now + jobs[job].run * len(parts), job))
        return True

    def scan(now: int) -> None:
        if not blocks:
            queue[:] = [job for job in queue if not start(job, now)]
        while blocks and queue and start(queue[0], now):
            del queue[0]

    now = 0
    while len(found) < len(jobs):
        for end, job in list(running):
            if end == now:
                running.remove((end, job))
                for cluster, count in found[job][1].items():
                    idle[cluster] += count
        if poll is None or now % poll == 0:
            scan(now)
        for number, each in enumerate(jobs):
            if each.arrival == now:
                queue.append(number)
                if poll is None:
                    scan(now)
                elif (not blocks or queue == [number]) and start(number, now):
                    queue.remove(number)
        now += 1
    return [found[number] for number in range(len(jobs))]


@pytest.mark.cases
@pytest.mark.parametrize("policy", ["wf", "fcm", "ca"])
@pytest.mark.parametrize("poll", [None, 7])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_schedules_are_those_of_the_second_implementation(
    policy: str, poll: int | None, blocks: bool, seed: int
) -> None:
    random = Random(seed)
    nodes = [random.randint(4, 16) for _ in range(random.randint(1, 4))]
    latency = [[round(random.random(), 2) for _ in nodes] for _ in nodes]
    widest = max(nodes) if policy == "wf" else sum(nodes)
    busy = random.choice((2, 6, 15))
    arrivals = sorted(random.randint(0, 40 * busy) for _ in range(40))
    jobs = [SlowJob(at, random.randint(1, widest), random.randint(1, 30)) for at in arrivals]
    schedule = simulate_coallocated(
        [
            CoallocatedJob(
                job.arrival,
                PlacementRequest(job.size, (((job.size, None),),) if policy == "wf" else ()),
            )
            for job in jobs
        ],
        nodes,
        policy,
        lambda number, placement: jobs[number].run * len(placement),
        NodeLinks(latency, "latency"),
        poll_s=poll,
        blocks=blocks,
    )
    expected = slow_run(jobs, nodes, policy, latency, poll, blocks)
    assert list(schedule.start_s) == [start for start, _ in expected]
    assert [dict(each) for each in schedule.placements] == [parts for _, parts in expected]
    assert list(schedule.end_s) == [
        start + job.run * len(parts) for job, (start, parts) in zip(jobs, expected, strict=True)
    ]


def one_second(job: int, placement: Placement) -> float:
    return 1.0


def test_ends_come_before_arrivals_of_the_same_time() -> None:
    jobs = [CoallocatedJob(at_s, PlacementRequest(4)) for at_s in (0.0, 1.0)]
    schedule = simulate_coallocated(jobs, [2, 2], "fcm", one_second)
    assert list(schedule.start_s) == [0.0, 1.0]


def test_a_later_job_that_fits_does_not_wait_for_an_earlier_one() -> None:
    sizes = (3, 4, 1)
    jobs = [CoallocatedJob(0.0, PlacementRequest(size)) for size in sizes]
    schedule = simulate_coallocated(jobs, [4], "fcm", one_second)
    assert list(schedule.start_s) == [0.0, 1.0, 0.0]


def test_a_job_that_the_clusters_cannot_hold_is_refused() -> None:
    jobs = [CoallocatedJob(0.0, PlacementRequest(9))]
    with pytest.raises(ValueError, match="cannot hold job 0"):
        simulate_coallocated(jobs, [4, 4], "fcm", one_second)


def test_a_job_that_no_poll_can_place_is_refused_too() -> None:
    jobs = [CoallocatedJob(0.0, PlacementRequest(9))]
    with pytest.raises(ValueError, match="cannot hold job 0"):
        simulate_coallocated(jobs, [4, 4], "fcm", one_second, poll_s=5.0)
