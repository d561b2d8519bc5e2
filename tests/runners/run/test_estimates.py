"""What policies are told of starts and completions, against what the simulated queues then do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine import events as ev
from wfrun.engine.fitting.information import Information, K, R
from wfrun.engine.model import Catalog, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.heft import Heft
from wfrun.parsers.generate import generate
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.simulated.model import SiteModel


class _Asking(BasePlacement):
    """Asks when each task would start and end, and places it at the first site."""

    name = "asking"
    information = Information(status=R, processing_speed=K, task_runtime=K)
    summary = "asks"
    answers: ClassVar[dict[int, tuple[float, float]]] = {}

    def place(self, task: int) -> int | None:
        view = self.view
        self.answers[task] = view.estimate_start_s(0, task), view.estimate_completion_s(0, task)
        return 0


@pytest.fixture(autouse=True, scope="module")
def asking() -> Iterator[None]:
    PLACEMENT["asking"] = _Asking
    yield
    del PLACEMENT["asking"]


class Log:
    """The events of a run, in memory."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events.extend(events)

    def commit(self) -> None:
        """Nothing has to be durable."""


class Job(NamedTuple):
    cores: int
    runtime_s: float


class Queue(NamedTuple):
    slots: int
    speed_ratio: float
    throttle: int | None
    """With one, jobs come one after another."""
    jobs: tuple[Job, ...]


@st.composite
def queues(draw: st.DrawFn, *, throttled: bool = True) -> Queue:
    """Few different run times, so that many ends fall together."""
    slots = draw(st.integers(1, 6))
    job = st.builds(Job, st.integers(1, slots), st.integers(2, 12).map(float))
    return Queue(
        slots,
        draw(st.sampled_from([1.0, 2.0, 0.7])),
        draw(st.none() | st.integers(1, 8)) if throttled else None,
        tuple(draw(st.lists(job, min_size=1, max_size=25))),
    )


class Span(NamedTuple):
    start_s: float
    end_s: float


def lived(queue: Queue, lrm: str) -> tuple[list[Span], list[Span]]:
    """Of each job what was foretold when it was placed, and what came."""
    tasks = [
        Task(f"t{i}", "x", "x", resources=Resources(job.cores), runtime_s=job.runtime_s)
        for i, job in enumerate(queue.jobs)
    ]
    bag = Workflow("bag", "bag.dax", tasks, [], [()] * len(tasks))
    world = Platform(Catalog((SiteSpec("a", queue.slots, queue.speed_ratio),)), SiteModel(lrm=lrm))
    log = Log()
    _Asking.answers.clear()
    settings = ev.Settings(policy="asking", throttle=queue.throttle)
    assert simulate([bag], world, settings, log=log).ended == "done"
    task_of: dict[str, int] = {}
    foretold: dict[int, Span] = {}
    starts_s: dict[int, float] = {}
    ends_s: dict[int, float] = {}
    for event in log.events:
        if isinstance(event, ev.AttemptPlaced):
            task_of[event.key] = event.task
            start_s, end_s = _Asking.answers[event.task]
            foretold[event.task] = Span(event.at_s + start_s, event.at_s + end_s)
        elif isinstance(event, ev.AttemptStarted):
            starts_s[task_of[event.key]] = event.at_s
        elif isinstance(event, ev.AttemptEnded):
            ends_s[task_of[event.key]] = event.at_s
    numbers = range(len(tasks))
    return [foretold[i] for i in numbers], [Span(starts_s[i], ends_s[i]) for i in numbers]


@pytest.mark.slow
@pytest.mark.parametrize("lrm", ["fcfs", "conservative"])
@given(queue=queues())
def test_estimates_come_true_job_by_job(lrm: str, queue: Queue) -> None:
    """Neither queue lets a job wait for one that comes later, so that jobs may still come."""
    foretold, came = lived(queue, lrm)
    for one, other in zip(foretold, came, strict=True):
        assert one == pytest.approx(other)


@pytest.mark.slow
@given(queue=queues(throttled=False))
def test_easy_starts_the_head_of_the_queue_at_its_estimate_at_the_latest(queue: Queue) -> None:
    """The head alone has a reservation: the others may be overtaken, and have no bound."""
    foretold, came = lived(queue, "easy")
    head = next((i for i, span in enumerate(foretold) if span.start_s > 0), None)
    if head is not None:
        assert came[head].start_s <= foretold[head].start_s + 1e-9


def test_a_narrow_short_job_goes_before_a_wide_one_where_the_queue_backfills() -> None:
    """Of 4 cores 2 are held for 10 s, and 3 asked for next: a job of 2 cores and 10 s fits before
    that, one of 11 s does not."""
    for length_s, start_s in ((10.0, 0.0), (11.0, 20.0)):
        queue = Queue(4, 1.0, None, (Job(2, 10.0), Job(3, 10.0), Job(2, length_s)))
        for lrm, expected_s in (("fcfs", 20.0), ("easy", start_s), ("conservative", start_s)):
            foretold, came = lived(queue, lrm)
            assert foretold[2].start_s == came[2].start_s == expected_s


@pytest.mark.parametrize(("lrm", "backfills"), [("fcfs", False), ("easy", True)])
def test_the_log_says_whether_a_simulated_queue_backfills(lrm: str, backfills: bool) -> None:
    log = Log()
    catalog = Catalog((SiteSpec("a", 4, backfills=not backfills),))  # as of another simulation
    settings = ev.Settings(policy=Heft.name)
    world = Platform(catalog, SiteModel(lrm=lrm))
    simulate([generate("montage", 20, seed=1)], world, settings, log=log)
    started = log.events[0]
    assert isinstance(started, ev.RunStarted)
    assert [site.backfills for site in started.sites] == [backfills]
