"""The experiments of section 3.4 of the thesis, and the measures of their runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec

from wfrun.engine.jobs.malleable.simulation import Life, MalleableOutcome, Rules, simulate
from wfrun.studies.common.verdict import Sample
from wfrun.studies.malleability.workloads import (
    LEAST,
    MIXES,
    MalleableLoad,
    make_load,
    sites_of,
)

FPSMA, EGS = "fpsma", "egs"
MALLEABILITY = (FPSMA, EGS)
PRA, PWA = "pra", "pwa"
INTERVALS_S = {PRA: 120.0, PWA: 30.0}
LOW = "pwa at low load"
"""The experiment that runs the workloads of PRA under PWA."""
EXPERIMENTS = (PRA, PWA, LOW)


class MalleabilitySetting(msgspec.Struct, frozen=True):
    """Parameters that the text leaves open."""

    processors: int = 64
    """Number of processors that KOALA may use in all five clusters together."""
    optimum_share: float = 0.5
    """The size with the shortest run time, relative to a program's maximum size."""
    poll_s: float | None = 10.0
    resize_s: float = 0.0
    threshold: int = 0
    returned_first: bool = False
    random_arrivals: bool = False
    one_site: bool = False


BASE = "base"
PROCESSORS = (20, 24, 32, 48, 64, 128, 272)
OPTIMA = (0.25, 0.5, 0.75)
GRID = {
    f"{processors} processors, optimum at {share:g}": MalleabilitySetting(processors, share)
    for processors in PROCESSORS
    for share in OPTIMA
    if MalleabilitySetting(processors, share) != MalleabilitySetting()
}
ONE_CLUSTER = (20, 24, 32, 48, 64, 96, 128)
COSTLY = (
    (48, 20.0),
    *((processors, cost_s) for processors in (64, 96) for cost_s in (5.0, 20.0, 60.0)),
)
"""Variants with one cluster: (its processors, seconds that a change of size costs)."""


def costly_name(processors: int, resize_s: float) -> str:
    """The name of a variant of `COSTLY`."""
    return f"one cluster of {processors}, a change of size costs {resize_s:g} s"


SINGLE = {
    "a pass at each arrival and end": MalleabilitySetting(poll_s=None),
    "a pass every 60 s": MalleabilitySetting(poll_s=60.0),
    "a change of size costs 5 s": MalleabilitySetting(resize_s=5.0),
    "a change of size costs 20 s": MalleabilitySetting(resize_s=20.0),
    "a change of size costs 60 s": MalleabilitySetting(resize_s=60.0),
    "a change of size costs 20 s, a pass every 60 s": MalleabilitySetting(
        poll_s=60.0, resize_s=20.0
    ),
    "threshold of 4 at each cluster": MalleabilitySetting(threshold=4),
    "refused processors are offered again": MalleabilitySetting(returned_first=True),
    "random arrivals": MalleabilitySetting(random_arrivals=True),
    **{
        f"one cluster of {processors}": MalleabilitySetting(processors, one_site=True)
        for processors in ONE_CLUSTER
    },
    **{
        costly_name(processors, resize_s): MalleabilitySetting(
            processors, resize_s=resize_s, one_site=True
        )
        for processors, resize_s in COSTLY
    },
    "one cluster of 96, a change of size costs 60 s, a pass every 60 s": MalleabilitySetting(
        96, poll_s=60.0, resize_s=60.0, one_site=True
    ),
}
VARIANTS = {**GRID, **SINGLE}


class MalleabilityCell(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated run."""

    experiment: str
    policy: str
    mix: str
    seed: int
    variant: str = BASE


class MalleabilityRow(MalleabilityCell, frozen=True, kw_only=True):
    """The measures of a run. Means are over all jobs, unless stated otherwise."""

    run_s: float
    """Mean execution time."""
    response_s: float
    wait_s: float
    tail_s: float
    """99th percentile of the response times."""
    gadget_s: float
    """Mean execution time of the jobs that run GADGET."""
    near_600: float
    """Share of the GADGET jobs with an execution time from 540 to 660 s."""
    groups_run: float
    """Share of all jobs that are FT jobs with an execution time below 200 s or GADGET jobs with one
    above 400 s."""
    groups_response: float
    mean_size: float
    """Mean over the malleable jobs of their mean size while they run."""
    largest_size: float
    """Mean over the malleable jobs of their largest size."""
    stuck: float
    """Share of the malleable jobs that never have more than 2 processors."""
    grows: int
    shrinks: int
    late: float
    """Of the grow and shrink operations while jobs arrive, the share in the second half of this
    time; 0 if there are no operations."""
    utilization: float
    """Share of the processors that are used while jobs arrive."""


class MalleabilityScale(msgspec.Struct, frozen=True):
    """The size of the study: numbers of repetitions without and with a variant, and the
    variants."""

    seeds: int
    varied_seeds: int
    variants: tuple[str, ...]


FULL = MalleabilityScale(20, 6, tuple(VARIANTS))
QUICK = MalleabilityScale(4, 2, tuple(VARIANTS))


def cells(scale: MalleabilityScale) -> list[MalleabilityCell]:
    """All runs of a study, one seed after the other."""
    return [
        MalleabilityCell(experiment=experiment, policy=policy, mix=mix, seed=seed, variant=variant)
        for seed in range(scale.seeds)
        for variant in (BASE, *(scale.variants if seed < scale.varied_seeds else ()))
        for experiment in EXPERIMENTS
        for policy in MALLEABILITY
        for mix in MIXES
    ]


def simulated(cell: MalleabilityCell) -> tuple[MalleableLoad, MalleableOutcome]:
    """The jobs of a run, and their simulated starts, sizes and ends."""
    setting = VARIANTS.get(cell.variant, MalleabilitySetting())
    precedence = PRA if cell.experiment == PRA else PWA
    interval_s = INTERVALS_S[PWA if cell.experiment == PWA else PRA]
    load = make_load(
        cell.mix, interval_s, setting.optimum_share, cell.seed,
        random_arrivals=setting.random_arrivals,
    )  # fmt: skip
    rules = Rules(
        cell.policy, precedence, setting.threshold, setting.poll_s, setting.resize_s,
        setting.returned_first,
    )  # fmt: skip
    sites = [setting.processors] if setting.one_site else sites_of(setting.processors)
    return load, simulate(load.jobs, sites, rules)


def run_cell(cell: MalleabilityCell) -> MalleabilityRow:
    """Simulate one run, and measure it."""
    load, outcome = simulated(cell)
    lives = outcome.lives
    runs_s = [life.end_s - life.start_s for life in lives]
    responses_s = [life.end_s - job.arrival_s for life, job in zip(lives, load.jobs, strict=True)]
    gadget_s = [value for value, is_gadget in zip(runs_s, load.gadget, strict=True) if is_gadget]
    grown = [life for life, malleable in zip(lives, load.malleable, strict=True) if malleable]
    last_s = load.jobs[-1].arrival_s
    changed_s = [at_s for at_s, one in outcome.changes if one.before and at_s <= last_s]
    processors = VARIANTS.get(cell.variant, MalleabilitySetting()).processors
    return MalleabilityRow(
        **msgspec.structs.asdict(cell),
        run_s=fmean(runs_s),
        response_s=fmean(responses_s),
        wait_s=fmean(responses_s) - fmean(runs_s),
        tail_s=sorted(responses_s)[len(responses_s) * 99 // 100 - 1],
        gadget_s=fmean(gadget_s),
        near_600=fmean(540 <= value <= 660 for value in gadget_s),
        groups_run=_grouped(load.gadget, runs_s),
        groups_response=_grouped(load.gadget, responses_s),
        mean_size=fmean(life.mean_size for life in grown),
        largest_size=fmean(life.largest for life in grown),
        stuck=fmean(life.largest == LEAST for life in grown),
        grows=sum(one.after > one.before > 0 for _, one in outcome.changes),
        shrinks=sum(one.after < one.before for _, one in outcome.changes),
        late=fmean(at_s > last_s / 2 for at_s in changed_s) if changed_s else 0.0,
        utilization=sum(_used(life, last_s) for life in lives) / (processors * last_s),
    )


def _grouped(gadget: Iterable[bool], times_s: Iterable[float]) -> float:
    return fmean(
        value > 400 if is_gadget else value < 200
        for is_gadget, value in zip(gadget, times_s, strict=True)
    )


def _used(life: Life, until_s: float) -> float:
    """Processor seconds that a job uses before the time ``until_s``."""
    ends = [at_s for at_s, _ in life.sizes[1:]] + [life.end_s]
    return sum(
        size * max(0.0, min(end, until_s) - at_s)
        for (at_s, size), end in zip(life.sizes, ends, strict=True)
    )


@dataclass(frozen=True)
class MalleabilitySamples:
    """The rows of one variant."""

    rows: Sequence[MalleabilityRow]
    variant: str = BASE

    def of(self, experiment: str, policy: str, mix: str, measure: str) -> Sample:
        """A measure of each run of a policy and a workload in an experiment."""
        return Sample(
            {
                row.seed: float(getattr(row, measure))
                for row in self.rows
                if (row.experiment, row.policy, row.mix, row.variant)
                == (experiment, policy, mix, self.variant)
            }
        )

    def all(self, experiment: str, measure: str) -> dict[str, Sample]:
        """A measure of the four combinations of policy and workload in an experiment, by
        `label`."""
        return {
            label(policy, mix, experiment): self.of(experiment, policy, mix, measure)
            for policy in MALLEABILITY
            for mix in MIXES
        }

    def varied(self, variant: str) -> MalleabilitySamples:
        """The rows of another variant."""
        return MalleabilitySamples(self.rows, variant)


def label(policy: str, mix: str, experiment: str) -> str:
    """The name of a combination of policy and workload as the thesis writes it, such as
    ``EGS/W'm``."""
    return f"{policy.upper()}/W{chr(39) if experiment == PWA else ''}{mix}"
