"""The strategies of Table 1 and the 24 metrics of the JGC paper, against a second implementation.

That one is written from the paper alone, without regard to speed: EASY backfilling after each
event, the schedules of level 3 by running the queue of a site to its end, the metrics by their
formulas. With ten jobs no plan with a reservation for each differs from the run of the queue."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from statistics import pstdev

import pytest
from msgspec.structs import replace

from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import ALLOCATION_STRATEGIES, PLACEMENT
from wfrun.engine.prediction.estimates import UserEstimate
from wfrun.runners.metrics.grid import MeasuredSchedule, grid_metrics
from wfrun.runners.metrics.jobs import JobTiming
from wfrun.runners.simulate.grid.model import GridJob, Scheduler
from wfrun.runners.simulate.grid.simulation import simulate_grid

PROCESSORS = (4, 6, 9)
NAMES = [each.name for each in ALLOCATION_STRATEGIES if each.name != "random"]
Weight = Callable[[int], float]


class Queue:
    """The queue of a site."""

    def __init__(self, jobs: list[GridJob], processors: int) -> None:
        self.jobs = jobs
        self.processors = processors
        self.running: dict[int, float] = {}
        """Ends by job."""
        self.waiting: list[int] = []
        self.start_s: dict[int, float] = {}

    @property
    def open(self) -> list[int]:
        return [*self.running, *self.waiting]

    def expected_s(self, job: int) -> float:
        """The expected run time of a job: its estimate, or its run time."""
        estimate_s = self.jobs[job].estimate_s
        return self.jobs[job].runtime_s if estimate_s is None else estimate_s

    def expected_end_s(self, job: int, now_s: float) -> float:
        """An overdue job is expected to end now."""
        return max(now_s, self.start_s[job] + self.expected_s(job))

    @property
    def free(self) -> int:
        return self.processors - sum(self.jobs[job].cores for job in self.running)

    def start_jobs(self, now_s: float) -> None:
        """EASY: the first jobs that fit; then others that do not delay the first that does not."""
        sizes, free = [job.cores for job in self.jobs], self.free
        while self.waiting and sizes[self.waiting[0]] <= free:
            free -= sizes[self.waiting[0]]
            self.start(self.waiting[0], now_s)
        if not self.waiting:
            return
        shadow_s, extra = now_s, free
        ends_s = {job: self.expected_end_s(job, now_s) for job in self.running}
        for job, end_s in sorted(ends_s.items(), key=lambda each: each[1]):
            if extra < sizes[self.waiting[0]] or end_s == shadow_s:
                shadow_s, extra = end_s, extra + sizes[job]
        extra -= sizes[self.waiting[0]]
        for job in self.waiting[1:]:
            is_short = now_s + self.expected_s(job) <= shadow_s
            if sizes[job] <= free and (is_short or sizes[job] <= extra):
                free -= sizes[job]
                extra -= 0 if is_short else sizes[job]
                self.start(job, now_s)

    def start(self, job: int, now_s: float) -> None:
        self.waiting.remove(job)
        self.start_s[job] = now_s
        self.running[job] = now_s + self.jobs[job].runtime_s

    def run(self, until_s: float) -> None:
        """End and start jobs up to a time."""
        while self.running and min(self.running.values()) <= until_s:
            job = min(self.running, key=self.running.__getitem__)
            self.start_jobs(self.running.pop(job))

    def forecast(self, now_s: float, *more: int) -> Queue:
        """The queue after all that is open, and more jobs, have run, each for its expected time."""
        found = deepcopy(self)
        found.jobs = [
            replace(job, runtime_s=self.expected_s(number)) for number, job in enumerate(self.jobs)
        ]
        found.running = {job: self.expected_end_s(job, now_s) for job in self.running}
        found.waiting += more
        found.start_jobs(now_s)
        found.run(float("inf"))
        return found


def value(name: str, queues: list[Queue], site: int, job: int, now_s: float) -> float:
    """What a strategy minimizes (Table 1)."""
    queue, jobs = queues[site], queues[site].jobs
    opened = queue.open
    weights: dict[str, Weight] = {
        "s": lambda k: jobs[k].cores,
        "t": queue.expected_s,
        "w": lambda k: jobs[k].cores * queue.expected_s(k),
        "p": lambda k: 1.0,
    }
    family, _, letter = name.partition("-")
    letter = letter or {"mpl": "s", "mlb": "w"}.get(name, "p")
    weight = weights[letter]
    if family in ("mlp", "mpl", "mlb"):
        return sum(map(weight, opened)) / queue.processors
    if family == "lbal":
        return pstdev(
            (sum(map(weight, each.open)) + (weight(job) if number == site else 0.0))
            / each.processors
            for number, each in enumerate(queues)
        )
    planned = queue.forecast(now_s, *([job] if name == "mst" else []))
    start_s = planned.start_s
    if name == "mst":
        return start_s[job]
    ends_s = {k: planned.expected_end_s(k, now_s) for k in opened}
    if name == "mct":
        return max(ends_s.values(), default=now_s)
    if family == "mswct":
        return sum(ends_s[k] * weight(k) for k in opened)
    waits = [(start_s[k] - jobs[k].submit_s) * weight(k) for k in opened]
    return sum(waits) / len(waits) if waits else 0.0


def schedule(jobs: list[GridJob], name: str) -> list[JobTiming]:
    queues = [Queue(jobs, processors) for processors in PROCESSORS]
    sites = []
    for number, job in enumerate(jobs):
        for queue in queues:
            queue.run(job.submit_s)
        admissible = [s for s, processors in enumerate(PROCESSORS) if job.cores <= processors]
        values = {s: value(name, queues, s, number, job.submit_s) for s in admissible}
        least = [s for s in admissible if values[s] == min(values.values())]
        if name == "mst":  # processors that are free, before those of overdue jobs
            idle = [s for s in least if not queues[s].waiting and job.cores <= queues[s].free]
            least = idle or least
        sites.append(least[0])
        queues[sites[-1]].waiting.append(number)
        queues[sites[-1]].start_jobs(job.submit_s)
    for queue in queues:
        queue.run(float("inf"))
    starts_s = [queues[site].start_s[number] for number, site in enumerate(sites)]
    return [
        JobTiming(job.submit_s, start_s, start_s + job.runtime_s, job.cores, site)
        for job, start_s, site in zip(jobs, starts_s, sites, strict=True)
    ]


def ten_jobs(seed: int) -> list[GridJob]:
    random, at_s, jobs = Random(seed), 0.0, []
    for _ in range(10):
        at_s += random.uniform(0.0, 12.0)
        jobs.append(GridJob(at_s, random.uniform(2.0, 70.0), random.randint(1, 9)))
    return jobs


def overdue_jobs(seed: int) -> list[GridJob]:
    """Jobs that mostly run for longer than was expected."""
    random = Random(seed)
    return [
        replace(job, estimate_s=job.runtime_s * random.choice([0.1, 0.3, 0.6, 1.5]))
        for job in ten_jobs(seed)
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", NAMES)
def test_both_implementations_allocate_alike(name: str, seed: int) -> None:
    jobs = ten_jobs(seed)
    sites = [SiteSpec(f"s{n}", slots) for n, slots in enumerate(PROCESSORS)]
    found = simulate_grid(jobs, sites, Scheduler(PLACEMENT[name]), "easy")
    expected = schedule(jobs, name)
    assert list(found.site) == [job.site for job in expected]
    assert list(found.start_s) == pytest.approx([job.start_s for job in expected])


@pytest.mark.cases
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", NAMES)
def test_both_implementations_allocate_alike_among_overdue_jobs(name: str, seed: int) -> None:
    jobs = overdue_jobs(seed)
    sites = [SiteSpec(f"s{n}", slots) for n, slots in enumerate(PROCESSORS)]
    scheduler = Scheduler(PLACEMENT[name], UserEstimate(), per_site=False, corrected=False)
    found = simulate_grid(jobs, sites, scheduler, "easy")
    expected = schedule(jobs, name)
    assert list(found.site) == [job.site for job in expected]
    assert list(found.start_s) == pytest.approx([job.start_s for job in expected])


@pytest.mark.parametrize("seed", range(4))
def test_the_24_metrics_by_their_formulas(seed: int) -> None:
    jobs = schedule(ten_jobs(seed), "mpl")
    origin_s = jobs[0].submit_s
    ends = [job.end_s - origin_s for job in jobs]
    times = [job.end_s - job.start_s for job in jobs]
    waits = [job.start_s - job.submit_s for job in jobs]
    responses = [job.end_s - job.submit_s for job in jobs]
    n, longest, work = 10, max(ends), sum(j.cores * t for j, t in zip(jobs, times, strict=True))
    earliest = max(end - wait for end, wait in zip(ends, waits, strict=True))
    expected = {
        "ρ": longest / max(earliest, work / 19),
        "SD": sum(r / t for r, t in zip(responses, times, strict=True)) / n,
        "SD_b": sum(r / max(10, t) for r, t in zip(responses, times, strict=True)) / n,
        "Th": n / longest, "TA": sum(responses) / n, "U": work / (longest * 19),
        "t_w": sum(waits) / n, "SCT": sum(ends), "SWT": sum(waits),
    }  # fmt: skip
    for letter, weights in {
        "s": [float(job.cores) for job in jobs], "t": times,
        "w": [job.cores * time for job, time in zip(jobs, times, strict=True)],
    }.items():  # fmt: skip

        def total(values: list[float], weights: list[float] = weights) -> float:
            return sum(v * w for v, w in zip(values, weights, strict=True))

        at = [[w for j, w in zip(jobs, weights, strict=True) if j.site == s] for s in range(3)]
        expected[f"LBal_{letter}"] = pstdev(
            sum(w) / size for w, size in zip(at, PROCESSORS, strict=True)
        )
        expected[f"SWCT_{letter}"], expected[f"SWWT_{letter}"] = total(ends), total(waits)
        expected[f"WTA_{letter}"], expected[f"WWT_{letter}"] = (
            total(responses) / n,
            total(waits) / n,
        )
    found = grid_metrics(MeasuredSchedule(jobs, PROCESSORS))
    assert found.keys() == expected.keys()
    for symbol, metric in found.items():
        assert metric == pytest.approx(expected[symbol]), symbol
