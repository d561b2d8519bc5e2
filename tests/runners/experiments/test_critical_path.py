"""The critical path of a run as it happened."""

from __future__ import annotations

import pytest

from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, SiteSpec, Task, Workflow
from wfrun.runners.metrics.critical_path import PARTS, CriticalPath, critical_path
from wfrun.runners.metrics.log import run_timings
from wfrun.testing.fake_world import FakeWorld, Result


def fork(runtimes_s: dict[str, float]) -> Workflow:
    """``a``, then ``b`` and ``c``, then ``d``."""
    tasks = [Task(name, name, "x", runtime_s=runtime_s) for name, runtime_s in runtimes_s.items()]
    return Workflow("fork", "fork", tasks, [], [(), (0,), (0,), (1, 2)])


def path_of(
    workflow: Workflow, slots: int, throttle: int | None = None, result: Result | None = None
) -> tuple[CriticalPath, float]:
    """The path, and the makespan."""
    settings = ev.Settings("round-robin", throttle=throttle)
    sites = Catalog((SiteSpec("one", slots),))
    world = FakeWorld([workflow], sites, settings, result=result)
    assert world.run() == "done"
    timings = run_timings(world.log, {"0": workflow})
    path = critical_path([workflow], timings.workflows, timings.tasks, timings.sites)
    makespan_s = timings.workflows[0].makespan_s
    assert path is not None
    assert makespan_s is not None
    return path, makespan_s


def sums(path: CriticalPath) -> dict[str, float]:
    return {name: part_s for name, part_s in zip(PARTS, path.parts_s, strict=True) if part_s > 1e-9}


def test_the_path_follows_the_parent_that_ended_last() -> None:
    path, makespan_s = path_of(fork({"a": 1, "b": 2, "c": 5, "d": 1}), slots=4)
    assert [step.task for step in path.steps] == ["a", "c", "d"]
    assert [step.begin_s for step in path.steps] == [0, 1, 6]
    assert sums(path) == {"runtime_s": 7}
    assert path.length_s == makespan_s == 7


def test_waits_of_the_path_have_their_cause() -> None:
    jobs = fork({"a": 1, "b": 2, "c": 2, "d": 1})
    path, makespan_s = path_of(jobs, slots=4, throttle=1)
    assert sums(path) == {"throttle_s": 2, "runtime_s": 4}
    assert path.length_s == makespan_s == 6
    path, _ = path_of(jobs, slots=1)
    assert sums(path) == {"queue_s": 2, "runtime_s": 4}


def test_failed_attempts_and_delays_of_retries_are_a_part_of_the_path() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome(cause="exit" if task == 1 and key.endswith(".1") else "done", exit_code=1)

    path, makespan_s = path_of(fork({"a": 1, "b": 3, "c": 2, "d": 1}), slots=4, result=result)
    assert [step.task for step in path.steps] == ["a", "b", "d"]
    found = sums(path)
    assert found["runtime_s"] == 5
    assert found["earlier_s"] >= 3  # the first attempt, and what was waited for the next
    assert path.length_s == pytest.approx(makespan_s)


def test_what_earlier_attempts_waited_for_are_waits() -> None:
    def result(key: str, workflow: int, task: int) -> Outcome:
        return Outcome(cause="exit" if task == 2 and key.endswith(".1") else "done", exit_code=1)

    path, makespan_s = path_of(fork({"a": 1, "b": 7, "c": 1, "d": 1}), slots=1, result=result)
    assert [step.task for step in path.steps] == ["a", "c", "d"]
    found = sums(path)
    assert found["queue_s"] == pytest.approx(7)  # of the first attempt, behind b
    assert found["runtime_s"] == 3
    assert found["earlier_s"] == pytest.approx(makespan_s - 10)
    assert path.length_s == pytest.approx(makespan_s)


def test_a_run_without_a_done_task_has_no_path() -> None:
    assert critical_path([fork({"a": 1, "b": 1, "c": 1, "d": 1})], [], [], []) is None
