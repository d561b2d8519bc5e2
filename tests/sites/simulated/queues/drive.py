"""Random workloads, and an owner of a queue that lives through them."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tests.sites.simulated.queues.reference import Reference
from wfrun.sites.simulated.queues import JobId, Lrm, QueuedJob

NEVER_S = float("inf")


class Job(NamedTuple):
    submit_s: float
    runtime_s: float
    cores: int
    requested_s: float
    cancel_s: float = NEVER_S
    """Waiting or running; without effect once it has ended."""


class Failure(NamedTuple):
    """Processors go out of service; running jobs have to leave until so many are free."""

    at_s: float
    cores: int
    expected_s: float
    takes_s: float


class Workload(NamedTuple):
    processors: int
    jobs: tuple[Job, ...]
    failures: tuple[Failure, ...] = ()


@st.composite
def workloads(
    draw: st.DrawFn,
    *,
    overruns: bool = True,
    cancels: bool = True,
    max_jobs: int = 14,
    max_failures: int = 0,
) -> Workload:
    """Few different times, so that many are equal; one unit is half a minute, so that jobs run
    past the first corrections of their requests."""
    processors = draw(st.integers(1, 6))
    row = st.tuples(
        st.integers(0, 12),
        st.integers(0, 14),
        st.integers(1, processors),
        st.integers(0, 14),
        st.one_of(st.none(), st.integers(0, 25)) if cancels else st.none(),
        st.sampled_from([1.0, 1.0, 1.0, 0.7]),
    )
    jobs = []
    for submit, runtime, cores, requested, cancel, factor in draw(
        st.lists(row, min_size=1, max_size=max_jobs)
    ):
        requested_s = 30.0 * requested * factor
        runtime_s = 30.0 * runtime
        jobs.append(
            Job(
                30.0 * submit,
                runtime_s if overruns else min(runtime_s, requested_s),
                cores,
                requested_s,
                NEVER_S if cancel is None else 30.0 * cancel,
            )
        )
    times = st.integers(0, 14)
    failures = [
        Failure(30.0 * at, cores, 30.0 * expected, 30.0 * takes)
        for at, cores, expected, takes in draw(
            st.lists(
                st.tuples(times, st.integers(1, processors), times, times), max_size=max_failures
            )
        )
    ]
    return Workload(processors, tuple(jobs), tuple(failures))


class Life(NamedTuple):
    starts_s: dict[JobId, float]
    asked_s: list[float]
    """Answers of the queue to questions after each pass."""


def live(
    workload: Workload,
    lrm: Lrm | Reference,
    *,
    ask: bool = False,
) -> Life:
    """Ends come before cancellations, these before submissions and these before failures; a pass
    follows each. Processors out of service are held by jobs of negative numbers."""
    jobs, failures = workload.jobs, workload.failures
    held: dict[int, int] = {}
    starts_s: dict[JobId, float] = {}
    asked_s: list[float] = []
    running: dict[int, float] = {}
    waiting: list[int] = []
    events = [(job.submit_s, 2, i) for i, job in enumerate(jobs)]
    events += [(job.cancel_s, 1, i) for i, job in enumerate(jobs) if job.cancel_s < NEVER_S]
    events += [(failure.at_s, 3, n) for n, failure in enumerate(failures)]
    wakeups = 0

    def free() -> int:
        return workload.processors - sum(held[k] for k in running)

    while events or lrm.next_wakeup_s < NEVER_S:
        event = min(events, default=(NEVER_S, 0, 0))
        if lrm.next_wakeup_s < event[0]:
            now_s = lrm.next_wakeup_s
            wakeups += 1
            assert wakeups < 1000, "it wakes up for ever"
        else:
            events.remove(event)
            now_s, kind, i = event
            if kind == 0 and running.get(i) == now_s:
                del running[i]
                lrm.end(i, now_s)
            elif kind == 2 and jobs[i].cancel_s >= now_s:
                lrm.submit(QueuedJob(i, jobs[i].cores, jobs[i].requested_s), now_s)
                waiting.append(i)
            elif kind == 1 and (i in waiting or i in running):
                running.pop(i, None)
                if i in waiting:
                    waiting.remove(i)
                lrm.cancel(i, now_s)
            elif kind == 3:
                repaired = -1 - i
                out = sum(held[k] for k in running if k < 0)
                held[repaired] = min(failures[i].cores, workload.processors - out)
                if not held[repaired]:
                    continue
                for victim in sorted(k for k in running if k >= 0):
                    if free() < held[repaired]:
                        del running[victim]
                        lrm.end(victim, now_s)
                lrm.occupy(QueuedJob(repaired, held[repaired], failures[i].expected_s), now_s)
                running[repaired] = now_s + failures[i].takes_s
                events.append((running[repaired], 0, repaired))
            else:
                continue
        started = lrm.schedule(now_s)
        for job_id in started:
            assert isinstance(job_id, int)
            waiting.remove(job_id)
            starts_s[job_id] = now_s
            held[job_id] = jobs[job_id].cores
            running[job_id] = now_s + jobs[job_id].runtime_s
            events.append((running[job_id], 0, job_id))
        assert free() >= 0
        assert running or not waiting, "jobs wait for an idle cluster"
        if ask:
            asked_s += [lrm.planned_start_s(k, now_s) for k in waiting]
            asked_s.append(lrm.estimate_start_s(1 + len(asked_s) % workload.processors,
                                                30.0 * (len(asked_s) % 5), now_s))  # fmt: skip
    assert not waiting, "jobs are left in the queue"
    assert not running
    return Life(starts_s, asked_s)
