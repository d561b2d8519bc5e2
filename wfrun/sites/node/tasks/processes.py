"""Processes of this machine: their identity, the attempts that they belong to, and signals."""

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, Iterable, Optional, Set, Tuple

    from wfrun.sites.node.tasks.limits import retried
else:
    from limits import retried

MARK = b"WFRUN_ATTEMPT="
"""The environment variable that marks the processes of an attempt, with its equals sign."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
"""Operations of prctl(2)."""
MAX_PROC_BYTES = 1 << 20
"""Maximum number of bytes read from a file in /proc. Environments are the longest."""
CLOCK_BOOTTIME = 7
"""Number of this clock on Linux; Python 3.6 does not define it."""


def boot_clock() -> float:
    """Seconds since boot, suspensions included: the clock of start times in /proc."""
    return time.clock_gettime(CLOCK_BOOTTIME)


def read_small(path: str) -> bytes:
    """Contents of a file in /proc; empty if the file is gone or cannot be read."""
    try:
        # A process must not be taken for dead because too many files are open.
        fd = retried(os.open, path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(fd, MAX_PROC_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def start_time(pid: int) -> "Optional[float]":
    """Start time of a process on ``boot_clock``; None if it does not run or is a zombie.

    Source: proc(5), fields 3 (state) and 22 (starttime) of /proc/PID/stat.
    """
    fields = read_small("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def is_running(pid: int, started_s: float) -> bool:
    """Whether the process ``pid`` that started at ``started_s`` on ``boot_clock`` still runs. A
    later process with this pid differs in its start time.

    A tolerance of 1 s is safe: no machine uses up all its pids in 1 s.
    """
    found = start_time(pid)
    return found is not None and abs(found - started_s) < 1.0


def machine_id() -> str:
    """The ID of this machine, which does not change at a reboot or with the host name; empty if
    there is none, as in many containers.

    Source: machine-id(5). Cloned machines, and nodes that boot one image, may share an id.
    """
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        text = read_small(path).decode("ascii", "replace").strip()
        if len(text) == 32:
            return text
    return ""


def identity() -> "Dict[str, Any]":
    """The identity of this process, by which other processes determine whether it is alive."""
    boot = read_small("/proc/sys/kernel/random/boot_id").decode().strip()
    pid = os.getpid()
    return {
        "host": os.uname().nodename,
        "machine": machine_id(),
        "boot": boot,
        "pid": pid,
        "start_s": start_time(pid),
    }


def has_restarted(owner: "Dict[str, Any]", here: "Dict[str, Any]") -> bool:
    """Whether a process is dead because it ran on this machine before the last reboot. ``owner`` is
    its identity, ``here`` our own. False if this cannot be determined."""
    machines = {owner.get("machine"), here["machine"]} - {"", None}
    return bool(
        owner["boot"] != here["boot"] and owner["host"] == here["host"] and len(machines) < 2
    )


def attempt_of(pid: "Any") -> "Optional[str]":
    """Key of the attempt that a process belongs to, from its initial environment. None: it belongs
    to no attempt, or its environment cannot be read."""
    environment = b"\0" + read_small("/proc/%s/environ" % pid)
    _, mark, rest = environment.partition(b"\0" + MARK)
    return rest.partition(b"\0")[0].decode("ascii", "replace") if mark else None


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group. Has no effect if the group has ended."""
    with contextlib.suppress(OSError):  # it has ended already
        os.killpg(pid, number)


def kill_leftovers(keys: "Set[str]", pids: "Iterable[Tuple[int, float]]") -> None:
    """Kill the remaining processes of attempts ``keys``, whose launcher is dead.

    ``pids`` are the recorded group leaders, with their start times. Processes that have left their
    group, and those that the launcher did not record before its death, are found by MARK in their
    environment.
    """
    for pid, started_s in pids:
        if is_running(pid, started_s):
            signal_group(pid, signal.SIGKILL)
    for name in retried(os.listdir, "/proc"):
        if name.isdigit() and attempt_of(name) in keys:
            with contextlib.suppress(OSError):  # it ended meanwhile
                os.kill(int(name), signal.SIGKILL)


def become_subreaper() -> bool:
    """Make this process the parent of its orphaned descendants, so that it finds daemons that left
    the process group of their task. Returns False where the system does not support it.

    Source: prctl(2), PR_SET_CHILD_SUBREAPER, Linux 3.4.
    """
    try:
        import ctypes

        succeeded = ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
        return succeeded and os.path.exists("/proc/thread-self/children")
    except (ImportError, OSError, AttributeError):
        return False


def end_with_parent(parent: "Optional[int]") -> None:
    """Let the kernel send SIGTERM to this process when its parent dies. ``parent`` is the parent's
    pid, None: unknown. If that process is not our parent any more, SIGTERM is sent at once.

    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def is_terminated(status: int) -> bool:
    """Whether SIGTERM or SIGKILL ended a process, or the last command of a shell, which then exits
    with 128 plus the signal's number. ``status`` is the wait status, see wait(2)."""
    numbers = (signal.SIGTERM, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) in numbers
    return os.WEXITSTATUS(status) - 128 in numbers


def is_killed(status: int) -> bool:
    """Whether SIGKILL ended a process, or the last command of a shell. ``status`` is the wait
    status, see wait(2)."""
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) - 128 == signal.SIGKILL


def close_inherited() -> None:
    """Close all files except the standard streams.

    This process and its tasks may outlive the process that started them. As long as they kept an
    inherited pipe open, its reader would wait.
    """
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own file is closed already
            if int(name) > 2:
                os.close(int(name))
