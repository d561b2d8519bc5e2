"""What the tests of jobs over several real clusters share: the solver, a catalog, and what has to
hold when a run is over."""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.places import ROOT
from tests.sites.users import as_user
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.errors import WfrunError
from wfrun.runners.run.store.event_store import Store

WFRUN = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
SITES = ("alpha", "beta", "gamma")
POINTS, STEPS = 720, 60
ENV = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""For more processes than the machine has cores."""
QUEUES = {
    "slurm": ["squeue", "--noheader", "--format=%i %j %t", "--user={user}"],
    "grid-engine": ["qstat", "-u", "{user}"],
}


def serial_result() -> list[float]:
    """The result of the solver of examples/wave, computed by one process in Python."""

    def initial(point: int) -> float:
        x = point / (POINTS - 1)
        return math.sin(math.pi * x) + 0.5 * math.sin(7.0 * math.pi * x)

    before = [initial(point) for point in range(POINTS)]
    now = list(before)
    for _ in range(STEPS):
        inner = (
            2.0 * now[i] - before[i] + 0.5 * 0.5 * (now[i - 1] - 2.0 * now[i] + now[i + 1])
            for i in range(1, POINTS - 1)
        )
        before, now = now, [0.0, *inner, 0.0]
    return now


class Jobs:
    """A user who runs jobs over the clusters of a testbed, in a folder."""

    def __init__(self, testbed: Testbed, folder: Path) -> None:
        self.testbed = testbed
        self.folder = folder
        self.run = folder / "run"
        self._started: list[subprocess.Popen[bytes]] = []
        entries = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]
        quick = {"poll_min": 0.5, "poll_max": 5}
        cores = {"alpha": 4, "beta": 8, "gamma": 8}
        self.catalog: dict[str, Any] = {
            "sites": {name: {**entries[name], **quick, "node_cores": cores[name]} for name in SITES}
        }

    def build(self) -> None:
        """Compile the solver; skips the test without a compiler for MPI."""
        if shutil.which("mpicc") is None or shutil.which("mpirun") is None:
            pytest.skip("no mpicc and mpirun (openmpi-bin, libopenmpi-dev)")
        source = ROOT / "examples" / "wave" / "wave.c"
        argv = ["mpicc", "-O2", "-o", str(self.folder / "wave"), str(source), "-lm"]
        built = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
        if "mpi.h: No such file" in built.stderr:
            pytest.skip("no headers of MPI (libopenmpi-dev)")
        assert built.returncode == 0, built.stderr

    def write(self, jobs: str, **more: Any) -> None:
        """Write a document of jobs of the solver, and the catalog."""
        head = {
            "walltime": "5 min",
            "command": f"mpirun ./wave {POINTS} {STEPS} field.txt",
            "env": ENV,
            "inputs": [{"name": "wave", "executable": True}],
            "outputs": ["field.txt"],
            **more,
        }
        text = yaml.safe_dump({key: value for key, value in head.items() if value is not None})
        (self.folder / "jobs.yaml").write_text(f"{text}jobs:\n{jobs}")
        (self.folder / "sites.yaml").write_text(yaml.safe_dump(self.catalog))

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """Run the jobs, or resume the run if there are no options."""
        words = ["resume", "run", "-q"]
        if options:
            words = ["jobs", "jobs.yaml", "--sites", "sites.yaml", "--run-dir", "run", "-q"]
        with (self.folder / "told").open("ab") as told:
            engine = subprocess.Popen(
                [sys.executable, "-c", WFRUN, *words, *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=told,
                stderr=told,
            )
        self._started.append(engine)
        return engine

    def done(self, engine: subprocess.Popen[bytes], seconds: float = 100.0) -> str:
        """Wait for the end of a run that has to be done; returns what it has printed."""
        status = engine.wait(seconds)
        told = (self.folder / "told").read_text()
        assert status == 0, told
        assert "Traceback" not in told, told
        return told

    def events(self) -> list[ev.Event]:
        with contextlib.suppress(WfrunError):
            store = Store(self.run)
            try:
                return list(store.load())
            finally:
                store.close()
        return []

    def count(self, kind: type[ev.Event]) -> int:
        if not (self.run / "events.sqlite").exists():
            return 0
        return sum(isinstance(event, kind) for event in self.events())

    def causes(self) -> Counter[str]:
        """Number of ended claims by cause."""
        return Counter(e.cause for e in self.events() if isinstance(e, ev.ClaimEnded))

    def processes_at(self, site: str, word: str) -> list[int]:
        """Processes of the site's user whose command line has a word."""
        user = self.testbed.layout.site(site).user
        argv = ["ps", "--no-headers", "-ww", "-o", "pid,stat,args", "-U", user]
        rows = [line.split(maxsplit=2) for line in processes.run(argv, check=False).stdout
                .splitlines()]  # fmt: skip
        return [int(pid) for pid, state, line in rows if word in line and state[0] != "Z"]

    def queue(self, site: str) -> list[str]:
        where = self.testbed.layout.site(site)
        argv = [word.format(user=where.user) for word in QUEUES[where.kind]]
        environment = self.testbed.layout.environment(where)
        return processes.run(argv, environment, check=False).stdout.split("\n")[:-1]

    def shared_memory(self) -> list[Path]:
        """What the users of the sites have in shared memory."""
        uids = {pwd.getpwnam(self.testbed.layout.site(site).user).pw_uid for site in SITES}
        found = []
        for path in Path("/dev/shm").iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_uid in uids:
                    found.append(path)
        return found

    def check_quiet(self) -> None:
        """No job is in a queue, and nothing of ours runs."""
        for site in SITES:
            processes.wait_until(lambda: not self.queue(site), f"an empty queue at {site}")  # noqa: B023
            processes.wait_until(lambda: not self.processes_at(site, ""), f"rest at {site}")  # noqa: B023

    def close(self) -> None:
        for engine in self._started:
            if engine.poll() is None:
                engine.send_signal(signal.SIGKILL)
                engine.wait()
        for path in self.shared_memory():  # Killed launchers leave it to the next one.
            shutil.rmtree(path, ignore_errors=True)


class LocalJob:
    """A job of another user, which notes when it starts."""

    def __init__(self, run: Jobs, site: str, cores: int, seconds: float) -> None:
        layout = run.testbed.layout
        other = layout.site("delta").user
        self.path = layout.site("delta").home / f"job-{time.monotonic_ns()}"
        script = f"date +%s.%N > {self.path}; sleep {seconds}"
        if site == "gamma":
            words = ["qsub", "-terse", "-o", "/dev/null", "-e", "/dev/null", "-b", "y",
                     "-pe", "smp", str(cores), "sh", "-c", f"'{script}'"]  # fmt: skip
        else:
            queue = run.catalog["sites"][site]["queue"]
            words = ["sbatch", "--parsable", "-o", "/dev/null", "-n", str(cores),
                     "-p", queue, "--wrap", script]  # fmt: skip
        environment = {**os.environ, **layout.environment(layout.site(site))}
        argv = [*as_user(pwd.getpwnam(other).pw_uid, 'cd /; exec "$0" "$@"'), *words]
        self.submitted_s = time.time()
        processes.run(argv, environment)

    def waited_s(self, most_s: float = 60.0) -> float:
        """Time from its submission to its start."""
        processes.wait_until(
            lambda: self.path.exists() and self.path.read_text().endswith("\n"), "a start", most_s
        )
        return float(self.path.read_text()) - self.submitted_s


def kill(pids: list[int]) -> None:
    """Kill processes; those that have ended meanwhile are left alone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
