"""The cause of a failed copy, from its error.

Programs of several kinds copy files: the system calls of this machine and of the agent, SFTP, cat,
tar, scp, rsync. Their messages have two things in common: the system's text of an error, as
strerror(3) has it in the C locale, and the verbs with which wfrun's messages begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar

from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import CopyCause

T = TypeVar("T")


class CopyFailure(NamedTuple):
    """The cause of a failed copy, and the ``end`` at which the copy failed; empty: unknown."""

    cause: CopyCause
    end: Literal["source", "destination", ""]


_NAMED = re.compile(r"'[^']*'|\"[^\"]*\"|(?:[\w.-]+:)?/\S*")
"""Pattern of a name or a path, which is masked first, since it may contain any words."""
_WORDS: tuple[tuple[CopyCause, re.Pattern[str]], ...] = (
    ("changed", re.compile("has changed since")),
    ("stalled", re.compile("nothing (came|was taken) for|[Tt]imeout, server .* not responding")),
    # GNU tar says of a write that stopped short how much was written, and not why.
    ("disk-full", re.compile("No space left on device|disk is full|Wrote only")),
    ("quota", re.compile("[Qq]uota exceeded")),
    ("checksum", re.compile(r"(checksum|digest) is not that|\d+ of \d+ bytes")),
    (
        "permission",
        re.compile("Permission denied|Read-only file system|Operation not permitted|EACCES"),
    ),
    (
        "connection",
        re.compile(
            "[Cc]onnection (was )?(reset|lost|closed|refused|timed out)|lost connection"
            "|Broken pipe|No route to host|Network is unreachable|cannot be reached"
        ),
    ),
)
_ABSENT = re.compile("cannot be copied: it is absent|cannot be read.*: No such file", re.DOTALL)
_VERBS: tuple[tuple[Literal["source", "destination"], re.Pattern[str]], ...] = (
    (
        "source",
        re.compile("cannot be (read|fetched)|it is absent|has changed since|nothing came for"),
    ),
    (
        "destination",
        re.compile("cannot be written|nothing was taken|[Cc]annot (write|create|mkdir)"),
    ),
)


def failure_of(error: WfrunError) -> CopyFailure:
    """The cause of a failed copy, from the message of its error."""
    text = _NAMED.sub("…", error.message)
    if _ABSENT.search(text):
        return CopyFailure("absent", "source")
    cause = _first(_WORDS, text) or "unknown"
    if cause in ("disk-full", "quota"):
        return CopyFailure(cause, "destination")  # Nothing is written at the source.
    return CopyFailure(cause, _first(_VERBS, text) or "")


def _first(patterns: Iterable[tuple[T, re.Pattern[str]]], text: str) -> T | None:
    """The meaning of the first pattern that occurs in a text; None if none does."""
    return next((meaning for meaning, pattern in patterns if pattern.search(text)), None)
