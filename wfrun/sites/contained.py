"""The one check that keeps writes on this machine inside their folder."""

from __future__ import annotations

import os
from pathlib import Path

from wfrun.engine.errors import InfeasibleError


def contained(folder: Path, name: str) -> Path:
    """Return the absolute path of ``name`` in ``folder``, without ``..``. Callers must write to the
    returned path and to no other.

    ``name`` is relative to the folder, or an absolute path in it. Raises InfeasibleError if the
    path is not below the folder, or if the path itself or a directory between the folder and it is
    a symbolic link. Links above the folder are the user's own and are allowed.
    """
    root = os.path.abspath(folder)
    path = os.path.normpath(os.path.join(root, name))
    if "\0" in name or not path.startswith(os.path.join(root, "")) or path == root:
        raise InfeasibleError(
            f"{name!r} leads out of {root}; nothing is written there",
            hint="Names of files stay inside their folder: rename the file or the task.",
        )
    inside = root
    for part in path[len(root) :].strip("/").split("/"):
        inside = f"{inside}/{part}"
        # Writing through a link that a task or a site has made would leave the folder.
        if os.path.islink(inside):
            raise InfeasibleError(
                f"{inside} is a symbolic link; nothing is written through it",
                hint="Remove the link, or rename the file.",
            )
    return Path(path)
