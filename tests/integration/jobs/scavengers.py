"""What the tests of owners who scavenge on real clusters share: their sweeps, and another user."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import yaml

from tests.integration.jobs.coallocated import WFRUN, Jobs, LocalJob
from wfrun.engine import events as ev

SLOTS = {"alpha": 16, "beta": 16, "gamma": 8}


class Scavengers(Jobs):
    """Owners with sweeps of short tasks, which share some clusters of a testbed."""

    def write_sweeps(
        self,
        *sites: str,
        tasks: int,
        seconds: float,
        owners: str = "ann bea",
        narrow: str = "gamma",
        poll_s: float = 2.0,
    ) -> None:
        """Write a sweep for each owner, and a catalog. The sites ``narrow`` have launchers of two
        cores, others of whole nodes."""
        entries = {name: {**self.catalog["sites"][name], "poll_min": poll_s} for name in sites}
        for name in set(narrow.split()) & set(entries):
            entries[name] |= {"dispatch": "launchers", "launchers": {"cores": 2}}
        (self.folder / "sites.yaml").write_text(yaml.safe_dump({"sites": entries}))
        self.owners = owners.split()
        for owner in self.owners:
            sweep = {
                "bag": owner, "owner": owner, "command": f"sleep {seconds}",
                "parameters": {"n": {"range": [1, tasks]}}, "estimate": f"{seconds} s",
            }  # fmt: skip
            (self.folder / f"{owner}.yaml").write_text(yaml.safe_dump(sweep))
        self.tasks = tasks

    def start(self, *options: str, owners: str = "") -> subprocess.Popen[bytes]:
        """Start the sweeps of some owners, else of all; or resume the run if there are no
        options."""
        words = ["resume", "run", "-q"]
        if options:
            names = owners.split() or self.owners
            words = ["run", *(f"{name}.yaml" for name in names), "--sites", "sites.yaml",
                     "--run-dir", "run", "-q", "--no-history", *options]  # fmt: skip
        return self.command(*words)

    def command(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command of wfrun."""
        with (self.folder / "told").open("ab") as told:
            engine = subprocess.Popen(
                [sys.executable, "-c", WFRUN, *words],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=told, stderr=told,
            )  # fmt: skip
        self._started.append(engine)
        return engine

    def running(self) -> int:
        """Number of tasks that run, by the log."""
        counts = Counter(type(event) for event in self.events())
        return counts[ev.AttemptStarted] - counts[ev.AttemptEnded]

    def local_job(self, site: str, cores: int, seconds: float) -> LocalJob:
        """Submit a job of another user at a cluster."""
        return LocalJob(self, site, cores, seconds)

    def check_done(self, *faults: str) -> None:
        """Each task is done once, and attempts ended by nothing but reclaims and these causes."""
        done: Counter[tuple[str, str]] = Counter()
        causes: Counter[str] = Counter()
        for event in self.events():
            if isinstance(event, ev.AttemptEnded):
                causes[event.outcome.cause] += 1
                workflow, task = event.key.split(".")[-3:-1]
                done[workflow, task] += event.outcome.cause == "done"
        assert set(done.values()) == {1}, done
        assert len(done) == self.tasks * len(self.owners)
        assert set(causes) <= {"done", "reclaimed", "cancelled", *faults}, causes
