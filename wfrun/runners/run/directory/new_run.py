"""The directory of a new run: made, locked, and removed again if the run does not start."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from wfrun.engine.errors import InfeasibleError, InvalidError, WfrunError
from wfrun.engine.explain.visible import command_line
from wfrun.runners.run.directory.access import user_name
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RUNS, RunDir, has_log
from wfrun.runners.run.directory.run_index import add_run
from wfrun.runners.run.directory.trust import refuse_foreign_folder
from wfrun.runners.run.store.event_store import FILE_NAME
from wfrun.sites.transfers.local.disk import sync_folder

MAX_STEM = 100
"""Maximum length of the workflow's name within the name of its run, in characters. File systems
allow names of 255 bytes."""

_PARENT_MODE = 0o755
"""Mode of the directories above a run, before the umask is applied. A group with write permission
there could replace the run."""


class NewRun:
    """A run directory that this process has locked, and in which it alone has made files."""

    def __init__(self, path: Path | None, name: str) -> None:
        """Make and lock ``path``, or ``wfrun-runs/<name>-<number>`` if it is None.

        Raises InvalidError if ``path`` is not empty, belongs to another user, or is locked by
        another engine. Raises InfeasibleError if the directory cannot be made, written or locked.
        After an error the directory is as it was before.
        """
        folder, self._is_made = _make(path, name)
        self.run = RunDir(folder)
        try:
            self.lock = Lock(self.run.lock)
        except WfrunError:
            self._remove_folder()
            raise
        # Only now, since another run may have started here, and ended, after the directory was
        # made. From here on nobody else makes files here, except requests to cancel.
        try:
            _refuse_used(folder)
        except (InvalidError, OSError) as error:
            self.lock.release() if has_log(folder) else self.lock.remove()
            if isinstance(error, OSError):
                raise _unmakable(folder, error) from error
            raise
        add_run(folder)

    def abandon(self, folders: Iterable[Path] = ()) -> None:
        """Remove what this process has made: the log, requests to cancel, the run's folders, the
        directories ``folders``, and finally the lock, which keeps other engines out until then."""
        run = self.run
        requests = (run.cancel_request, *run.path.glob(f".{run.cancel_request.name}-*"))
        for path in (run.path / FILE_NAME, run.path / f"{FILE_NAME}-journal", *requests):
            with contextlib.suppress(OSError):  # it does not exist, or could not be made
                path.unlink()
        taken = (run.outputs, run.reused)
        for folder in (run.inputs, *taken, *folders, run.path / "sites"):
            shutil.rmtree(folder, ignore_errors=True)
        self.lock.remove()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._is_made:
            with contextlib.suppress(OSError):
                self.run.path.rmdir()
                if self.run.path.parent == RUNS:
                    RUNS.rmdir()  # if this was the first run


def _make(path: Path | None, name: str) -> tuple[Path, bool]:
    """Make a run directory; returns it, and whether it is new."""
    try:
        if path is not None:
            return path, _make_given(path)
        _make_folder(RUNS, _PARENT_MODE)
        refuse_foreign_folder(RUNS)
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MAX_STEM].strip("-.") or "run"
        numbers = (re.fullmatch(re.escape(stem) + r"-(\d+)", p.name) for p in RUNS.iterdir())
        number = 1 + max((int(match[1]) for match in numbers if match), default=0)
        while not _make_folder(RUNS / f"{stem}-{number}", 0o700):
            number += 1
        return RUNS / f"{stem}-{number}", True
    except OSError as error:
        raise _unmakable(path or RUNS, error) from error


def _unmakable(path: Path, error: OSError) -> InfeasibleError:
    return InfeasibleError(
        f"the run directory {path} cannot be made: {error.strerror}",
        hint="name another directory with --run-dir",
    )


def _make_given(path: Path) -> bool:
    """Make the directory that the user names; returns whether it is new."""
    _refuse_used(path)
    if not path.parent.is_dir():
        _make_folder(path.parent, _PARENT_MODE)
    refuse_foreign_folder(path.parent)
    if _make_folder(path, 0o700):
        return True
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise InvalidError(
            f"{path} belongs to {user_name(found.st_uid)}, who could exchange the files of the run",
            hint="name another directory with --run-dir",
        )
    if found.st_mode & 0o022:  # as with the umask 002: nobody else may make files beside the log
        path.chmod(found.st_mode & 0o7755)
    return False


def _make_folder(path: Path, mode: int) -> bool:
    """Make a directory durably, with its parents; returns False if there is one."""
    if not path.parent.is_dir():
        _make_folder(path.parent, _PARENT_MODE)
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return False
    sync_folder(path.parent)
    return True


def _refuse_used(path: Path) -> None:
    """Raise InvalidError if a directory holds a run or other files."""
    run = RunDir(path)
    if has_log(path):
        raise InvalidError(
            f"{path} already holds a run",
            hint=f"`{command_line('wfrun', 'resume', path)}` continues it; a new run needs another "
            "directory",
        )
    with contextlib.suppress(FileNotFoundError):
        if not {entry.name for entry in path.iterdir()} <= {run.lock.name, run.cancel_request.name}:
            raise InvalidError(
                f"the run directory {path} is not empty",
                hint="a run needs its own directory: name one that is empty or does not exist",
            )
