"""Standard streams that escape control characters, which a terminal would interpret.

All text that the command prints goes through these streams: messages, warnings of the logging
module, tracebacks. Text is written for people and is always escaped. Bytes (``sys.stdout.buffer``)
are data, such as the output of tasks; they are escaped on a terminal only. The console of
``wfrun.runners.display.console`` bypasses these streams: it writes styles and cursor movements of
Rich, and escapes the text between them itself.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from wfrun.engine.explain.visible import visible

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _TerminalBytes(io.BufferedIOBase):
    """Bytes for a terminal. UTF-8 is shown as text, every other byte as ``\\xff``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        data = bytes(data)
        text = visible(self._decoder.decode(data))
        self._stream.buffer.write(text.encode(_encoding(self._stream), "backslashreplace"))
        return len(data)

    def flush(self) -> None:
        self._stream.buffer.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return True


class EscapedStream(io.TextIOWrapper):
    """A standard stream that escapes text; bytes are escaped on a terminal only."""

    def __init__(self, stream: TextIO) -> None:
        is_terminal = stream.isatty()
        super().__init__(
            cast(BinaryIO, _TerminalBytes(stream)) if is_terminal else stream.buffer,
            encoding="utf-8" if is_terminal else _encoding(stream),
            errors="backslashreplace",
            line_buffering=is_terminal,
            # Nothing stays here, so that text keeps its order with what is written to ``stream``.
            write_through=True,
        )
        self.unescaped = stream
        """The original stream, for the console, which escapes text itself."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


def _encoding(stream: TextIO) -> str:
    """The encoding of a stream. UTF-8 in place of ASCII, which a stream has without a locale."""
    name = codecs.lookup(stream.encoding or "ascii").name
    return "utf-8" if name == "ascii" else name


def escape_standard_streams() -> None:
    """Replace ``sys.stdout`` and ``sys.stderr`` by streams that escape control characters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout = EscapedStream(sys.stdout)
    sys.stderr = EscapedStream(sys.stderr)
