"""Checks that no other user controls a run directory. Resuming a run executes the commands in its
log. So a directory that other users own, may write or may exchange is used only if the user
explicitly trusts it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.runners.run.directory.access import user_name
from wfrun.runners.run.directory.run_directory import RunDir, find
from wfrun.runners.run.store.event_store import FILE_NAME
from wfrun.sites.remote.agent import RefusedError, check_way

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH


class OwnRun(RunDir):
    """A run that is resumed or reused. Its directory, log, journal and lock must belong to the
    user, and nobody else may write or replace them.

    ``Lock`` and ``Store`` get ``judge``, and check the lock and the log again after opening them.
    Nobody else can replace these files between the two checks.
    """

    def __init__(self, run: RunDir, command: str | None) -> None:
        """``command`` is the wfrun command to name in hints, such as ``resume``; None: no command
        can use a run of other users. Raises InvalidError if other users own, may write or may
        replace the run."""
        super().__init__(run.path)
        self._command = command
        folder = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(folder)
        finally:
            os.close(folder)
        self._is_entered = bool(found.st_mode & _OTHERS_ENTER)
        self._refuse_owner(self.path, found.st_uid)
        if found.st_mode & _OTHERS_WRITE:
            raise self._error(f"other users may write {self.path}", self._close_hint(self.path))
        try:
            check_way(os.fsencode(self.path.absolute()))
            check_way(os.fsencode(os.path.dirname(os.path.realpath(self.path))))
        except RefusedError as error:
            what = f"other users could exchange {self.path}: {error}"
            raise self._error(what, "move it to a directory that only you may write") from error
        for name in (FILE_NAME, f"{FILE_NAME}-journal", self.lock.name):
            path = self.path / name
            try:
                self._judge(path, os.lstat(path))
            except FileNotFoundError:
                continue
        self.judge = self._judge

    def _judge(self, path: Path, found: os.stat_result) -> None:
        """Raise InvalidError if another user owns a file of the run or may write it. The mode of
        the file does not matter if other users cannot enter the directory."""
        self._refuse_owner(path, found.st_uid)
        is_link = stat.S_ISLNK(found.st_mode)
        if not is_link and found.st_mode & _OTHERS_WRITE and self._is_entered:
            raise self._error(f"other users may write {path}", self._close_hint(path))

    def _refuse_owner(self, path: Path, owner: int) -> None:
        if owner == os.geteuid():
            return
        name = user_name(owner)
        hint = ""
        if os.geteuid() == 0 and self._command is not None:
            hint = f"as that user: `sudo -u {name} wfrun {self._command} {self.path}`"
        raise self._error(f"{path} belongs to {name}, not to {user_name(os.geteuid())}", hint)

    @staticmethod
    def _close_hint(path: Path) -> str:
        return f"`chmod go-w {path}`, if only you have written it"

    def _error(self, what: str, hint: str) -> InvalidError:
        if self._command is None:
            return InvalidError(f"{what}; only runs of your own are reused", hint=hint or None)
        trust = f"if you trust all who may: `wfrun {self._command} {self.path} --trust`"
        return InvalidError(
            f"{what}; a run executes commands", hint=f"{hint}; {trust}" if hint else trust
        )


class TrustedRun(OwnRun):
    """A run that the user trusts (``--trust``), whoever owns it. Nothing is checked."""

    def __init__(self, run: RunDir) -> None:
        RunDir.__init__(self, run.path)


def find_own(run: str | None, command: str, *, trust: bool) -> OwnRun:
    """Find a run as ``run_directory.find`` does. Unless ``trust`` is set, raises InvalidError if
    other users own, may write or may replace the run. ``command`` is the wfrun command that uses
    the run, for hints in errors."""
    found = find(run)
    return TrustedRun(found) if trust else OwnRun(found, command)


def refuse_foreign_folder(path: Path) -> None:
    """Raise InvalidError if other users could replace a new run in this directory."""
    try:
        check_way(os.fsencode(path.absolute()))
    except RefusedError as error:
        raise InvalidError(
            f"other users could exchange the files of the run: {error}",
            hint="`chmod go-w` closes a directory of yours; or name another one with --run-dir",
        ) from error
