"""``wfrun simulate LOG``: the queue of one cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.table import Table

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import message_block
from wfrun.parsers.logs import LoggedJob, read_log
from wfrun.runners.display.console import make_console
from wfrun.runners.display.durations import duration
from wfrun.runners.display.parquet import check_parquet, write_parquet
from wfrun.runners.display.record_table import write_csv
from wfrun.runners.metrics.jobs import THRESHOLD_S
from wfrun.runners.metrics.samples import summarize
from wfrun.sites.simulated.queues import (
    Schedule,
    SimulatedJob,
    has_request,
    make_lrm,
    simulate_batch,
    simulated_jobs,
    sizes_from,
)


class JobRow(msgspec.Struct, frozen=True):
    """A simulated job, as a line of the ``--output`` file. Times are in seconds since the start of
    the log."""

    job: int
    processors: int
    submit_s: float
    wait_s: float
    start_s: float
    end_s: float
    killed: bool
    """Whether the job was killed at the end of its requested time."""


def simulate_queue(
    path: Path,
    lrm: str,
    processors: int | None,
    *,
    kill_overruns: bool,
    skip_bad_lines: bool,
    output: Path | None = None,
) -> None:
    """Simulate the jobs of a log on a cluster of their own, and print waits, slowdowns and
    utilization. ``output`` gets a line for each job (`JobRow`), as CSV, or Parquet by its suffix.

    Jobs larger than the cluster are left out. A job without a requested time requests its run time.
    With ``skip_bad_lines``, lines that cannot be read are dropped. Warnings state how many jobs and
    lines are affected. Raises InvalidError if the log cannot be read, if the size of the cluster is
    unknown, or if no job fits.
    """
    make_lrm(lrm, 1)
    is_parquet = output is not None and output.suffix.lower() == ".parquet"
    if output is not None and is_parquet:
        check_parquet(output)
    jobs, remarks, of_log = read_log(path, skip_bad_lines=skip_bad_lines)
    size = processors or of_log
    if size is None:
        raise InvalidError(
            "the log does not give the number of processors of the cluster",
            source=str(path),
            hint="give it with --processors N",
        )
    fitting = _fitting(path, jobs, size, remarks)
    for remark in remarks:
        click.echo(message_block(f"warning: {remark}"), err=True)
    batch = simulated_jobs(fitting)
    schedule = simulate_batch(batch, size, lrm, kill_overruns=kill_overruns)
    killed = sum(1 for job in batch if kill_overruns and job.runtime_s > job.requested_s)
    make_console().print(batch_table(fitting, batch, schedule, size, lrm, killed))
    if output is not None:
        rows = _rows(fitting, batch, schedule, kill_overruns=kill_overruns)
        if is_parquet:
            write_parquet(rows, {}, output)
        else:
            write_csv(output, JobRow.__struct_fields__, map(msgspec.structs.astuple, rows))


def _rows(
    jobs: Sequence[LoggedJob],
    batch: Sequence[SimulatedJob],
    schedule: Schedule,
    *,
    kill_overruns: bool,
) -> list[JobRow]:
    rows = zip(jobs, batch, schedule.start_s, schedule.end_s, strict=True)
    return [
        JobRow(
            logged.id, job.cores, job.submit_s, start_s - job.submit_s, start_s, end_s,
            kill_overruns and job.runtime_s > job.requested_s,
        )
        for logged, job, start_s, end_s in rows
    ]  # fmt: skip


def _fitting(
    path: Path, jobs: Sequence[LoggedJob], processors: int, remarks: list[str]
) -> list[LoggedJob]:
    """The jobs that fit the cluster. Adds ``remarks`` on jobs that do not fit and on jobs without a
    requested time. Raises InvalidError if no job fits."""
    fitting = [job for job in jobs if (job.size or 0) <= processors]
    larger = len(jobs) - len(fitting)
    if not fitting:
        raise InvalidError(
            f"all {larger} jobs are larger than the cluster of {processors} processors",
            source=str(path),
            hint="give the size of the cluster with --processors N",
        )
    if larger:
        remarks.append(f"{path}: {_jobs(larger)} dropped: larger than the {processors} processors")
    without = sum(1 for job in fitting if not has_request(job))
    if without:
        remarks.append(f"{path}: {_jobs(without)} without requested time: run time used instead")
    return fitting


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def batch_table(
    logged: Sequence[LoggedJob],
    batch: Sequence[SimulatedJob],
    schedule: Schedule,
    processors: int,
    lrm: str,
    killed: int,
) -> Table:
    """Table of waits and bounded slowdowns of the jobs, and of the utilization from the first
    submission to the last end."""
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
        ("processors of a job", sizes_from(logged)),
        ("killed at their request", f"{killed:,}"),
        ("processors", f"{processors:,}"),
        ("utilization", f"{work / (span_s * processors):.1%}"),
        ("mean wait", f"{wait.mean:,.0f} s"),
        ("median wait", f"{wait.median:,.0f} s"),
        ("longest wait", f"{wait.maximum:,.0f} s"),
        ("mean bounded slowdown", f"{slow.mean:,.2f} (threshold {THRESHOLD_S:.0f} s)"),
        ("makespan", f"{span_s:,.0f} s ({duration(span_s)})"),
    ]
    load = _endless_load(batch, waits, work / processors)
    if load is not None:
        text = f"{load:.2f} of the processors while jobs arrive: the queue grows as long as they do"
        rows.insert(6, ("offered load", text))
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _endless_load(
    batch: Sequence[SimulatedJob], waits: Sequence[float], work_s: float
) -> float | None:
    """Return the load if the queue grows as long as jobs arrive, so that the waits depend mainly on
    the length of the log; None if it does not grow. ``work_s`` is the time in seconds that all
    processors together need for all jobs.

    The queue grows if more work arrives than the processors can do, and if the mean wait rises from
    each third of the jobs to the next. The load alone does not show it: a few long jobs make a high
    load, but leave processors free.
    """
    arriving_s = max(job.submit_s for job in batch) - min(job.submit_s for job in batch)
    if work_s <= arriving_s or not arriving_s or len(batch) < 3:
        return None
    order = sorted(range(len(batch)), key=lambda i: batch[i].submit_s)
    third = len(order) // 3
    parts = (order[:third], order[third:-third], order[-third:])
    first, second, last = (sum(waits[i] for i in part) / len(part) for part in parts)
    return work_s / arriving_s if first < second < last else None
