"""What the journals of launchers say of attempts. The format is described in ``launcher.py``."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import Any, Literal

import msgspec

from wfrun.engine.exchange import Outcome


class _Line(msgspec.Struct):
    queued: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    started: tuple[tuple[Any, ...], ...] = ()
    ended: tuple[tuple[str, msgspec.Raw], ...] = ()


class Trace:
    """What is written of one attempt."""

    __slots__ = ("cores", "outcome", "owner", "queued")

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.owner: NodeId | None = None
        """Who has started it."""
        self.cores = 1
        """That it was started with."""
        self.queued: set[NodeId] = set()
        """Who has had it in its queue, and may still."""


_LINES = msgspec.json.Decoder(_Line)
_OUTCOMES = msgspec.json.Decoder(Outcome)

AttemptState = Literal["ended", "active", "lost", "absent"]
NodeId = tuple[str, int]
"""A launcher, and which of its nodes."""


def writer_of(name: str, launchers: Container[str]) -> NodeId:
    """Who writes a journal: ``<key>.jsonl``, or ``<key>.<n>.jsonl`` on further nodes."""
    key = name.removesuffix(".jsonl")
    head, _, node = key.rpartition(".")
    if node.isdigit() and head in launchers and key not in launchers:
        return head, int(node)
    return key, 0


def trace(journals: Iterable[tuple[NodeId, bytes]], wanted: Container[str]) -> dict[str, Trace]:
    """What journals, each with who wrote it, say of these attempts. Lines that are torn, or being
    written, say nothing."""
    traces: dict[str, Trace] = {}

    def of(key: str) -> Trace | None:
        if key not in wanted:
            return None
        found = traces.get(key)
        if found is None:
            found = traces[key] = Trace()
        return found

    for writer, content in journals:
        for text in content.split(b"\n"):
            if not text:
                continue
            try:
                line = _LINES.decode(text)
            except msgspec.MsgspecError:
                continue
            for key in line.queued:
                if (found := of(key)) is not None:
                    found.queued.add(writer)
            for key in line.dropped:
                if (found := of(key)) is not None:
                    found.queued.discard(writer)
            for started in line.started:
                if (found := of(started[0])) is not None:
                    found.owner = writer
                    found.cores = started[3] if len(started) > 3 else 1
            for key, outcome in line.ended:
                if (found := of(key)) is not None:
                    found.outcome = _OUTCOMES.decode(outcome)
    return traces


def fate(found: Trace | None, is_claimed: bool, living: Collection[NodeId]) -> AttemptState:
    """What became of an attempt that no living launcher knows more of. ``is_claimed``: somebody
    has taken its claim, so that nobody else can start it any more."""
    if found is None:
        return "lost" if is_claimed else "absent"
    if found.outcome is not None:
        return "ended"
    if found.owner is not None:
        return "active" if found.owner in living else "lost"
    if not found.queued.isdisjoint(living):
        return "active"
    return "lost" if is_claimed else "absent"
