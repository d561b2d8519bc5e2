"""Workloads of bags as the subject of an experiment: bags of tasks that users submit over time,
generated or from a log."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import fsum
from pathlib import Path

import msgspec

from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import Streams, generate_workload, with_estimates
from wfrun.parsers.generate.bots_log import bags_of_log, replay
from wfrun.runners.experiments.cells import SIZES, Cell, Row, size_class
from wfrun.runners.experiments.experiment import Experiment
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.subjects.load_of_arrivals import at_load_of_arrivals
from wfrun.runners.simulate.architectures import Central
from wfrun.runners.simulate.bags import BagsOutcome, simulate_bags
from wfrun.runners.simulate.simulation import Platform
from wfrun.runners.simulate.unfinished import why_unfinished

POLICIES = ("ect", "fplt", "rr", "wqr", "dfplt", "ect-p", "stfr", "fpf")
"""The scheduling policies for bags (thesis section 5.1.4): ``all`` of them."""

TASKS = 60_000
"""Default number of tasks of a generated workload (thesis section 5.3.3: "an average of over 60,000
tasks")."""


class LogOfBags(msgspec.Struct, frozen=True):
    """A workload log that bags are taken from."""

    name: str
    """Label in results: the name of the file, and a digest of its content."""
    path: str
    skip_bad_lines: bool = False


def log_of_bags(path: Path, *, skip_bad_lines: bool = False) -> LogOfBags:
    """Make the record of a log, with its label. Reads the whole file for the digest. Raises
    OSError."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:10]
    return LogOfBags(f"{path.name} #{digest}", str(path), skip_bad_lines)


class Workloads(msgspec.Struct, frozen=True):
    """Workloads by label: rows of the workload model (Table 5.3), and logs."""

    labels: tuple[str, ...] = ("average",)
    logs: tuple[LogOfBags, ...] = ()
    """The logs among the workloads. Each other label is a row of the model."""
    tasks: int | None = None
    """Approximate number of tasks of each workload. None: TASKS of a generated workload, all tasks
    of a log."""
    monitoring_s: float = 0.0
    """Period of the monitoring service of a central resource manager, in seconds (thesis section
    5.1.2). It replaces `SiteModel.poll_s`, but only with the architecture csp. 0:
    `SiteModel.poll_s` is unchanged."""
    likeness: float = 0.0
    streams: Streams = "equal"
    """``streams`` and ``likeness`` are parameters of `generate_workload`."""
    day_load: float | None = None
    """Load at which bags of a generated workload arrive at the rate of the model; at other loads
    the rate is proportional to the load. Workloads whose number of tasks is proportional to the
    load then last equally long and have the same days. None: bags are generated at the rate of the
    model for every load, so that days are shorter at higher loads."""

    @property
    def identity(self) -> str:
        fields = ("monitoring_s", "likeness", "streams", "day_load")
        basis = Workloads()
        changed = [
            f"{name}={getattr(self, name)}"
            for name in fields
            if getattr(self, name) != getattr(basis, name)
        ]
        return " ".join(["workloads of bags", *changed])

    @property
    def files(self) -> Files:
        """The logs that simulations read."""
        return {Path(log.path): [Path(log.path)] for log in self.logs}

    def log(self, label: str | None) -> LogOfBags | None:
        """The log with this label; None: the label is a row of the model."""
        return next((log for log in self.logs if log.name == label), None)

    def tasks_of(self, label: str | None) -> int | None:
        return self.tasks or (TASKS if self.log(label) is None else None)

    def simulate(self, experiment: Experiment, cell: Cell) -> Row:
        platform = self.monitored(experiment.platform_of(cell), cell)
        workload = self.workload_of(cell, platform.catalog.sites)
        settings = experiment.settings_of(cell)
        return row_of(cell, simulate_bags(workload, platform, cell.architecture, settings))

    def monitored(self, platform: Platform, cell: Cell) -> Platform:
        if not self.monitoring_s or cell.architecture != Central.name:
            return platform
        model = msgspec.structs.replace(platform.model, poll_s=self.monitoring_s)
        return msgspec.structs.replace(platform, model=model)

    def workload_of(self, cell: Cell, sites: tuple[SiteSpec, ...]) -> BotWorkload:
        """The bags of a run. They depend on its workload, load and seed, but not on the policies.
        Raises InvalidError."""
        common = msgspec.structs.replace(
            cell, architecture="", selection=None, policy="", throttle=None
        )
        return _workload(
            self.log(cell.workload), common, sites, self.likeness, self.streams, self.day_load
        )


@lru_cache(maxsize=1)  # the next run often has the same
def _workload(
    log: LogOfBags | None,
    cell: Cell,
    sites: tuple[SiteSpec, ...],
    likeness: float,
    streams: Streams,
    day_load: float | None,
) -> BotWorkload:
    if log is not None:
        bags = _bags_of(log)
        workload = replay(bags, sites, load=cell.load, tasks=cell.tasks, seed=cell.seed)
        if cell.load is None:
            return workload
        return at_load_of_arrivals(workload, cell.load, sites)
    rate = 1.0 if day_load is None or cell.load is None else cell.load / day_load
    workload = generate_workload(
        sites,
        row=cell.workload or "",
        tasks=cell.tasks or TASKS,
        seed=cell.seed,
        median_size=cell.median_size,
        likeness=likeness,
        streams=streams,
        rate=rate,
    )
    # Without remarks on the longer tasks of before.
    share = LONGEST_SHARE if day_load is None or cell.load is None else SPAN_SHARE / cell.load
    workload = without_long_tasks(replace(workload, remarks=()), share)
    if cell.mean_runtime_s is not None:
        factor = cell.mean_runtime_s / (workload.work_s / workload.tasks)
        workload = _with_runtimes(workload, lambda s: max(1.0, s * factor))
    workload = at_load_of_arrivals(workload, cell.load or 0.0, sites, cell.arrival)
    return with_estimates(workload, cell.inaccuracy, cell.seed)


@lru_cache(maxsize=2)
def _bags_of(log: LogOfBags) -> BotWorkload:
    return bags_of_log(Path(log.path), skip_bad_lines=log.skip_bad_lines)


LONGEST_SHARE = 0.5
"""Maximum run time of a task, as a share of the time in which the sites could do all tasks. The
traces of the thesis last for a month; here arrivals are compressed. A task of hours would therefore
run longer than the period of arrivals, and occupy a processor for all of it."""

SPAN_SHARE = 0.3
"""Maximum run time of a task, as a share of the time in which all bags arrive. Used with
``day_load``, because this time then does not depend on the load. At a load of 60% it equals
LONGEST_SHARE."""

LEAST_LONGEST_S = 300.0
"""Lower limit of the maximum run time of tasks, in seconds."""


def without_long_tasks(workload: BotWorkload, share: float = LONGEST_SHARE) -> BotWorkload:
    """Return the bags with run times limited to ``share`` of the time in which the sites could do
    all tasks. A remark gives the number of shortened tasks."""
    runtimes_s = sorted(s for bag in workload.bags for s in bag.runtime_s)
    longest_s = _longest_s(runtimes_s, workload.capacity, share)
    cut = sum(1 for s in runtimes_s if s > longest_s)
    if not cut:
        return workload
    work_s = sum(runtimes_s)
    shorter = _with_runtimes(workload, lambda s: min(s, longest_s))
    remark = (
        f"{cut} of {len(runtimes_s)} tasks are cut to {longest_s:,.0f} s, "
        f"{1 - shorter.work_s / work_s:.0%} of the work: they would outlast the arrivals"
    )
    return replace(shorter, remarks=(*workload.remarks, remark))


def _longest_s(runtimes_s: Sequence[float], capacity: float, share: float) -> float:
    """Find the limit of run times, in seconds, that equals ``share`` of the total work divided by
    ``capacity``. In the total work, run times above the limit count as the limit. The limit is at
    least LEAST_LONGEST_S, unless no run time is longer. ``runtimes_s`` ascend."""
    longest_s = runtimes_s[-1]
    while True:
        work_s = sum(min(s, longest_s) for s in runtimes_s)
        shorter_s = max(LEAST_LONGEST_S, round(share * work_s / capacity))
        if shorter_s >= longest_s:
            return longest_s
        longest_s = shorter_s


def _with_runtimes(workload: BotWorkload, change: Callable[[float], float]) -> BotWorkload:
    bags = []
    for bag in workload.bags:
        runtimes_s = array("d", [round(change(s), 2) for s in bag.runtime_s])
        bags.append(replace(bag, runtime_s=runtimes_s, estimate_s=runtimes_s))
    return replace(workload, bags=tuple(bags))


def row_of(cell: Cell, run: BagsOutcome) -> Row:
    """The measures of a workload that has been simulated."""
    nsl = [m / work for m, work in zip(run.makespans_s, run.work_s, strict=True)]
    classes = [size_class(size) for size in run.sizes]
    counts = [classes.count(number) for number in range(len(SIZES))]
    tally, state = run.tally, run.state
    tasks = sum(run.sizes)
    slots = sum(site.spec.slots for site in state.sites)
    is_finished = state.done + state.unneeded == state.tasks
    return Row(
        **msgspec.structs.asdict(cell),
        makespan_s=_mean(run.makespans_s) if is_finished else None,
        nsl=_mean(nsl) if is_finished else None,
        failed=state.tasks - state.done - state.unneeded,
        bags=len(run.sizes),
        done=state.done,
        completed_share=tally.done_in_time / tasks,
        completed_later_share=tally.done_later / tasks,
        utilization=tally.used_in_time_s / (slots * tally.until_s) if tally.until_s else 0.0,
        replicas_started=tally.placed - tasks,
        wasted_share=tally.wasted_s / tally.used_s if tally.used_s else 0.0,
        last_arrival_s=tally.until_s,
        last_end_s=state.now_s,
        class_bags=tuple(map(float, counts)),
        class_makespan_s=_means_by(classes, run.makespans_s) if is_finished else (),
        class_nsl=_means_by(classes, nsl) if is_finished else (),
        failure=why_unfinished(state),
    )


def _means_by(classes: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    groups: list[list[float]] = [[] for _ in SIZES]
    for number, value in zip(classes, values, strict=True):
        groups[number].append(value)
    return tuple(_mean(group) if group else 0.0 for group in groups)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
