"""What ``wfrun simulate`` does with its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.placements import expected_runtimes_s
from wfrun.engine.errors import InvalidError
from wfrun.engine.fit import site_mask
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.policies.placement import PLACEMENT, placement_class
from wfrun.parsers.units import parse_bandwidth
from wfrun.parsers.workflows.read import read_workflows
from wfrun.parsers.workflows.runtimes import RuntimeTable, read_runtimes, with_estimate
from wfrun.runners.cli.simulate_bags_command import simulate_workloads
from wfrun.runners.cli.simulate_log_command import simulate_log
from wfrun.runners.display.report import make_console, summary
from wfrun.runners.experiments import plots
from wfrun.runners.experiments.bags import POLICIES
from wfrun.runners.experiments.command import run_shown
from wfrun.runners.experiments.loads import loads_of
from wfrun.runners.experiments.results import Row
from wfrun.runners.experiments.table import ResultTable, WorkflowTable
from wfrun.runners.experiments.workflows import (
    Grid,
    open_results,
    run_grid,
    runs_of,
    settings_of,
    world_of,
)
from wfrun.runners.run import directory as rundir
from wfrun.runners.run.plugins import load_policies
from wfrun.runners.run.prepare import this_machine
from wfrun.runners.run.session import read_state
from wfrun.runners.run.store import Store
from wfrun.runners.simulate.background import HORIZON_S, background_of, read_log, unfit
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import check_runtimes, complete_links
from wfrun.sites.catalog import read_catalog
from wfrun.sites.simulated.queues import make_lrm
from wfrun.sites.simulated.site import SiteModel


def simulate(documents: Sequence[Path], options: Mapping[str, Any]) -> None:
    """The command. ``options`` are those of the command line."""
    load_policies()
    if options["workload"] is not None:
        simulate_workloads(documents, options)
        return
    for option in ("architecture", "tasks"):
        if options[option] is not None:
            raise InvalidError(f"--{option} goes with --workload")
    if options["log_"] is not None:
        _refuse_beside_log(documents, options)
        simulate_log(
            options["log_"],
            options["lrm"],
            options["processors"],
            kill_overruns=not options["run_overruns"],
            tolerant=options["tolerant"],
        )
        return
    if options["processors"] is not None:
        raise InvalidError("--processors goes with --log; the slots of sites are in the catalog")
    if options["load"] is not None and options["background"] is None:
        raise InvalidError("--load scales a background; name its log with --background")
    if options["tolerant"] and options["background"] is None:
        raise InvalidError("--tolerant is for logs; name one with --log or --background")
    grid = _grid(documents, options)
    for workflow in grid.workflows:
        tasks = workflow.tasks[:1] if workflow.bag is not None else workflow.tasks
        for task in {task.resources: task for task in reversed(tasks)}.values():
            site_mask(task, grid.catalog.sites, workflow.source)
        _warn_of_sizes(workflow)
    if grid.background is not None:
        jobs, told, _ = read_log(Path(grid.background), tolerant=grid.tolerant)
        for line in [*told, *unfit(jobs, grid.catalog.sites)]:
            click.echo(f"warning: {line}", err=True)
        for load in grid.loads:
            background_of(jobs, grid.catalog.sites, load, grid.seeds[0])
            if load is not None and load > 1:
                click.echo(
                    f"warning: a load of {load:g} is more than the sites can do, so that their "
                    "queues grow without end; 0.3 is 30%",
                    err=True,
                )
    if options["run_dir"] is not None:
        for option in ("output", "plot"):
            if options[option] is not None:
                raise InvalidError(f"--{option} is for grids; --run-dir keeps one simulated run")
        simulate_one(options["run_dir"], grid)
        return
    simulate_grid(grid, options["output"], options["jobs"], options["plot"], quiet=options["quiet"])


def _refuse_beside_log(documents: Sequence[Path], options: Mapping[str, Any]) -> None:
    """What says nothing about one cluster's queue must not be passed over in silence."""
    if documents or options["from_run"]:
        raise InvalidError("--log simulates a log's own jobs; it goes with no workflow")
    others = ("sites", "throttle", "load", "background", "output", "plot", "run_dir", "runtimes",
              "selection", "replicas")  # fmt: skip
    if options["each"]:
        raise InvalidError("--each goes with workflows; --log simulates a log's own jobs")
    for option in others:
        if options[option] is not None:
            name = option.replace("_", "-")
            raise InvalidError(f"--{name} goes with workflows; --log simulates a log's own jobs")


def _grid(documents: Sequence[Path], options: Mapping[str, Any]) -> Grid:
    """What the options ask for. Raises InvalidError."""
    make_lrm(options["lrm"], 1)
    throttles = _throttles(options["throttle"])
    loads = loads_of(options["load"])
    head = options["head_bandwidth"]
    head_bytes_per_s = _bandwidth(head) if head is not None else None
    table = read_runtimes(options["runtimes"]) if options["runtimes"] is not None else None
    found = workflows_of(documents, options["from_run"], options["runtime"], table)
    grid = Grid(
        workflows=found.workflows,
        catalog=catalog_of(options["sites"], found.catalog),
        policies=policies_of(options["policy"], bags=found.bags),
        selection=options["selection"] or found.selection,
        replicas=options["replicas"],
        each=options["each"],
        throttles=throttles,
        loads=loads or (None,),
        seeds=tuple(range(options["seeds"])),
        background=str(options["background"]) if options["background"] else None,
        tolerant=options["tolerant"],
        model=SiteModel(
            lrm=options["lrm"],
            kill_overruns=not options["run_overruns"],
            submit_s=options["submit_cost"],
            overload_jobs=options["overload"],
            poll_s=options["poll"],
            failure_rate=options["failure_rate"],
        ),
        sharing="serial" if options["serial_transfers"] else "max-min",
        head_bytes_per_s=head_bytes_per_s,
    )
    settings_of(grid, grid.cells()[0])
    return grid


def _throttles(text: str | None) -> tuple[int | None, ...]:
    if text is None:
        return (None,)
    found: list[int | None] = []
    for word in text.split(","):
        if word.strip() == "-":
            found.append(None)
        elif re.fullmatch(r"\s*0*[1-9][0-9]{0,9}\s*", word):
            found.append(int(word))
        else:
            raise InvalidError(
                f"--throttle has {word!r}, which is no whole number above 0",
                hint="write numbers with commas between them, and - for no throttle",
            )
    return tuple(dict.fromkeys(found))


def _bandwidth(text: str) -> float:
    try:
        return parse_bandwidth(text)
    except ValueError as error:
        raise InvalidError(f"--head-bandwidth: {error}") from None


def policies_of(text: str, *, bags: bool) -> tuple[str, ...]:
    """``all``, which are those for bags or those for workflows, or names between commas."""
    if text == "all" and bags:
        return POLICIES
    if text == "all":
        return tuple(name for name in PLACEMENT if name not in POLICIES)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        placement_class(name)
    return names


class Found(NamedTuple):
    """What is to be simulated, and, of a past run, where and how it was selected."""

    workflows: list[Workflow]
    bags: bool
    """All of them are."""
    catalog: Catalog | None = None
    selection: str = ""


def workflows_of(
    documents: Sequence[Path],
    from_run: str | None,
    runtime_s: float | None,
    table: RuntimeTable | None = None,
) -> Found:
    """The workflows to simulate, with run times and sizes. Run times are those of the document,
    else of the table, else ``runtime_s``."""
    if from_run is not None:
        if table is not None or runtime_s is not None:
            raise InvalidError("--from-run takes the run times of the run; give no others")
        if documents:
            raise InvalidError("--from-run takes the workflows of the run; name no others")
        return _measured(rundir.find(from_run))
    if not documents:
        raise InvalidError("there is no workflow to simulate")
    workflows = []
    for document in documents:
        for workflow in read_workflows(document, emulate=True):
            source = workflow.source
            for warning in workflow.warnings:
                text = warning if source in warning else f"{source}: {warning}"
                click.echo(f"warning: {text}", err=True)
            workflows.append(workflow)
    if table is not None:
        table.check_names({name for workflow in workflows for name in _types(workflow)})
        workflows = [table.fill(workflow) for workflow in workflows]
    if runtime_s is not None:
        workflows = [_with_default(workflow, runtime_s) for workflow in workflows]
    for workflow in workflows:
        check_runtimes(workflow)
    return Found(workflows, all(workflow.bag is not None for workflow in workflows))


def _types(workflow: Workflow) -> set[str]:
    if workflow.bag is not None:
        return {workflow.tasks[0].name}
    return {task.name for task in workflow.tasks}


def _warn_of_sizes(workflow: Workflow) -> None:
    """Files of unknown size move at once: say so."""
    if workflow.bag is not None:
        for file in workflow.bag.inputs:
            click.echo(
                f"warning: {workflow.source}: the inputs {file.name!r} have no size: they are "
                "taken as empty",
                err=True,
            )
        return
    passed = {index for task in workflow.tasks for index in task.inputs}
    unknown = [index for index in sorted(passed) if workflow.files[index].size_bytes is None]
    if unknown:
        click.echo(
            f"warning: {workflow.source}: {len(unknown)} of {len(passed)} files that tasks read "
            f"have no size, the first is {workflow.files[unknown[0]].name!r}: they are taken as "
            "empty",
            err=True,
        )


def _with_default(workflow: Workflow, runtime_s: float) -> Workflow:
    if workflow.bag is not None:
        return with_estimate(workflow, runtime_s)
    replace = msgspec.structs.replace
    return replace(
        workflow,
        tasks=[
            t if t.runtime_s is not None else replace(t, runtime_s=runtime_s)
            for t in workflow.tasks
        ],
    )


def _measured(run: rundir.RunDir) -> Found:
    """A run's workflows with the run times (at the reference speed) and sizes that were measured;
    tasks that were never done get the mean of their kind."""
    state = read_state(run)
    speeds = [site.spec.speed_ratio for site in state.sites]
    measured: dict[tuple[int, int], float] = {}
    placed: dict[str, ev.AttemptPlaced] = {}
    store = Store(run.path)
    for event in store.load():
        if isinstance(event, ev.AttemptPlaced):
            placed[event.key] = event
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            outcome, where = event.outcome, placed[event.key]
            if outcome.started_s is not None and outcome.ended_s is not None:
                length_s = outcome.ended_s - outcome.started_s
                measured[where.workflow, where.task] = length_s * speeds[where.site]
    store.close()
    if not measured:
        raise InvalidError(
            f"no task of the run {run.name} has been done; it measured nothing",
            hint="simulate its document instead, and give run times with --runtime",
        )
    if len(measured) < state.tasks:
        click.echo(
            f"warning: run {run.name}: {state.tasks - len(measured)} of {state.tasks} tasks have "
            "not been done; they are taken to run as long as the mean of their kind",
            err=True,
        )
    replace = msgspec.structs.replace
    workflows = []
    for w in state.workflows:
        tasks = [
            replace(task, runtime_s=measured.get((w.index, i)))
            for i, task in enumerate(w.workflow.tasks)
        ]
        files = [
            replace(file, size_bytes=max(0, w.sizes[i])) for i, file in enumerate(w.workflow.files)
        ]
        parents = list(w.workflow.parents)
        workflow = replace(w.workflow, tasks=tasks, files=files, parents=parents, bag=None)
        expected = expected_runtimes_s(workflow)
        tasks = [replace(t, runtime_s=s) for t, s in zip(tasks, expected, strict=True)]
        workflows.append(replace(workflow, tasks=tasks))
    bags = all(w.workflow.bag is not None for w in state.workflows)
    catalog = Catalog(tuple(s.spec for s in state.sites), state.links)
    return Found(workflows, bags, catalog, state.settings.selection)


def catalog_of(sites: Path | None, of_run: Catalog | None) -> Catalog:
    """The catalog that the user named, else that of the run, else this machine."""
    catalog = read_catalog(sites) if sites is not None else of_run or this_machine()
    added = [
        link
        for link in complete_links(catalog)[len(catalog.links) :]
        if "origin" not in (link.source, link.destination)
    ]
    if added:
        first = added[0]
        click.echo(
            f"warning: the catalog lacks {len(added)} links between sites, the first is "
            f"{first.source} to {first.destination}: files arrive at once there",
            err=True,
        )
    return catalog


def simulate_grid(
    grid: Grid, output: Path | None, processes: int | None, plot: Path | None, *, quiet: bool
) -> None:
    """Run the grid with a progress bar, print the tables, write the plot."""

    def show(rows: Sequence[Row]) -> None:
        _warn_of_horizon(grid, rows)
        out = make_console()
        out.print(ResultTable(rows))
        if len(grid.workflows) > 1 and not grid.each:
            out.print()
            out.print(WorkflowTable(rows, [workflow.name for workflow in grid.workflows]))

    run_shown(
        lambda path: open_results(grid, path),
        grid.cells(),
        lambda results, progress: run_grid(grid, results, processes=processes, progress=progress),
        show,
        plots.plot_makespans,
        identity=grid.identity(),
        output=output,
        plot=plot,
        quiet=quiet,
    )


def _warn_of_horizon(grid: Grid, rows: Sequence[Row]) -> None:
    longer = sum(1 for row in rows if row.makespan_s > HORIZON_S)
    if grid.background is not None and longer:
        click.echo(
            f"warning: {longer} of {len(rows)} simulated runs took longer than the "
            f"{HORIZON_S / 86400:.0f} days of background; they had the sites for themselves then",
            err=True,
        )


def simulate_one(run_dir: Path, grid: Grid) -> None:
    """Simulate a grid of one cell and keep its log in a run directory. Raises InvalidError for a
    grid of several cells and for a directory that is in use."""
    cells = grid.cells()
    if len(cells) != 1:
        raise InvalidError(
            f"--run-dir keeps the log of one simulated run; these are {len(cells)}",
            hint="name one policy with --policy, and at most one throttle, load and seed; with "
            "--each, one workflow",
        )
    world = world_of(grid, cells[0])
    state = simulate_into(run_dir, runs_of(grid, cells[0]), world, settings_of(grid, cells[0]))
    console = make_console()
    console.print(f"run {run_dir} (simulated)")
    console.print(summary(state))
