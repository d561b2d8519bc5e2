"""Workflows of published structure, run times and file sizes, of any size. See docs/generators.md.

The executable of a task is only the name of its transformation, so these workflows can only be
emulated or simulated.
"""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.generate import (
    bag,
    cybershake,
    epigenomics,
    inspiral,
    layered,
    montage,
    sipht,
)

MAX_TASKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of workflow that can be generated."""

    smallest: int
    """Number of tasks of the smallest workflow."""
    build: Callable[[int, Random], Workflow]
    """Generates a workflow of the possible size nearest to a number of tasks."""
    summary: str


FAMILIES: dict[str, Family] = {
    "montage": Family(montage.SMALLEST, montage.build, "mosaic of the sky"),
    "cybershake": Family(cybershake.SMALLEST, cybershake.build, "earthquake hazard"),
    "inspiral": Family(inspiral.SMALLEST, inspiral.build, "gravitational waves (LIGO)"),
    "sipht": Family(sipht.SMALLEST, sipht.build, "bacterial genes of small RNAs"),
    "epigenomics": Family(epigenomics.SMALLEST, epigenomics.build, "DNA reads mapped to a genome"),
    "bag": Family(bag.SMALLEST, bag.build, "independent tasks"),
    "layered": Family(layered.SMALLEST, layered.build, "random layered DAG"),
}


def generate(family: str, tasks: int, seed: int) -> Workflow:
    """Generate a workflow of ``family`` with ``tasks`` tasks, or the nearest possible number.

    The same arguments give the same workflow. Every task has a run time, every file a size and at
    most one producer, and every edge carries a file. Time and memory grow linearly with the tasks.

    Raises InvalidError for an unknown family, for fewer tasks than the family's smallest workflow
    has, and for more than `MAX_TASKS`.
    """
    known = FAMILIES.get(family)
    if known is None:
        close = difflib.get_close_matches(family.lower(), FAMILIES, n=1)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        hint = f"{guess}Families: {', '.join(FAMILIES)}."
        raise InvalidError(f"there is no family of workflows {family!r}", hint=hint)
    if not known.smallest <= tasks <= MAX_TASKS:
        raise InvalidError(
            f"a {family} workflow cannot have {tasks} tasks",
            hint=f"Ask for {known.smallest} to {MAX_TASKS:,} tasks.",
        )
    collecting = gc.isenabled()
    gc.disable()  # Nothing here is garbage, and the collector would take half of the time.
    try:
        return known.build(tasks, Random(seed))
    finally:
        if collecting:
            gc.enable()
