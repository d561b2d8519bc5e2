"""Frames from the agent, whose protocol ``agent.py`` describes.

A site is not trusted with this machine, so each frame is checked here, once. A frame that breaks
the protocol raises FrameError, whose message is the reason for the end of the agent.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

from wfrun.sites.remote.agent import LENGTHS, MAX_PAYLOAD_BYTES

_T = TypeVar("_T")
Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Short = Annotated[str, msgspec.Meta(max_length=4096)]
Time = Annotated[float, msgspec.Meta(ge=-1e12, le=1e12)]
"""A duration, or a time since 1970, in seconds. Within the bounds, neither sums nor conversions to
a date overflow."""
MAX_HEADER_BYTES = 1 << 24
"""Maximum length of a header, in bytes. The longest have the names of thousands of spool files."""
_ODD_HEADER_BYTES = 1 << 20
"""Maximum length in bytes of a header with undecodable names; its decoding takes more memory."""
_MAX_MESSAGE = 4096
"""Maximum number of characters of an error message that are kept."""


class FrameError(Exception):
    """The agent broke its protocol; the message says how."""


class Header(msgspec.Struct, frozen=True):
    """The header of any frame of the agent. The kind of the frame says which fields it has."""

    hello: Number | None = None
    pid: Number = 0
    host: Short = ""
    user: Short = ""
    home: Short = ""
    shell: Short = ""
    python: Short = ""
    clock: Time = 0.0
    id: Number | None = None
    error: str | None = None
    message: str = ""
    exit_code: int | None = None
    exit_codes: tuple[int | None, ...] = ()
    sizes: tuple[Number | None, ...] = ()
    values: msgspec.Raw = msgspec.Raw(b"[]")
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    commands: dict[Short, Number] = {}
    cpu_s: Time = 0.0
    watch: Number | None = None
    spool: Number | None = None
    names: tuple[Short, ...] = ()
    connection: Number | None = None
    of: Number | None = None
    address: Short = ""
    ended: Short | None = None


Frame = tuple[Header, list[bytes | None]]
"""A header, and the pieces of the payload. The header has their sizes; a piece is None where the
header marks it as absent. A payload without sizes is one piece."""


def next_frame(buffer: bytearray) -> Frame | None:
    """Remove the first frame from the buffer and return it; None if it is incomplete. Raises
    FrameError."""
    if len(buffer) < LENGTHS.size:
        return None
    header_bytes, payload_bytes = LENGTHS.unpack_from(buffer)
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise FrameError("a frame of impossible length")
    start = LENGTHS.size + header_bytes
    end = start + payload_bytes
    if len(buffer) < end:
        return None
    header = _header(bytes(memoryview(buffer)[LENGTHS.size : start]))
    with memoryview(buffer) as view:
        pieces = _cut(view[start:end], header.sizes)
    del buffer[:end]
    return header, pieces


def values_of(header: Header, kind: type[_T], count: int | None = None) -> list[_T]:
    """The values of an answer, each of type ``kind``. Raises FrameError for values of other types,
    or if their number is not ``count``; None: any number."""
    try:
        values = msgspec.json.decode(header.values, type=list[kind])  # type: ignore[valid-type]
    except (msgspec.MsgspecError, RecursionError) as error:
        raise FrameError(f"values of another kind: {error}") from None
    if count is not None and len(values) != count:
        raise FrameError(f"{len(values)} values instead of {count}")
    return values


def _header(text: bytes) -> Header:
    try:
        try:
            header = msgspec.json.decode(text, type=Header)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if len(text) > _ODD_HEADER_BYTES:
                raise
            # Names that are not UTF-8 have surrogates, which the other decoder refuses.
            header = _convert(json.loads(text))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FrameError(f"an invalid header: {str(error)[:200]}") from None
    if len(header.message) > _MAX_MESSAGE:
        header = msgspec.structs.replace(header, message=f"{header.message[:_MAX_MESSAGE]}…")
    return header


def _convert(header: Any) -> Header:
    if isinstance(header, dict) and "values" in header:
        header["values"] = msgspec.Raw(json.dumps(header["values"]).encode())
    return msgspec.convert(header, Header)


def _cut(payload: memoryview, sizes: tuple[int | None, ...]) -> list[bytes | None]:
    if not sizes:
        return [bytes(payload)]
    if sum(size or 0 for size in sizes) != len(payload):
        raise FrameError("sizes that do not add up to the payload")
    pieces: list[bytes | None] = []
    start = 0
    for size in sizes:
        pieces.append(None if size is None else bytes(payload[start : start + size]))
        start += size or 0
    return pieces
