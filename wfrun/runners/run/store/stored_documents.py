"""Large workflows in the log file. They are divided into parts, and a reader loads only the parts
it needs.

Reading all tasks and files of a workflow of a million tasks takes 4 s and a gigabyte of memory, but
a progress display needs the names of only a few tasks. A part has 2,000 tasks, files, parents or
children, in MessagePack. A divided document has the workflow without these sequences, and the
digests of all parts. It is encoded as an array, whereas an undivided document is a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast, overload

import msgspec

from wfrun.engine.model import File, Task, Workflow

MIN_TASKS = 20_000
"""Minimum number of tasks of a workflow that is divided. Reading a smaller one takes less than 0.1
s."""
PART_LENGTH = 2000
MAX_PARTS = 50
"""Maximum number of parts of a sequence that a reader keeps in memory, so that reading all tasks of
a large workflow takes little memory."""

T = TypeVar("T")
ReadPart = Callable[[str], bytes]
"""Returns the part that has the given digest."""
Links = tuple[int, ...]


class _Listing(msgspec.Struct, frozen=True, array_like=True):
    """Length of a sequence, and the digests of its parts."""

    length: int
    digests: tuple[str, ...]


class Divided(msgspec.Struct, frozen=True, array_like=True):
    """A workflow whose sequences are stored in parts."""

    workflow: Workflow
    """The workflow without tasks, files and parents."""
    tasks: _Listing
    files: _Listing
    parents: _Listing
    children: _Listing


def is_divided(body: bytes) -> bool:
    """Whether a document is divided into parts."""
    return bool(body) and body[0] & 0xF0 == 0x90  # an array of few elements


def divide(workflow: Workflow, put: Callable[[bytes], str]) -> bytes:
    """Divide a workflow into parts, and return the document that names them. ``put`` stores a part
    and returns its digest."""
    encode = msgspec.msgpack.Encoder().encode

    def listing(items: Sequence[Any]) -> _Listing:
        starts = range(0, len(items), PART_LENGTH)
        parts = (encode(items[start : start + PART_LENGTH]) for start in starts)
        return _Listing(len(items), tuple(map(put, parts)))

    return encode(
        Divided(
            msgspec.structs.replace(workflow, tasks=[], files=[], parents=[]),
            *map(listing, (workflow.tasks, workflow.files, workflow.parents, workflow.children())),
        )
    )


class StoredSequence(Sequence[T], Generic[T]):
    """A sequence whose items are read when they are needed, a part at a time."""

    def __init__(self, listing: _Listing, kind: Any, read: ReadPart) -> None:
        self._listing, self._read = listing, read
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._parts: dict[int, list[T]] = {}

    def __len__(self) -> int:
        return self._listing.length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        try:  # a replay reads some ten items for each task, nearly all of parts that are loaded
            return self._parts[index // PART_LENGTH][index % PART_LENGTH]  # type: ignore[operator]
        except (KeyError, TypeError):
            return self._read_items(index)

    def _read_items(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        number, place = divmod(index, PART_LENGTH)
        part = self._parts.get(number)
        return (self._load(number) if part is None else part)[place]

    def __iter__(self) -> Iterator[T]:
        for number in range(len(self._listing.digests)):
            yield from self._decoded(number)

    def _load(self, number: int) -> list[T]:
        if len(self._parts) >= MAX_PARTS:
            del self._parts[next(iter(self._parts))]  # the oldest
        part = self._parts[number] = self._decoded(number)
        return part

    def _decoded(self, number: int) -> list[T]:
        part = self._decoder.decode(self._read(self._listing.digests[number]))
        return cast(list[T], part)


class StoredParents(StoredSequence[Links]):
    """The predecessors of each task. The attribute ``children`` has the successors of each task."""

    children: StoredSequence[Links]


def on_demand(body: bytes, read: ReadPart) -> Workflow:
    """The workflow of a divided document, whose parts are read when they are needed."""
    divided = msgspec.msgpack.decode(body, type=Divided)
    parents = StoredParents(divided.parents, Links, read)
    parents.children = StoredSequence(divided.children, Links, read)
    return msgspec.structs.replace(
        divided.workflow,
        tasks=StoredSequence(divided.tasks, Task, read),
        files=StoredSequence(divided.files, File, read),
        parents=parents,
    )


def whole(body: bytes, read: ReadPart) -> Workflow:
    """The workflow of a divided document, with all parts."""
    found = on_demand(body, read)
    return msgspec.structs.replace(
        found, tasks=list(found.tasks), files=list(found.files), parents=list(found.parents)
    )
