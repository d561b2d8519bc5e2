"""The seven traces of RR-7365 (section 4.2): six months of Grid'5000, and six months of CTC, SDSC
and Grid'5000 Bordeaux together.

The traces of Grid'5000 are not public here. They are generated, with the numbers of jobs of Table
1, by the model of bursts of similar jobs that the study of predictions uses. Logs of CTC and SDSC
are taken from the corpus; without them they are generated, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from wfrun.engine.model import SiteSpec
from wfrun.parsers.generate.grid_log import GridLogModel, generate_grid_log
from wfrun.parsers.logs import LoggedJob, read_swf

DAY_S = 86_400.0
MONTHS: dict[str, tuple[int, int, int]] = {
    "January": (13084, 583, 488),
    "February": (5822, 2695, 1123),
    "March": (11673, 8315, 949),
    "April": (33250, 1330, 1461),
    "May": (6765, 2179, 1573),
    "June": (4094, 3540, 1548),
}
"""Table 1: numbers of jobs at Bordeaux, Lyon and Toulouse."""
MONTH_DAYS = {"January": 31, "February": 29, "March": 31, "April": 30, "May": 31, "June": 30}
"""Lengths of the months of 2008."""
SIX_MONTHS_DAYS = sum(MONTH_DAYS.values())
"""182 days. The first 182 days of the log of CTC have 42,837 jobs; the paper states 42,873 (section
4.2)."""
PWA = "PWA-G5K"
TRACES = (*MONTHS, PWA)

GRID5000 = (("bordeaux", 640, 1.0), ("lyon", 270, 1.2), ("toulouse", 434, 1.4))
PWA_SITES = (("bordeaux", 640, 1.0), ("ctc", 430, 1.2), ("sdsc", 128, 1.4))
"""(name, processors, speed if heterogeneous) of section 4.3.1."""
LOGS = {"ctc": ("CTC-SP2-1996", 42873), "sdsc": ("SDSC-SP2-1998", 15615)}
"""By site: the beginning of the log's name in the corpus, and the number of jobs in the paper."""

LOAD = 0.2
"""Work of the generated jobs relative to the capacity of their clusters in that time. The paper
does not state it. The thesis of the other studies states 10% to 30% for research grids (section
7.1)."""
SHORTEST_SHARE = 0.01
"""Minimum share of its walltime that a generated job uses. The share of an application is the
square of a uniform number, so that its deciles are near those of CTC-SP2 and SDSC-SP2."""
PARALLEL = 0.45
"""Share of the applications of Grid'5000 that are parallel, as in the study of predictions."""
MEAN_CORES = (1 - PARALLEL) + PARALLEL * 6.7
"""Expected processors of a generated job. Parallel jobs of the model have 6.7 processors on
average."""


class TracedJob(NamedTuple):
    """A rigid job of a trace."""

    submit_s: float
    site: int
    cores: int
    walltime_s: float
    runtime_s: float
    """Run time, at most the walltime, at which the batch system kills the job."""


def sites_of(trace: str, *, heterogeneous: bool) -> tuple[SiteSpec, ...]:
    """The three clusters of a trace."""
    rows = PWA_SITES if trace == PWA else GRID5000
    return tuple(
        SiteSpec(name, slots, speed_ratio=speed if heterogeneous else 1.0)
        for name, slots, speed in rows
    )


def days_of(trace: str) -> int:
    """The length of a trace in days."""
    return MONTH_DAYS.get(trace, SIX_MONTHS_DAYS)


@lru_cache(maxsize=2)
def trace_of(
    trace: str, logs: tuple[Path | None, Path | None], days: float, load: float = LOAD
) -> tuple[TracedJob, ...]:
    """The jobs of a trace in its first ``days``, in order of submission. ``logs`` are the logs of
    CTC and SDSC; a log that is None is generated. ``load`` is the load of generated logs."""
    days = min(days, days_of(trace))
    if trace == PWA:
        ctc, sdsc = logs
        every = [_bordeaux(load), _six_months("ctc", ctc, load), _six_months("sdsc", sdsc, load)]
        real = {site for site, path in enumerate(logs, 1) if path is not None}
    else:
        every, real = list(_month(trace, load)), set()
    sites = PWA_SITES if trace == PWA else GRID5000
    logged: list[TracedJob] = []
    generated: list[TracedJob] = []
    for site, log in enumerate(every):
        jobs = _traced(log, site, sites[site][1], days * DAY_S)
        (logged if site in real else generated).extend(jobs)
    slots = sum(row[1] for site, row in enumerate(sites) if site not in real)
    return tuple(sorted(logged + _scaled(generated, load * slots * days * DAY_S)))


def _scaled(jobs: Sequence[TracedJob], work_s: float) -> list[TracedJob]:
    """The jobs, with times scaled such that their total work is ``work_s`` processor seconds.
    Without scaling, bursts make the load of a few days arbitrary."""
    factor = work_s / max(1.0, sum(job.cores * job.runtime_s for job in jobs))
    return [
        job._replace(walltime_s=max(1.0, factor * job.walltime_s), runtime_s=factor * job.runtime_s)
        for job in jobs
    ]


def _traced(log: Sequence[LoggedJob], site: int, slots: int, until_s: float) -> list[TracedJob]:
    """The jobs of a log that ran and fit the site. Times are those since the first submission."""
    found = []
    first_s = min(job.submit_s for job in log)
    for job in log:
        cores, runtime_s = job.size, job.runtime_s
        if not cores or cores > slots or runtime_s is None or job.submit_s - first_s > until_s:
            continue
        walltime_s = max(1.0, job.requested_s or runtime_s)
        found.append(
            TracedJob(job.submit_s - first_s, site, cores, walltime_s, min(runtime_s, walltime_s))
        )
    return found


def _month(trace: str, load: float) -> tuple[list[LoggedJob], ...]:
    """The generated logs of the three clusters in one month. Their mean run time is chosen such
    that they have the load."""
    counts, span_s = MONTHS[trace], MONTH_DAYS[trace] * DAY_S
    slots = sum(row[1] for row in GRID5000)
    mean_s = load * slots * span_s / sum(counts) / MEAN_CORES
    return tuple(
        _generated(count, span_s, mean_s, f"{trace}/{row[0]}")
        for count, row in zip(counts, GRID5000, strict=True)
    )


def _bordeaux(load: float) -> list[LoggedJob]:
    """Six months of Bordeaux, one after the other. The load of a month depends on the number of its
    jobs at all three clusters."""
    found: list[LoggedJob] = []
    offset_s = 0.0
    for trace in MONTHS:
        found += [
            LoggedJob(
                job.id,
                job.submit_s + offset_s,
                runtime_s=job.runtime_s,
                processors=job.processors,
                requested_processors=job.processors,
                requested_s=job.requested_s,
            )
            for job in _month(trace, load)[0]
        ]
        offset_s += MONTH_DAYS[trace] * DAY_S
    return found


def log_of(site: str, corpus: Path | None) -> Path | None:
    """The log of CTC or SDSC in a folder; None if the folder does not have it."""
    paths = [] if corpus is None else sorted(corpus.rglob(f"{LOGS[site][0]}*.swf*"))
    return paths[0] if paths else None


def _six_months(site: str, path: Path | None, load: float) -> list[LoggedJob]:
    """The first six months of a log, else a generated one with the paper's number of jobs. Raises
    InvalidError for a log that cannot be read."""
    count = LOGS[site][1]
    if path is not None:
        log = read_swf(path)
        first_s = log.jobs[0].submit_s
        return [job for job in log.jobs if job.submit_s - first_s <= SIX_MONTHS_DAYS * DAY_S]
    slots = next(row[1] for row in PWA_SITES if row[0] == site)
    span_s = SIX_MONTHS_DAYS * DAY_S
    mean_s = load * slots * span_s / count / MEAN_CORES
    return _generated(count, span_s, mean_s, site)


def _generated(count: int, span_s: float, mean_s: float, name: str) -> list[LoggedJob]:
    """A generated log with walltimes. Each application uses its own share of its walltime."""
    model = GridLogModel(
        jobs=count,
        span_s=span_s,
        mean_runtime_s=mean_s,
        sigma=1.8,
        spread=0.3,
        longest_s=20 * mean_s,
        users=40,
        parallel=PARALLEL,
    )
    random = Random(f"walltimes/{name}")
    shares: dict[int, float] = {}
    found = []
    for job in generate_grid_log(model, sum(map(ord, name))):
        assert job.runtime_s is not None
        assert isinstance(job.application, int)
        share = shares.setdefault(job.application, max(SHORTEST_SHARE, random.random() ** 2))
        found.append(
            LoggedJob(
                job.id,
                job.submit_s,
                runtime_s=job.runtime_s,
                processors=job.processors,
                requested_processors=job.processors,
                requested_s=job.runtime_s / share,
            )
        )
    return found
