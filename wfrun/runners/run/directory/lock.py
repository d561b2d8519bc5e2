"""The lock of a run: one engine drives it at a time, on whichever host.

The engine locks the file ``lock`` twice: with flock(2), which excludes other engines, and with an
open file description lock (fcntl(2), F_OFD_SETLK), which readers test without taking any lock, so
that no reader ever keeps an engine out. The file names its holder and is touched every few seconds
(heartbeat), because flock may not reach other hosts, and because a server of a network file system
may keep the lock of a host that is down.

When an engine may take over a lock whose holder did not record its end:

- the holder ran under the present boot of this machine: always, since the system has released the
  lock of a dead process;
- this machine has restarted since: always, since the holder is dead;
- this machine may have restarted under another host name (same machine id): once the holder's
  heartbeat is silent for ``PATIENCE_S``, since cloned machines may share an id;
- the holder ran on another machine: once the user says that the host is dead, and the heartbeat is
  silent for ``PATIENCE_S``.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import struct
import time
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.explain.visible import command_line, visible
from wfrun.runners.run.store.log_errors import Judge
from wfrun.sites.node.tasks.processes import has_restarted, identity

_LOGGER = logging.getLogger(__name__)

BEAT_S = 3.0
"""Interval of the heartbeat of an engine, in seconds."""
PATIENCE_S = 15.0
"""Time without a heartbeat after which the engine of another host may be dead, in seconds."""
LOCK_WAIT_S = 0.5
"""Maximum time to wait for a lock, in seconds: on systems without open file description locks,
readers hold the lock briefly."""
MAX_BYTES = 4096
"""Maximum number of bytes read of a lock file."""
_WHOLE_FILE = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""The struct flock of fcntl(2) for a write lock on a whole file."""
_HAS_OFD_LOCKS = hasattr(fcntl, "F_OFD_GETLK")


class Holder(msgspec.Struct, frozen=True):
    """The engine that a lock file names, with the fields of
    ``wfrun.sites.node.tasks.processes.identity``."""

    pid: int
    host: str
    boot: str = ""
    machine: str = ""
    start_s: float | None = None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lock:
    """The lock of the engine that drives a run. The system releases it when the process ends."""

    def __init__(
        self, path: Path, *, dead_hosts: Collection[str] = (), judge: Judge | None = None
    ) -> None:
        """Take the lock file ``path`` of a run directory.

        ``dead_hosts`` are names of hosts that the user states to be down. ``judge`` raises
        InvalidError for a file of another user. Raises InvalidError if another engine holds the
        lock or may hold it, and InfeasibleError if the directory cannot be written or locked.
        """
        self._path, self._judge = path, judge
        self._beaten_s = uptime_s()
        self._fd = self._take(dead_hosts)
        try:
            before = read_holder(path)
            if before is not None:
                _refuse_living(path, before, dead_hosts)
            with contextlib.suppress(OSError, AttributeError):  # flock alone decides
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
            text = msgspec.json.encode(identity())
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))
        except OSError as error:
            self.remove()
            raise _unwritable(path, error) from error
        except BaseException:  # it may be alive, or the user does not wait for its silence
            os.close(self._fd)
            raise

    def _take(self, dead_hosts: Collection[str]) -> int:
        """Open and lock the lock file; returns its descriptor. The lock file of a holder on a dead
        host is replaced. Raises InvalidError if another engine holds or takes the lock."""
        fd = _locked(self._path, self._judge)
        if fd is not None:
            return fd
        before = read_holder(self._path)
        if before is None or before.host not in dead_hosts or _is_here(before):
            raise _is_driven_error(self._path)
        # The system cannot release this lock. A second lock lets one process at a time replace it.
        guard = self._path.with_name(f"{self._path.name}.takeover")
        guard_fd = _locked(guard, self._judge)
        if guard_fd is None:
            raise _is_driven_error(self._path)
        try:
            _refuse_living(self._path, before, dead_hosts)
            if read_holder(self._path) != before:
                raise _is_driven_error(self._path)
            self._path.unlink()
            fd = _locked(self._path, self._judge)
            if fd is None:
                raise _is_driven_error(self._path)
            return fd
        finally:
            guard.unlink(missing_ok=True)
            os.close(guard_fd)

    def check(self) -> None:
        """Send a heartbeat if the last heartbeat is old, for example because this machine was
        suspended. Raises InvalidError if another engine has taken over the run meanwhile."""
        if uptime_s() - self._beaten_s > PATIENCE_S / 2:
            self.beat()

    def beat(self) -> None:
        """Touch the lock file. Raises InvalidError if another engine has taken over the run."""
        try:
            is_ours = _is_file(self._fd, self._path)
        except OSError:  # the file system does not answer now
            return
        if not is_ours:
            raise InvalidError(
                f"another engine has taken over the run: {driver(self._path)}",
                source=str(self._path.parent),
                hint="it continues the run; this engine leaves, and running tasks continue",
            )
        with contextlib.suppress(OSError):  # the next heartbeat may succeed
            os.utime(self._fd)
            self._beaten_s = uptime_s()

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)

    def remove(self) -> None:
        """Remove the lock file and release the lock. An engine that waits for the lock makes a new
        file."""
        with contextlib.suppress(OSError):
            if _is_file(self._fd, self._path):
                self._path.unlink()
        os.close(self._fd)


def _locked(path: Path, judge: Judge | None) -> int | None:
    """Open and lock a file, making it if it does not exist. Returns its descriptor; None: another
    process holds the lock. Raises InfeasibleError if the file cannot be made or locked, and what
    ``judge`` raises."""
    end_s = time.monotonic() + LOCK_WAIT_S
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            if judge is not None:
                judge(path, os.fstat(fd))
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed the file before this process locked it.
            if _is_file(fd, path):
                return fd
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(fd)
                _remove_unused(path)
                raise InfeasibleError(
                    f"the run directory cannot be locked: {error}",
                    source=str(path.parent),
                    hint="its file system has no locks; name another directory with --run-dir",
                ) from error
            if time.monotonic() >= end_s:
                os.close(fd)
                return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(0.02)


def _remove_unused(path: Path) -> None:
    """Remove an empty lock file on a file system without locks."""
    with contextlib.suppress(OSError):
        if path.stat().st_size == 0:
            path.unlink()


def _is_file(fd: int, path: Path) -> bool:
    """Whether an open file is still the file of this path."""
    try:
        there, held = os.stat(path, follow_symlinks=False), os.fstat(fd)
    except FileNotFoundError:
        return False
    return bool((there.st_dev, there.st_ino) == (held.st_dev, held.st_ino))


def _unwritable(path: Path, error: OSError) -> InfeasibleError:
    return InfeasibleError(f"the run directory cannot be written: {error}", source=str(path.parent))


def _is_driven_error(path: Path) -> InvalidError:
    run = path.parent
    return InvalidError(
        f"the run {run.name} is being driven by {driver(path)}",
        hint=f"wait for it, or stop it with `{command_line('wfrun', 'cancel', run)}`",
    )


def read_holder(path: Path) -> Holder | None:
    """The engine that a lock file names; None if it names none, or was written by wfrun 0.1."""
    try:
        return msgspec.json.decode(_content(path), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def _content(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, MAX_BYTES)
    finally:
        os.close(fd)


def driver(path: Path) -> str:
    """The process that holds a lock file, for messages."""
    holder = read_holder(path)
    if holder is not None:
        return str(holder)
    with contextlib.suppress(OSError):
        return _content(path).decode("utf-8", "replace").strip() or "another process"
    return "another process"


def _is_here(holder: Holder) -> bool:
    return bool(holder.boot == identity()["boot"])


def _refuse_living(path: Path, holder: Holder, dead_hosts: Collection[str]) -> None:
    """Raise InvalidError if ``holder``, the engine that the lock file names, may be alive. May wait
    for a heartbeat for ``PATIENCE_S``. The holder may be alive although this process has the lock,
    because locks do not always reach other hosts."""
    here = identity()
    if _is_here(holder) or has_restarted(msgspec.to_builtins(holder), here):
        return
    same_machine = bool(holder.machine) and holder.machine == here["machine"]
    if not same_machine and holder.host not in dead_hosts:
        raise InvalidError(
            f"the run {path.parent.name} was driven by {holder}, and did not say that it ended",
            source=str(path.parent),
            hint="resume it on that host; if the host is down, or the process is gone: "
            f"`{command_line('wfrun', 'resume', path.parent, '--dead-host', holder.host)}`",
        )
    _LOGGER.warning("waiting %g s for a sign of life of %s", PATIENCE_S, visible(str(holder)))
    if not is_silent(path, PATIENCE_S):
        raise InvalidError(
            f"the run {path.parent.name} is being driven by {holder}: its heartbeat continues",
            source=str(path.parent),
            hint=f"wait for it, or stop it with `{command_line('wfrun', 'cancel', path.parent)}`",
        )


def is_silent(path: Path, patience_s: float) -> bool:
    """Watch a lock file; returns whether its heartbeat is silent for ``patience_s``."""
    first = _touched_ns(path)
    return not _wait_until(lambda: _touched_ns(path) != first, patience_s)


def _touched_ns(path: Path) -> int:
    """Time of the last heartbeat in nanoseconds, on the clock of the file's server. Opens the file,
    because a network file system shows current attributes only then. 0 if there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)


def _wait_until(happened: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() >= end_s:
            return False
        time.sleep(0.05)
    return True


def is_held(path: Path) -> bool:
    """Whether an engine holds a lock file, or may hold it. The check keeps no engine from taking
    the lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:  # of another user's run: its heartbeat shows whether there is an engine
        return _is_beating(path)
    except OSError:
        return True
    try:
        return _is_locked(fd) or _is_fresh(path, fd)
    except OSError:
        return True
    finally:
        os.close(fd)


def _is_beating(path: Path) -> bool:
    """Whether a lock file that cannot be opened was touched recently."""
    try:
        touched_s = os.stat(path, follow_symlinks=False).st_mtime
    except OSError:
        return True
    return abs(time.time() - touched_s) < PATIENCE_S


def _is_locked(fd: int) -> bool:
    if _HAS_OFD_LOCKS:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _WHOLE_FILE)
        kind: int = struct.unpack("hhqqi0q", answer)[0]
        return kind != fcntl.F_UNLCK
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _is_fresh(path: Path, fd: int) -> bool:
    """Whether an engine of another host, whose lock may not be visible here, touched the lock file
    recently."""
    holder = read_holder(path)
    if holder is None or _is_here(holder):
        return False
    if has_restarted(msgspec.to_builtins(holder), identity()):
        return False
    return abs(time.time() - os.fstat(fd).st_mtime) < PATIENCE_S


def uptime_s() -> float:
    """Seconds since the machine booted; on Linux including suspension."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
