"""Causes of differences from thesis section 5.4: simulations in which one thing at a time is
changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple

import msgspec

from wfrun.engine.model import Catalog
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import LIKENESS
from wfrun.runners.experiments.cells import Cell, Row
from wfrun.runners.experiments.subjects.workloads import LogOfBags, row_of
from wfrun.runners.simulate.bags import simulate_bags
from wfrun.studies.bags.experiments import BASE_LOAD, experiment_of, subject_of

BURSTS = 8
"""Number of different arrival times of bags under the change ``bursts``."""


SPAN_DAYS = 2.6
"""Days of the model in which as many tasks arrive as the full study simulates (`TASKS`)."""


class BagCauseCell(Cell, frozen=True, kw_only=True):
    """One simulated run with one of CHANGES."""

    change: str


class BagCauseRow(Row, frozen=True, kw_only=True):
    """The measures of one simulated run with one of CHANGES."""

    change: str


class BagChange(NamedTuple):
    """One thing that is changed in the model of the study."""

    title: str
    subject: Mapping[str, object] = {}
    """Fields of `Workloads`, with values that replace those of the study."""
    settings: Mapping[str, object] = {}
    """Settings of the run, with values that replace those of the study."""
    bags: Callable[[BotWorkload], BotWorkload] = lambda workload: workload
    sites: Callable[[Catalog], Catalog] = lambda catalog: catalog


def in_bursts(workload: BotWorkload) -> BotWorkload:
    """Divide the span of the workload into BURSTS equal parts, and let the bags of each part arrive
    together at its start."""
    step_s = workload.span_s / BURSTS
    return replace(
        workload,
        bags=tuple(
            replace(bag, arrival_s=min(int(bag.arrival_s / step_s), BURSTS - 1) * step_s)
            for bag in workload.bags
        ),
    )


def whole(workload: BotWorkload) -> BotWorkload:
    """Submit all tasks of a bag at its arrival."""
    return replace(workload, bags=tuple(replace(bag, delay_s=None) for bag in workload.bags))


def shuffled(workload: BotWorkload) -> BotWorkload:
    """Shuffle the run times among the tasks of all bags, so that run times do not depend on the
    size of a bag. Estimates become the run times."""
    runtimes_s = [runtime_s for bag in workload.bags for runtime_s in bag.runtime_s]
    Random(0).shuffle(runtimes_s)
    bags, first = [], 0
    for bag in workload.bags:
        chosen = bag.runtime_s[:0]
        chosen.extend(runtimes_s[first : first + len(bag)])
        first += len(bag)
        bags.append(replace(bag, runtime_s=chosen, estimate_s=chosen))
    return replace(workload, bags=tuple(bags))


def with_common_users(workload: BotWorkload) -> BotWorkload:
    """Give the users of equal rank at all clusters one name, so that they count as one user."""
    return replace(
        workload,
        bags=tuple(
            replace(
                bag,
                user=bag.user.partition(".")[2],
                application=bag.application.partition(".")[2],
            )
            for bag in workload.bags
        ),
    )


def with_equal_speeds(catalog: Catalog) -> Catalog:
    """Give all sites the same speed: the mean speed of their processors."""
    slots = sum(site.slots for site in catalog.sites)
    speed = sum(site.slots * site.speed_ratio for site in catalog.sites) / slots
    sites = (msgspec.structs.replace(site, speed_ratio=speed) for site in catalog.sites)
    return msgspec.structs.replace(catalog, sites=tuple(sites))


CHANGES: dict[str, BagChange] = {
    "base": BagChange("as in the study"),
    "monitoring 0": BagChange("no monitoring period", {"monitoring_s": 0.0}),
    "monitoring 5": BagChange("monitoring period of 5 s", {"monitoring_s": 5.0}),
    "monitoring 30": BagChange("monitoring period of 30 s", {"monitoring_s": 30.0}),
    "likeness": BagChange(
        f"bags of an application alike (correlation {LIKENESS:g})", {"likeness": LIKENESS}
    ),
    "streams": BagChange(
        "streams in proportion to the sizes of the clusters", {"streams": "slots"}
    ),
    "days": BagChange("days as long at all loads", {"day_load": BASE_LOAD}),
    "one day": BagChange(
        "all bags in about a day of the model", {"day_load": BASE_LOAD / SPAN_DAYS}
    ),
    "bursts": BagChange(f"bags arrive at {BURSTS} times", bags=in_bursts),
    "whole": BagChange("all tasks of a bag submitted together", bags=whole),
    "shuffled": BagChange("run times shuffled among all tasks", bags=shuffled),
    "users": BagChange("the same users at all clusters", bags=with_common_users),
    "replicas": BagChange("no replicas", settings={"replicas": 0}),
    "speeds": BagChange("equal speeds", sites=with_equal_speeds),
}
"""The changes by name. ``base`` changes nothing: it is the study's model, with its monitoring
period."""


def simulate(log: LogOfBags | None, cell: BagCauseCell) -> BagCauseRow:
    """Simulate the run of ``cell`` with its change. Raises InvalidError for a workload that cannot
    be read or generated."""
    change = CHANGES[cell.change]
    experiment = experiment_of(log)
    subject = msgspec.structs.replace(subject_of(log), **change.subject)
    plain = Cell(**{name: getattr(cell, name) for name in Cell.__struct_fields__})
    platform = subject.monitored(experiment.platform, plain)
    platform = msgspec.structs.replace(platform, catalog=change.sites(platform.catalog))
    workload = change.bags(subject.workload_of(plain, platform.catalog.sites))
    settings = msgspec.structs.replace(experiment.settings_of(plain), **change.settings)
    run = simulate_bags(workload, platform, cell.architecture, settings)
    return BagCauseRow(**msgspec.structs.asdict(row_of(plain, run)), change=cell.change)
