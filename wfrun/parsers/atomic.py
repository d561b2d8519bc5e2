"""Documents that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from wfrun.engine.errors import InvalidError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 text stream whose content replaces ``path`` when the block ends.

    When the block raises, ``path`` stays as it was. Raises InvalidError where the file cannot be
    written, or the disk is full.
    """
    target = Path(path)
    if not target.name:  # "." and "/", for which there is no draft
        raise InvalidError("cannot be written: it is a folder", source=str(path))
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        os.replace(draft, target)
    except OSError as error:
        hint = "Give a file in a directory that can be written and has room."
        message = f"cannot be written: {error.strerror or error}"
        raise InvalidError(message, source=str(path), hint=hint) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
