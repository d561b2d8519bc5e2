"""XML documents of unknown origin: no entities, and the line of each element."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from wfrun.parsers.workflows.build import WorkflowBuilder

_CHUNK_BYTES = 1 << 20


class _RootReachedError(Exception):
    """The prolog is over."""


def refuse_entities(builder: WorkflowBuilder, stream: BinaryIO) -> None:
    """Refuse entity declarations, and prologs that can't be read, before the parser proper sees
    them."""
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        builder.fail_at(
            (builder.source, parser.CurrentLineNumber, int),
            "declares XML entities, which are not read",
            "Write the text in their place, and remove the declarations from the DOCTYPE.",
        )

    def stop(*_: object) -> None:
        raise _RootReachedError

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = stop
    try:
        parser.ParseFile(stream)
    except _RootReachedError:
        return
    except expat.ExpatError as error:
        place = (builder.source, error.lineno, int)
        builder.fail_at(place, f"not well-formed XML: {error}", "Is it complete?")
    except (LookupError, ValueError) as error:
        builder.fail_at((builder.source, 1, int), str(error), "Save the document as UTF-8.")


class ElementLines:
    """The line of each element, by its number in the document.

    The parser proper does not tell lines. They are wanted for messages only, so they are found
    by a second, lazy pass.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._lines = array("Q")
        self._ended = False
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start

    def _start(self, *_: object) -> None:
        self._lines.append(self._parser.CurrentLineNumber)

    def __call__(self, number: int) -> int:
        while len(self._lines) < number and not self._ended:
            self._read_on()
        return self._lines[min(number, len(self._lines)) - 1] if self._lines else 1

    def _read_on(self) -> None:
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            chunk = stream.read(_CHUNK_BYTES)
        self._offset += len(chunk)
        self._ended = not chunk
        try:
            self._parser.Parse(chunk, self._ended)
        except expat.ExpatError:
            self._ended = True
