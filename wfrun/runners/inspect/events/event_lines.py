"""Events of a log as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wfrun.engine.core.state import RunState
from wfrun.engine.events import AnyEvent
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.visible import name_line
from wfrun.engine.fitting.sizes import size_text
from wfrun.engine.model import ORIGIN
from wfrun.engine.tasks.failures import telling_line
from wfrun.parsers.foreign import number_of
from wfrun.runners.display.durations import duration
from wfrun.runners.inspect.failures.failures import task_title

MAX_VALUE = 200
"""Maximum number of characters shown of a value."""
MAX_MEMBERS = 3
"""Maximum number of members shown of a list."""
MAX_MOVES = 20
"""Maximum number of moves shown of a reallocation."""
HERE = "here"
"""The name of the machine that wfrun runs on, as a place of files."""


def kind_of(event: AnyEvent) -> str:
    """The kind of an event, as the log names it."""
    return str(event.__struct_config__.tag)


def event_line(state: RunState, event: AnyEvent) -> str:
    """One line: the time since the start of the run, the kind, and the fields with names in place
    of numbers. Fields that are empty are left out."""
    elapsed = duration(max(0.0, event.at_s - state.started_s))
    fields = ", ".join(_fields(state, event))
    return f"{elapsed:>9}  {kind_of(event)}{f': {fields}' if fields else ''}"


def _fields(state: RunState, event: AnyEvent) -> Iterator[str]:
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "at_s"}
    yield from _subject(state, fields)
    if "source" in fields:
        places = [_place(state, fields.pop(name)) for name in ("source", "destination")]
        yield " to ".join(places)
    if fields.get("site") is not None:
        yield f"at {_place(state, fields.pop('site'))}"
    for name, value in fields.items():
        if value is None or value in ("", ()) or value == {}:
            continue
        if isinstance(value, Outcome):
            yield _outcome(value)
        elif name == "keys":
            yield f"tasks {_some([_of_key(state, key) for key in value[:MAX_MEMBERS]], len(value))}"
        elif name == "moves":
            yield _moves(state, value, fields.get("expected", ()))
        elif name == "expected":
            continue
        elif name == "files":
            yield f"files {_some([_file(state, *x[:2]) for x in value[:MAX_MEMBERS]], len(value))}"
        else:
            yield f"{name.removesuffix('_s').removesuffix('_bytes')} {_text(name, value)}"


def _subject(state: RunState, fields: dict[str, Any]) -> Iterator[str]:
    """The task, the file or the workflow that an event is about. Removes the fields that state
    it."""
    key = fields.pop("key", None)
    workflow, task = fields.pop("workflow", None), fields.pop("task", None)
    if isinstance(key, str):
        yield f"task {_of_key(state, key)}" if _numbers(key) else name_line(key)
    elif workflow is None:
        return
    elif task is not None:
        yield f"task {_task(state, workflow, task)}"
    elif (file := fields.pop("file", None)) is not None:
        yield f"file {_file(state, workflow, file)}"
    elif workflow < len(state.workflows):
        yield f"workflow {name_line(state.workflows[workflow].workflow.name)}"


def _task(state: RunState, workflow: int, task: int) -> str:
    if workflow >= len(state.workflows):
        return f"{workflow}.{task}"
    return task_title(state.workflows[workflow].workflow, task)


def _file(state: RunState, workflow: int, file: int) -> str:
    if workflow >= len(state.workflows):
        return f"{workflow}.{file}"
    return name_line(state.workflows[workflow].workflow.files[file].name)


def _of_key(state: RunState, key: str) -> str:
    """Return the task of an attempt, with the number of the attempt unless it is 1. A launcher is
    named by its key."""
    numbers = _numbers(key)
    if numbers is None:
        return name_line(key)
    workflow, task, attempt = numbers
    return _task(state, workflow, task) + (f" (attempt {attempt})" if attempt > 1 else "")


def _moves(
    state: RunState, moves: Sequence[tuple[str, int]], expected: Sequence[tuple[float, float]]
) -> str:
    """The reallocated jobs, the sites that they move to, and how much sooner or later they are
    expected to end there."""
    lines = [f"{_of_key(state, key)} to {_place(state, site)}" for key, site in moves[:MAX_MOVES]]
    for number, (stay_s, there_s) in enumerate(expected[:MAX_MOVES]):
        gain_s = stay_s - there_s
        than = "sooner" if gain_s >= 0 else "later"
        lines[number] += f" ({duration(abs(gain_s))} {than})"
    return _some(lines, len(moves))


def _some(names: list[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _numbers(key: str) -> tuple[int, int, int] | None:
    """Workflow, task and number of an attempt, from its key; None for the key of a launcher."""
    match [number_of(number) for number in key.split(".")[-3:]]:
        case [int(workflow), int(task), int(attempt)]:
            return workflow, task, attempt
    return None


def _place(state: RunState, site: int) -> str:
    if site == ORIGIN:
        return HERE
    return state.sites[site].spec.name if 0 <= site < len(state.sites) else f"site {site}"


def _outcome(outcome: Outcome) -> str:
    parts: list[str] = [outcome.cause]
    if outcome.cause == "exit" and outcome.exit_code is not None:
        parts.append(str(outcome.exit_code))
    if outcome.started_s is not None and outcome.ended_s is not None:
        parts.append(f"after {duration(max(0.0, outcome.ended_s - outcome.started_s))}")
    if outcome.host:
        parts.append(f"on {name_line(outcome.host)}")
    text = telling_line(outcome) if outcome.cause != "done" else ""
    return " ".join(parts) + (f": {name_line(text, MAX_VALUE)}" if text else "")


def _text(name: str, value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return _some([_text("", member) for member in value[:MAX_MEMBERS]], len(value))
    if isinstance(value, float) and name.endswith("_s"):
        return duration(value)
    if isinstance(value, int) and name.endswith("_bytes"):
        return size_text(value)
    if isinstance(value, (str, int, float)):
        return name_line(str(value), MAX_VALUE)
    return name_line(msgspec.json.encode(value).decode(), MAX_VALUE)
