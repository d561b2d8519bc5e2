"""The experiments of section 5 of the paper, and the measures of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from wfrun.studies.common.verdict import Sample
from wfrun.studies.optional import paper
from wfrun.studies.optional.rules import PRINTED, AtRandom, ByRate, SincePresent, WithoutKills
from wfrun.studies.optional.scenarios import (
    CONSECUTIVE,
    DAYS,
    LARGE,
    REGULAR,
    SCENARIOS,
    clients_of,
    servers_of,
)
from wfrun.studies.optional.systems import (
    LEGACY,
    QUEUE,
    SERVERS,
    SystemSetting,
    one_queue,
    queue_at_each_server,
)

OVERHEAD_S = 0.005
"""Maximum overhead of a task in seconds. In the paper each server completes 189 tasks in 190 s,
since the ten servers complete 1,890 of the 1,900 tasks that clients submit. Hence the mean overhead
is above 0 and at most 5.3 ms."""

BASE = "base"


class OptionalChange(msgspec.Struct, frozen=True):
    """One change of a parameter that the text leaves open."""

    selection: str = PRINTED
    overhead_s: float = OVERHEAD_S
    same_order: bool = False


RULES = {
    "least allocated over time in the system": OptionalChange(ByRate.name),
    "a user begins with the least account of those present": OptionalChange(SincePresent.name),
    "optional tasks at random": OptionalChange(AtRandom.name),
    "nothing is killed": OptionalChange(WithoutKills.name),
    "all clients find the servers in the same order": OptionalChange(same_order=True),
}
"""Changes that are simulated in all scenarios with a queue at each server."""
BY_RATE, FAIR_QUEUE, RANDOM, NO_KILLS, SAME_ORDER = RULES
OVERHEADS = {
    "no overhead": OptionalChange(overhead_s=0.0),
    "overhead up to 1 ms": OptionalChange(overhead_s=0.001),
    "overhead up to 10 ms": OptionalChange(overhead_s=0.010),
    "overhead up to 30 ms": OptionalChange(overhead_s=0.030),
}
"""Changes that are simulated only for regular arrivals."""
VARIANTS = {**RULES, **OVERHEADS}


class OptionalCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run."""

    scenario: str
    system: str
    submitted: int
    """n_submit of the legacy system; 0 for the other systems."""
    seed: int
    variant: str = BASE


class OptionalRow(OptionalCell, frozen=True, kw_only=True):
    """The measures of a run (section 3.3)."""

    clients: int
    unhappy: int
    unfairness: float
    lowest: float
    """Smallest satisfaction of a client."""
    highest: float
    completed: int
    killed: int
    """Number of tasks that were killed to make room for mandatory ones."""


class OptionalScale(msgspec.Struct, frozen=True):
    """The size of the study: numbers of repetitions, and values of n_submit."""

    seeds: int
    legacy_seeds: int
    """Number of repetitions of the legacy system. In the scenarios whose clients do not depend on
    the seed, its repetitions differ only by overheads of milliseconds."""
    varied_seeds: int
    large_seeds: int
    submitted: tuple[int, ...]
    """The values of n_submit that are simulated in scenarios that are not diurnal."""
    by_day: tuple[int, ...]
    """The values of n_submit that are simulated in the diurnal scenarios, which have three to five
    times as many clients."""

    def counts(self, scenario: str) -> tuple[int, ...]:
        """The values of n_submit that are simulated in a scenario."""
        return self.by_day if scenario in DAYS else self.submitted


FULL = OptionalScale(
    10, 10, 3, 2,
    (3, 50, 75, 100, 150, 190, 200, 250, 300),
    (3, 20, 30, 40, 50, 60, 75, 100, 190, 300),
)  # fmt: skip
QUICK = OptionalScale(2, 2, 1, 1, (3, 50, 100, 190, 300), (3, 30, 50, 100))


def cells(scale: OptionalScale) -> list[OptionalCell]:
    """All runs of a study, one seed after the other."""
    return [cell for seed in range(scale.seeds) for cell in _repetition(scale, seed)]


def _repetition(scale: OptionalScale, seed: int) -> Iterator[OptionalCell]:
    def cell(scenario: str, system: str, submitted: int = 0, variant: str = BASE) -> OptionalCell:
        return OptionalCell(
            scenario=scenario, system=system, submitted=submitted, seed=seed, variant=variant
        )

    for scenario in SCENARIOS:
        yield from (cell(scenario, system) for system in (SERVERS, QUEUE))
        if seed < scale.legacy_seeds:
            yield from (cell(scenario, LEGACY, number) for number in scale.counts(scenario))
            if scenario == CONSECUTIVE:
                yield cell(scenario, LEGACY, paper.MOST)
    if seed < scale.varied_seeds:
        for variant in RULES:
            yield from (cell(scenario, SERVERS, 0, variant) for scenario in SCENARIOS)
            yield cell(REGULAR, QUEUE, 0, variant)
        for variant in OVERHEADS:
            yield from (cell(REGULAR, system, 0, variant) for system in (SERVERS, QUEUE))
            yield cell(REGULAR, LEGACY, paper.BEST_REGULAR, variant)
    if seed < scale.large_seeds:
        yield from (cell(LARGE, system) for system in (SERVERS, QUEUE))


def run_cell(cell: OptionalCell) -> OptionalRow:
    """Simulate one run."""
    clients, servers = clients_of(cell.scenario, cell.seed), servers_of(cell.scenario)
    change = VARIANTS.get(cell.variant, OptionalChange())
    setting = SystemSetting(
        selection="" if cell.system == LEGACY else change.selection,
        overhead_s=change.overhead_s,
        submitted=cell.submitted or None,
        same_order=change.same_order,
    )
    run = one_queue if cell.system == QUEUE else queue_at_each_server
    outcome = run(clients, servers, setting, cell.seed)
    satisfied = outcome.satisfactions(clients, servers)
    return OptionalRow(
        **msgspec.structs.asdict(cell),
        clients=len(clients),
        unhappy=outcome.unhappy(clients),
        unfairness=max(satisfied) - min(satisfied),
        lowest=min(satisfied),
        highest=max(satisfied),
        completed=sum(outcome.completed),
        killed=outcome.killed,
    )


@dataclass(frozen=True)
class OptionalSamples:
    """The rows of a study. DIET-ethic is represented by ``system`` (a queue at each server, or one
    queue) and ``variant``."""

    rows: Sequence[OptionalRow]
    system: str = SERVERS
    variant: str = BASE

    def of(
        self, scenario: str, measure: str, system: str, submitted: int = 0, variant: str = BASE
    ) -> Sample:
        """A measure of each run of a scenario and a system."""
        return Sample(
            {
                row.seed: float(getattr(row, measure))
                for row in self.rows
                if (row.scenario, row.system, row.submitted, row.variant)
                == (scenario, system, submitted, variant)
            }
        )

    def ethic(self, scenario: str, measure: str) -> Sample:
        """A measure of DIET-ethic in each run."""
        return self.of(scenario, measure, self.system, 0, self.variant)

    def legacy(self, scenario: str, submitted: int, measure: str) -> Sample:
        """A measure of the legacy system in each run."""
        return self.of(scenario, measure, LEGACY, submitted)

    def counts(self, scenario: str) -> list[int]:
        """The values of n_submit of the legacy system in a scenario, ascending, without n_max."""
        found = {row.submitted for row in self.rows if row.scenario == scenario}
        return sorted(found - {0, paper.MOST})

    def varied(self, variant: str) -> OptionalSamples:
        """The same rows, with DIET-ethic represented by a variant."""
        return replace(self, variant=variant)

    def in_core(self) -> OptionalSamples:
        """The same rows, with DIET-ethic represented by one queue for all slots."""
        return replace(self, system=QUEUE)
