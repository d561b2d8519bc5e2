"""What the tests of replicas share: tasks that write which of their attempts they are, and what has
to hold of what is left of a run."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.runners.harness import Job
from wfrun.engine import events as ev
from wfrun.engine.core.interpreter import Interpreter
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store


def telling(id: str, before: str, *, inputs: tuple[str, ...] = (), collect: bool = True) -> Job:
    """A task that writes the name of its attempt, does what ``before`` says, and writes the end;
    then what it has read."""
    output = f"{id}.txt"
    script = f"echo $WFRUN_ATTEMPT > {output}; {before}; echo end >> {output}"
    if inputs:
        script += f"; cat {' '.join(inputs)} >> {output}"
    return Job(id, script, inputs, [output], [output] if collect else [])


def events_of(run: Path) -> list[ev.Event]:
    store = Store(run)
    try:
        return list(store.load())
    finally:
        store.close()


def first_done(run: Path) -> dict[int, str]:
    """Of each task the attempt that was done first, as the log tells. After it none is placed
    any more."""
    first: dict[int, str] = {}
    for event in events_of(run):
        if isinstance(event, ev.AttemptPlaced):
            assert event.task not in first, f"{event.key} was placed after {first[event.task]}"
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            first.setdefault(int(event.key.split(".")[2]), event.key)
    return first


def counted(run: Path) -> list[str]:
    """The attempts whose success counted, as the engine interprets the log."""
    store = Store(run)
    try:
        interpreter = Interpreter(store.workflows())
        keys: list[str] = []
        for event in store.load():
            if isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
                attempt = interpreter.state.attempts.get(event.key)
                if attempt is not None and not attempt.superseded:
                    keys.append(event.key)
            interpreter.apply(event)
        return keys
    finally:
        store.close()


def attempts_of(run: Path) -> dict[int, list[ev.AttemptPlaced]]:
    attempts: defaultdict[int, list[ev.AttemptPlaced]] = defaultdict(list)
    for event in events_of(run):
        if isinstance(event, ev.AttemptPlaced):
            attempts[event.task].append(event)
    return attempts


def check_committed_once(run: Path, ids: list[str]) -> None:
    """Each task is done, and its output is whole and the one of the attempt that counted."""
    state = read_state(RunDir(run))
    assert state.ended == "done"
    assert state.done == len(ids)
    first = first_done(run)
    assert sorted(first) == list(range(len(ids)))
    outputs = {path.name: path.read_text().split() for path in (run / "outputs").iterdir()}
    assert outputs == {f"{id}.txt": [first[number], "end"] for number, id in enumerate(ids)}


def check_sandboxes(run: Path) -> None:
    """No attempt has one any more, and no site a part of a file."""
    left = [path for path in run.glob("sites/*/attempts/*") if path.is_dir()]
    assert not left
    assert not [path for path in run.glob("sites/*/files/*") if ".part" in path.name]
