"""What the tests of malleable jobs on real clusters share: the n-body example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.jobs.coallocated import Jobs
from tests.places import ROOT
from tests.testbed import processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

BODIES, STEPS = 24, 120
EXAMPLE = ROOT / "examples" / "malleable"
SLOTS = {"alpha": 16, "gamma": 8}
PYTHON = "/usr/bin/python3"


def serial_result(steps: int = STEPS) -> str:
    """The positions that one process computes."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WFRUN_")}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "nbody.py"), str(BODIES), str(steps)],
        env={**clean, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


class MalleableJobs(Jobs):
    """A user who runs n-body simulations at one cluster of a testbed."""

    def __init__(self, testbed: Testbed, folder: Path, site: str) -> None:
        super().__init__(testbed, folder)
        self.site = site
        entry = self.catalog["sites"][site]
        self.catalog = {"sites": {site: {**entry, "poll_min": 0.5, "poll_max": 2}}}

    def write_nbody(self, *jobs: str, **more: Any) -> None:
        """Write a document of n-body simulations that pause after each step."""
        entries = jobs or ("{job: nbody, size: {min: 2, max: 6}}",)
        self.write(
            "".join(f"  - {entry}\n" for entry in entries),
            **{
                "command": f"python3 nbody.py {BODIES} {STEPS} --pause 0.2",
                "walltime": {"serial_s": 600, "parallel": 0.9},
                "malleable": True,
                "env": None,
                "stdout": "positions.txt",
                "outputs": ["positions.txt"],
                "inputs": [
                    {"name": "nbody.py", "from": str(EXAMPLE / "nbody.py")},
                    {"name": "workers.py", "from": str(EXAMPLE / "workers.py")},
                    {"name": "malleable.py", "from": str(ROOT / "wfrun" / "malleable.py")},
                ],
                **more,
            },
        )

    def sizes(self) -> list[int]:
        """The sizes of all jobs over time, beyond those that they start with."""
        return [len(e.launchers) for e in self.events() if isinstance(e, ev.JobResized)]

    def is_offered(self) -> bool:
        return self.count(ev.GrowthOffered) > 0

    def check_result(self, *jobs: str, steps: int = STEPS) -> None:
        """Each job is done once, with the result of one process."""
        ended = [e for e in self.events() if isinstance(e, ev.AttemptEnded)]
        causes = [e.outcome.cause for e in ended]
        assert causes.count("done") == len(jobs or ("nbody",)), ended
        assert not set(causes) & {"exit", "signal", "launch-failed"}, ended
        expected = serial_result(steps)
        for job in jobs or ("nbody",):
            assert (self.run / "outputs" / job / "positions.txt").read_text() == expected

    def check_quiet(self) -> None:
        """No job of ours is in the queue, and nothing of ours runs."""
        processes.wait_until(lambda: not self.queue(self.site), "an empty queue")
        processes.wait_until(lambda: not self.processes_at(self.site, ""), "rest")
