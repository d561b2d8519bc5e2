"""Queue models that are slow and plain, to compare the real ones with.

They keep nothing but the list of running jobs and the list of waiting ones, and work out from
these, after each event and for each question, what is free when. Only the rules are those of the
real models; no data structure is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wfrun.sites.simulated.queues import JobId, QueuedJob

NEVER_S = float("inf")
PUT_OFF_MIN = [1, 5, 15, 30, 60, 2 * 60, 5 * 60, 10 * 60, 20 * 60, 50 * 60, 100 * 60]


@dataclass
class Job:
    id: JobId
    cores: int
    length_s: float
    start_s: float = NEVER_S
    end_s: float = NEVER_S
    """As expected."""
    put_off: int = 0


def free_at(jobs: list[Job], processors: int, at_s: float) -> int:
    return processors - sum(job.cores for job in jobs if job.start_s <= at_s < job.end_s)


def steps(jobs: list[Job], processors: int, now_s: float) -> list[tuple[float, int]]:
    """(time, free processors) from now on, from the jobs' starts and expected ends."""
    times_s = {now_s} | {t for job in jobs for t in (job.start_s, job.end_s) if t > now_s}
    return [(t, free_at(jobs, processors, t)) for t in sorted(times_s - {NEVER_S})]


def earliest_s(
    jobs: list[Job], processors: int, cores: int, length_s: float, from_s: float
) -> float:
    """The first time from which on so many processors are free for so long."""
    levels = steps(jobs, processors, from_s)
    for t, free in levels:
        if free >= cores and all(f >= cores for u, f in levels if t <= u < t + length_s):
            return t
    return NEVER_S


class Reference(Protocol):
    """What these have in common with the real ones."""

    running: list[Job]
    next_wakeup_s: float

    def submit(self, job: QueuedJob, now_s: float) -> None: ...
    def end(self, job_id: JobId, now_s: float) -> None: ...
    def cancel(self, job_id: JobId, now_s: float) -> None: ...
    def occupy(self, job: QueuedJob, now_s: float) -> None: ...
    def schedule(self, now_s: float) -> list[JobId]: ...
    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float: ...
    def planned_start_s(self, job_id: JobId, now_s: float) -> float: ...


class SlowFcfs:
    in_order = True

    def __init__(self, processors: int) -> None:
        self.processors = processors
        self.next_wakeup_s = NEVER_S
        self.running: list[Job] = []
        self.waiting: list[Job] = []

    def free(self) -> int:
        return self.processors - sum(job.cores for job in self.running)

    def submit(self, job: QueuedJob, now_s: float) -> None:
        self.waiting.append(Job(job.id, job.cores, job.requested_s))

    def end(self, job_id: JobId, now_s: float) -> None:
        self.running = [job for job in self.running if job.id != job_id]

    def cancel(self, job_id: JobId, now_s: float) -> None:
        self.end(job_id, now_s)
        self.waiting = [job for job in self.waiting if job.id != job_id]

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        self.running.append(Job(job.id, job.cores, job.requested_s, now_s, now_s + job.requested_s))

    def start(self, job: Job, now_s: float) -> JobId:
        self.waiting.remove(job)
        job.start_s, job.end_s = now_s, now_s + job.length_s
        self.running.append(job)
        return job.id

    def schedule(self, now_s: float) -> list[JobId]:
        started = []
        while self.waiting and self.waiting[0].cores <= self.free():
            started.append(self.start(self.waiting[0], now_s))
        return started

    def plan(self, now_s: float, *more: Job) -> dict[JobId, float]:
        """A start for every waiting job, in the order of the queue, and for further ones."""
        placed = list(self.running)
        starts_s: dict[JobId, float] = {}
        from_s = now_s
        for job in (*self.waiting, *more):
            start_s = earliest_s(placed, self.processors, job.cores, job.length_s, from_s)
            placed.append(Job(job.id, job.cores, 0, start_s, start_s + job.length_s))
            starts_s[job.id] = start_s
            from_s = start_s if self.in_order else now_s
        return starts_s

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        return self.plan(now_s, Job("asked", cores, requested_s))["asked"]

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        return self.plan(now_s)[job_id]


class SlowEasy(SlowFcfs):
    in_order = False

    def shadow_s(self, now_s: float) -> float:
        """When the head could start, as the requests of the running jobs say."""
        head = self.waiting[0]
        return next(
            t for t, free in steps(self.running, self.processors, now_s) if free >= head.cores
        )

    def delays_head(self, job: Job, now_s: float) -> bool:
        before_s = self.shadow_s(now_s)
        self.running.append(Job(job.id, job.cores, 0, now_s, now_s + job.length_s))
        after_s = self.shadow_s(now_s)
        self.running.pop()
        return after_s > before_s

    def schedule(self, now_s: float) -> list[JobId]:
        started = super().schedule(now_s)
        for job in self.waiting[1:]:
            if job.cores <= self.free() and not self.delays_head(job, now_s):
                started.append(self.start(job, now_s))
        return started


class SlowConservative(SlowFcfs):
    """``start_s`` of a waiting job is its reservation."""

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        self.released = False

    def all_but(self, job: Job | None) -> list[Job]:
        return [other for other in self.running + self.waiting if other is not job]

    def reserve(self, job: Job, beside: list[Job], now_s: float) -> None:
        job.start_s = earliest_s(beside, self.processors, job.cores, job.length_s, now_s)
        job.end_s = job.start_s + job.length_s

    def submit(self, job: QueuedJob, now_s: float) -> None:
        self.keep_up(now_s)
        new = Job(job.id, job.cores, max(1.0, job.requested_s))
        self.reserve(new, self.all_but(None), now_s)
        self.waiting.append(new)

    def end(self, job_id: JobId, now_s: float) -> None:
        gone = [job for job in self.running + self.waiting if job.id == job_id]
        self.released |= any(job.end_s > now_s for job in gone)
        super().end(job_id, now_s)

    def occupy(self, job: QueuedJob, now_s: float) -> None:
        length_s = max(1.0, job.requested_s)
        self.running.append(Job(job.id, job.cores, length_s, now_s, now_s + length_s))

    def plan_anew(self, now_s: float) -> None:
        """Reserve for all waiting jobs anew."""
        placed = list(self.running)
        for job in self.waiting:
            self.reserve(job, placed, now_s)
            placed.append(job)

    def keep_up(self, now_s: float) -> None:
        for job in self.running:
            if job.end_s < now_s:
                while job.end_s <= now_s:
                    job.end_s += 60.0 * PUT_OFF_MIN[min(job.put_off, len(PUT_OFF_MIN) - 1)]
                    job.put_off += 1
        levels = steps(self.all_but(None), self.processors, now_s)
        if any(free < 0 for _, free in levels) or any(job.start_s < now_s for job in self.waiting):
            self.plan_anew(now_s)
        elif self.released:
            before_s: list[float] = []
            while before_s != (before_s := [job.start_s for job in self.waiting]):
                for job in self.waiting:
                    self.reserve(job, self.all_but(job), now_s)
        self.released = False

    def schedule(self, now_s: float) -> list[JobId]:
        self.keep_up(now_s)
        due = [job for job in self.waiting if job.start_s <= now_s]
        started = [self.start(job, now_s) for job in due if job.cores <= self.free()]
        later_s = [job.start_s for job in self.waiting if job.start_s > now_s]
        blocked = len(later_s) < len(self.waiting)
        self.next_wakeup_s = min([*later_s, now_s + 60.0 if blocked else NEVER_S])
        return started

    def estimate_start_s(self, cores: int, requested_s: float, now_s: float) -> float:
        asked = Job("asked", cores, max(1.0, requested_s))
        self.keep_up(now_s)
        self.reserve(asked, self.all_but(None), now_s)
        return asked.start_s

    def planned_start_s(self, job_id: JobId, now_s: float) -> float:
        self.keep_up(now_s)
        return next(job.start_s for job in self.waiting if job.id == job_id)


class SlowReplanned(SlowConservative):
    """Plans every waiting job again when a job has left."""

    def keep_up(self, now_s: float) -> None:
        released, self.released = self.released, False
        super().keep_up(now_s)
        if released:
            self.plan_anew(now_s)


REFERENCE: dict[str, type[SlowFcfs]] = {
    "fcfs": SlowFcfs,
    "easy": SlowEasy,
    "conservative": SlowConservative,
    "replanned": SlowReplanned,
}
