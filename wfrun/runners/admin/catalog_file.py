"""Replacing the document of a catalog."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

from wfrun.engine.errors import InvalidError


def rewrite(path: Path, before: bytes, after: bytes) -> None:
    """Replace the catalog at ``path``, all of it at once. It keeps its permissions and its owner,
    and a symbolic link leads to the new one. ``before`` is its present content, empty if it is
    absent.

    Raises InvalidError if it cannot be written, or has changed; then it stays as it is.
    """
    target = path.resolve()
    draft = target.with_name(f".{target.name}.new-{os.getpid()}-{time.time_ns()}")
    try:
        present = target.read_bytes() if target.exists() else b""
        if present != before:
            raise InvalidError("it was changed meanwhile", source=str(path), hint="Try again.")
        with draft.open("xb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())  # after a crash it must not be found empty
        if before:
            _keep_permissions(target.stat(), draft)
        draft.replace(target)
    except OSError as error:
        raise InvalidError(f"cannot be written: {error.strerror}", source=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)


def _keep_permissions(found: os.stat_result, draft: Path) -> None:
    with contextlib.suppress(PermissionError):  # only root gives files away
        os.chown(draft, found.st_uid, found.st_gid)
    draft.chmod(stat.S_IMODE(found.st_mode))
