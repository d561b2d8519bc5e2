"""Processes of a machine: who they are, whose they are, and their ends."""

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Optional, Set, Tuple

MARK = b"WFRUN_ATTEMPT="


def boot_clock() -> float:
    """Seconds since the machine booted, on the clock that /proc counts start times by."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", 7))


def read_small(path: str) -> bytes:
    """A file of /proc, empty where it is gone or not ours to read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(fd)


def start_time(pid: int) -> "Optional[float]":
    """When a process was started, on ``boot_clock``; None: there is none that still runs.

    Source: proc(5), fields 3 (state) and 22 (starttime) of /proc/PID/stat.
    """
    fields = read_small("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int, started_s: float) -> bool:
    """Whether this very process runs: a recycled pid has another start time.

    A second of tolerance is safe: no machine hands out all of its pids in one.
    """
    found = start_time(pid)
    return found is not None and abs(found - started_s) < 1.0


def identity() -> "Dict[str, Any]":
    """What tells other launchers whether this one still lives."""
    boot = read_small("/proc/sys/kernel/random/boot_id").decode().strip()
    pid = os.getpid()
    return {"host": os.uname().nodename, "boot": boot, "pid": pid, "start_s": start_time(pid)}


def attempt_of(pid: "Any") -> "Optional[str]":
    """The key of the attempt that a process belongs to, by the environment it was started with."""
    environment = b"\0" + read_small("/proc/%s/environ" % pid)
    _, mark, rest = environment.partition(b"\0" + MARK)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if mark else None


def signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        os.killpg(pid, number)


def kill_leftovers(keys: "Set[str]", pids: "Iterable[Tuple[int, float]]") -> None:
    """Kill what a launcher that died has left of these attempts.

    ``pids`` are group leaders and their start times. What left its group, or was started just
    before the launcher's death, is found by its environment.
    """
    for pid, started_s in pids:
        if is_running(pid, started_s):
            signal_group(pid, signal.SIGKILL)
    for name in os.listdir("/proc"):
        if name.isdigit() and attempt_of(name) in keys:
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(int(name), signal.SIGKILL)


def become_subreaper() -> bool:
    """Be given the orphans of tasks, also of daemons that left their process group.

    Source: prctl(2), PR_SET_CHILD_SUBREAPER, Linux 3.4.
    """
    try:
        import ctypes

        succeeded = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
        return succeeded and os.path.exists("/proc/thread-self/children")
    except (ImportError, OSError, AttributeError):
        return False


def close_inherited() -> None:
    """Let go of what our parent's parents left open: we, and tasks, may outlive them all, and
    somebody may wait for the end of such a pipe."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            if int(name) > 2:
                os.close(int(name))
