"""Measures simulated runs of malleable jobs: processor time of 300 jobs with each policy and
precedence, in all settings of the study.

    python bench/malleability.py
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.table import Table

from wfrun.studies.malleability.experiments import (
    BASE,
    MALLEABILITY,
    PRA,
    PWA,
    VARIANTS,
    MalleabilityCell,
    simulated,
)

GOAL_S = 1.0


def main() -> int:
    table = Table("precedence", "policy", "mean", "maximum", "of", "goal")
    good = True
    for precedence in (PRA, PWA):
        for policy in MALLEABILITY:
            times_s = {}
            for variant in (BASE, *VARIANTS):
                cell = MalleabilityCell(
                    experiment=precedence, policy=policy, mix="m", seed=0, variant=variant
                )
                since_s = time.process_time()
                simulated(cell)
                times_s[variant] = time.process_time() - since_s
            worst = max(times_s, key=times_s.__getitem__)
            good = good and times_s[worst] <= GOAL_S
            table.add_row(
                precedence,
                policy,
                f"{sum(times_s.values()) / len(times_s):.3f} s",
                f"{times_s[worst]:.3f} s",
                worst,
                f"{GOAL_S:g} s",
            )
    Console(width=110).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
