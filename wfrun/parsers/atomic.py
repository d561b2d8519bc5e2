"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from wfrun.engine.errors import InvalidError


@contextlib.contextmanager
def drafted(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file whose content replaces ``path`` when the block ends. If the block raises, the
    new file is removed and ``path`` stays as it was. ``mode`` are the permissions of the new file,
    less the umask. Raises OSError.

    No other function may open a draft. This one gives the draft a name that cannot be guessed, and
    opens it without following links. Otherwise another user who may write in the directory could
    choose which file is written.
    """
    draft = path.with_name(f".wfrun-{secrets.token_hex(8)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(draft, flags, mode)
    try:
        with open(fd, "w+b") as stream:
            yield stream
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def write_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace the content of a file. Raises OSError."""
    with drafted(path, mode) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 text stream whose content replaces ``path`` when the block ends.

    If the block raises, ``path`` stays as it was. Raises InvalidError if the file cannot be
    written, or the disk is full.
    """
    target = Path(path)
    if not target.name:  # "." and "/", for which there is no draft
        raise InvalidError("cannot be written: it is a folder", source=str(path))
    try:
        with drafted(target) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="\n")
            yield text
            text.flush()
    except OSError as error:
        hint = "Give a file in a directory that can be written and has room."
        message = f"cannot be written: {error.strerror or error}"
        raise InvalidError(message, source=str(path), hint=hint) from error
