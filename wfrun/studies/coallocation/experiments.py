"""The experiments of sections 2.5 and 2.6 of the thesis, and the measures of their runs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from statistics import fmean

import msgspec

from wfrun.engine.jobs.coallocation import Placement
from wfrun.runners.simulate.grid.coallocated import CoallocatedJob, simulate_coallocated
from wfrun.studies.coallocation.paper import NODES
from wfrun.studies.coallocation.workloads import (
    FOUR,
    WAVE,
    WITHOUT_DELFT,
    WITHOUT_LEIDEN,
    Application,
    Slowdown,
    arrivals,
    factors,
    links_of,
    local_jobs,
    mean_rate,
    request_maker,
    synthetic,
)

BASE = "base"
PRIME, POISSON, WAVES = "prime", "poisson", "wave"
CCRS = {f"ccr {ccr:g}": ccr for ccr in (0.1, 0.25, 0.5, 1.0, 4.0)}
WF, FCM, LIMIT, CA = "wf", "fcm", "fcm2", "ca"


class Plot(msgspec.Struct, frozen=True):
    """An experiment: the clusters, jobs and runs behind one or two panels of a figure."""

    clusters: tuple[str, ...]
    sizes: tuple[int, ...]
    utilizations: tuple[int, ...]
    """Net utilizations [%] of the base experiments."""
    varied: tuple[int, ...]
    """Net utilizations [%] of the experiments with each of `VARIANTS`."""
    runs: tuple[tuple[str, str], ...]
    """(workload, policy) of each run."""
    slowdown: Slowdown = "number"
    hours: float = 24.0
    loaded: bool = False
    """Whether other users have jobs on the clusters."""

    def steps(self, variant: str) -> tuple[int, ...]:
        """The net utilizations [%] that are simulated with a variant, or with `BASE`."""
        return self.utilizations if variant == BASE else self.varied


_SMALL, _LARGE = (8, 16, 32), (32, 48, 64)
STEPS = tuple(range(10, 91, 5))
_COMPARED = ((PRIME, WF), (PRIME, FCM), (POISSON, WF), (POISSON, FCM), (WAVES, WF), (WAVES, FCM))
_PLACED = ((WAVES, FCM), (WAVES, CA))
REAL, MPI, SYNTHETIC = "2.6", "2.7", "2.8"
REAL_WITHOUT, REAL_WITH, WITHOUT, WITH = "2.9 without", "2.9 with", "2.10 without", "2.10 with"
_LARGE_STEPS, _LARGE_VARIED = tuple(range(20, 81, 5)), (20, 40, 50, 60, 70, 75, 80)
PLOTS = {
    REAL: Plot(WITHOUT_DELFT, _SMALL, (40,), (40,), _COMPARED, hours=4.0, loaded=True),
    # Table 2.3 has saturation above the last step of the figure.
    MPI: Plot(
        WITHOUT_DELFT, _SMALL, (*STEPS, 95, 100), (40, 50, *range(60, 96, 5)),
        (*_COMPARED, (WAVES, LIMIT)),
    ),
    SYNTHETIC: Plot(
        WITHOUT_DELFT, _SMALL, STEPS, (50, 70, 90),
        tuple((ccr, policy) for ccr in CCRS for policy in (WF, FCM)),
    ),
    REAL_WITHOUT: Plot(WITHOUT_DELFT, (64,), (40,), (40,), _PLACED, "slowest", 4.0, True),
    REAL_WITH: Plot(WITHOUT_LEIDEN, (64,), (40,), (40,), _PLACED, "slowest", 4.0, True),
    WITHOUT: Plot(WITHOUT_DELFT, _LARGE, _LARGE_STEPS, _LARGE_VARIED, _PLACED, "slowest"),
    WITH: Plot(WITHOUT_LEIDEN, _LARGE, _LARGE_STEPS, _LARGE_VARIED, _PLACED, "slowest"),
}  # fmt: skip
"""The experiments by the number of the thesis's figure."""


def linear(count: int) -> float:
    """The factor of the communication time over ``count`` clusters, 2 or 3, on the line between 1
    for one cluster and `FOUR` for four."""
    return 1 + (FOUR - 1) * (count - 1) / 3


class CoallocationSetting(msgspec.Struct, frozen=True):
    """Parameters that the text leaves open."""

    two: float = linear(2)
    three: float = linear(3)
    slowdown: Slowdown | None = None
    """The slowdown of the communication time over several clusters; None: the slowdown of the
    experiment."""
    prime: Application = Application(WAVE.single_s, 0.0)
    poisson: Application = Application(WAVE.single_s, 0.25)
    poll_s: float | None = None
    blocks: bool = False
    """Whether the queue is strictly first come, first served, so that no job overtakes another."""
    reverse: bool = False
    """Whether the clusters are listed in reverse order. A policy that finds clusters equal takes
    the first."""
    load: float = 0.2
    """Share of the nodes that other users' jobs use, in experiments that have such jobs."""
    only: tuple[str, ...] = ()
    """The experiments that are simulated with this setting; if empty, all whose runs it changes."""

    def application(self, workload: str) -> Application:
        """The application of a workload."""
        if workload in CCRS:
            return synthetic(CCRS[workload])
        return {PRIME: self.prime, POISSON: self.poisson, WAVES: WAVE}[workload]

    def inputs(self, experiment: str, workload: str, policy: str) -> tuple[object, ...]:
        """All that a run depends on besides utilization and seed. Runs with equal inputs are
        equal."""
        if self.only and experiment not in self.only:
            return CoallocationSetting().inputs(experiment, workload, policy)
        plot, application = PLOTS[experiment], self.application(workload)
        times: tuple[object, ...] = ()
        if policy != WF and application.ccr:
            slowdown = self.slowdown or plot.slowdown
            times = application.ccr, self.two, self.three, slowdown
        return (
            experiment, policy, application.single_s, times, self.poll_s, self.blocks,
            self.reverse, self.load if plot.loaded else 0.0,
        )  # fmt: skip


VARIANTS = {
    "f(2) = 1.3, f(3) = 2.3": CoallocationSetting(two=1.3, three=2.3),
    "no job overtakes another": CoallocationSetting(blocks=True),
    "no overtaking, f(2) = 1.3, f(3) = 2.3": CoallocationSetting(two=1.3, three=2.3, blocks=True),
    "slowest link alone decides": CoallocationSetting(slowdown="slowest alone"),
    "Prime is CCR 0.1": CoallocationSetting(prime=Application(WAVE.single_s, 0.1)),
    "load of others 10%": CoallocationSetting(load=0.1),
    "load of others 30%": CoallocationSetting(load=0.3),
    "queue scanned every 60 s (2.6, 2.9)": CoallocationSetting(
        poll_s=60.0, only=(REAL, REAL_WITHOUT, REAL_WITH)
    ),
    "queue scanned every 20 s (2.6, 2.7)": CoallocationSetting(poll_s=20.0, only=(REAL, MPI)),
    "clusters in reverse order (2.10)": CoallocationSetting(reverse=True, only=(WITHOUT, WITH)),
}


class CoallocationCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run."""

    experiment: str
    workload: str
    policy: str
    utilization: int
    seed: int
    variant: str = BASE


class CoallocationRow(CoallocationCell, frozen=True, kw_only=True):
    """The measures of a run. Means are over all jobs of the workload, without other users' jobs."""

    response_s: float
    ended_response_s: float
    """Mean response time of the jobs that end within the arrival period."""
    wait_s: float
    run_s: float
    coallocated: float
    """Share of the jobs that run on several clusters."""
    used: float
    """Observed utilization: share of the nodes that the workload used while jobs arrived."""
    quarter_waits_s: tuple[float, ...]
    """Mean wait of the jobs that arrive in each quarter of the arrival period."""


class CoallocationScale(msgspec.Struct, frozen=True):
    """The size of the study."""

    seeds: int
    """Number of repetitions of each experiment of the base."""
    varied_seeds: int
    """Number of repetitions of each experiment with a variant."""
    variants: tuple[str, ...]
    """The simulated variants, keys of `VARIANTS`."""


FULL = CoallocationScale(10, 7, tuple(VARIANTS))
QUICK = CoallocationScale(4, 0, ())


def setting_of(variant: str) -> CoallocationSetting:
    """The setting of a variant."""
    return VARIANTS.get(variant, CoallocationSetting())


def cell_of(
    experiment: str, workload: str, policy: str, utilization: int, seed: int, variant: str
) -> CoallocationCell:
    """The cell for a run of a variant. Equal runs have the same cell. Under WF all applications
    with the same run time on one cluster count as one workload. A run that the variant does not
    change has the cell of the base, or of the earlier variant with equal inputs."""
    setting = setting_of(variant)
    wanted = setting.inputs(experiment, workload, policy)
    variant = next(
        name
        for name in (BASE, *VARIANTS)
        if setting_of(name).inputs(experiment, workload, policy) == wanted
    )
    first = next(
        name
        for name, of in PLOTS[experiment].runs
        if of == policy and setting.inputs(experiment, name, policy) == wanted
    )
    return CoallocationCell(
        experiment=experiment, workload=first, policy=policy, utilization=utilization, seed=seed,
        variant=variant,
    )  # fmt: skip


def cells(scale: CoallocationScale) -> list[CoallocationCell]:
    """All runs of a study, without duplicates: first those of the base, then those of each variant,
    each by seed."""
    return list(dict.fromkeys(_cells(scale)))


def _cells(scale: CoallocationScale) -> Iterator[CoallocationCell]:
    for seed in range(scale.seeds):
        yield from _repetition(seed, BASE)
    for variant in scale.variants:
        for seed in range(scale.varied_seeds):
            yield from _repetition(seed, variant)


def _repetition(seed: int, variant: str) -> Iterator[CoallocationCell]:
    for experiment, plot in PLOTS.items():
        for workload, policy in plot.runs:
            for step in plot.steps(variant):
                yield cell_of(experiment, workload, policy, step, seed, variant)


def jobs_of(cell: CoallocationCell) -> list[tuple[CoallocatedJob, float]]:
    """The jobs of a run in the order of arrival, as (job, run time in seconds). The run time is 0
    for jobs of the workload, because it depends on their placement; for other users' jobs it is
    given."""
    plot, setting = PLOTS[cell.experiment], setting_of(cell.variant)
    nodes = [NODES[name] for name in _clusters(cell)]
    single_s = setting.application(cell.workload).single_s
    rate = mean_rate(plot.sizes, sum(nodes), cell.utilization / 100, single_s)
    request_of = request_maker(cell.policy)
    random = Random(f"coallocation {cell.seed}")
    jobs = [
        (CoallocatedJob(at_s, request_of(size)), 0.0)
        for at_s, size in arrivals(plot.sizes, rate, plot.hours * 3600, random)
    ]
    if not plot.loaded:
        return jobs
    random = Random(f"local jobs {cell.seed}")
    jobs += local_jobs(nodes, setting.load, plot.hours * 3600, random)
    return sorted(jobs, key=lambda each: each[0].arrival_s)


def _clusters(cell: CoallocationCell) -> tuple[str, ...]:
    clusters = PLOTS[cell.experiment].clusters
    return clusters[::-1] if setting_of(cell.variant).reverse else clusters


def run_cell(cell: CoallocationCell) -> CoallocationRow:
    """Simulate one run, and measure it."""
    plot, setting, clusters = PLOTS[cell.experiment], setting_of(cell.variant), _clusters(cell)
    nodes = [NODES[name] for name in clusters]
    application = setting.application(cell.workload)
    jobs = jobs_of(cell)
    own_s = [taken_s for _, taken_s in jobs]
    by_clusters = {
        combined: application.run_time_s(factor)
        for combined, factor in factors(
            clusters, setting.two, setting.three, setting.slowdown or plot.slowdown
        ).items()
    }

    def run_time_s(job: int, placement: Placement) -> float:
        return own_s[job] or by_clusters[frozenset(site for site, _ in placement)]

    schedule = simulate_coallocated(
        [job for job, _ in jobs],
        nodes,
        FCM if cell.policy == LIMIT else cell.policy,
        run_time_s,
        links_of(clusters) if cell.policy == CA else None,
        poll_s=setting.poll_s,
        blocks=setting.blocks,
    )
    ours = [
        _Outcome(job.arrival_s, start_s, end_s, job.request.size, len(placement))
        for (job, other_s), start_s, end_s, placement in zip(
            jobs, schedule.start_s, schedule.end_s, schedule.placements, strict=True
        )
        if not other_s
    ]
    return _measured(cell, ours, plot.hours * 3600, sum(nodes))


class _Outcome(msgspec.Struct, frozen=True):
    arrival_s: float
    placed_s: float
    end_s: float
    size: int
    clusters: int


def _measured(
    cell: CoallocationCell, jobs: list[_Outcome], until_s: float, nodes: int
) -> CoallocationRow:
    quarters: list[list[float]] = [[0.0] for _ in range(4)]
    for job in jobs:
        quarters[int(4 * job.arrival_s / until_s)].append(job.placed_s - job.arrival_s)
    ended_s = [job.end_s - job.arrival_s for job in jobs if job.end_s <= until_s]
    used_s = sum(
        job.size * (min(job.end_s, until_s) - job.placed_s)
        for job in jobs
        if job.placed_s < until_s
    )
    return CoallocationRow(
        **msgspec.structs.asdict(cell),
        response_s=fmean(job.end_s - job.arrival_s for job in jobs),
        ended_response_s=fmean(ended_s),
        wait_s=fmean(job.placed_s - job.arrival_s for job in jobs),
        run_s=fmean(job.end_s - job.placed_s for job in jobs),
        coallocated=fmean(job.clusters > 1 for job in jobs),
        used=used_s / (until_s * nodes),
        quarter_waits_s=tuple(map(fmean, quarters)),
    )
