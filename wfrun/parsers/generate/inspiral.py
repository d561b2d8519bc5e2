"""Inspiral (LIGO): looks for gravitational waves of merging stars in detector data.

Structure: Bharathi et al., "Characterization of scientific workflows", WORKS 2008, section III-D,
and Juve et al., "Characterizing and profiling scientific workflows", FGCS 29(3), 2013. Figures:
fitted to the published synthetic documents of 30 to 1,000 tasks.

The tasks form groups, each of which has two rounds. The first round has a TmpltBank and an Inspiral
for every stretch of data, and one Thinca that finds coincidences. The second round has a TrigBank
and an Inspiral for each candidate, and another Thinca. This makes 2 x stretches + 2 x candidates +
2 x groups tasks, with one group for about 50 tasks. Hence only even sizes from 6 on are possible,
and for an odd size one task less is made. (In the published document of 1,000 tasks a few Inspiral
go into two Thinca; here each goes into one.)
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

from wfrun.engine.model import Workflow
from wfrun.parsers.generate.draw import LogNormal, Normal, Uniform
from wfrun.parsers.generate.sketch import Sketch, nearest

SMALLEST = 6

BANK_S = Normal(18.15, 0.43, 16.9, 19.2)
INSPIRAL_S = Uniform(231.0, 690.0)
COINCIDENCE_S = Normal(5.3, 0.25, 4.6, 5.8)
TRIGGER_S = Normal(5.12, 0.32, 4.2, 6.3)

REFERENCE_BYTES = 902_334
FACTORS_BYTES = 8_415_922
INJECTIONS_BYTES = 2_421_423
FRAME_BYTES = Normal(15_610_000, 10_000, 15_580_000, 15_650_000)
BANK_BYTES = Normal(987_000, 18_000, 940_000, 1_040_000)
INSPIRAL_BYTES = Uniform(157_000, 470_000)
COINCIDENCE_BYTES = Uniform(18_000, 52_000)
TRIGGER_BYTES = Uniform(9_000, 19_000)

_TASKS_PER_GROUP = 50
_STRETCHES = 0.48
"""Share of stretches of data among stretches and candidates."""
_GROUP_SPREAD = LogNormal(1.0, 0.6, 0.2, 4.0)


class _Shape(NamedTuple):
    groups: int
    stretches: int
    candidates: int


def _fit(tasks: int) -> _Shape | None:
    if tasks % 2:
        return None
    groups = max(1, round(tasks / _TASKS_PER_GROUP))
    both = tasks // 2 - groups
    stretches = max(1, round(_STRETCHES * both))
    return _Shape(groups, stretches, both - stretches)


def build(tasks: int, rng: Random) -> Workflow:
    """Generate an Inspiral workflow of the possible size nearest to ``tasks``."""
    shape = nearest(tasks, SMALLEST, _fit)
    sketch = Sketch("inspiral", 2 * sum(shape), rng)
    stretches = _groups(shape.stretches, shape.groups, rng)
    candidates = _groups(shape.candidates, shape.groups, rng)
    data = _Data(sketch)
    for group in range(shape.groups):
        first, second = stretches[group], candidates[group]
        banks = [_bank(sketch, data, stretch) for stretch in first]
        found = [
            _inspiral(sketch, data, stretch, bank, f"INSPIRAL-{stretch:05d}")
            for stretch, bank in zip(first, banks, strict=True)
        ]
        coincidences = _coincidence(sketch, found, f"THINCA-{group:05d}")
        triggers = [_trigger(sketch, coincidences, candidate) for candidate in second]
        # Candidates examine the data of their group again.
        again = [first[place % len(first)] for place in range(len(second))]
        found = [
            _inspiral(sketch, data, stretch, trigger, f"INSPIRAL_TRIG-{candidate:05d}")
            for stretch, trigger, candidate in zip(again, triggers, second, strict=True)
        ]
        _coincidence(sketch, found, f"THINCA_TRIG-{group:05d}")
    return sketch.workflow()


def _groups(total: int, groups: int, rng: Random) -> list[range]:
    """Divide the numbers 0 to ``total`` - 1 into groups of random size, each with at least one."""
    weights = [_GROUP_SPREAD.draw(rng) for _ in range(groups)]
    unit = (total - groups) / sum(weights)
    bounds = [0]
    reached = 0.0
    for number, weight in enumerate(weights, 1):
        reached += weight * unit
        bounds.append(round(reached) + number)
    bounds[-1] = total
    return [range(first, last) for first, last in pairwise(bounds)]


class _Data:
    """The detector's files, created when they are first read."""

    def __init__(self, sketch: Sketch) -> None:
        self._sketch = sketch
        self._common: dict[str, int] = {}
        self._frames: dict[int, list[int]] = {}

    def common(self, name: str, size_bytes: int) -> int:
        if name not in self._common:
            self._common[name] = self._sketch.initial(name, size_bytes)
        return self._common[name]

    def of(self, stretch: int) -> list[int]:
        """The four files of one stretch of data."""
        reference = self.common("H-CAL_REF_DARM_ERR_H1.gwf", REFERENCE_BYTES)
        if stretch not in self._frames:
            self._frames[stretch] = [
                self._sketch.initial(
                    f"H-H1_RDS-{stretch:05d}-{half}.gwf", FRAME_BYTES.draw(self._sketch.rng)
                )
                for half in (1, 2)
            ]
        return [
            reference,
            *self._frames[stretch],
            self.common("H-CAL_FAC_DARM_ERR_H1.gwf", FACTORS_BYTES),
        ]


def _bank(sketch: Sketch, data: _Data, stretch: int) -> int:
    written = [(f"H1-TMPLTBANK-{stretch:05d}.xml", BANK_BYTES.draw(sketch.rng))]
    return sketch.task("TmpltBank", BANK_S.draw(sketch.rng), data.of(stretch), written)[0]


def _inspiral(sketch: Sketch, data: _Data, stretch: int, bank: int, name: str) -> int:
    injections = data.common("HL-INJECTIONS_100.xml", INJECTIONS_BYTES)
    read = [injections, *data.of(stretch), bank]
    written = [(f"H1-{name}.xml", INSPIRAL_BYTES.draw(sketch.rng))]
    return sketch.task("Inspiral", INSPIRAL_S.draw(sketch.rng), read, written)[0]


def _trigger(sketch: Sketch, coincidences: int, candidate: int) -> int:
    written = [(f"H1-TRIGBANK-{candidate:05d}.xml", TRIGGER_BYTES.draw(sketch.rng))]
    return sketch.task("TrigBank", TRIGGER_S.draw(sketch.rng), [coincidences], written)[0]


def _coincidence(sketch: Sketch, found: list[int], name: str) -> int:
    written = [(f"H1-{name}.xml", COINCIDENCE_BYTES.draw(sketch.rng))]
    return sketch.task("Thinca", COINCIDENCE_S.draw(sketch.rng), found, written)[0]
