"""Runs in which the n-th system call of one kind fails in one of the programs."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.fakes import pbs
from tests.integration.clusters import RecordedRun
from tests.runners.harness import Done, User
from tests.soak.audit import check_recorded
from tests.testbed import processes
from tests.testbed.layout import MissingError

SOURCE = Path(__file__).with_name("failing.c")
ROLES = {"engine": "bin/wfrun", "launcher": "launcher.py", "agent": "agent.py", "job": "job.py"}
"""Program → word in its command line."""
AT_CLUSTER = ("agent", "job")
"""Those of a site with a batch system."""
FULL, BROKEN, STALE = errno.ENOSPC, errno.EIO, errno.ESTALE
CALLS: dict[str, tuple[int, ...]] = {
    "open": (errno.EMFILE, FULL, BROKEN, STALE),
    "read": (BROKEN, STALE),
    "write": (FULL, BROKEN),
    "truncate": (BROKEN,),
    "fsync": (FULL, BROKEN),
    "stat": (BROKEN, STALE),
    "rename": (FULL, BROKEN, STALE),
    "link": (FULL, BROKEN),
    "remove": (BROKEN,),
    "mkdir": (FULL, BROKEN),
    "spawn": (errno.EAGAIN, errno.ENOMEM),
}
"""Call → errors that pass."""

END_S = 500.0
MAX_RESUMES = 2
"""Maximum number of resumes of a run that ended because its own directory or site failed."""


@dataclass(frozen=True)
class Case:
    """One failing call."""

    role: str
    call: str
    error: int
    at: int

    def __str__(self) -> str:
        return f"{self.role}-{self.call}-{errno.errorcode[self.error]}-{self.at}"


def compile_library(source: Path, folder: Path) -> Path:
    """Compile a library to be preloaded. Raises MissingError without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("needs Debian packages: apt-get install gcc libc6-dev")
    library = folder / f"{source.stem}.so"
    processes.run([compiler, "-shared", "-fPIC", "-O", "-o", str(library), str(source), "-ldl"])
    return library


class _Failing(User):
    """A user whose programs meet the failing call."""

    def __init__(self, folder: Path, library: Path, case: Case) -> None:
        super().__init__(folder)
        self._count = folder / "count"
        self._count.write_bytes(bytes(8))
        self.settings = {
            "HOME": str(folder),
            "LD_PRELOAD": str(library),
            "FAIL_ROLE": ROLES[case.role],
            "FAIL_CALL": case.call,
            "FAIL_AT": str(case.at),
            "FAIL_ERRNO": str(case.error),
            "FAIL_UNDER": f"{folder}/w",
            "FAIL_COUNT": str(self._count),
        }

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.settings}

    @property
    def calls(self) -> int:
        """Number of such calls so far. Raises AssertionError if no program of the role was there to
        make any."""
        calls, programs = struct.unpack("ii", self._count.read_bytes())
        assert programs, f"{self.settings['FAIL_ROLE']}: no such program was started"
        return int(calls)


@contextmanager
def _site(folder: Path, role: str, settings: dict[str, str]) -> Iterator[dict[str, object]]:
    """The catalog entry of a site where the programs of this role work."""
    if role not in AT_CLUSTER:
        yield {"slots": 2, "directory": str(folder / "w" / "here")}
        return
    # Jobs have the environment of a login shell alone.
    exports = "".join(f"export {name}={shlex.quote(text)}\n" for name, text in settings.items())
    (folder / ".profile").write_text(f"export PATH={folder}/pbs/bin:$PATH\n{exports}")
    pbs.install(folder / "pbs", slots=2)
    try:
        yield {
            "kind": "pbs",
            "transport": "local",
            "slots": 2,
            "poll_min": 0.2,
            "poll_max": 1,
            "patience": 3,
            "directory": str(folder / "w" / "scratch"),
        }
    finally:
        pbs.end(folder / "pbs")


def play(folder: Path, library: Path, case: Case) -> bool:
    """Run a workflow while a call fails; returns whether there were as many calls. Raises
    AssertionError where anything is lost or doubled, or a task failed for good."""
    (folder / "w").mkdir()
    user = _Failing(folder, library, case)
    run = RecordedRun(user, folder / "record")
    run.run = folder / "w" / "run"
    if case.role in AT_CLUSTER:
        run.task("t0", 0.05)
        run.task("t1", 0.05, ["t0"])
    else:
        run.layers(2, 2, 0.05)
    try:
        with _site(folder, case.role, user.settings) as site:
            sites = user.catalog(yaml.safe_dump({"sites": {"here": site}}))
            words: list[str | Path] = [user.write(run.jobs), "--sites", sites, "--run-dir", run.run]
            options = ["--retries", "0", "--retry-delay", "0.05", "--history", "none"]
            done = user.wfrun(*words, *options, patience_s=END_S)
            for _ in range(MAX_RESUMES):
                _check_end(done, case)
                if done.status == 0:
                    break
                again = words + list(options)
                if _is_logged(run):
                    again = ["resume", run.run]
                done = user.wfrun(*again, patience_s=END_S)
            assert done.status == 0, done.text
            check_recorded(run)
            assert user.is_alone()
        return user.calls >= case.at
    finally:
        user.close()


def _check_end(done: Done, case: Case) -> None:
    """No task failed for good, and the command says what is wrong."""
    assert "Traceback" not in done.text, done.text
    # Nobody waits for a full disk: the user makes room and resumes.
    is_full = case.error == FULL and case.role == "engine" and "not collected" in done.text
    assert done.status in (0, 3) or is_full, done.text


def _is_logged(run: RecordedRun) -> bool:
    if os.path.exists(run.run / "events.sqlite"):
        return bool(run.events())
    shutil.rmtree(run.run, ignore_errors=True)
    return False
