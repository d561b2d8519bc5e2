"""All failing calls: ``python -m tests.failing``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from itertools import count
from pathlib import Path
from random import Random

from tests.failing.failing_calls import CALLS, ROLES, SOURCE, Case, compile_library, play
from tests.failing.power_loss import PowerLoss

MAX_FAILURES = 5
"""Number of broken runs after which a series of one call and one error is given up."""


def lose_power(step: int) -> int:
    loss = PowerLoss(Path(tempfile.mkdtemp(prefix="wfrun-power-loss-")))
    try:
        for end in range(step, len(loss.changes), step):
            loss.check(end, Random(end))
            print(f"{end} of {len(loss.changes)} changes: ok", flush=True)
    finally:
        loss.close()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.failing")
    parser.add_argument("--role", choices=list(ROLES), action="append", help="only these programs")
    parser.add_argument("--call", choices=list(CALLS), action="append", help="only these calls")
    parser.add_argument("--step", type=int, default=1, help="let every STEP-th call fail (1: all)")
    parser.add_argument("--from", dest="start", type=int, default=1, help="the first n (1)")
    parser.add_argument("--power-loss", type=int, metavar="STEP", help="instead, lose the power "
                        "after every STEP-th change of the disk, and resume")  # fmt: skip
    options = parser.parse_args()
    if options.power_loss:
        return lose_power(options.power_loss)
    library = compile_library(SOURCE, Path(tempfile.mkdtemp(prefix="wfrun-failing-")))
    played = broken = 0
    for role in options.role or ROLES:
        for call in options.call or CALLS:
            for error in CALLS[call]:
                failures = 0
                for at in count(options.start, options.step):
                    case = Case(role, call, error, at)
                    folder = Path(tempfile.mkdtemp(prefix=f"wfrun-failing-{case}-"))
                    played += 1
                    try:
                        has_happened = play(folder, library, case)
                    except Exception:
                        broken += 1
                        failures += 1
                        print(f"{case}: {traceback.format_exc()[-3000:]}\n{folder}", flush=True)
                        if failures == MAX_FAILURES:
                            break
                        continue
                    shutil.rmtree(folder)
                    if not has_happened:
                        print(f"{role}: {call} {error}: {at - 1} calls", flush=True)
                        break
    print(f"{played} runs, {broken} of them broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
