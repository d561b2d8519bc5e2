"""JSON in ASCII, because terminals interpret some characters outside ASCII."""

from __future__ import annotations

import json
import re

import msgspec

_OTHERS = re.compile(r"[^\x00-\x7e]+")


def print_json(document: object) -> None:
    """Print records as one JSON document."""
    text = json.dumps(msgspec.to_builtins(document), indent=1)  # paths may be no UTF-8
    print(as_ascii(text.encode()).decode())


def as_ascii(document: bytes) -> bytes:
    """The JSON document with escapes for DEL and for all characters outside ASCII."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return _OTHERS.sub(lambda match: _escaped(match[0]), document.decode()).encode("ascii")


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")
