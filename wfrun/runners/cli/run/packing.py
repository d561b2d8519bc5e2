"""``wfrun jobs --pack``: plans, simulates or runs jobs that are packed into one allocation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from wfrun.runners.cli.exit_statuses import DONE, FAILED

if TYPE_CHECKING:
    from wfrun.engine.jobs.packing import PackedJob, PackedSchedule
    from wfrun.engine.settings import Settings
    from wfrun.runners.simulate.packed.compare import PackingComparison

NAMES = {
    "demt": "DEMT", "gang": "Gang", "sequential": "Sequential", "list": "List (shelves)",
    "lptf": "List (weighted LPTF)", "saf": "List (SAF)",
}  # fmt: skip


def pack(
    documents: Sequence[Path], options: Mapping[str, Any], settings: Settings,
    warn: Callable[[Sequence[str]], None],
) -> None:  # fmt: skip
    """Carry out ``wfrun jobs --pack``, and exit the process."""
    from wfrun.parsers.jobs.log_jobs import is_log

    _check(documents, options, settings)
    if is_log(documents[0]):
        _arrivals(documents[0], options, settings, warn)
    from wfrun.engine.model import Catalog, SiteSpec
    from wfrun.runners.run.prepare.pack_jobs import (
        PackedAllocation,
        PackedPlan,
        allocations,
        choose_allocation,
        packed_catalog,
        packed_jobs,
        packed_workflow,
        plan_packing,
    )
    from wfrun.runners.run.prepare.prepare import prepare, this_machine
    from wfrun.runners.run.prepare.prepare_jobs import read_job_documents
    from wfrun.sites.catalog import read_catalog

    simulated = options["simulate"]
    [read] = read_job_documents(documents, together=True).read
    if options["sites"]:
        catalog = read_catalog(options["sites"])
    elif simulated and settings.pack_processors is not None:
        catalog = Catalog((SiteSpec("allocation", slots=settings.pack_processors),))
    else:
        catalog = this_machine()

    def plan(offer: PackedAllocation) -> PackedPlan:
        jobs = packed_jobs(read, offer.processors, offer.per_node)
        assert settings.pack is not None
        return plan_packing(jobs, offer.processors, settings.pack, settings.seed)

    offer, found = choose_allocation(allocations(catalog, settings.pack_processors), plan)
    end_s = found.schedule.makespan_s / offer.site.speed_ratio
    settings = replace(settings, pack_processors=offer.processors)
    catalog = packed_catalog(catalog, offer, end_s)
    read = replace(read, workflow=packed_workflow(read.workflow, found))
    prepared = prepare(
        [read], catalog, settings, inputs=options["inputs"], needs_files=not simulated, as_jobs=True
    )
    if not options["quiet"]:
        warn(prepared.warnings)
    if simulated:
        _show(found.jobs, None, offer.processors, settings)
        click.echo()
        from wfrun.runners.display.console import make_console
        from wfrun.runners.inspect.tables.report import summary
        from wfrun.runners.simulate.jobs import simulate_jobs

        remarks, state = simulate_jobs(prepared, [0.0], None, "fcfs", options["run_dir"])
        warn(remarks)
        make_console().print(summary(state))
        sys.exit(DONE if state.ended == "done" else FAILED)
    from wfrun.runners.cli.run.driving import drive
    from wfrun.runners.display.durations import duration
    from wfrun.runners.run.session import Session

    if not (options["quiet"] or options["as_json"]):
        click.echo(
            f"{len(found.jobs)} jobs packed into {offer.processors} processors at "
            f"{offer.site.name}, planned to end after {duration(end_s)}"
        )
    session = Session()
    session.start(prepared, options["run_dir"], documents[0].stem)
    sys.exit(drive(session, as_json=options["as_json"], quiet=options["quiet"]))


def _check(documents: Sequence[Path], options: Mapping[str, Any], settings: Settings) -> None:
    """Raise UsageError for options that exclude packing or have no effect on it."""
    if len(documents) != 1:
        raise click.UsageError("--pack takes one document")
    for name, flag in (
        ("allocate", "--allocate"),
        ("background", "--background"),
        ("lrm", "--lrm"),
    ):
        if options[name] is not None:
            raise click.UsageError(f"{flag} has no effect with --pack: the jobs get one allocation")
    for value, flag in ((settings.sizing, "--size"), (settings.reallocate, "--reallocate")):
        if value is not None:
            raise click.UsageError(f"--pack chooses the sizes of all jobs: give it or {flag}")


def _arrivals(
    path: Path, options: Mapping[str, Any], settings: Settings,
    warn: Callable[[Sequence[str]], None],
) -> None:  # fmt: skip
    """Plan the jobs of a workload log, which arrive over time, and exit the process."""
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.jobs.packing import PackedJob
    from wfrun.parsers.jobs.log_jobs import JobLines, read_log_jobs

    if not options["simulate"]:
        raise click.UsageError("the jobs of a workload log have no programs: give --simulate")
    if settings.pack_processors is None:
        raise click.UsageError("packing a workload log needs --processors")
    if options["run_dir"]:
        raise click.UsageError("--run-dir has no effect with --pack and a workload log")
    workflows, arrivals_s, remarks = read_log_jobs(path, skip_bad_lines=options["skip_bad_lines"])
    if not options["quiet"]:
        warn(remarks)
    jobs = []
    for workflow in workflows:
        task = workflow.tasks[0]
        if task.resources.cores > settings.pack_processors:
            raise InvalidError(
                f"{task.id} needs at least {task.resources.cores} processors, the allocation has "
                f"{settings.pack_processors}",
                source=str(path), line=JobLines(path)[task.id], hint="Give more --processors.",
            )  # fmt: skip
        jobs.append(PackedJob((task.resources.cores,), (task.runtime_s or 0.0,)))
    _show(jobs, arrivals_s, settings.pack_processors, settings)
    sys.exit(DONE)


def _show(
    jobs: Sequence[PackedJob],
    arrivals_s: Sequence[float] | None,
    processors: int,
    settings: Settings,
) -> None:
    """Print the chart of the chosen algorithm and the comparison of all."""
    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.packing import text_gantt
    from wfrun.runners.simulate.packed.compare import compare

    assert settings.pack is not None
    found = compare(jobs, arrivals_s, processors, settings.seed)
    for line in text_gantt(found.schedules[settings.pack], processors):
        click.echo(line)
    make_console().print(_table(found, jobs, settings.pack, on_line=arrivals_s is not None))
    bounds = found.bounds
    if arrivals_s is None and bounds.weighted_s is None:
        click.echo("no bound of Σ w C without scipy: install the extra 'bounds'", err=True)
    elif bounds.printed_s is not None:
        click.echo(f"the bound of Σ w C as the paper prints it: {bounds.printed_s:,.6g}")


def _table(
    found: PackingComparison, jobs: Sequence[PackedJob], chosen: str, *, on_line: bool
) -> Any:
    """The comparison of the algorithms. With arrivals it has no ratios, because the bounds ignore
    arrivals."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    table.add_column("algorithm")
    for title in ("C_max [s]", "/ bound", "Σ w C [s]", "/ bound"):
        table.add_column(title, justify="right")
    bounds = found.bounds

    def row(name: str, schedule: PackedSchedule) -> tuple[str, ...]:
        weighted_s = schedule.weighted_s(jobs)
        return (
            NAMES[name],
            f"{schedule.makespan_s:,.6g}",
            _ratio(schedule.makespan_s, None if on_line else bounds.makespan_s),
            f"{weighted_s:,.6g}",
            _ratio(weighted_s, None if on_line else bounds.weighted_s),
        )

    for name, schedule in found.schedules.items():
        cells = row(name, schedule)
        table.add_row(*(Text(cell, style="bold" if name == chosen else "") for cell in cells))
    weighted = "" if bounds.weighted_s is None else f"{bounds.weighted_s:,.6g}"
    if not on_line:
        table.add_row("lower bound", f"{bounds.makespan_s:,.6g}", "", weighted, "")
    return table


def _ratio(value: float, bound: float | None) -> str:
    return "" if not bound else f"{value / bound:.3f}"
