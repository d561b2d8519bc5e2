"""Checks whether this user may read a run directory, which may belong to another user."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from wfrun.engine.errors import InfeasibleError


def refuse_unreadable(path: Path) -> None:
    """Raise InfeasibleError, with the name of the owner, if this user may not read an existing
    directory or file."""
    try:
        is_folder = path.is_dir()
        if not path.exists() or os.access(path, os.R_OK | (os.X_OK if is_folder else 0)):
            return
        owner = user_name(path.stat().st_uid)
    except PermissionError:  # a directory above may not be entered
        raise InfeasibleError(f"{path} cannot be read: Permission denied") from None
    raise InfeasibleError(
        f"{path} cannot be read: Permission denied",
        hint=f"it belongs to {owner}, who can give access to it",
    )


def user_name(number: int) -> str:
    """Name of the user with this number; ``user NUMBER`` if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
