"""Input catalogs with one entry a line: ``LFN PFN site="…" key="…"``.

Source: Pegasus 5.0 user guide, "Catalogs", "File" (replica catalog). Words with spaces, ``=`` or
quotes are in double quotes, with ``\\`` before quotes and backslashes. Empty lines and those that
begin with ``#`` are comments. Of the attributes, ``site`` (formerly ``pool``) and the checksum are
read.
"""

from __future__ import annotations

import re
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.input_catalog.entries import REGEX, InputCatalog

MAX_LINE_BYTES = 65_536
"""Maximum length of a line. Without it, a line without an end would fill the memory."""
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_WORD = re.compile(rf'\s*(?:{_QUOTED}|([^\s"]+))(?=\s|\Z)')
_ATTRIBUTE = re.compile(rf'\s*([^\s"=]+)=(?:{_QUOTED}|([^\s"]*))(?=\s|\Z)')
_ESCAPED = re.compile(r"\\(.)")
_HINT = 'An entry is LFN PFN site="NAME"; words with spaces are in double quotes.'


def read_text(path: Path) -> InputCatalog:
    """Read the catalog at ``path`` by lines. Raises InvalidError, with the line, for a bad entry,
    and OSError if the file cannot be read."""
    catalog = InputCatalog(str(path))
    with open(path, "rb") as file:
        number = 0
        while data := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            try:
                if len(data) > MAX_LINE_BYTES:
                    raise ValueError(f"the line is longer than {MAX_LINE_BYTES:,} bytes")
                _add(catalog, data.decode().strip())
            except UnicodeDecodeError as error:
                text = f"not UTF-8 text (byte 0x{data[error.start]:02x})"
                raise InvalidError(text, source=catalog.source, line=number) from error
            except ValueError as error:
                raise InvalidError(
                    str(error), source=catalog.source, line=number, hint=_HINT
                ) from error
    return catalog


def _add(catalog: InputCatalog, line: str) -> None:
    """Add the entry of a line. Raises ValueError with a message for a bad one."""
    if not line or line.startswith("#"):
        return
    name = _WORD.match(line)
    pfn = None if name is None else _WORD.match(line, name.end())
    if name is None or pfn is None:
        raise ValueError("the line has no LFN and PFN, or a quote without its end")
    attributes, end = {}, pfn.end()
    while end < len(line):
        attribute = _ATTRIBUTE.match(line, end)
        if attribute is None:
            raise ValueError(
                f"column {end + 1}: KEY=VALUE is wanted here, with the end of each quote"
            )
        attributes[attribute[1]] = _text(attribute[2], attribute[3])
        end = attribute.end()
    if attributes.get("regex", "false").lower() == "true":
        raise ValueError(REGEX)
    kind = attributes.get("checksum.type", "sha256")
    if kind != "sha256":
        raise ValueError(f"checksum.type is {kind!r}; files are compared by sha256")
    site = attributes.get("site", attributes.get("pool"))
    checksum = attributes.get("checksum.value", attributes.get("checksum.sha256"))
    catalog.add(_text(name[1], name[2]), _text(pfn[1], pfn[2]), site, checksum)


def _text(quoted: str | None, plain: str | None) -> str:
    return _ESCAPED.sub(r"\1", quoted) if quoted is not None else plain or ""
