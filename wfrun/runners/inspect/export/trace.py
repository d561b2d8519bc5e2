"""The attempts of a run as a table, or as a workload log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import name_line
from wfrun.parsers.logs.gwf_columns import name_of
from wfrun.parsers.logs.workload_log import (
    CANCELLED,
    COMPLETED,
    FAILED,
    GridFields,
    LoggedJob,
    LogHeader,
    WorkloadLog,
)
from wfrun.parsers.logs.write_gwf import write_gwf
from wfrun.parsers.logs.write_swf import write_swf
from wfrun.runners.display.record_table import write_csv
from wfrun.runners.inspect.export.attempts import SUPERSEDED, AttemptRecord, RunAttempts
from wfrun.runners.inspect.tables.results import Row, owner_of, without_formulas

COLUMNS = (
    "run", "workflow", "task", "task_id", "type", "attempt", "replica", "site", "host", "launcher",
    "cores", "state", "placed_s", "ready_s", "started_s", "ended_s", "run_time_s", "cpu_s",
    "peak_memory_bytes", "exit_code", "signal", "message",
)  # fmt: skip
_MAX_MESSAGE = 200
"""Maximum number of characters of a message in a cell. The last line of the message is used,
because programs end with their errors."""
_NOT_OF_WORDS = re.compile(r"[^\w.-]+", re.ASCII)
_STATUS = {"done": COMPLETED, "cancelled": CANCELLED, SUPERSEDED: CANCELLED}


def export_trace(read: RunAttempts, path: Path) -> list[str]:
    """Write the attempts of a run to a file, as CSV, GWF or SWF according to its suffix. Returns
    remarks on what the format cannot hold. Raises InvalidError for another suffix, and when the
    file cannot be written."""
    kind = path.suffix.lower()
    if kind == ".csv":
        _write_csv(read, path)
        return []
    if kind not in (".gwf", ".swf"):
        raise InvalidError(
            f"{path} cannot be written: its suffix names no known format of traces",
            hint="name the file .csv, .gwf or .swf",
        )
    ran = sorted(
        (a for a in read.attempts if a.runtime_s is not None), key=lambda a: _submit_s(read, a)
    )
    if kind == ".gwf":
        write_gwf(_log(read, path, tuple(_grid_jobs(read, ran)), ()), path)
    else:
        sites = [s.spec for s in read.state.sites]
        partitions = [f"Partition: {n} {name_line(s.name)}" for n, s in enumerate(sites, 1)]
        write_swf(_log(read, path, tuple(_jobs(read, ran)), partitions), path)
    left = len(read.attempts) - len(ran)
    return [f"attempts that did not run, or have not ended, left out: {left:,}"] if left else []


# CSV


def _write_csv(read: RunAttempts, path: Path) -> None:
    name = name_line(read.run.path.absolute().name)
    rows = (without_formulas([name, *_row(read, each)]) for each in read.attempts)
    write_csv(path, COLUMNS, rows)


def _row(read: RunAttempts, a: AttemptRecord) -> Row:
    state, outcome = read.state, a.outcome
    workflow = state.workflows[a.workflow].workflow
    task = workflow.tasks[a.task]
    message = "" if outcome is None else (outcome.message or "").strip().rpartition("\n")[2]
    times = (a.placed_s, a.ready_s, a.started_s, a.ended_s)
    return [
        name_line(workflow.name),
        a.task,
        name_line(task.id),
        name_line(task.name),
        a.number,
        int(a.is_replica),
        name_line(state.sites[a.site].spec.name),
        name_line(a.host),
        a.launcher,
        a.cores,
        a.state,
        *(None if at_s is None else round(at_s - state.started_s, 6) for at_s in times),
        None if a.runtime_s is None else round(a.runtime_s, 6),
        None if outcome is None else outcome.cpu_s,
        None if outcome is None else outcome.peak_memory_bytes,
        None if outcome is None else outcome.exit_code,
        None if outcome is None else outcome.signal,
        name_line(message, _MAX_MESSAGE),
    ]


# Workload logs


def _log(
    read: RunAttempts, path: Path, jobs: tuple[LoggedJob, ...], more: Sequence[str]
) -> WorkloadLog:
    state = read.state
    comments = (
        f"Version: {2.2 if path.suffix.lower() == '.swf' else 1.0}",
        f"Computer: the sites of a run of wfrun {read.wfrun_version}",
        f"MaxJobs: {len(jobs)}",
        f"MaxProcs: {sum(site.spec.slots for site in state.sites)}",
        f"UnixStartTime: {int(state.started_s)}",
        f"Note: run {name_line(read.run.path.absolute().name)}, {read.word}; a job is an attempt",
        *more,
    )
    return WorkloadLog(str(path), LogHeader(tuple(f" {line}" for line in comments)), jobs)


def _submit_s(read: RunAttempts, a: AttemptRecord) -> float:
    """Time at which the inputs of an attempt had arrived, so that it could start, in seconds since
    the start of the run."""
    at_s = a.placed_s if a.ready_s is None else a.ready_s
    return max(0.0, round(at_s - read.state.started_s, 3))


def _jobs(read: RunAttempts, ran: list[AttemptRecord]) -> Iterator[LoggedJob]:
    """The attempts as jobs of SWF, which has numbers for users, programs and sites."""
    owner = owner_of(read.run) or ""
    users: dict[str, int] = {}
    types: dict[str, int] = {}
    for number, a in enumerate(ran, 1):
        w = read.state.workflows[a.workflow].workflow
        yield _job(
            read, a, number,
            user=users.setdefault(w.owner or owner, len(users) + 1),
            application=types.setdefault(w.tasks[a.task].name, len(types) + 1),
            partition=a.site + 1,
        )  # fmt: skip


def _grid_jobs(read: RunAttempts, ran: list[AttemptRecord]) -> Iterator[LoggedJob]:
    """The attempts as jobs of GWF, which has names for sites, and for each attempt the attempts on
    which it depended."""
    owner = owner_of(read.run) or ""
    done: dict[tuple[int, int], int] = {}
    for number, a in enumerate(ran, 1):
        if a.state == "done":
            done[a.workflow, a.task] = number
    for number, a in enumerate(ran, 1):
        w = read.state.workflows[a.workflow].workflow
        site = _word(read.state.sites[a.site].spec.name)
        parents = (done.get((a.workflow, parent)) for parent in w.parents[a.task])
        grid = GridFields(
            run_site=site,
            structure=None if w.bag is None else "BoT",
            structure_id=None if w.bag is None else str(a.workflow),
            workflow=a.workflow,
            parents=tuple(sorted(job for job in parents if job is not None)),
        )
        user, application = _word(w.owner or owner), _word(w.tasks[a.task].name)
        yield _job(
            read, a, number, user=user and name_of(user), site=site, grid=grid,
            application=application and name_of(application),
        )  # fmt: skip


def _word(name: str) -> str | None:
    """A name as one word, with ``_`` for other characters, so that readers of the format do not
    take it for several fields or an option; None if no character is left."""
    return _NOT_OF_WORDS.sub("_", name).lstrip("-")[:_MAX_MESSAGE] or None


def _job(read: RunAttempts, a: AttemptRecord, number: int, **fields: object) -> LoggedJob:
    submit_s, outcome = _submit_s(read, a), a.outcome
    asked = read.state.workflows[a.workflow].asked(a.task)
    start_s = submit_s if a.started_s is None else a.started_s - read.state.started_s
    cpu_s = None if outcome is None else outcome.cpu_s
    memory = None if outcome is None else outcome.peak_memory_bytes
    return LoggedJob(
        id=number,
        submit_s=submit_s,
        wait_s=round(max(0.0, start_s - submit_s), 3),
        runtime_s=None if a.runtime_s is None else round(a.runtime_s, 3),
        processors=a.cores,
        cpu_s=None if cpu_s is None else round(cpu_s / a.cores, 3),
        memory_kb=None if memory is None else round(memory / 1024 / a.cores, 1),
        requested_processors=a.cores,
        requested_s=asked.walltime_s,
        requested_memory_kb=round(asked.memory_bytes * asked.nodes / 1024 / a.cores, 1) or None,
        status=_STATUS.get(a.state, FAILED),
        **fields,  # type: ignore[arg-type]
    )
