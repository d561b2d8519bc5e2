"""The run directory: where a run keeps its log, its lock, its outputs and its local sites."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
from pathlib import Path
from typing import Literal

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.runners.store import FILE_NAME

RUNS = Path("wfrun-runs")
"""The folder of runs, in the current directory."""


class RunDir:
    """Paths of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def outputs(self) -> Path:
        return self.path / "outputs"

    @property
    def inputs(self) -> Path:
        """Stand-ins for initial inputs, under emulation."""
        return self.path / "inputs"

    @property
    def cancel_request(self) -> Path:
        return self.path / "cancel"

    def ask_to_cancel(self, mode: Literal["drain", "kill"]) -> None:
        """Leave the request for the engine that drives the run, whole or not at all. Raises
        InfeasibleError where it can't be written."""
        draft = self.path / f".cancel-{os.getpid()}"
        try:
            draft.write_text(mode)
            draft.replace(self.cancel_request)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise InfeasibleError(
                f"the request to cancel can't be written: {error}",
                hint="Ctrl-C or SIGTERM to the process that drives the run does the same",
            ) from error

    def site_directory(self, spec: SiteSpec, run_id: str) -> Path:
        """Where a local site keeps the files of this run."""
        if spec.directory is None:
            return (self.path / "sites" / spec.name).absolute()
        return Path(spec.directory) / f"wfrun-{run_id}"


def create(path: Path | None, name: str) -> RunDir:
    """Make a new run directory: ``path``, or ``wfrun-runs/<name>-<number>``.

    Raises InvalidError when there is something at ``path`` already, since what a run has made is
    removed there; InfeasibleError when it can't be made.
    """
    try:
        if path is not None:
            if (path / FILE_NAME).exists():
                raise InvalidError(
                    f"{path} holds a run already",
                    hint=f"`wfrun resume {path}` goes on with it; a new run wants another one",
                )
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if any(path.iterdir()):
                raise InvalidError(
                    f"the run directory {path} is not empty",
                    hint="a run wants a directory of its own: name one that is empty or absent",
                )
            return RunDir(path)
        RUNS.mkdir(exist_ok=True)
        stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
        numbers = (re.fullmatch(re.escape(stem) + r"-(\d+)", p.name) for p in RUNS.iterdir())
        number = 1 + max((int(match[1]) for match in numbers if match), default=0)
        while True:
            try:
                (RUNS / f"{stem}-{number}").mkdir(mode=0o700)
                return RunDir(RUNS / f"{stem}-{number}")
            except FileExistsError:
                number += 1
    except OSError as error:
        raise InfeasibleError(
            f"the run directory {path or RUNS} can't be made: {error.strerror}",
            hint="choose another place with --run-dir",
        ) from error


def find(run: str | None) -> RunDir:
    """The run that the user means: a path, a name in ``wfrun-runs``, or ``last`` (also None)."""
    if run is None or run == "last":
        runs = existing()
        if not runs:
            raise InvalidError(
                "there is no run yet in ./wfrun-runs", hint="`wfrun WORKFLOW` starts one"
            )
        return runs[-1]
    for path in (Path(run), RUNS / run):
        if (path / FILE_NAME).exists():
            return RunDir(path)
    known = ", ".join(r.name for r in existing()[-5:]) or "none here"
    raise InvalidError(f"there is no run {run!r}", hint=f"the latest runs: {known}")


def existing() -> list[RunDir]:
    """The runs of the current folder, the one that was active last at the end."""
    if not RUNS.is_dir():
        return []
    found = [p for p in RUNS.iterdir() if (p / FILE_NAME).exists()]
    return [RunDir(p) for p in sorted(found, key=lambda p: (p / FILE_NAME).stat().st_mtime_ns)]


class Lock:
    """One engine at a time drives a run directory. Ends with the process, however it ends."""

    def __init__(self, run: RunDir) -> None:
        path = run.path / "lock"
        try:
            self._file = open(path, "a+")  # noqa: SIM115 - held as long as the lock
        except OSError as error:
            raise InfeasibleError(
                f"the run directory can't be written: {error}", source=str(run.path)
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                self._file.close()
                raise InfeasibleError(
                    f"the run directory can't be locked: {error}",
                    source=str(run.path),
                    hint="its file system has no locks; choose another place with --run-dir",
                ) from error
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise InvalidError(
                f"the run {run.name} is being driven by {holder}",
                hint=f"wait for it, or stop it with `wfrun cancel {run.path}`",
            ) from None
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        self._file.truncate(0)
        self._file.close()


def is_driven(run: RunDir) -> bool:
    """Whether an engine holds the run's lock now."""
    try:
        with open(run.path / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
