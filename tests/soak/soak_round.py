"""One round of the soak test: a random run, random faults while it works, an audit of it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.integration.clusters import Grid
from tests.runners.harness import Done, Engine, User, kill, wait_until
from tests.soak import mischief
from tests.soak.audit import audit
from tests.soak.mischief import FAULTS, Remedy, Struck
from tests.soak.work import Work, choose_work
from tests.testbed import faults, processes
from tests.testbed.layout import TestbedError
from tests.testbed.testbed import Testbed

END_PATIENCE_S = 400.0
"""For a run whose last fault is over: a site that was paused gets work again after minutes."""

RECOVER_EVERY_S = 15.0
"""Interval in which the sites are kept in order then."""

PAUSES_S = (0.1, 1.5)
"""Range of the time between two faults."""

QUESTIONS = (
    ("alpha", "scontrol", "show", "node"),
    ("alpha", "squeue"),
    ("beta", "scontrol", "show", "node"),
    ("beta", "squeue"),
    ("gamma", "qstat", "-f", "-explain", "E", "-u", "*"),
    ("gamma", "qstat", "-j", "*"),
)
"""Site and command: what is kept of its queue."""

LASTS_S = (0.5, 6.0)
"""Range of the time until a fault is undone."""


@dataclass
class Report:
    """What a round did."""

    title: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    tasks: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    """Causes of attempts that failed."""
    took_s: float = 0.0


class Round:
    """One run of a user of the testbed."""

    def __init__(self, testbed: Testbed, folder: Path, seed: str, faults_s: float) -> None:
        self.report = Report()
        self.folder = folder
        self._testbed = testbed
        self._random = Random(seed)
        self._faults_s = faults_s
        self._user = User(folder)
        self._grid = Grid(testbed, self._user)
        self._began_s = time.monotonic()
        self._remedies: list[tuple[float, str, Remedy]] = []

    def play(self) -> None:
        """Raises AssertionError or another error where something is wrong."""
        work = choose_work(self._grid, self._random, self._faults_s)
        self.report.tasks = work.tasks
        # Prepared before the run starts: a directory cannot be mounted over one in use.
        struck = Struck(self._grid, work, self._random)
        standing = mischief.prepare(struck)
        self.report.title = ", ".join([work.title, *standing])
        self._log(self.report.title)
        struck.engine = self._user.start(*work.words)
        assert wait_until(lambda: struck.engine.ended or self._grid.logged(), 100)
        self._strike(struck)
        self._finish(struck)
        for site in work.sites:
            # A command that hangs is an orphan once its agent was killed; no agent can end it.
            kill(pid for pid, line in self._grid.processes_at(site) if faults.HANGS in line)
        audit(self._grid, work)
        self._check_sandbox_free(work)
        self.report.failures = self._grid.failures()
        self.report.took_s = time.monotonic() - self._began_s

    def _strike(self, struck: Struck) -> None:
        """Until the time for faults is over or the run has ended."""
        names = list(FAULTS)
        weights = [FAULTS[name][0] for name in names]
        end_s = time.monotonic() + self._faults_s
        while time.monotonic() < end_s and (struck.is_away or not struck.engine.ended):
            (name,) = self._random.choices(names, weights)
            self._log(name)
            self.report.faults[name] += 1
            remedy = FAULTS[name][1](struck)
            if remedy is not None:
                due_s = time.monotonic() + self._random.uniform(*LASTS_S)
                self._remedies.append((due_s, name, remedy))
            time.sleep(self._random.uniform(*PAUSES_S))
            self._remedy(lambda due_s: time.monotonic() >= due_s)
        self._remedy(lambda _: True)

    def _remedy(self, is_due: Callable[[float], bool]) -> None:
        for entry in list(self._remedies):
            due_s, name, remedy = entry
            if is_due(due_s):
                self._remedies.remove(entry)
                self._log(f"end of: {name}")
                remedy()

    def _finish(self, struck: Struck) -> None:
        """The run ends by itself, done. A site that was out of reach then is cleaned by a resume,
        as the message says."""
        faults.recover(self._testbed)
        done = self._await_end(struck.engine)
        self._log(f"ended with {done.status}")
        assert done.status == 0, done.text
        if "are not removed" in done.err:
            done = self._await_end(self._grid.resume())
            assert done.status == 0, done.text
            assert "are not removed" not in done.err, done.err
        said = [path for path in self.folder.glob(".err-*") if "Traceback" in path.read_text()]
        assert not said, f"a traceback in {said}"
        with contextlib.closing(sqlite3.connect(self._grid.run / "events.sqlite")) as log:
            assert log.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def _await_end(self, engine: Engine) -> Done:
        """Wait for the end of an engine, and keep the sites in order meanwhile: queues and nodes
        that met a fault may be out of order for good, and some minutes after it."""
        end_s = time.monotonic() + END_PATIENCE_S
        while not wait_until(lambda: engine.ended, RECOVER_EVERY_S) and time.monotonic() < end_s:
            faults.recover(self._testbed)
        return engine.done(1.0)

    def _check_sandbox_free(self, work: Work) -> None:
        """A run that is done leaves no sandbox and no file of its own at the sites."""
        # Runs of other tests, which share the testbed, may have been killed for good.
        own = self._grid.state().site_directory
        for site in work.sites:
            folder = self._testbed.layout.site(site).home / "scratch" / own
            left = [p for p in folder.glob("attempts/*") if p.is_dir()]
            left += list(folder.glob("files/*"))
            assert not left, left

    def _log(self, what: str) -> None:
        with (self.folder / "soak.log").open("a") as log:
            log.write(f"{time.time():.2f} {time.monotonic() - self._began_s:7.2f} s: {what}\n")

    def keep(self) -> None:
        """Copy what tells why the round failed beside the run: the record, and what is at sites."""
        shutil.copy(self._grid.record, self.folder / "record")
        for site in self._testbed.layout.sites:
            if (site.home / "scratch").is_dir():
                shutil.copytree(
                    site.home / "scratch", self.folder / "sites" / site.name, symlinks=True,
                    ignore_dangling_symlinks=True, ignore=_sockets,
                )  # fmt: skip
        layout = self._testbed.layout
        logs = self.folder / "logs"
        shutil.copytree(layout.logs, logs)
        for path in (layout.cell / "spool").glob("**/messages"):
            shutil.copy(path, logs / f"gamma.{path.parent.name}.messages")
        for name, *argv in QUESTIONS:
            with contextlib.suppress(TestbedError):  # Its server does not answer.
                result = processes.run(argv, layout.environment(layout.site(name)), check=False)
                (logs / ".".join([name, *argv[:2]])).write_text(result.stdout)

    def close(self) -> None:
        """End what is left, undo all faults, and remove what is at the sites."""
        self._user.close()
        self._grid.close()
        faults.heal(self._testbed)
        for site in self._testbed.layout.sites:
            shutil.rmtree(site.home / "scratch", ignore_errors=True)


def _sockets(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if (Path(folder) / name).is_socket()]
