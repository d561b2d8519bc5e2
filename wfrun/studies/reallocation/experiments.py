"""The experiments of RR-7365 (section 4.5), and the measures of their runs (section 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec

from wfrun.engine.jobs.moldable import Amdahl, MoldableRunTimes, amdahl_speedup, fixed
from wfrun.engine.jobs.reallocation import ALGORITHMS, Limits
from wfrun.engine.queues.conservative import Conservative
from wfrun.engine.queues.replanned import Replanned
from wfrun.runners.simulate.grid.moldable import (
    MoldableJob,
    MoldableSchedule,
    Reallocation,
    simulate_moldable,
)
from wfrun.studies.reallocation.traces import (
    LOAD,
    SIX_MONTHS_DAYS,
    TRACES,
    TracedJob,
    days_of,
    sites_of,
    trace_of,
)

TYPES = ((0.8, 32, 0.5), (0.9, 96, 0.3), (0.99, 256, 0.15), (0.999, 650, 0.05))
"""(parallel share, limit of processors, share of the jobs) of the job types t1 to t4 (Table 2)."""
MIDDLEWARE_SHARE = 1 / 3
"""Share of the jobs that belong to the middleware on platforms that are not dedicated (section
4.3.2)."""
LRM = Replanned.name
"""The queue policy of the paper's simulator."""
SAME_S = 1e-3
"""Two completion times count as equal if they differ by less than this, in seconds."""


BASE = "base"
LOW, HIGH, SHORT = "load of 10%", "load of 40%", "half of the days"
EXACT, OTHER, LIMITED = "exact walltimes", "one reference", "limits"
HELD = "reservations hold"
VARIANTS = {
    LOW: "the generated jobs have half of the work",
    HIGH: "they have twice the work",
    SHORT: "the trace has half of its days",
    EXACT: "the walltimes are the run times",
    OTHER: "all seeds are compared with a reference that has types of its own, as the number of "
    "references in section 4.5 suggests",
    LIMITED: "a job moves at most three times, and the one that waits longest at a site is not "
    "cancelled",
    HELD: "a departure lets jobs start earlier only, where the queues of the base plan all waiting "
    "jobs again",
}
"""The changes. Each is simulated alone, on the dedicated platforms."""
LOADS = {LOW: 0.1, HIGH: 0.4}
OTHER_SEED = -1
"""Seed that draws the job types of the single reference in the variant ``OTHER``."""
LIMITS = Limits(most_moves=3, keeps_oldest=True)


class ReallocationCell(msgspec.Struct, frozen=True, kw_only=True):
    """One platform, trace and seed: the reference without reallocation, and an experiment with each
    of ``ALGORITHMS``."""

    trace: str
    heterogeneous: str
    """``yes`` or ``no``: whether the clusters have different speeds."""
    dedicated: str
    days: float
    """Maximum length of the simulated part of the trace, in days."""
    seed: int
    variant: str = BASE
    """The change, a key of `VARIANTS`; or `BASE`."""


class ReallocationRow(ReallocationCell, frozen=True, kw_only=True):
    """The measures of a cell. Tuples have a value for each of ``ALGORITHMS``."""

    jobs: int
    """Number of jobs of the middleware."""
    wait_s: float
    """Mean wait of the middleware's jobs without reallocation, in seconds."""
    size: float
    """Mean number of processors of the middleware's jobs without reallocation."""
    impacted: tuple[float, ...]
    """Percentage of the middleware's jobs that are impacted: their completion times differ from
    those without reallocation."""
    moves: tuple[float, ...]
    """Number of moves in percent of the number of the middleware's jobs."""
    early: tuple[float, ...]
    """Percentage of the impacted jobs that completed earlier."""
    response: tuple[float, ...]
    """Mean response time of the impacted jobs, divided by that of the same jobs without
    reallocation."""


class ReallocationScale(msgspec.Struct, frozen=True):
    """The size of the study: the number of repetitions, and the length and names of the traces."""

    seeds: int
    days: float
    """Maximum length of a trace in days."""
    traces: tuple[str, ...] = TRACES
    changed: tuple[str, ...] = ("January",)
    """The traces that are simulated with the variants, too."""


FULL = ReallocationScale(10, SIX_MONTHS_DAYS)
QUICK = ReallocationScale(3, 5.0)


def cells(scale: ReallocationScale) -> list[ReallocationCell]:
    """The cells of a study, one seed after the other, all platforms of a trace together."""
    return [cell for seed in range(scale.seeds) for cell in _repetition(scale, seed)]


def _repetition(scale: ReallocationScale, seed: int) -> Iterator[ReallocationCell]:
    for trace in scale.traces:
        for dedicated in ("yes", "no"):
            for heterogeneous in ("no", "yes"):
                yield ReallocationCell(
                    trace=trace, heterogeneous=heterogeneous, dedicated=dedicated,
                    days=scale.days, seed=seed,
                )  # fmt: skip
    for trace in scale.changed:
        for variant in VARIANTS:
            for heterogeneous in ("no", "yes"):
                yield ReallocationCell(trace=trace, heterogeneous=heterogeneous, dedicated="yes",
                           days=scale.days, seed=seed, variant=variant)  # fmt: skip


class Study(msgspec.Struct, frozen=True):
    """Simulates cells, possibly in other processes."""

    ctc: Path | None
    sdsc: Path | None
    """Paths of the logs of CTC and SDSC. A log whose path is None is generated."""

    def simulate(self, cell: ReallocationCell) -> ReallocationRow:
        """Simulate the reference and the four algorithms on the jobs of a cell, and measure them.
        In the variant ``OTHER`` the reference has job types of its own."""
        days = cell.days
        if cell.variant == SHORT:
            days = min(days, days_of(cell.trace)) / 2
        load = LOADS.get(cell.variant, LOAD)
        trace = trace_of(cell.trace, (self.ctc, self.sdsc), days, load)
        if cell.variant == EXACT:
            trace = tuple(job._replace(walltime_s=max(1.0, job.runtime_s)) for job in trace)
        jobs = moldable_jobs(trace, cell.seed, dedicated=cell.dedicated == "yes")
        sites = sites_of(cell.trace, heterogeneous=cell.heterogeneous == "yes")
        seed = OTHER_SEED if cell.variant == OTHER else cell.seed
        lrm = Conservative.name if cell.variant == HELD else LRM
        reference = simulate_moldable(
            moldable_jobs(trace, seed, dedicated=cell.dedicated == "yes"), sites, lrm=lrm
        )
        ours = [number for number, job in enumerate(jobs) if job.home < 0]
        limits = LIMITS if cell.variant == LIMITED else Limits()
        measured = [
            _compare(
                simulate_moldable(jobs, sites, Reallocation(name, limits=limits), lrm=lrm),
                reference,
                ours,
            )
            for name in ALGORITHMS
        ]
        impacted, moves, early, response = zip(*measured, strict=True)
        return ReallocationRow(
            **msgspec.structs.asdict(cell),
            jobs=len(ours),
            wait_s=fmean(reference.start_s[n] - jobs[n].submit_s for n in ours),
            size=fmean(reference.size[n] for n in ours),
            impacted=impacted,
            moves=moves,
            early=early,
            response=response,
        )


def moldable_jobs(
    trace: Sequence[TracedJob], seed: int, *, dedicated: bool
) -> tuple[MoldableJob, ...]:
    """The jobs of a trace as moldable jobs. Types and origins are drawn with ``seed``.

    A parallel job of the middleware gets a type. The speedup of the type turns the walltime of the
    job into the walltime on one processor (section 4.2.2). Sequential jobs and local jobs keep
    their size and walltime. On a ``dedicated`` platform all jobs are the middleware's.
    """
    types, origins = Random(f"types/{seed}"), Random(f"origins/{seed}")
    weights = list(accumulate(share for _, _, share in TYPES))
    found = []
    for job in trace:
        parallel, limit, _ = types.choices(TYPES, cum_weights=weights)[0]
        is_ours = origins.random() < MIDDLEWARE_SHARE or dedicated
        runtimes: MoldableRunTimes = fixed(job.cores, job.walltime_s)
        if is_ours and job.cores > 1:
            serial_s = job.walltime_s * amdahl_speedup(parallel, job.cores)
            runtimes = Amdahl(serial_s, parallel, limit)
        home = -1 if is_ours else job.site
        used = job.runtime_s / job.walltime_s
        found.append(MoldableJob(job.submit_s, runtimes, used, home))
    return tuple(found)


def _compare(
    one: MoldableSchedule, reference: MoldableSchedule, ours: Sequence[int]
) -> tuple[float, float, float, float]:
    """(impacted jobs, moves, early jobs, relative response time) of the schedule ``one`` against
    the reference, for the jobs ``ours``. The first three are percentages. Without impacted jobs
    early jobs are 50% and the relative response time is 1."""
    impacted = [n for n in ours if abs(one.end_s[n] - reference.end_s[n]) > SAME_S]
    moves = 100 * one.moves / len(ours)
    if not impacted:
        return 0.0, moves, 50.0, 1.0
    early = sum(one.end_s[n] < reference.end_s[n] for n in impacted)
    before = sum(reference.end_s[n] - reference.jobs[n].submit_s for n in impacted)
    after = sum(one.end_s[n] - one.jobs[n].submit_s for n in impacted)
    return (
        100 * len(impacted) / len(ours),
        moves,
        100 * early / len(impacted),
        after / before,
    )
