"""The run directory, which holds the log, the lock, the outputs and the local sites of a run."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.atomic import write_file
from wfrun.runners.run.directory.access import refuse_unreadable
from wfrun.runners.run.directory.lock import driver, is_held
from wfrun.runners.run.directory.run_index import indexed
from wfrun.runners.run.store.event_store import FILE_NAME, Store
from wfrun.runners.run.store.log_errors import Judge, damaged

RUNS = Path("wfrun-runs")
"""The folder of runs, relative to the current directory."""
LOCK_NAME = "lock"
START_WAIT_S = 1.0
"""Maximum time that a reader waits for the first event of a starting run, in seconds. A start takes
milliseconds, unless a site is slow or requires a login, for which no reader should wait."""


class RunDir:
    """Paths of one run."""

    judge: Judge | None = None
    """Raises an error if an opened file belongs to another user. Set for a run that is resumed or
    reused (``wfrun.runners.run.directory.trust``). None for a new run, a run that is only read, or
    a run that the user trusts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def outputs(self) -> Path:
        return self.path / "outputs"

    @property
    def reused(self) -> Path:
        """Directory of those outputs of reused tasks that only other tasks read, and that are not
        final outputs."""
        return self.path / "reused"

    @property
    def inputs(self) -> Path:
        """Directory of initial inputs that were fetched by URL, and of stand-ins for inputs under
        emulation."""
        return self.path / "inputs"

    @property
    def lock(self) -> Path:
        return self.path / LOCK_NAME

    @property
    def notifications(self) -> Path:
        """File with the output of notifications."""
        return self.path / "notifications.log"

    @property
    def cancel_request(self) -> Path:
        return self.path / "cancel"

    @property
    def requests(self) -> Path:
        """Directory of the user's requests other than cancellations and additions, one file
        each."""
        return self.path / "requests"

    @property
    def additions(self) -> Path:
        """Directory of the user's requests to add documents, one file each. Requests outlive the
        engine."""
        return self.path / "additions"

    def ask_to_cancel(self, mode: Literal["drain", "kill"]) -> None:
        """Write a request to cancel, atomically, for the engine that drives the run. Raises
        InfeasibleError if it cannot be written."""
        try:
            write_file(self.cancel_request, mode.encode(), 0o600)
        except OSError as error:
            raise InfeasibleError(
                f"the request to cancel cannot be written: {error}",
                hint="Ctrl-C or SIGTERM to the process that drives the run does the same",
            ) from error

    def site_directory(self, spec: SiteSpec, name: str) -> Path:
        """The directory of a local site for this run: the folder ``name`` in the site's directory
        if the catalog states one, otherwise a folder in the run directory."""
        if spec.directory is None:
            return (self.path / "sites" / spec.name).absolute()
        return Path(spec.directory) / name


def find(run: str | None) -> RunDir:
    """Find a run by its path, or by its name in ``wfrun-runs`` or in the index of the user's runs.
    ``last`` and None stand for the most recently active of all runs.

    A starting run is found once its engine holds the lock. Raises InvalidError if there is no such
    run, and InfeasibleError if this user may not read it.
    """
    if run is None or run == "last":
        runs = existing()
        if not runs:
            raise InvalidError(
                "there is no run in ./wfrun-runs, and none of yours elsewhere",
                hint="`wfrun WORKFLOW` starts one",
            )
        return runs[-1]
    for path in (Path(run), RUNS / run):
        refuse_unreadable(path)
        if _is_run(path) or (_is_new(path) and _wait_until(lambda: _is_run(path))):  # noqa: B023
            return RunDir(path)
        if _is_new(path) and (path / LOCK_NAME).exists():
            raise never_started(path)
        if all((path / name).exists() for name in (LOCK_NAME, "sites")):
            raise damaged(path / FILE_NAME, "it is missing")
    runs = existing()
    named = [each for each in runs if each.name == run]
    if len(named) == 1:
        return named[0]
    if named:
        paths = ", ".join(str(each.path) for each in named[-5:])
        raise InvalidError(f"several runs have the name {run!r}", hint=f"name a path: {paths}")
    known = ", ".join(names(runs)[-5:]) or "none"
    raise InvalidError(f"there is no run {run!r}", hint=f"the latest runs: {known}")


def existing(*, here: bool = False) -> list[RunDir]:
    """The runs in ``wfrun-runs`` and, unless ``here``, the runs in the user's index that the user
    owns. The most recently active run comes last. Includes runs in ``wfrun-runs`` that are starting
    or that the user may not read. Raises InfeasibleError if the user may not read
    ``wfrun-runs``."""
    refuse_unreadable(RUNS)
    paths = list(RUNS.iterdir()) if RUNS.is_dir() else []
    if not here:
        paths += filter(_is_own, indexed())
    found: dict[str, tuple[int, Path]] = {}
    for path in paths:
        if _is_run(path):
            found.setdefault(os.path.realpath(path), (_active_ns(path), path))
    return [RunDir(path) for _, path in sorted(found.values())]


def names(runs: Sequence[RunDir]) -> list[str]:
    """For each run, a text by which ``find`` finds it. The text is the name if the run is in
    ``wfrun-runs`` or no other run in ``runs`` has this name, otherwise the path."""
    many = Counter(run.name for run in runs)
    return [
        run.name if run.path.parent == RUNS or many[run.name] == 1 else str(run.path)
        for run in runs
    ]


def _is_own(path: Path) -> bool:
    """Whether a directory belongs to this user. Another user may have replaced the original one."""
    try:
        return path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _active_ns(path: Path) -> int:
    """Time of the last activity of a run, in nanoseconds since the epoch; 0 if its directory is
    being removed."""
    for name in (FILE_NAME, LOCK_NAME):
        with contextlib.suppress(OSError):
            return (path / name).stat().st_mtime_ns
    return 0


def _is_run(path: Path) -> bool:
    """Whether a directory has a log, or an engine that is about to create one."""
    return has_log(path) or is_driven(RunDir(path))


def has_log(path: Path) -> bool:
    """Whether a directory has a log, even if the log is a symbolic link to nothing."""
    return os.path.lexists(path / FILE_NAME)


def _is_new(path: Path) -> bool:
    """Whether an engine may be about to start a run in a directory, because it is empty or has only
    the lock file."""
    try:
        return {entry.name for entry in path.iterdir()} <= {LOCK_NAME}
    except OSError:
        return False


def _wait_until(happened: Callable[[], bool], timeout_s: float = START_WAIT_S) -> bool:
    """Wait for a condition; returns whether it became true before the timeout."""
    end_s = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() >= end_s:
            return False
        _pause()
    return True


def _pause() -> None:
    time.sleep(0.02)


def is_driven(run: RunDir) -> bool:
    """Whether an engine holds the lock of a run."""
    return is_held(run.lock)


class StartingError(TransientError):
    """The run is starting: an engine holds its lock, and its log has no event yet."""


def not_started(error: TransientError) -> InfeasibleError:
    """The error for a new run whose log cannot be written. The run directory is removed."""
    hint = "nothing was started; start the run again when the disk can be written"
    return InfeasibleError(error.message, source=error.source, hint=hint)


def never_started(path: Path) -> InvalidError:
    """The error for a run whose engine ended before it committed the first event."""
    # A power failure can leave an empty log beside the files of tasks.
    if (path / "outputs").exists() or any(path.glob("sites/*/attempts/*.out")):
        return InvalidError(
            f"the log of the run {path.name} is empty, but tasks have run",
            source=str(path / FILE_NAME),
            hint="restore the log from a backup or a snapshot of the file system; the outputs "
            "collected so far are in outputs/",
        )
    return InvalidError(
        f"the run {path.name} was never started; its log is empty",
        source=str(path),
        hint="no task has run: remove its directory and run the workflow again",
    )


def await_start(run: RunDir, timeout_s: float = START_WAIT_S) -> None:
    """Wait until the log of a run has its first event.

    Raises StartingError if the log has no event after ``timeout_s`` and an engine holds the lock.
    Raises InvalidError if no engine holds the lock: the run was never started, or does not exist.
    Raises InfeasibleError if this user may not read the run.
    """
    refuse_unreadable(run.path)
    # An engine takes the lock before it creates the log, and commits before it releases the lock.
    # So an existing log is complete while the lock is free. The log is read again after the look at
    # the lock, because the engine may have committed between the two.
    end_s = time.monotonic() + timeout_s
    while not _has_events(run):
        is_starting = is_driven(run)
        if is_starting and time.monotonic() >= end_s:
            raise StartingError(
                f"the run {run.name} is starting, driven by {driver(run.lock)}; no task has run "
                "yet",
                hint="try again once its sites are open",
            )
        if not is_starting and not _has_events(run):
            if has_log(run.path) or (run.lock.exists() and _is_new(run.path)):
                raise never_started(run.path)
            raise InvalidError(
                f"there is no run in {run.path}; an engine that fails to start removes it",
                hint="`wfrun list --all` shows your runs",
            )
        _pause()


def _has_events(run: RunDir) -> bool:
    if not has_log(run.path):
        return False
    store = Store(run.path, judge=run.judge)
    try:
        return store.has_events()
    finally:
        store.close()
