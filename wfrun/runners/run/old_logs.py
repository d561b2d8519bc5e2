"""Events of older versions of the log, in the form of the present one."""

from __future__ import annotations

from typing import Any

import msgspec

_MOVED = ("parallel_environment", "memory_resource")
"""Fields of `Access` until version 2; they are in ``batch_settings`` now."""


def upgraded(body: bytes, version: int) -> bytes:
    """The events of a row of the log that was written by this version."""
    # The first event alone has sites. Decoding every row twice would double the time of a replay.
    if version >= 3 or b'"run-started"' not in body:
        return body
    events = msgspec.json.Decoder(dict[str, Any]).decode_lines(body)
    for event in events:
        for site in event["sites"] if event.get("event") == "run-started" else ():
            access = site.get("access") or {}
            settings = {key: access.pop(key, None) for key in _MOVED}
            if any(settings.values()):
                access["batch_settings"] = {k: text for k, text in settings.items() if text}
    return msgspec.json.Encoder().encode_lines(events)
