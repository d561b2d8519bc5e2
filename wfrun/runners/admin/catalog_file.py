"""Replacing the document of a catalog."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import drafted


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Replace the catalog at ``path`` atomically by ``after``. ``before`` is the content that the
    caller has read, empty if the file was absent. The file keeps its permissions and its owner; a
    symbolic link to it stays a link.

    Raises InvalidError, and leaves the catalog unchanged, if it cannot be written or no longer has
    the content ``before``.
    """
    target = path.resolve()
    try:
        present = target.read_bytes() if target.exists() else b""
        if present != before:
            raise InvalidError("it was changed meanwhile", source=str(path), hint="Try again.")
        with drafted(target) as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())  # after a crash it must not be found empty
            if before:
                _keep_permissions(target.stat(), stream.fileno())
    except OSError as error:
        raise InvalidError(f"cannot be written: {error.strerror}", source=str(path)) from error


def _keep_permissions(found: os.stat_result, fd: int) -> None:
    with contextlib.suppress(PermissionError):  # only root gives files away
        os.fchown(fd, found.st_uid, found.st_gid)
    os.fchmod(fd, stat.S_IMODE(found.st_mode))
