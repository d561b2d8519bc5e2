"""Workloads of bags as logs, and logs as workloads of bags."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.bot_workload import BotWorkload, SubmittedBag
from wfrun.parsers.generate.bots import at_load
from wfrun.parsers.logs import (
    RUNNABLE_RULES,
    GridFields,
    LoggedJob,
    LogHeader,
    WorkloadLog,
    drop_jobs,
    read_gwf,
    read_swf,
)
from wfrun.parsers.logs.workload_log import COMPLETED

GAP_S = 120.0
_MARK = "BagsOfTasks"
"""Name of the header comment that identifies logs written here. Its text names the field that holds
the number of a job's bag."""
_OF_MARKED = ("Capacity", "Span", "Midnight", "Pace")
"""Names of header comments for the numbers of a workload that cannot be derived from its jobs."""


def log_of(workload: BotWorkload, *, grid: bool) -> WorkloadLog:
    """Turn a workload into a log: for GWF, which holds names, if ``grid``; else for SWF, which
    holds numbers.

    Each task is a sequential job whose requested time is the task's estimate. The group of a job is
    the number of its bag. The cluster is the partition in SWF, and the site in GWF.
    """
    users: dict[str, int] = {}
    applications: dict[str, int] = {}
    jobs: list[LoggedJob] = []
    for index, bag in enumerate(workload.bags, 1):
        first = LoggedJob(
            0,
            bag.arrival_s,
            processors=1,
            requested_processors=1,
            status=COMPLETED,
            user=bag.user if grid else users.setdefault(bag.user, len(users) + 1),
            group=index,
            application=bag.application
            if grid
            else applications.setdefault(bag.application, len(applications) + 1),
            partition=None if grid else bag.cluster + 1,
            site=workload.clusters[bag.cluster] if grid else None,
            grid=GridFields(structure="BoT", structure_id=str(index)) if grid else None,
        )
        delays_s = bag.delay_s or [0.0] * len(bag)
        for runtime_s, estimate_s, delay_s in zip(
            bag.runtime_s, bag.estimate_s, delays_s, strict=True
        ):
            submit_s = bag.arrival_s + delay_s
            jobs.append(
                msgspec.structs.replace(
                    first, submit_s=submit_s, runtime_s=runtime_s, requested_s=estimate_s
                )
            )
    jobs.sort(key=lambda job: job.submit_s)
    jobs = [msgspec.structs.replace(job, id=number) for number, job in enumerate(jobs, 1)]
    return WorkloadLog(workload.source, LogHeader(tuple(_comments(workload))), tuple(jobs))


def _comments(workload: BotWorkload) -> Iterator[str]:
    yield f" Note: Bags of tasks, {workload.source}"
    yield f" {_MARK}: Group"
    for name, field in zip(_OF_MARKED, ("capacity", "span_s", "midnight_s", "pace"), strict=True):
        yield f" {name}: {getattr(workload, field)!r}"
    for index, name in enumerate(workload.clusters, 1):
        yield f" Partition: {index} {name}"
    for remark in workload.remarks:
        yield f" Note: {remark}"


def bags_of_log(
    path: str | Path, *, gap_s: float = GAP_S, skip_bad_lines: bool = False
) -> BotWorkload:
    """Read the bags in a log: GWF if the file's name contains ``.gwf``, else SWF.

    If the log itself names bags (GWF's JobStructure BoT), these are taken. Logs of generated
    workloads name their bags, too, and read back unchanged. In other logs consecutive sequential
    jobs with the same user, application and cluster (the last two as far as known) form a bag while
    there are at most ``gap_s`` seconds between one submission and the next (A. Iosup et al., "The
    characteristics and performance of groups of jobs in grids", Euro-Par 2007, with 120 s). A job
    whose user is unknown is a bag of its own. A bag arrives with its first job, and each task is
    submitted when its job was.

    In logs that were not generated here, requested times are limits rather than estimates, so run
    times serve as estimates. Jobs without a run time and parallel jobs are dropped and counted in
    ``remarks``; run times below 1 s become 1 s. Raises InvalidError for a log that cannot be read,
    or has no bags.
    """
    source = Path(path)
    log = (read_gwf if ".gwf" in source.suffixes else read_swf)(
        source, skip_bad_lines=skip_bad_lines
    )
    marked = log.header.text(_MARK) is not None
    rules = {**RUNNABLE_RULES, "parallel, not a task of a bag": lambda job: job.size != 1}
    jobs, dropped = drop_jobs(log.jobs, rules)
    if not jobs:
        raise InvalidError(
            f"none of the {len(log.jobs)} jobs of the log is sequential and has a run time",
            source=str(path),
            hint="What was dropped: " + ("; ".join(dropped) or "nothing") + ".",
        )
    groups = _grouped(jobs, _marked_key if marked else _bag_key, gap_s)
    clusters = _Clusters(source, log.header if marked else LogHeader())
    bags = tuple(_bag(group, clusters.of(group[0]), estimated=marked) for group in groups)
    remarks = [str(remark) for remark in log.dropped]
    remarks += [f"{count} of {len(log.jobs)} jobs dropped: {why}" for why, count in dropped.items()]
    workload = BotWorkload(
        str(path),
        clusters.names,
        bags,
        float(log.processors or 0),
        bags[-1].arrival_s - bags[0].arrival_s,
        _midnight_s(log.header),
        remarks=tuple(remarks),
    )
    return _restored(workload, log.header) if marked else workload


class _Key(NamedTuple):
    of: object
    """A value that the jobs of one bag have in common."""
    is_bag: bool
    """Whether jobs with this value are one bag whatever the time between them."""


def _marked_key(job: LoggedJob) -> _Key:
    return _Key(job.group, True)


def _bag_key(job: LoggedJob) -> _Key:
    grid = job.grid
    if grid is not None and (grid.structure or "").lower() == "bot" and grid.structure_id:
        return _Key((job.site, job.user, grid.structure_id), True)
    if job.user is None:
        return _Key((job.id,), False)
    return _Key((job.site, job.user, job.application), False)


def _grouped(
    jobs: Iterable[LoggedJob], key_of: Callable[[LoggedJob], _Key], gap_s: float
) -> list[list[LoggedJob]]:
    """Group the jobs by bag, in the order of the bags' first jobs."""
    groups: list[list[LoggedJob]] = []
    latest: dict[_Key, list[LoggedJob]] = {}
    for job in jobs:
        key = key_of(job)
        group = latest.get(key)
        if group is None or not (key.is_bag or job.submit_s - group[-1].submit_s <= gap_s):
            group = latest[key] = []
            groups.append(group)
        group.append(job)
    return groups


class _Clusters:
    """The clusters in the order of their first jobs, or as a header lists them."""

    def __init__(self, source: Path, header: LogHeader) -> None:
        lines = (text.split(maxsplit=1) for text in header.values("Partition"))
        self._of_partition = {int(line[0]): line[1] for line in lines if len(line) == 2}
        self._known = {name: index for index, name in enumerate(self._of_partition.values())}
        self._log = source.name.removesuffix(".gz").removesuffix(".swf").removesuffix(".gwf")

    def of(self, job: LoggedJob) -> int:
        partition = job.partition if isinstance(job.partition, int) else 0
        name = job.site or self._of_partition.get(partition, self._log)
        return self._known.setdefault(name, len(self._known))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)


def _bag(jobs: Sequence[LoggedJob], cluster: int, *, estimated: bool) -> SubmittedBag:
    first = jobs[0]
    runtimes = array("d", (max(job.runtime_s or 0.0, 1.0) for job in jobs))
    estimates = runtimes
    if estimated:
        estimates = array("d", (job.requested_s or 1.0 for job in jobs))
    user = "unknown" if first.user is None else str(first.user)
    application = user if first.application is None else f"{user}.{first.application}"
    if estimated:
        application = str(first.application)
    delays = array("d", [job.submit_s - first.submit_s for job in jobs])
    return SubmittedBag(
        first.submit_s,
        cluster,
        user,
        application,
        runtimes,
        estimates,
        delays if any(delays) else None,
    )


def _restored(workload: BotWorkload, header: LogHeader) -> BotWorkload:
    numbers = []
    for name in _OF_MARKED:
        try:
            numbers.append(float(header.text(name) or ""))
        except ValueError:
            raise InvalidError(
                f"its header says {_MARK}, but has no number {name}",
                source=workload.source,
                hint=f"Generate the log again, or take the line {_MARK} out.",
            ) from None
    capacity, span_s, midnight_s, pace = numbers
    return replace(workload, capacity=capacity, span_s=span_s, midnight_s=midnight_s, pace=pace)


def _midnight_s(header: LogHeader) -> float:
    """Seconds between a local midnight and the beginning of the log; 0 where it states no time. A
    log that states no time zone, or an unknown one, is in UTC."""
    if header.unix_start_s is None:
        return 0.0
    zone: tzinfo = timezone.utc
    with suppress(OSError, ValueError, LookupError, OverflowError):
        if header.zone is not None:
            zone = ZoneInfo(header.zone)
        elif header.zone_offset_s is not None:
            zone = timezone(timedelta(seconds=header.zone_offset_s))
    start = datetime.fromtimestamp(header.unix_start_s, zone)
    return start.hour * 3600.0 + start.minute * 60 + start.second


def replay(
    workload: BotWorkload,
    sites: Sequence[SiteSpec],
    *,
    load: float | None = None,
    tasks: int | None = None,
    seed: int = 0,
) -> BotWorkload:
    """Distribute the bags of a log over the clusters ``sites``, each of which receives a stream of
    its own.

    If ``sites`` has all clusters of the log, by name, each bag stays at its cluster. Otherwise the
    log is rotated by a random number of whole days and cut into equal parts, one per cluster, which
    begin at the same time. Parts of a day or more are cut to whole days, so that they begin at the
    same time of day; bags behind the last part are dropped. Equal users in different parts become
    different users.

    With ``tasks``, only the first whole bags that have at least this number of tasks are taken.
    With a ``load``, times between arrivals are multiplied by one factor (`at_load`). Raises
    InvalidError if no bag is left.
    """
    names = tuple(site.name for site in sites)
    if set(workload.clusters) <= set(names):
        places = [names.index(name) for name in workload.clusters]
        bags = [replace(bag, cluster=places[bag.cluster]) for bag in workload.bags]
    else:
        bags = _parted(workload, names, Random(f"{seed}/replay"))
    if tasks is not None:
        bags = _whole(bags, tasks)
    if not bags:
        raise InvalidError(
            "no bag is left for these clusters", source=workload.source, hint="Take a longer log."
        )
    made = replace(
        workload,
        clusters=names,
        bags=tuple(bags),
        capacity=sum(site.slots * site.speed_ratio for site in sites),
        span_s=bags[-1].arrival_s - bags[0].arrival_s or workload.span_s,
    )
    return made if load is None else at_load(made, load)


def _parted(workload: BotWorkload, names: Sequence[str], rng: Random) -> list[SubmittedBag]:
    first_s = workload.bags[0].arrival_s
    length_s = max(workload.span_s, 1.0)
    part_s = length_s / len(names)
    if part_s >= 86400:
        part_s -= part_s % 86400
    start_s = rng.random() * length_s
    start_s -= start_s % 86400
    bags = []
    for bag in workload.bags:
        since_s = (bag.arrival_s - first_s - start_s) % length_s
        part = int(since_s / part_s)
        if part < len(names):
            name = names[part]
            bags.append(
                replace(
                    bag,
                    arrival_s=since_s - part * part_s + first_s,
                    cluster=part,
                    user=f"{name}.{bag.user}",
                    application=f"{name}.{bag.application}",
                )
            )
    return sorted(bags, key=lambda bag: bag.arrival_s)


def _whole(bags: Iterable[SubmittedBag], tasks: int) -> list[SubmittedBag]:
    chosen, left = [], tasks
    for bag in bags:
        if left <= 0:
            break
        chosen.append(bag)
        left -= len(bag)
    return chosen
