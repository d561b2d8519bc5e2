"""Starts, finds and ends the processes of a testbed.

A process belongs to a testbed if it runs as one of its users, or if it is one of the servers'
programs and names the testbed's directory on its command line, in its environment or as its
current directory, or is an SSH session of one of its users. Nothing else is ever sent a signal.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.testbed.layout import Layout, Server, TestbedError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS = frozenset(
    {
        *("munged", "slurmctld", "slurmd", "slurmstepd"),
        *("sge_qmaster", "sge_execd", "sge_shepherd", "sshd"),
        "globus-gridftp-server",
    }
)
WAIT_S = 200.0
"""Enough for what takes seconds on an idle machine."""


def run(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    check: bool = True,
    timeout_s: float = WAIT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command with an environment that has only PATH and what is given. Raises TestbedError
    with the end of its output when it fails (unless ``check`` is false) or takes too long."""
    try:
        result = subprocess.run(
            argv,
            env={"PATH": PATH, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"{' '.join(argv)} took longer than {timeout_s:g} s") from error
    if check and result.returncode:
        said = (result.stdout + result.stderr).strip()[-1000:]
        raise TestbedError(f"{' '.join(argv)} ended with {result.returncode}: {said}")
    return result


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    """Return when the condition holds. Raises TestbedError when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TestbedError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.05)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def pid_of(layout: Layout, server: Server) -> int | None:
    """The process of this server; None where it does not run."""
    pid = _noted_pid(layout, server)
    return pid if pid is not None and belongs(pid, layout, _uids(layout)) else None


def _noted_pid(layout: Layout, server: Server) -> int | None:
    """The process that was started last as this server."""
    try:
        return int((layout.pids / server.name).read_text())
    except (OSError, ValueError):
        return None


def start(layout: Layout, server: Server) -> None:
    """Start a server unless it runs, detached from us. Its output goes to its log. Raises
    TestbedError where it has ended at once, with what it said."""
    if pid_of(layout, server) is not None:
        return
    file = layout.pids / server.name
    file.unlink(missing_ok=True)
    log = layout.logs / f"{server.name}.log"
    script = 'echo $$ >"$1.new"; mv "$1.new" "$1"; shift; exec "$@"'
    with log.open("ab") as output:
        subprocess.run(
            ["setsid", "--fork", "sh", "-c", script, "sh", str(file), *server.argv],
            env={"PATH": PATH, "LC_ALL": "C.UTF-8", **server.environment},
            # What a server starts may lose its command line and environment, but keeps this.
            cwd=layout.logs,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=True,
        )
    wait_until(file.exists, f"the start of {server.name}")


def await_port(layout: Layout, server: Server) -> None:
    """Return when the server takes connections. Raises TestbedError where it has ended."""
    port = server.port
    if port is None:
        return
    end = time.monotonic() + WAIT_S
    while not listens(port):
        # Between fork and exec, which takes seconds on a busy machine, it is not known as ours.
        pid = _noted_pid(layout, server)
        if pid is None or not _lives(pid) or time.monotonic() > end:
            log = layout.logs / f"{server.name}.log"
            said = log.read_text(errors="replace")[-1000:].strip()
            raise TestbedError(f"{server.name} does not come up (port {port}); {log}: {said}")
        time.sleep(0.05)


def send(layout: Layout, server: Server, number: signal.Signals) -> None:
    """Send a signal to a server. Raises TestbedError where it does not run."""
    pid = pid_of(layout, server)
    if pid is None:
        raise TestbedError(f"{server.name} does not run")
    os.kill(pid, number)


def stop(layout: Layout, server: Server, number: signal.Signals = signal.SIGTERM) -> None:
    """End a server, and return when it has ended. After 10 s it is killed."""
    pid = pid_of(layout, server)
    if pid is None:
        return
    signal_and_await([pid], number)


def signal_and_await(pids: Iterable[int], number: signal.Signals) -> None:
    """Signal processes, and return when they have ended; SIGKILL those that have not in 10 s."""
    pids = list(pids)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
    try:
        wait_until(lambda: not any(map(_lives, pids)), "the end of servers", 10)
    except TestbedError:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(_lives, pids)), "the end of killed servers")


def all_of(layout: Layout) -> list[int]:
    """Every process of this testbed: servers, sessions, jobs."""
    uids = _uids(layout)
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and belongs(pid, layout, uids)]


def of_users(layout: Layout) -> list[int]:
    """Every process of the sites' users: sessions and what they run."""
    uids = _uids(layout)
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}").stat().st_uid in uids and _lives(pid):
                found.append(pid)
    return found


def end_all(layout: Layout) -> None:
    """End every process of this testbed, its jobs too; what was started meanwhile as well."""
    for _ in range(20):
        pids = all_of(layout)
        if not pids:
            return
        signal_and_await(pids, signal.SIGKILL)
    raise TestbedError(f"these processes do not end: {pids}")


def sessions(user: str) -> list[int]:
    """The SSH server's processes for connections of this user."""
    titles = (f"sshd: {user} ", f"sshd: {user}@")
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _read(name, "cmdline").decode(errors="replace").startswith(titles):
            found.append(int(name))
    return found


def belongs(pid: int, layout: Layout, uids: Iterable[int]) -> bool:
    """Whether a live process is one of this testbed."""
    if not _lives(pid):
        return False
    try:
        if Path(f"/proc/{pid}").stat().st_uid in uids:
            return True
        program = Path(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")).name
        current = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return False
    if program.removesuffix("-wlm") not in PROGRAMS:  # Debian's Slurm has names of its own.
        return False
    # With what follows it, so that a directory whose name only begins alike is another.
    marks = [f"{layout.directory}{end}".encode() for end in ("/", "\0", ":")]
    said = b"%s\0%s\0%s/\0" % (_read(pid, "cmdline"), _read(pid, "environ"), current.encode())
    if any(mark in said for mark in marks):
        return True
    title = _read(pid, "cmdline").decode(errors="replace")
    return any(
        title.startswith((f"sshd: {site.user} ", f"sshd: {site.user}@")) for site in layout.sites
    )


def _uids(layout: Layout) -> list[int]:
    found = []
    for site in layout.sites:
        with contextlib.suppress(KeyError):
            found.append(pwd.getpwnam(site.user).pw_uid)
    return found


def _lives(pid: int) -> bool:
    """Whether there is such a process, and not only its exit code."""
    stat = _read(pid, "stat")
    return bool(stat) and stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _read(pid: int | str, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
