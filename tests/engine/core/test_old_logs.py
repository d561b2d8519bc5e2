"""Logs that an earlier version wrote: they are read as they were meant, and their runs go on.

``tests/data/logs/README.md`` says what each of them is a log of, and how it was recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from tests.engine.core.old_logs import KINDS, Resumed, outcome_of, read
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState, TaskStatus


class Launchers(NamedTuple):
    """Facts about launchers in a log, by key without the run."""

    asked: int
    live: str
    """Launchers that take tasks."""
    draining: str
    ended: str


class Facts(NamedTuple):
    """State of a run at the end of its log."""

    ended: str | None
    tasks: int
    done: int
    failed: int
    open: int
    """Open attempts."""
    states: tuple[str, ...]
    """Tasks by state, as text, for each workflow."""
    launchers: Launchers | None = None


FACTS = {
    "bag-killed": Facts(
        ended=None,
        tasks=60,
        done=3,
        failed=0,
        open=24,
        states=("done 0 2 4, dispatched 1 3 5-26, eligible 27-59",),
    ),
    "bags-with-history": Facts(
        ended=None,
        tasks=90,
        done=3,
        failed=0,
        open=36,
        states=(
            "done 0-2, dispatched 3-14, eligible 15-39",
            "dispatched 0-11, eligible 12-29",
            "dispatched 0-11, eligible 12-19",
        ),
    ),
    "cancelled": Facts(
        ended="cancelled",
        tasks=12,
        done=7,
        failed=0,
        open=0,
        states=("done 0-4 7 9, eligible 5-6 8 10-11",),
    ),
    "failed": Facts(
        ended="failed",
        tasks=8,
        done=5,
        failed=1,
        open=0,
        states=("done 0 4-7, failed 1, blocked 2-3",),
    ),
    "launchers": Facts(
        ended=None,
        tasks=120,
        done=97,
        failed=0,
        open=23,
        states=(
            "done 0-45 47-85 88-94 99 101-102 110-111, dispatched 46 86-87 95-98 100 103-109 "
            "112-119",
        ),
        launchers=Launchers(asked=8, live="L0.2 L2.2 L2.3 L2.4", draining="L0.1 L2.1", ended=""),
    ),
    "launchers-stopped": Facts(
        ended=None,
        tasks=18,
        done=16,
        failed=0,
        open=2,
        states=("done 0-15, dispatched 16-17",),
        launchers=Launchers(asked=6, live="L1.1 L1.2 L1.3 L1.4", draining="", ended="L0.2 L0.1"),
    ),
    "managers": Facts(
        ended=None,
        tasks=27,
        done=10,
        failed=0,
        open=3,
        states=(
            "dispatched 0, done 1-8",
            "eligible 0-5, dispatched 6, done 7-8",
            "eligible 0-7, dispatched 8",
        ),
    ),
    "observed-ect": Facts(
        ended=None,
        tasks=60,
        done=13,
        failed=0,
        open=26,
        states=(
            "dispatched 0 2 4 6 9 11 13 15 17 19 21 23 25 27 29 31-32 34 36 38 49-50 52 54 56"
            " 58, waiting 1 3 5 7 33 35 37 39 41 43 45 47 51 53 55 57 59, done 8 10 12 14 16 "
            "18 20 22 24 26 28 30 48, delayed 40 42 44 46",
        ),
    ),
    "observed-heft": Facts(
        ended=None,
        tasks=60,
        done=13,
        failed=0,
        open=26,
        states=(
            "dispatched 0 2 4 6 9 11 13 15-16 18 20 22 25 27 29 31 33 35 37 39 49-50 52 54 56"
            " 58, waiting 1 3 5 7 17 19 21 23 41 43 45 47 51 53 55 57 59, done 8 10 12 14 24 "
            "26 28 30 32 34 36 38 48, delayed 40 42 44 46",
        ),
    ),
    "replicas-idle": Facts(
        ended=None,
        tasks=10,
        done=5,
        failed=0,
        open=6,
        states=("done 0-2 4 6, dispatched 3 5 7-8, waiting 9",),
    ),
    "replicas-stragglers": Facts(
        ended=None,
        tasks=40,
        done=36,
        failed=0,
        open=6,
        states=("done 0-14 16-18 20-24 26-34 36-39, dispatched 15 19 25 35",),
    ),
    "resumed": Facts(
        ended=None,
        tasks=24,
        done=11,
        failed=0,
        open=7,
        states=("done 0-4 6-11, dispatched 5 12 14 16 18 20 22, waiting 13 15 17 19 21 23",),
    ),
    "selection": Facts(
        ended=None,
        tasks=95,
        done=31,
        failed=0,
        open=6,
        states=(
            "done 0-15 17-18, dispatched 16 19-20, eligible 21-39",
            "done 0-11 13, dispatched 12 14-15, eligible 16-24",
            "eligible 0-29",
        ),
    ),
    "workflow-killed": Facts(
        ended=None,
        tasks=17,
        done=4,
        failed=0,
        open=12,
        states=("done 0-3, delayed 4, dispatched 5-16",),
    ),
}


def numbers(text: str) -> dict[str, list[int]]:
    """``done 0-2 5, delayed 3`` as numbers by state."""
    found: dict[str, list[int]] = {}
    for part in text.split(", "):
        state, *ranges = part.split()
        ends = [text.partition("-") for text in ranges]
        found[state] = [n for a, _, b in ends for n in range(int(a), int(b or a) + 1)]
    return found


def states_of(state: RunState) -> list[dict[str, list[int]]]:
    """Tasks of each workflow by state."""
    found: list[dict[str, list[int]]] = []
    for w in state.workflows:
        states: dict[str, list[int]] = {}
        for task, status in enumerate(w.status):
            states.setdefault(TaskStatus(status).name.lower(), []).append(task)
        found.append(states)
    return found


def launchers_of(events: Sequence[ev.Event]) -> Launchers | None:
    asked, live, draining, ended = list[str](), dict[str, None](), dict[str, None](), list[str]()
    for event in events:
        if isinstance(event, ev.LaunchersAsked):
            asked += [request.key for request in event.launchers]
        elif isinstance(event, ev.LauncherStarted):
            live[event.key] = None
        elif isinstance(event, (ev.LauncherDraining, ev.LaunchersStopped)):
            keys = (event.key,) if isinstance(event, ev.LauncherDraining) else event.keys
            for key in keys:
                live.pop(key, None)
                draining[key] = None
        elif isinstance(event, ev.LauncherEnded):
            live.pop(event.key, None)
            draining.pop(event.key, None)
            ended.append(event.key)
    if not asked:
        return None
    shown = [" ".join(key.partition(".")[2] for key in keys) for keys in (live, draining, ended)]
    return Launchers(len(asked), *shown)


def open_attempts(events: Sequence[ev.Event]) -> dict[str, ev.AttemptPlaced]:
    ended = outcome_of(events)
    placed = [e for e in events if isinstance(e, ev.AttemptPlaced)]
    return {e.key: e for e in placed if e.key not in ended}


def test_each_recorded_log_is_known() -> None:
    assert set(FACTS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_tells_what_it_told(kind: str) -> None:
    events, documents = read(kind)
    core = Core(documents)
    core.replay(events)
    state, facts = core.state, FACTS[kind]
    assert (state.ended, state.tasks, state.done, state.failed) == facts[:4]
    assert states_of(state) == [numbers(text) for text in facts.states]
    assert launchers_of(events) == facts.launchers
    assert len(state.attempts) == facts.open
    placed = open_attempts(events)
    assert set(state.attempts) <= set(placed), "or given up when the run was resumed"
    for key, attempt in state.attempts.items():
        told = placed[key]
        assert (attempt.workflow, attempt.task, attempt.site) == (
            told.workflow, told.task, told.site,
        )  # fmt: skip


@pytest.mark.parametrize("lost", [True, False], ids=["attempts-lost", "attempts-adopted"])
@pytest.mark.parametrize("kind", KINDS)
def test_its_run_goes_on_to_its_end(kind: str, lost: bool) -> None:
    """No done task is repeated, and running attempts are adopted."""
    events, documents = read(kind)
    world = Resumed(events, documents, lost=lost)
    before = states_of(world.core.state)
    assert world.run() == "done"
    state = world.core.state
    assert state.tasks == state.done == FACTS[kind].tasks
    assert state.failed == 0
    news = world.log[len(events) :]
    assert isinstance(news[0], ev.RunResumed)
    placed = [e for e in news if isinstance(e, ev.AttemptPlaced)]
    assert not [e for e in placed if e.task in before[e.workflow].get("done", [])]
    keys = [e.key for e in world.log if isinstance(e, ev.AttemptPlaced)]
    assert len(keys) == len(set(keys)), "an attempt has the key of another one"
    if not lost:
        running = {e.key for e in events if isinstance(e, ev.AttemptStarted)}
        running &= set(open_attempts(events))
        assert running <= set(outcome_of(news))
        if kind.startswith("replicas"):
            return  # those get further replicas
        adopted = {(p.workflow, p.task) for k, p in open_attempts(events).items() if k in running}
        assert not adopted & {(e.workflow, e.task) for e in placed}


@pytest.mark.parametrize("kind", KINDS)
def test_two_engines_decide_the_same(kind: str) -> None:
    """A replay of the log with all later decisions leads to the same state."""
    events, documents = read(kind)
    world = Resumed(events, documents, lost=True)
    for count, _ in enumerate(world.steps()):
        if count == 25:
            break
    core = Core(documents)
    core.replay(world.log)
    assert states_of(core.state) == states_of(world.core.state)
    assert set(core.state.attempts) == set(world.core.state.attempts)
    assert core.state.ended == world.core.state.ended
