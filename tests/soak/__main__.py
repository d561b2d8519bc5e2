"""The command line of the soak test: ``python -m tests.soak --minutes 60 --seed 1``."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.soak.soak_round import Round
from tests.testbed.fixture import bring_up_free
from tests.testbed.layout import MissingError
from tests.testbed.testbed import Testbed, check_machine

FAULTS_S = 25.0
"""Time for faults in each round."""

EXIT_VIOLATION = 1
EXIT_MISSING = 3


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Random runs under random faults over a testbed of real clusters, each audited "
        "when it is over. Stops at the first violation and keeps what tells why.",
    )
    top.add_argument("--minutes", type=float, default=10, help="for how long (10)")
    top.add_argument("--seed", type=int, help="of all rounds (a random one)")
    top.add_argument("--round", type=int, help="this round of the seed alone")
    return top


def soak(testbed: Testbed, seed: int, minutes: float, only: int | None) -> int:
    """Play rounds until the time is over; returns the exit status."""
    end_s = time.monotonic() + minutes * 60
    faults: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    tasks = rounds = 0
    number = only or 0
    while rounds == 0 or (only is None and time.monotonic() < end_s):
        folder = Path(tempfile.mkdtemp(prefix=f"wfrun-soak-{seed}-{number}-"))
        one = Round(testbed, folder, f"{seed}-{number}", FAULTS_S)
        try:
            one.play()
        except Exception:
            one.keep()
            print(f"seed {seed} round {number}: {one.report.title}\n{traceback.format_exc()}")
            print(f"VIOLATION in round {number} of seed {seed}; what tells why is in {folder}")
            return EXIT_VIOLATION
        finally:
            one.close()
        shutil.rmtree(folder)
        report = one.report
        print(
            f"seed {seed} round {number}: ok, {report.took_s:.0f} s, "
            f"{sum(report.faults.values())} faults, failed attempts {dict(report.failures)}; "
            f"{report.title}",
            flush=True,
        )
        faults += report.faults
        failures += report.failures
        tasks += report.tasks
        rounds += 1
        number += 1
    print(f"seed {seed}: {rounds} rounds, {tasks} tasks, no violation")
    print(f"faults: {dict(faults)}\nfailed attempts: {dict(failures)}")
    return 0


def main() -> int:
    options = parser().parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    home = tempfile.mkdtemp(prefix="wfrun-soak-home-")
    os.environ["HOME"], os.environ["XDG_STATE_HOME"] = home, f"{home}/state"
    try:
        check_machine()
    except MissingError as error:
        print(f"soak: {error}", file=sys.stderr)
        return EXIT_MISSING
    testbed = bring_up_free()
    try:
        return soak(testbed, seed, options.minutes, options.round)
    finally:
        testbed.down()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
