"""The faults of the soak test, each a function that strikes one run. A fault that lasts returns
its remedy, which is applied some seconds later."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.integration.clusters import Grid
from tests.integration.test_faults_clusters import fill
from tests.runners.harness import Engine, kill, wait_until
from tests.soak.work import Work
from tests.testbed import faults, grid_engine, processes
from tests.testbed.layout import TestbedError
from tests.testbed.testbed import Testbed

Remedy = Callable[[], None]

ROOM_BYTES = 40_000_000
"""Size of the file system of a site whose disk is filled."""

SERVERS = {
    "alpha": ("alpha.sshd", "alpha.slurmctld", "alpha.alpha1", "alpha.alpha3"),
    "beta": ("beta.sshd", "beta.slurmctld", "beta.beta1"),
    "gamma": ("gamma.sshd", "gamma.sge_qmaster", "gamma.sge_execd"),
    "delta": ("delta.sshd",),
}
PROGRAMS = {
    "alpha": ("sbatch", "squeue", "scancel", "scontrol"),
    "beta": ("sbatch", "squeue", "scancel", "scontrol"),
    "gamma": ("qsub", "qstat", "qdel", "qacct"),
}
MISBEHAVIOURS: tuple[faults.Misbehaviour, ...] = (
    *("empty", "garbage", "refuse", "fail-after", "empty", "garbage", "refuse", "fail-after"),
    "hang",
)


class Struck:
    """A run under faults: its engine, which is another one after each crash, and its sites."""

    engine: Engine

    def __init__(self, grid: Grid, work: Work, random: Random) -> None:
        self.grid = grid
        self.work = work
        self.random = random
        self.is_away = False
        """Whether the engine has ended by a fault whose remedy resumes the run."""
        self.rooms: dict[str, Path] = {}
        """Mounted directories of sites whose disk may be filled."""

    @property
    def site(self) -> str:
        """A random site of the testbed that the run uses."""
        return self.random.choice(self.work.sites)

    def processes(self, *words: str) -> list[int]:
        """Processes at a random site with one of these words in their command line."""
        return [
            pid for pid, line in self.grid.processes_at(self.site) if any(w in line for w in words)
        ]

    def one(self, pids: list[int]) -> list[int]:
        return self.random.sample(pids, min(1, len(pids)))

    def queue(self, site: str) -> list[str]:
        """Lines of the site's queue; none while its server does not answer."""
        with contextlib.suppress(TestbedError):
            return self.grid.queue(site)
        return []

    def resume(self) -> None:
        if not self.engine.ended:
            self.engine.kill()
        self.engine = self.grid.resume()
        self.is_away = False


def kill_engine(struck: Struck) -> None:
    if not struck.is_away:
        struck.resume()


def leave_alone(struck: Struck) -> Remedy | None:
    """Let the sites go on without an engine for a while."""
    if struck.is_away:
        return None
    struck.engine.kill()
    struck.is_away = True
    return struck.resume


def interrupt_engine(struck: Struck) -> Remedy | None:
    """As a user does who may lose patience."""
    # Before that, Python itself answers, with a traceback.
    if struck.is_away or not wait_until(lambda: bool(struck.engine.told), 10):
        return None
    struck.is_away = True
    for _ in range(struck.random.randint(1, 2)):
        struck.engine.signal(signal.SIGINT)
    return struck.resume


def ask(struck: Struck) -> None:
    """Look at the run from another terminal."""
    run = struck.grid.run
    command = struck.random.choice(("status", "logs", "launchers", "results", "list"))
    words: list[str | Path] = [] if command == "list" else [run]
    if command == "logs":
        words.append(struck.grid.jobs[0].id)
    done = struck.grid.user.start(command, *words).done(100)
    assert "Traceback" not in done.text, done.text
    assert done.status in (0, 3) or command != "status", done.text


def kill_agent(struck: Struck) -> None:
    kill(struck.processes("agent.py"))


def kill_launcher(struck: Struck) -> None:
    kill(struck.one(struck.processes("launcher.py")))


def kill_job(struck: Struck) -> None:
    kill(struck.one(struck.processes("job.py", "job.sh", "slurm_script")))


def kill_task(struck: Struck) -> None:
    for pid in struck.one(struck.processes("echo begin:")):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgid(pid), signal.SIGKILL)


def pause_processes(struck: Struck) -> Remedy:
    """Stop an engine, an agent, a launcher, a job, a session, and let it go on later."""
    what = struck.random.choice(("engine", "agent.py", "launcher.py", "job.py", "session"))
    if what == "engine":
        pids = [] if struck.engine.ended else [struck.engine.pid]
    elif what == "session":
        pids = processes.sessions(struck.grid.testbed.layout.site(struck.site).user)
    else:
        pids = struck.one(struck.processes(what))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def go_on() -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return go_on


def cut(struck: Struck) -> None:
    faults.cut(struck.grid.testbed, struck.site)


def end_server(struck: Struck) -> Remedy | None:
    testbed, site = struck.grid.testbed, struck.site
    server = struck.random.choice(SERVERS[site])
    if server == "gamma.sge_execd":
        try:
            grid_engine.hold_queues(testbed.layout)
        except TestbedError:
            _reopen(testbed)
            return None
    how = struck.random.choice((faults.kill, faults.stop))
    how(testbed, server)
    if server.endswith("sshd") and struck.random.random() < 0.5:
        faults.cut(testbed, site)

    def start() -> None:
        for other in ("munged", f"{site}.slurmctld"):
            with contextlib.suppress(TestbedError):
                faults.resume(testbed, other)  # A slurmd ends that starts without them.
        faults.start(testbed, server)
        if site == "gamma":
            _reopen(testbed)

    return start


def _reopen(testbed: Testbed) -> None:
    with contextlib.suppress(TestbedError):  # Another fault has ended the master.
        grid_engine.reopen_queues(testbed.layout, 5)


def pause_server(struck: Struck) -> Remedy:
    testbed = struck.grid.testbed
    server = struck.random.choice((*SERVERS[struck.site], "munged"))
    with contextlib.suppress(TestbedError):  # Another fault has ended it.
        faults.pause(testbed, server)

    def resume() -> None:
        with contextlib.suppress(TestbedError):
            faults.resume(testbed, server)

    return resume


def misbehave(struck: Struck) -> None:
    site = struck.site
    if site in PROGRAMS:
        program = struck.random.choice(PROGRAMS[site])
        how = struck.random.choice(MISBEHAVIOURS)
        times = 1 if how == "hang" else struck.random.randint(1, 3)
        faults.misbehave(struck.grid.testbed, site, program, how, times)


def cancel_behind(struck: Struck) -> None:
    """Cancel a job as its user may at any time."""
    layout = struck.grid.testbed.layout
    name = struck.site
    site = layout.site(name)
    rows = [row.split() for row in struck.queue(name)]
    jobs = [row[0] for row in rows if row and row[0][0].isdigit()]
    if jobs:
        command = ["qdel"] if site.kind == "grid-engine" else ["scancel"]
        job = struck.random.choice(jobs)
        with contextlib.suppress(TestbedError):  # The server does not answer.
            processes.run([*command, job], layout.environment(site), check=False)


def fill_disk(struck: Struck) -> Remedy | None:
    if not struck.rooms:
        return None
    room = struck.rooms[struck.random.choice(sorted(struck.rooms))]
    file = fill(room)
    return lambda: file.unlink(missing_ok=True)


STANDING_ODDS = 0.15
"""Probability of each fault that lasts for a whole round."""


def prepare(struck: Struck) -> list[str]:
    """Faults that last for the whole round, before it begins; returns what they are."""
    testbed, random, title = struck.grid.testbed, struck.random, []
    for site in struck.work.sites:
        if random.random() < 2 * STANDING_ODDS:
            struck.rooms[site] = faults.shrink(testbed, site, ROOM_BYTES)
            title.append(f"small disk at {site}")
        # One a site: each replaces the preloaded library's settings.
        chosen = random.random()
        if chosen < STANDING_ODDS:
            offset_s = random.choice((-3600.0, 3600.0))
            faults.shift_clock(testbed, site, offset_s)
            title.append(f"clock of {site} off by {offset_s:g} s")
        elif chosen < 2 * STANDING_ODDS and site != "gamma":
            # Grid Engine ends the process that would make a record visible later.
            faults.delay_records(testbed, site, 4)
            title.append(f"records late at {site}")
        elif chosen < 3 * STANDING_ODDS:
            faults.delay_spool(testbed, site, 1.0)
            title.append(f"spool late at {site}")
    return title


FAULTS: dict[str, tuple[int, Callable[[Struck], Remedy | None]]] = {
    "kill engine": (4, kill_engine),
    "no engine": (2, leave_alone),
    "interrupt": (2, interrupt_engine),
    "ask": (2, ask),
    "kill agent": (3, kill_agent),
    "kill launcher": (3, kill_launcher),
    "kill job": (3, kill_job),
    "kill task": (3, kill_task),
    "pause process": (3, pause_processes),
    "cut": (4, cut),
    "end server": (4, end_server),
    "pause server": (2, pause_server),
    "misbehave": (5, misbehave),
    "cancel job": (2, cancel_behind),
    "fill disk": (3, fill_disk),
}
"""Name → weight and function."""
