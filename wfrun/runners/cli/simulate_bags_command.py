"""What ``wfrun simulate --workload`` does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from wfrun.engine.errors import InvalidError
from wfrun.engine.policies.placement import placement_class
from wfrun.engine.policies.selection import SELECTION, selection_class
from wfrun.parsers.generate.bots_model import ROWS
from wfrun.runners.display.report import make_console
from wfrun.runners.experiments.bag_plot import plot_bags
from wfrun.runners.experiments.bag_rows import BagCell, BagRow
from wfrun.runners.experiments.bag_table import BagTable, LoadTables, SizeTable
from wfrun.runners.experiments.bags import POLICIES, BagGrid, log_name, run_bag_grid, workload_of
from wfrun.runners.experiments.command import run_shown
from wfrun.runners.experiments.loads import loads_of
from wfrun.runners.experiments.results import Results
from wfrun.runners.simulate.architectures import ARCHITECTURES, architecture_class
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.sites.catalog import read_catalog

_OF_WORKFLOWS = ("throttle", "runtimes", "runtime", "from_run", "background", "log_", "processors",
                 "head_bandwidth", "run_dir")  # fmt: skip
_FLAGS_OF_WORKFLOWS = ("each", "run_overruns", "serial_transfers")
_NUMBERS_OF_WORKFLOWS = ("submit_cost", "overload", "poll", "failure_rate")


def simulate_workloads(documents: Sequence[Path], options: Mapping[str, Any]) -> None:
    """The command, with a workload. Raises InvalidError."""
    _refuse_others(documents, options)
    grid = _grid(options)
    _warn(grid)
    simulate_bag_grid(
        grid, options["output"], options["jobs"], options["plot"], quiet=options["quiet"]
    )


def _refuse_others(documents: Sequence[Path], options: Mapping[str, Any]) -> None:
    """What says nothing about bags must not be passed over in silence."""
    if documents:
        raise InvalidError(
            f"--workload simulates the bags of a workload, and {documents[0]} is a document",
            hint="leave one of them out",
        )
    given = [name for name in _OF_WORKFLOWS if options[name] is not None]
    given += [name for name in _FLAGS_OF_WORKFLOWS if options[name]]
    given += [name for name in _NUMBERS_OF_WORKFLOWS if options[name]]
    if options["lrm"] != "fcfs":
        given.append("lrm")
    for name in given:
        option = name.strip("_").replace("_", "-")
        raise InvalidError(f"--{option} goes with workflows, not with --workload")


def _grid(options: Mapping[str, Any]) -> BagGrid:
    """What the options ask for. Raises InvalidError."""
    workloads, logs = _workloads(options["workload"])
    sites = options["sites"]
    load_by_default = None if len(logs) == len(workloads) else 0.6
    return BagGrid(
        catalog=read_catalog(sites) if sites is not None else das3_grid5000(),
        workloads=workloads,
        logs=logs,
        tolerant=options["tolerant"],
        architectures=_names(options["architecture"] or "csp", ARCHITECTURES, architecture_class),
        selections=_names(options["selection"] or "s-t", SELECTION, selection_class),
        policies=_names(options["policy"], POLICIES, placement_class),
        replicas=options["replicas"],
        loads=loads_of(options["load"]) or (load_by_default,),
        tasks=options["tasks"],
        seeds=tuple(range(options["seeds"])),
    )


def _workloads(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Rows of the model, and files; the paths of these by the names that they have in results."""
    names: list[str] = []
    logs: dict[str, str] = {}
    for word in text.split(","):
        word = word.strip()
        if word in ROWS:
            names.append(word)
            continue
        path = Path(word)
        if not re.search(r"\.(swf|gwf)(\.|$)", path.name):
            near = get_close_matches(word, ROWS, n=1)
            raise InvalidError(
                f"there is no workload {word!r}",
                hint=(f"did you mean {near[0]!r}? " if near else "")
                + f"there are {', '.join(ROWS)}, and logs in files *.swf or *.gwf",
            )
        try:
            names.append(log_name(path))
        except OSError as error:
            raise InvalidError(f"the log can't be read: {error.strerror}", source=word) from error
        logs[names[-1]] = str(path)
    return tuple(dict.fromkeys(names)), logs


def _names(
    text: str, everything: Sequence[str] | Mapping[str, object], check: Callable[[str], object]
) -> tuple[str, ...]:
    """``all``, or names between commas."""
    if text == "all":
        return tuple(everything)
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        check(name)
    return names


def _warn(grid: BagGrid) -> None:
    """Tell what was left out of the workloads; also finds what is wrong with them before anything
    is simulated."""
    first: dict[str, BagCell] = {}
    for cell in sorted(grid.cells(), key=lambda cell: cell.load or 0.0, reverse=True):
        first.setdefault(cell.workload, cell)
    for cell in first.values():
        for remark in workload_of(grid, cell).remarks:
            click.echo(f"warning: {cell.workload}: {remark}", err=True)
    for load in grid.loads:
        if load is not None and load > 1:
            click.echo(
                f"warning: a load of {load:g} is more than the sites can do, so that their queues "
                "grow until the last bag has arrived; 0.3 is 30%",
                err=True,
            )


def simulate_bag_grid(
    grid: BagGrid, output: Path | None, processes: int | None, plot: Path | None, *, quiet: bool
) -> None:
    """Run the grid with a progress bar, print the tables, draw the plot."""
    identity = grid.identity()

    def show(rows: Sequence[BagRow]) -> None:
        out = make_console()
        loads = {row.load for row in rows}
        out.print(LoadTables(rows) if len(loads) > 1 else BagTable(rows))
        out.print()
        out.print(SizeTable(rows))

    run_shown(
        lambda path: Results(path, BagCell, BagRow, identity),
        grid.cells(),
        lambda results, progress: run_bag_grid(
            grid, results, processes=processes, progress=progress
        ),
        show,
        plot_bags,
        identity=identity,
        output=output,
        plot=plot,
        quiet=quiet,
    )
