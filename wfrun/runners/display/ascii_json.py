"""JSON in ASCII: terminals interpret some of the other characters."""

from __future__ import annotations

import json
import re

_OTHERS = re.compile(r"[^\x00-\x7e]+")


def as_ascii(document: bytes) -> bytes:
    """The same JSON document, with escapes for DEL and for all characters outside ASCII."""
    if document.isascii() and b"\x7f" not in document:
        return document
    return _OTHERS.sub(lambda match: _escaped(match[0]), document.decode()).encode("ascii")


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")
