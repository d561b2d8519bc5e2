"""``wfrun simulate LOG``: the queue of one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table

from wfrun.engine.errors import InvalidError
from wfrun.runners.display.report import duration, make_console
from wfrun.runners.experiments.metrics.jobs import THRESHOLD_S
from wfrun.runners.experiments.metrics.samples import summarize
from wfrun.runners.simulate.background import read_log
from wfrun.sites.simulated.queues import (
    Schedule,
    SimulatedJob,
    has_request,
    make_lrm,
    simulate_batch,
    simulated_jobs,
)


def simulate_queue(
    path: Path, lrm: str, processors: int | None, *, kill_overruns: bool, skip_bad_lines: bool
) -> None:
    """Simulate the jobs of a log on a cluster of their own, and print how they fared.

    Jobs that are larger than the cluster are left out and counted. A job that made no request is
    taken to have asked for its run time. With ``skip_bad_lines`` lines that cannot be read are
    dropped and counted too. Raises InvalidError.
    """
    make_lrm(lrm, 1)
    jobs, told, of_log = read_log(path, skip_bad_lines=skip_bad_lines)
    size = processors or of_log
    if size is None:
        raise InvalidError(
            "the log does not say how many processors the cluster has",
            source=str(path),
            hint="say it with --processors N",
        )
    fitting = [job for job in jobs if (job.size or 0) <= size]
    larger = len(jobs) - len(fitting)
    if not fitting:
        raise InvalidError(
            f"all {larger} jobs are larger than the cluster of {size} processors",
            source=str(path),
            hint="say with --processors N how large it is",
        )
    if larger:
        told.append(f"{path}: {_jobs(larger)} dropped: larger than the {size} processors")
    unasked = sum(1 for job in fitting if not has_request(job))
    if unasked:
        told.append(f"{path}: {_jobs(unasked)} asked for no time; their run time stands in for it")
    for line in told:
        click.echo(f"warning: {line}", err=True)
    batch = simulated_jobs(fitting, allocated=True)
    schedule = simulate_batch(batch, size, lrm, kill_overruns=kill_overruns)
    killed = sum(1 for job in batch if kill_overruns and job.runtime_s > job.requested_s)
    make_console().print(batch_table(batch, schedule, size, lrm, killed))


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def batch_table(
    batch: Sequence[SimulatedJob], schedule: Schedule, processors: int, lrm: str, killed: int
) -> Table:
    """How the jobs fared: waits, bounded slowdown, utilization from the first submission to the
    last end."""
    waits = [s - job.submit_s for s, job in zip(schedule.start_s, batch, strict=True)]
    lengths = [e - s for s, e in zip(schedule.start_s, schedule.end_s, strict=True)]
    slowdowns = [
        max(1.0, (wait + length) / max(length, THRESHOLD_S))
        for wait, length in zip(waits, lengths, strict=True)
    ]
    span_s = max(schedule.end_s) - min(job.submit_s for job in batch)
    work = sum(job.cores * length for job, length in zip(batch, lengths, strict=True))
    wait, slow = summarize(waits), summarize(slowdowns)
    rows = [
        ("queue", lrm),
        ("jobs", f"{len(batch):,}"),
        ("killed at their request", f"{killed:,}"),
        ("processors", f"{processors:,}"),
        ("utilization", f"{work / (span_s * processors):.1%}"),
        ("mean wait", f"{wait.mean:,.0f} s"),
        ("median wait", f"{wait.median:,.0f} s"),
        ("longest wait", f"{wait.maximum:,.0f} s"),
        ("mean bounded slowdown", f"{slow.mean:,.2f} (threshold {THRESHOLD_S:.0f} s)"),
        ("makespan", f"{span_s:,.0f} s ({duration(span_s)})"),
    ]
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*row)
    return table
