"""Reads the journals of launchers. ``wfrun/sites/node/launchers/launcher.py`` describes their
format."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from wfrun.engine.exchange import Outcome
from wfrun.parsers.foreign import number_of

NodeId = tuple[str, int]
"""Key of a launcher, and number of one of its nodes. Each node has a journal of its own."""

AttemptState = Literal["ended", "active", "lost", "absent"]


_MAX_CORES = 1 << 20


class _Line(msgspec.Struct):
    queued: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    started: tuple[Annotated[tuple[Any, ...], msgspec.Meta(min_length=1)], ...] = ()
    ended: tuple[tuple[str, msgspec.Raw], ...] = ()


class Trace:
    """The records of one attempt in the journals."""

    __slots__ = ("cores", "outcome", "owner", "queued")

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.owner: NodeId | None = None
        """The node that started the attempt; None: no journal records a start."""
        self.cores = 1
        """Number of cores with which the attempt was started."""
        self.queued: set[NodeId] = set()
        """Nodes that have queued the attempt and have not dropped it since."""


_LINES = msgspec.json.Decoder(_Line)
_OUTCOMES = msgspec.json.Decoder(Outcome)


def writer_of(name: str, launchers: Container[str]) -> NodeId:
    """Return the writer of the journal ``name``: node 0 writes ``<key>.jsonl``, node n
    ``<key>.<n>.jsonl``.

    Since the key of a launcher may end in ``.<n>`` too, the keys of the known ``launchers`` decide
    whether ``.<n>`` is part of the key.
    """
    key = name.removesuffix(".jsonl")
    head, _, node = key.rpartition(".")
    if re.fullmatch(r"\d{1,9}", node, re.ASCII) and head in launchers and key not in launchers:
        return head, number_of(node, 0)
    return key, 0


def read_traces(
    journals: Iterable[tuple[NodeId, bytes]], wanted: Container[str]
) -> dict[str, Trace]:
    """Return the traces of the ``wanted`` attempts, by key, without those that no journal mentions.
    ``journals`` are pairs of writer and content.

    Lines that cannot be decoded are skipped: a full disk has truncated them, a launcher is writing
    them now, or a task wrote them.
    """
    traces: dict[str, Trace] = {}

    def of(key: str) -> Trace | None:
        if key not in wanted:
            return None
        found = traces.get(key)
        if found is None:
            found = traces[key] = Trace()
        return found

    for writer, content in journals:
        for text in _lines(content):
            try:
                line = _LINES.decode(text)
                outcomes = [
                    (key, _OUTCOMES.decode(raw)) for key, raw in line.ended if key in wanted
                ]
            except (ValueError, RecursionError):
                continue
            for key in line.queued:
                if (found := of(key)) is not None:
                    found.queued.add(writer)
            for key in line.dropped:
                if (found := of(key)) is not None:
                    found.queued.discard(writer)
            for started in line.started:
                key, cores = started[0], started[3] if len(started) > 3 else 1
                if isinstance(key, str) and (found := of(key)) is not None:
                    found.owner = writer
                    found.cores = cores if isinstance(cores, int) and 0 < cores < _MAX_CORES else 1
            for key, outcome in outcomes:
                if (found := of(key)) is not None:
                    found.outcome = outcome
    return traces


def _lines(content: bytes) -> Iterator[bytes]:
    """Yield the non-empty lines. A generator, since a journal may be long, or consist of newlines
    alone."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        if end > start:
            yield content[start:end]
        start = end + 1


def state_of(trace: Trace | None, is_claimed: bool, living: Collection[NodeId]) -> AttemptState:
    """The state of an attempt that no launcher has reported, from its trace in the journals and
    from its claim.

    ``living`` are the nodes whose launchers may be alive. An attempt with a recorded outcome has
    ended. An attempt that a living node has started or queued is active. Any other attempt is lost
    if it was started or claimed, since only the process that made the claim could run it. Else the
    attempt is absent, since any launcher may still start it.
    """
    if trace is None:
        return "lost" if is_claimed else "absent"
    if trace.outcome is not None:
        return "ended"
    if trace.owner is not None:
        return "active" if trace.owner in living else "lost"
    if not trace.queued.isdisjoint(living):
        return "active"
    return "lost" if is_claimed else "absent"
