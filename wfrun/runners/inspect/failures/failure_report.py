"""``wfrun failures``: the failures of a run by kind, with an example, sites, hosts and advice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from wfrun.engine.core.state import RunState
from wfrun.engine.exchange import Cause
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.engine.tasks.failures import Failure, FailureGroup
from wfrun.runners.display.console import Hanging
from wfrun.runners.display.counts import counted, failed_attempts
from wfrun.runners.inspect.failures.failures import cancelled_line, excerpt, failure_line

_ADVICE: dict[Cause, str] = {
    "exit": "read what the task printed: `{logs}`",
    "signal": "read what the task printed: `{logs}`. SIGKILL (9) often means that it used more "
    "memory than it requested",
    "memory": "request more memory in the document",
    "walltime": "request a longer walltime in the document",
    "output": "compare the outputs that the document declares with what the task writes: `{logs}`",
    "launch-failed": "install the program at the site, or correct its path in the document",
    "environment": "correct `prologue` or `container` of the site in the catalog; "
    "`wfrun sites check` tests them",
    "staging": "look for the reason in the message above; `wfrun files` shows which site has which "
    "file, `wfrun sites check` tests the links",
    "disk-full": "free space at the site, or name another `directory` for it in the catalog",
    "refused": "correct `queue`, `account` or `options` of the site in the catalog, or the request "
    "of the task in its document",
    "preempted": "choose a queue of the site whose jobs are not preempted",
    "expired": "request a longer walltime for the launchers in the catalog",
    "node": "report the hosts above to the site if they fail again",
    "lost": "find out whether the site or its launchers were restarted",
}
_RESUME = "then `{resume}` runs the failed tasks again"


def advice(cause: Cause, *, logs: str, resume: str, retried: bool) -> str | None:
    """Return advice on failures of a cause; None: there is no advice. ``logs`` and ``resume`` are
    command lines that the advice names. ``retried``: leave out ``resume``, because the failed tasks
    are retried anyway."""
    known = _ADVICE.get(cause)
    if known is None:
        return None
    text = known.format(logs=logs)
    return text if retried else f"{text}; {_RESUME.format(resume=resume)}"


MAX_PLACES = 5
"""Maximum number of sites, and of hosts, named for a kind of failure."""


class ExampleRecord(msgspec.Struct, frozen=True):
    """A failed attempt."""

    task: str
    attempt: str
    site: str
    message: str


class FailureGroupRecord(msgspec.Struct, frozen=True):
    """Failures of one cause and one kind of message, since the run was started or resumed."""

    cause: str
    """Cause of the failures, with the exit code or the signal."""
    message: str
    """The message, with ``…`` for the parts in which the messages differ."""
    tasks: int
    """Number of failed tasks."""
    attempts: int
    """Number of failed attempts."""
    sites: dict[str, int]
    """Number of failed attempts by site."""
    hosts: dict[str, int]
    """Number of failed attempts by host, where the host is known."""
    example: ExampleRecord
    advice: str | None
    """What to do."""


def failure_records(path: Path, state: RunState, *, driven: bool) -> list[FailureGroupRecord]:
    """A record for each kind of failures, the kind with the most failed tasks first."""
    return [
        FailureGroupRecord(
            group.head, group.text, group.tasks, group.attempts,
            dict(group.sites.most_common()), dict(group.hosts.most_common()),
            _example(group.first), _advice(path, group, driven=driven),
        )
        for group in state.failure_groups.largest_first()
    ]  # fmt: skip


def print_failures(console: Console, path: Path, state: RunState, *, driven: bool) -> None:
    """Print each kind of failure."""
    console.print(f"run {path}", soft_wrap=True)
    groups, cancelled = state.failure_groups.largest_first(), cancelled_line(state)
    if cancelled is not None:
        console.print(cancelled)
    if not groups:
        console.print("no attempt has failed since the run was started or resumed")
        return
    blocked = f"; {counted(state.blocked, 'task')} blocked by them" if state.blocked else ""
    console.print(
        f"{counted(state.failed, 'failed task')}, "
        f"{counted(failed_attempts(state), 'failed attempt')}{blocked}"
    )
    for group in groups:
        console.print()
        text = failure_line(state, group)
        lines = excerpt(group.first)
        for line in lines[lines[0] == group.text :]:  # not twice what the line above has
            text.append(f"\n{line}", style="default")
        console.print(Hanging(text))
        console.print(Hanging(Text(f"  sites: {_places(group.sites)}")))
        if group.hosts:
            console.print(Hanging(Text(f"  hosts: {_places(group.hosts)}")))
        known = _advice(path, group, driven=driven)
        if known is not None:
            console.print(Hanging(Text(f"  to do: {known}", style="bold")))


def _places(counts: Counter[str]) -> str:
    """Places with the number of failed attempts, those with most first."""
    named = [f"{name_line(name)} {count}" for name, count in counts.most_common(MAX_PLACES)]
    more = len(counts) - MAX_PLACES
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _advice(path: Path, group: FailureGroup, *, driven: bool) -> str | None:
    logs = command_line("wfrun", "logs", path, group.first.task)
    resume = command_line("wfrun", "resume", path)
    return advice(group.first.cause, logs=logs, resume=resume, retried=driven or not group.tasks)


def _example(failure: Failure) -> ExampleRecord:
    return ExampleRecord(failure.task, failure.key, failure.site, failure.message)
