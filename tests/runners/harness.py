"""What the tests of the command share: workflows of shell scripts, and a user who runs them.

Every process that a user starts, and every process that comes of it, carries a word in its
environment, so that what is left of a run can be seen, and is ended when the test ends.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.runners.warm import Server, WarmProcess
from wfrun import File, Resources, Task, Workflow, write_dax
from wfrun.runners.cli.main import main

WFRUN = Path(sys.executable).with_name("wfrun")
MARK = "LC_WFRUN_TEST_USER"
"""Variable that marks the processes of a user. Tasks on this machine get it, because its name is
that of a locale."""
PATIENCE_S = 100.0
"""For what happens soon, on a machine that is busy with other things. It matters only when a test
fails: the test then says what it has waited for, before its own timeout."""
LONG_S = 500.0
"""The same for tests that are marked as slow, whose timeout is longer."""


@functools.cache
def _server() -> Server:
    """The server of this process that forks the command."""
    return Server()


class Job(NamedTuple):
    """A task that is a shell script; ``collect`` are those of its outputs that are final."""

    id: str
    script: str
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    collect: Sequence[str] = ()
    resources: Resources = Resources()
    parents: Sequence[str] = ()
    """Beside those that the files imply."""


def make_workflow(jobs: Sequence[Job], name: str = "jobs") -> Workflow:
    """The jobs, each after those that write its inputs."""
    numbers = {job.id: number for number, job in enumerate(jobs)}
    producers = {name: number for number, job in enumerate(jobs) for name in job.outputs}
    final = {name for job in jobs for name in job.collect}
    names = dict.fromkeys(name for job in jobs for name in (*job.inputs, *job.outputs))
    index = {name: number for number, name in enumerate(names)}
    files = [File(name, producer=producers.get(name), collect=name in final) for name in names]
    tasks = [
        Task(
            job.id,
            "sh",
            "sh",
            ("-c", job.script),
            tuple(index[name] for name in job.inputs),
            tuple(index[name] for name in job.outputs),
            resources=job.resources,
        )
        for job in jobs
    ]
    parents = [
        tuple(
            sorted(
                {numbers[parent] for parent in job.parents}
                | {producers[name] for name in job.inputs if name in producers}
            )
        )
        for job in jobs
    ]
    return Workflow(name, name, tasks, files, parents)


def wait_until(happened: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
    """Whether it has happened before the patience was over."""
    end_s = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


def lines_of(path: Path) -> list[str]:
    """The lines of a record that tasks append to; none where it is absent."""
    try:
        return path.read_text().split()
    except FileNotFoundError:
        return []


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that a user would see."""
        return self.out + self.err


class _Written(io.BytesIO):
    """What a stream has written, still there after the stream is closed."""

    def close(self) -> None:
        """Keep it."""


class Engine:
    """A command that was started, in a session of its own."""

    def __init__(
        self,
        process: subprocess.Popen[bytes] | WarmProcess,
        out: Path,
        err: Path,
        patience_s: float,
    ) -> None:
        self._process = process
        self.out = out
        self._err = err
        self._patience_s = patience_s

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As the power goes, for this process alone."""
        self._process.kill()
        self._process.wait()

    def done(self, patience_s: float | None = None) -> Done:
        """Wait for its end, with the patience of its user by default."""
        status = self._process.wait(patience_s or self._patience_s)
        return Done(status, self.out.read_text(), self._err.read_text())

    @property
    def told(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_text()


class User:
    """Somebody at a shell in a folder of theirs."""

    def __init__(self, folder: Path, patience_s: float = PATIENCE_S) -> None:
        self.folder = folder
        self._patience_s = patience_s
        self._word = secrets.token_hex(8)
        self._engines: list[Engine] = []

    def write(self, jobs: Sequence[Job], name: str = "jobs.dax") -> Path:
        """Write a document."""
        path = self.folder / name
        write_dax(make_workflow(jobs, path.stem), path)
        return path

    def catalog(self, text: str) -> Path:
        path = self.folder / "sites.yaml"
        path.write_text(text)
        return path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, MARK: self._word}

    def start(self, *words: str | Path) -> Engine:
        """Start the command and do not wait for it."""
        argv = [str(WFRUN), *map(str, words)]
        server = _server()
        if not server.suits(self.environment):
            return self.launch(argv)
        out, err = self._files()
        process = server.start(argv, self.folder, self.environment, out, err)
        return self._add(process, out, err)

    def launch(self, argv: Sequence[str]) -> Engine:
        """Start a program in the user's folder and do not wait for it."""
        out, err = self._files()
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return self._add(process, out, err)

    def _files(self) -> tuple[Path, Path]:
        """Make the standard files of the next command."""
        number = len(self._engines)
        out, err = self.folder / f".out-{number}", self.folder / f".err-{number}"
        for path in (out, err):
            path.touch()
        return out, err

    def _add(self, process: subprocess.Popen[bytes] | WarmProcess, out: Path, err: Path) -> Engine:
        self._engines.append(Engine(process, out, err, self._patience_s))
        return self._engines[-1]

    def wfrun(self, *words: str | Path, patience_s: float | None = None) -> Done:
        """Run the command to its end."""
        return self.start(*words).done(patience_s)

    def ask(self, *words: str | Path) -> Done:
        """Run a command that starts no process in this one: it says the same, and the start of an
        interpreter would take ten times as long."""
        out, err = _Written(), _Written()
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)),
            contextlib.redirect_stderr(io.TextIOWrapper(err, "utf-8", write_through=True)),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", [str(WFRUN), *map(str, words)])
            before = signal.getsignal(signal.SIGINT)
            with pytest.raises(SystemExit) as end:
                main()
            # Processes of later tests would inherit that it is ignored, as it is after a run.
            after = signal.signal(signal.SIGINT, before)
            assert after is before, "a command that opens sites needs a process of its own"
        return Done(int(end.value.code or 0), out.getvalue().decode(), err.getvalue().decode())

    def processes(self) -> set[int]:
        """All living processes that came of this user's commands."""
        marked = _with_environment(f"{MARK}={self._word}")
        return {*marked, *_in_sessions({engine.pid for engine in self._engines})}

    def tasks(self) -> set[int]:
        """Processes of attempts."""
        return {pid for pid in self.processes() if b"\0WFRUN_ATTEMPT=" in _environment(pid)}

    def launchers(self) -> set[int]:
        return {pid for pid in self.processes() if b"launcher.py" in _read(pid, "cmdline")}

    def cut_power(self) -> None:
        """Kill all processes at one moment: they are stopped before the first is killed, so that
        no launcher starts a task in place of a killed one."""
        stopped: set[int] = set()
        while found := self.processes() - stopped:
            _signal(found, signal.SIGSTOP)
            stopped |= found
        kill(stopped)
        assert self.is_alone()

    def is_alone(self) -> bool:
        """Whether all processes have ended, or do so soon."""
        return wait_until(lambda: not self.processes())

    def close(self) -> None:
        """End what is left, new children of what is being ended too."""
        for _ in range(10):
            kill(self.processes())
            if wait_until(lambda: not self.processes(), 0.5):
                break
        for engine in self._engines:
            if not engine.ended:
                engine.kill()


def kill(pids: Iterable[int]) -> None:
    _signal(pids, signal.SIGKILL)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def attempts_alive(run_id: str) -> list[int]:
    """Processes of any attempt of a run, as their environment tells."""
    return _with_environment(f"WFRUN_ATTEMPT={run_id}.")


def _with_environment(start: str) -> list[int]:
    """Processes with a variable of their environment that begins so. Zombies have none."""
    wanted = b"\0" + start.encode()
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [pid for pid in pids if wanted in _environment(pid)]


def _in_sessions(leaders: Collection[int]) -> list[int]:
    """Processes of sessions. Those that the server has forked show its environment."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(int(name)) in leaders and _read(int(name), "cmdline"):  # no zombie
                found.append(int(name))
    return found


def _environment(pid: int) -> bytes:
    return b"\0" + _read(pid, "environ")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:  # it has ended, or is not ours
        return b""


def assert_refused(done: Done, status: int, words: Collection[str]) -> None:
    """The command told in one clear message what is wrong, and did nothing else."""
    assert done.status == status, done.text
    assert "Traceback" not in done.text
    for word in words:
        assert word in done.err, done.err
