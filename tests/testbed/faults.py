"""What goes wrong on clusters, on demand. Each fault is undone by its counterpart, and by
bringing the testbed down."""

from __future__ import annotations

import shlex
import shutil
import signal
from pathlib import Path
from typing import Literal, get_args

from tests.testbed import grid_engine, processes, slurm, ssh
from tests.testbed.layout import Layout, MissingError, TestbedError
from tests.testbed.testbed import Testbed

Misbehaviour = Literal["empty", "garbage", "hang", "refuse", "fail-after"]

HANGS = "sleep 100000"
"""Command line of a program that hangs."""

MISBEHAVIOURS: dict[Misbehaviour, str] = {
    "empty": "exit 0",
    "garbage": r"""printf '\001\377}{ slurm_load: <xml\n%s' "$@"; exit 0""",
    "hang": f"exec {HANGS}",
    "refuse": "echo 'error: the server does not answer (made by the testbed)' >&2; exit 1",
    "fail-after": '{real} "$@" >/dev/null 2>&1; '
    "echo 'error: the connection was reset (made by the testbed)' >&2; exit 1",
}
"""What the wrapper does instead: print nothing, print garbage, never end, fail without and with
having done what was asked."""


def kill(testbed: Testbed, server: str) -> None:
    """End a server at once, with SIGKILL. Of sshd only the listener: see ``cut``."""
    processes.stop(testbed.layout, testbed.server(server), signal.SIGKILL)


def pause(testbed: Testbed, server: str) -> None:
    """Let a server hang: it takes connections and does not answer."""
    processes.send(testbed.layout, testbed.server(server), signal.SIGSTOP)


def resume(testbed: Testbed, server: str) -> None:
    """Let a paused server go on."""
    processes.send(testbed.layout, testbed.server(server), signal.SIGCONT)


def start(testbed: Testbed, server: str) -> None:
    """Start a server that was stopped or killed; returns when it takes connections."""
    processes.start(testbed.layout, testbed.server(server))
    processes.await_port(testbed.layout, testbed.server(server))


def stop(testbed: Testbed, server: str) -> None:
    """End a server in its own way."""
    processes.stop(testbed.layout, testbed.server(server))


def cut(testbed: Testbed, site: str) -> int:
    """Cut all SSH connections to a site, as a network does; returns how many processes of sshd
    that were. What the sessions ran is not signalled. New connections are taken."""
    pids = processes.sessions(testbed.layout.site(site).user)
    processes.signal_and_await(pids, signal.SIGKILL)
    return len(pids)


def misbehave(
    testbed: Testbed, site: str, program: str, how: Misbehaviour, times: int | None = None
) -> None:
    """Let a program misbehave for the site's user, the next ``times`` times, or until
    ``behave``. Works in running sessions too. Raises TestbedError where there is no such
    program."""
    real = shutil.which(program, path=processes.PATH)
    if real is None or "/" in program:
        raise TestbedError(f"there is no program {program!r} to misbehave")
    if how not in MISBEHAVIOURS:
        raise TestbedError(f"{how!r} is none of {', '.join(get_args(Misbehaviour))}")
    place = testbed.layout.site(site).home / "bin"
    count = _count(place, program)
    behave(testbed, site, program)
    lines = ["#!/bin/sh"]
    if times is not None:
        # Each call takes a number of its own; those after the last do what they should.
        lines += [
            f"n=1; while ! mkdir {shlex.quote(str(count))}/$n 2>/dev/null; do",
            f'    n=$((n + 1)); [ $n -le {times} ] || exec {real} "$@"',
            "done",
        ]
        count.mkdir()
        shutil.chown(count, testbed.layout.user(site))
    lines.append(MISBEHAVIOURS[how].replace("{real}", real))
    fresh = place.parent / f".{program}.new"
    fresh.write_text("\n".join(lines) + "\n")
    fresh.chmod(0o755)
    fresh.rename(place / program)


def behave(testbed: Testbed, site: str, program: str) -> None:
    """Let a program do again what it should."""
    place = testbed.layout.site(site).home / "bin"
    (place / program).unlink(missing_ok=True)
    shutil.rmtree(_count(place, program), ignore_errors=True)


def _count(place: Path, program: str) -> Path:
    """A directory with one in it for each time that the program has misbehaved."""
    return place.parent / f".misbehaved-{program}"


def shrink(testbed: Testbed, site: str, size_bytes: int, directory: str = "scratch") -> Path:
    """Make a directory of the site's home a file system of so many bytes (whole pages), empty at
    first; returns its path. Raises MissingError where nothing can be mounted."""
    user = testbed.layout.site(site).user
    place = testbed.layout.site(site).home / directory
    if not place.exists():
        place.mkdir(mode=0o700)
        shutil.chown(place, user, user)
    options = f"size={size_bytes},mode=0700,uid={user},gid={user}"
    result = processes.run(
        ["mount", "-t", "tmpfs", "-o", options, f"testbed-{site}", str(place)], check=False
    )
    if result.returncode:
        raise MissingError(f"the testbed needs leave to mount: {result.stderr.strip()}")
    return place


def grow(testbed: Testbed, site: str, directory: str = "scratch") -> None:
    """Undo ``shrink``; what was in it is gone."""
    processes.run(["umount", "--lazy", str(testbed.layout.site(site).home / directory)])


def shift_clock(testbed: Testbed, site: str, offset_s: float) -> None:
    """Let sessions that begin from now on see a clock that is ahead by so much (0: right), with
    the jobs that they submit, as long as these inherit their environment. The servers see the
    right time. Raises MissingError without a compiler."""
    _preload(testbed, site, {"CLOCK_OFFSET": f"{offset_s:.0f}"} if offset_s else {})


def delay_records(testbed: Testbed, site: str, delay_s: float) -> None:
    """Let the exit records of jobs that are submitted in sessions that begin from now on be seen
    so late (0: at once), also when the job has ended long before. Raises MissingError without a
    compiler."""
    _preload(testbed, site, {"RECORD_DELAY": f"{delay_s:.0f}"} if delay_s else {})


def delay_spool(testbed: Testbed, site: str, delay_s: float) -> None:
    """Let spool files of channels, both ways, be seen up to so late, each as it happens, in
    whatever order (0: at once), by sessions that begin from now on and the jobs that they submit.
    Raises MissingError without a compiler."""
    _preload(testbed, site, {"SPOOL_DELAY_MS": f"{delay_s * 1000:.0f}"} if delay_s else {})


def _preload(testbed: Testbed, site: str, settings: dict[str, str]) -> None:
    where = testbed.layout.site(site)
    if settings:
        # libfaketime 0.9.10 breaks clock_nanosleep, which Python sleeps by.
        library = testbed.layout.directory / "preloaded.so"
        compiler = shutil.which("cc", path=processes.PATH)
        if compiler is None:
            raise MissingError("the testbed needs Debian packages: apt-get install gcc libc6-dev")
        if not library.exists():
            source = Path(__file__).with_name("preloaded.c")
            processes.run([compiler, "-shared", "-fPIC", "-O", "-o", str(library), str(source)])
        settings = {**settings, "LD_PRELOAD": str(library)}
    if ssh.configure(testbed.layout, where, settings):
        server = ssh.server(testbed.layout, where)
        processes.stop(testbed.layout, server)
        start(testbed, server.name)


def recover(testbed: Testbed) -> None:
    """Do what administrators do after a fault: let paused servers go on, start those that have
    ended, resume drained nodes, take queues out of error states. Returns when jobs can start."""
    for server, pid in testbed.status():
        if pid is None:
            start(testbed, server.name)
        else:
            resume(testbed, server.name)
    slurm.await_nodes(testbed.layout)
    grid_engine.reopen_queues(testbed.layout)


def heal(testbed: Testbed) -> None:
    """Undo every fault, cancel all jobs and end all processes of the sites' users. Returns when
    the queues are empty and jobs can start at every site. A testbed that does not recover is
    brought up anew."""
    try:
        _heal(testbed)
    except TestbedError as error:
        print(f"the testbed is brought up anew: {error}", flush=True)
        testbed.renew()


def _heal(testbed: Testbed) -> None:
    layout = testbed.layout
    recover(testbed)
    testbed.unmount()
    for site in layout.sites:
        for path in (site.home / "bin").iterdir():
            behave(testbed, site.name, path.name)
        shift_clock(testbed, site.name, 0)
    if _cancel_all(layout):
        processes.wait_until(lambda: not _cancel_all(layout), "the end of all jobs")
        # A job that was cancelled while it started may have put its node or queue out of order.
        slurm.await_nodes(layout)
        grid_engine.reopen_queues(layout)


def _cancel_all(layout: Layout) -> bool:
    """Cancel all jobs and end all processes of the sites' users, also orphans, such as a program
    that hangs after its session has ended. Returns whether there were any."""
    jobs = [*slurm.cancel_jobs(layout), *grid_engine.cancel_jobs(layout)]
    pids = processes.of_users(layout)
    processes.signal_and_await(pids, signal.SIGKILL)
    return bool(jobs or pids)
