"""``wfrun events``: prints the log of a run, also while the log grows, and the JSON Schema of the
lines of ``--json``, which is made from the classes of the events."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from wfrun.engine.events import SCHEMA_VERSION, AnyEvent
from wfrun.runners.inspect.events.event_lines import event_line, kind_of
from wfrun.runners.inspect.live.progress import event_record
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.run.directory.run_directory import RunDir, await_start, is_driven
from wfrun.runners.run.store.event_store import Store

INTERVAL_S = 0.5
"""Interval between two looks at a log that grows, in seconds."""


def print_events(
    run: RunDir, *, kinds: Collection[str], last: int | None, follow: bool, as_json: bool
) -> None:
    """Print the events of a run; only events of these ``kinds``, unless ``kinds`` is empty.
    ``last``: maximum number of events already in the log that are printed, the latest ones; None:
    all. ``follow``: also print new events, until no engine drives the run. Raises the errors of
    ``await_start`` and ``Store``."""
    await_start(run)
    with contextlib.ExitStack() as stack:
        store = Store(run.path)
        stack.callback(store.close)
        # Names of tasks, files and sites come from the state. JSON has their numbers.
        names = None if as_json else stack.enter_context(FollowedRun(run))
        while True:
            is_last_look = not follow or not is_driven(run)
            if names is not None:
                names.update()
            found: Iterable[tuple[int, AnyEvent]] = (
                (seq, event)
                for seq, event in enumerate(store.load_more(), store.next_seq)
                if not kinds or kind_of(event) in kinds
            )
            if last is not None:
                found, last = deque(found, maxlen=last), None
            for seq, event in found:
                line = event_record(seq, event) if names is None else event_line(names.state, event)
                print(line)
            sys.stdout.flush()
            if is_last_look:
                return
            time.sleep(INTERVAL_S)


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def event_schema() -> str:
    """The JSON Schema of a line: an event of any kind, with its number and the version of the
    log."""
    (event,), parts = msgspec.json.schema_components([AnyEvent], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": f"Event of a log of wfrun, version {SCHEMA_VERSION}",
        "type": "object",
        "properties": {
            "seq": {"type": "integer", "minimum": 0, "description": "Its number, from 0."},
            "version": {"const": SCHEMA_VERSION},
        },
        "required": ["seq", "version"],
        "anyOf": event["anyOf"],
        "$defs": parts,
    }
    # Python's anchors; the regular expressions of JSON Schema are those of ECMA-262.
    return json.dumps(schema, indent=1).replace("\\\\A", "^").replace("\\\\Z", "$")
