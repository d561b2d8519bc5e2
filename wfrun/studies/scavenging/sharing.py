"""Readings of Equipartition-All that the engine does not have (thesis section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from wfrun.engine.jobs.scavenging.policies import Partition, all_sites
from wfrun.engine.jobs.scavenging.simulation import Division

IN_TURN, WHOLE_SITES, ONE_OWNER, EACH_NODE = "in turn", "whole sites", "one owner", "each node"


def division_of(reading: str, random: Random) -> str | Division:
    """The division of idle nodes under a reading of Equipartition-All.

    - `IN_TURN`: the engine's division.
    - `WHOLE_SITES`: owners that arrive together get their shares one after the other. A share is
      filled from one site after another.
    - `ONE_OWNER`: owners that arrive get their shares as in the engine. Later, all nodes that
      become idle at the same time go to one owner, who is drawn at random.
    - `EACH_NODE`: as `ONE_OWNER`, but an owner is drawn for each node.
    """
    if reading == WHOLE_SITES:
        return whole_sites
    if reading in (ONE_OWNER, EACH_NODE):
        return _Drawn(random, for_each=reading == EACH_NODE)
    return "all"


def whole_sites(
    idle: Sequence[int], before: Partition, wanted: Sequence[int], again: bool
) -> Partition:
    """The division `WHOLE_SITES` of `division_of`. Owners that arrive when others already hold
    nodes get their shares as in the engine."""
    found = all_sites(idle, before, wanted, again=again)
    if not again or any(map(sum, before.held)):
        return found
    left = list(idle)
    held: list[tuple[int, ...]] = []
    for row in found.held:
        share = sum(row)
        mine: list[int] = []
        for site in range(len(left)):
            count = min(share - sum(mine), left[site])
            left[site] -= count
            mine.append(count)
        held.append(tuple(mine))
    return Partition(tuple(held), found.lost)


class _Drawn:
    def __init__(self, random: Random, *, for_each: bool) -> None:
        self.random, self.for_each = random, for_each

    def __call__(
        self, idle: Sequence[int], before: Partition, wanted: Sequence[int], again: bool
    ) -> Partition:
        owners = range(len(wanted))
        if again:
            return all_sites(idle, before, wanted, again=True)
        held_idle = [sum(row[site] for row in before.held) for site in range(len(idle))]
        kept = [min(one, other) for one, other in zip(idle, held_idle, strict=True)]
        held = [list(row) for row in all_sites(kept, before, wanted).held]
        taker = self.random.choice(owners)
        for site in range(len(idle)):
            for _ in range(idle[site] - kept[site]):
                held[self.random.choice(owners) if self.for_each else taker][site] += 1
        return Partition(tuple(map(tuple, held)), before.lost)
