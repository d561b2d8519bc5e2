"""Escapes undecodable bytes in events, since the log and ``--json`` are UTF-8."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from wfrun.engine.events import Event

_E = TypeVar("_E", bound=Event)
_ENCODER = msgspec.json.Encoder()


def storable(event: _E) -> _E:
    """Return the event with undecodable bytes replaced by escapes such as ``\\udcff``. Messages may
    contain any bytes, because hosts may print any."""
    try:
        _ENCODER.encode(event)
    except UnicodeEncodeError:
        return msgspec.convert(_escaped(msgspec.to_builtins(event)), type(event))
    return event


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(key): _escaped(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(member) for member in value]
    return value
