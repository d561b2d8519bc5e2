"""Whose run directory this is. To resume a run is to execute the commands in its log, so a
directory that other users own or may write is used only when the user says so."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.runners.run.access import user_name
from wfrun.runners.run.directory import LOCK_NAME, RunDir, find
from wfrun.runners.run.store import FILE_NAME

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH


def find_own(run: str | None, command: str, *, trust: bool) -> RunDir:
    """Find a run as ``directory.find`` does. Raises InvalidError for a run that other users own or
    may write, unless ``trust``; ``command`` is the command of wfrun that uses it."""
    found = find(run)
    if not trust:
        refuse_foreign_run(found, command)
    return found


def refuse_foreign_run(run: RunDir, command: str | None = None) -> None:
    """Raise InvalidError if other users own or may write a run directory or its log; ``command``
    is the command of wfrun that uses it if the user says so."""
    folder = os.stat(run.path)
    _refuse_owner(run.path, folder.st_uid, command)
    if folder.st_mode & _OTHERS_WRITE:
        raise _writable(run.path, command)
    for name in (FILE_NAME, f"{FILE_NAME}-journal", LOCK_NAME):
        try:
            found = os.lstat(run.path / name)
        except OSError:
            continue
        _refuse_owner(run.path / name, found.st_uid, command)
        if found.st_mode & _OTHERS_WRITE and folder.st_mode & _OTHERS_ENTER:
            raise _writable(run.path / name, command)


def refuse_foreign_folder(path: Path, *, but_root: bool) -> None:
    """Raise InvalidError if a new run would be in a directory that another user controls;
    ``but_root``: the superuser may, who controls every directory."""
    found = path.stat()
    if found.st_uid != os.geteuid() and not (but_root and found.st_uid == 0):
        what = f"{path} belongs to {user_name(found.st_uid)}"
    elif found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        what = f"all users may replace directories in {path}"
    else:
        return
    raise InvalidError(
        f"{what}, who could exchange the files of the run",
        hint="name another directory with --run-dir",
    )


def _refuse_owner(path: Path, owner: int, command: str | None) -> None:
    if owner == os.geteuid():
        return
    name = user_name(owner)
    folder = path if path.is_dir() else path.parent
    if command is None:
        raise InvalidError(
            f"{path} belongs to {name}, not to {user_name(os.geteuid())}",
            hint="only runs of your own are reused",
        )
    raise InvalidError(
        f"{path} belongs to {name}, not to {user_name(os.geteuid())}; a run executes commands",
        hint=(
            f"as that user: `sudo -u {name} wfrun {command} {folder}`; "
            if os.geteuid() == 0
            else ""
        )
        + f"if you trust its owner: `wfrun {command} {folder} --trust`",
    )


def _writable(path: Path, command: str | None) -> InvalidError:
    folder = path if path.is_dir() else path.parent
    if command is None:
        return InvalidError(
            f"other users may write {path}; only runs of your own are reused",
            hint=f"`chmod go-w {path}`, if only you have written it",
        )
    return InvalidError(
        f"other users may write {path}; a run executes commands",
        hint=f"`chmod go-w {path}`, if only you have written it; if you trust all who may: "
        f"`wfrun {command} {folder} --trust`",
    )
