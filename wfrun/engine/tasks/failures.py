"""The failed attempts of a run, in groups of one cause and one kind of message."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from wfrun.engine.exchange import Cause, Outcome

MAX_GROUPS = 100
"""Maximum number of groups, besides a group that all further kinds of failures share."""
MAX_TEXT = 200
"""Maximum number of characters of the message of a group."""
MAX_HOSTS = 1000
"""Maximum number of hosts whose failures a group counts."""
_VARIABLE = re.compile(
    r"'[^']*'|\"[^\"]*\"|`[^`]*`"  # in quotes
    r"|(?:[\w.~-]*/)+[\w.~-]*"  # a path
    r"|\b(?=\w*\d)[\w.]+\b",  # a number, or a name with one
)
"""Pattern of the parts that differ between messages of one kind: names, paths, numbers."""

_ONLY_ENDINGS = ("ended with exit code", "killed by signal")
"""Beginnings of messages that say how a task ended and contain no output of it."""


class Failure(NamedTuple):
    """A failed attempt."""

    task: str
    site: str
    key: str
    cause: Cause
    message: str
    final: bool
    """Whether no retry follows: the task has failed."""


class FailureGroup:
    """Failures of one kind since the run was started or resumed."""

    __slots__ = ("attempts", "first", "head", "hosts", "sites", "tasks", "text")

    def __init__(self, head: str, text: str, first: Failure) -> None:
        self.head = head
        """The cause, with the exit code or signal."""
        self.text = text
        """The message; ``…`` stands for what differs between the attempts."""
        self.first = first
        """The first failure in the group; once tasks have failed, the first failure that made a
        task fail."""
        self.attempts = 0
        """Number of failed attempts."""
        self.tasks = 0
        """Number of failed tasks whose last attempt is in this group."""
        self.sites: Counter[str] = Counter()
        """Number of failed attempts by site."""
        self.hosts: Counter[str] = Counter()
        """Number of failed attempts by host, as far as exit records name them; at most `MAX_HOSTS`
        hosts."""


class FailureGroups:
    """All failures, by kind. The cost of a failure is constant."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], FailureGroup] = {}

    def add(self, failure: Failure, outcome: Outcome) -> None:
        """Add a failure to its group."""
        head, text = _head(outcome), telling_line(outcome)
        kind = head, _VARIABLE.sub(_gap, text)
        if kind not in self._groups and len(self._groups) >= MAX_GROUPS:
            kind = "other causes", ""
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = FailureGroup(kind[0], text if kind[1] else "", failure)
        elif group.text != text:
            group.text = kind[1]
        group.attempts += 1
        group.sites[failure.site] += 1
        host = outcome.host
        if host and (host in group.hosts or len(group.hosts) < MAX_HOSTS):
            group.hosts[host] += 1
        if failure.final:
            if not group.tasks:
                group.first = failure
            group.tasks += 1

    def clear(self) -> None:
        """Forget all failures, since failed tasks are retried."""
        self._groups.clear()

    def largest_first(self) -> list[FailureGroup]:
        """The groups, those with most failed tasks first, then those with most failed attempts."""
        return sorted(self._groups.values(), key=lambda g: (-g.tasks, -g.attempts))


def _gap(match: re.Match[str]) -> str:
    """The replacement of a variable part, in the quotes that the part has."""
    quote = match[0][0] if match[0][0] in "'\"`" else ""
    return f"{quote}…{quote}"


def _head(outcome: Outcome) -> str:
    if outcome.cause == "exit" and outcome.exit_code is not None:
        return f"exit {outcome.exit_code}"
    if outcome.cause == "signal" and outcome.signal is not None:
        return f"signal {outcome.signal}"
    return outcome.cause


def telling_line(outcome: Outcome) -> str:
    """Return the most informative line of the message, at most `MAX_TEXT` characters: the last line
    that the task printed, since programs name the error there. If the first line does not end with
    a colon, indented lines are advice of the engine, and are skipped."""
    lines = [line.rstrip() for line in (outcome.message or "").splitlines()]
    lines = [line for line in lines if any(map(str.isalnum, line))]  # no rules, as of mpirun
    if len(lines) == 1 and lines[0].strip().startswith(_ONLY_ENDINGS):
        return "it printed nothing to stderr"
    if lines and not lines[0].endswith(":"):
        lines = [line for line in lines if not line[0].isspace()] or lines
    return lines[-1].strip()[:MAX_TEXT] if lines else ""
