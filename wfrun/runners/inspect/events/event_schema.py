"""The JSON Schema of what ``wfrun events --json`` prints, made from the events themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from wfrun.engine.events import SCHEMA_VERSION, AnyEvent

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def event_schema() -> str:
    """The schema of a line: an event of any kind, with its number and the version of the log."""
    (event,), parts = msgspec.json.schema_components([AnyEvent], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = {
        "$schema": _DIALECT,
        "title": f"Event of a log of wfrun, version {SCHEMA_VERSION}",
        "type": "object",
        "properties": {
            "seq": {"type": "integer", "minimum": 0, "description": "Its number, from 0."},
            "version": {"const": SCHEMA_VERSION},
        },
        "required": ["seq", "version"],
        "anyOf": event["anyOf"],
        "$defs": parts,
    }
    # Python's anchors; the regular expressions of JSON Schema are those of ECMA-262.
    return json.dumps(schema, indent=1).replace("\\\\A", "^").replace("\\\\Z", "$")
