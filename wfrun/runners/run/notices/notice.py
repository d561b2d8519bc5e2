"""Content of a notification: JSON for programs, variables for shell commands, a line for people."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.explain.visible import message_block, name_line
from wfrun.runners.run.directory.run_directory import RunDir

VERSION = 1
"""Version of the JSON. An added member does not change the version."""
MAX_REASON = 4000
"""Maximum length of a reason, in characters. Reasons may contain the output of tasks."""


class Notice(NamedTuple):
    """An occurrence of which the user is notified."""

    on: str
    """Kind of the occurrence, as in the option ``on``."""
    site: str | None
    reason: str
    """Why this occurred; may contain output of tasks and hosts."""
    at_s: float


def as_payload(notice: Notice, state: RunState, run: RunDir) -> dict[str, Any]:
    """The members of the JSON; docs/notifications.md describes them. Control characters in texts
    are escaped."""
    reason = message_block(notice.reason[:MAX_REASON])
    counts = state.counts
    return {
        "version": VERSION,
        "on": notice.on,
        "text": _text(notice, state, run),
        "run": name_line(run.name),
        "directory": name_line(str(run.path.absolute()), MAX_REASON),
        "host": name_line(socket.gethostname()),
        "at_s": notice.at_s,
        "elapsed_s": max(0.0, notice.at_s - state.started_s),
        "outcome": state.ended,
        "reason": reason or None,
        "site": None if notice.site is None else name_line(notice.site),
        "tasks": {
            "total": state.tasks,
            "done": state.done,
            "failed": state.failed,
            "blocked": state.blocked,
            "not_needed": state.unneeded,
            "dispatched": counts[TaskStatus.DISPATCHED],
        },
    }


def _text(notice: Notice, state: RunState, run: RunDir) -> str:
    name = name_line(run.name)
    why = f": {name_line(notice.reason.partition(chr(10))[0])}" if notice.reason else ""
    if notice.on == "finished":
        elapsed = timedelta(seconds=round(max(0.0, notice.at_s - state.started_s)))
        noun = "task" if state.done == 1 else "tasks"
        return f"wfrun: run {name} is done: {state.done} {noun} in {elapsed}"
    if notice.on == "needs-login":
        site = name_line(notice.site or "")
        return f"wfrun: run {name}: site {site} waits for you{why}"
    done = f"{state.done} of {state.tasks} tasks are done"
    if notice.on == "stalled":
        after = timedelta(seconds=round(state.settings.stalled_after_s))
        return f"wfrun: run {name}: nothing has moved for {after}, {done}{why}"
    return f"wfrun: run {name} failed, {done}{why}"


def as_variables(payload: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of a notification command."""
    names = ("on", "text", "run", "directory", "host", "outcome", "reason", "site")
    values = {f"WFRUN_{name.upper()}": payload[name] or "" for name in names}
    return values | {f"WFRUN_TASKS_{k.upper()}": str(n) for k, n in payload["tasks"].items()}
