"""``wfrun generate bags``: writes a workload of bags, and compares it to the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from wfrun.engine.model import SiteSpec
from wfrun.parsers.bags.write_bags import write_bag_files, write_bags
from wfrun.parsers.generate.bot_workload import BotWorkload
from wfrun.parsers.generate.bots import Arrival, generate_workload, row_called, with_estimates
from wfrun.parsers.generate.bots_log import bags_of_log, log_of, replay
from wfrun.parsers.generate.bots_model import TraceFits
from wfrun.parsers.generate.bots_statistics import BotStatistics, Characteristic, statistics_of
from wfrun.parsers.logs import write_gwf, write_swf
from wfrun.parsers.syntax.units import parse_duration
from wfrun.runners.display.console import make_console
from wfrun.sites.catalog import read_catalog

_CLUSTERS = 20
"""Default number of clusters, without a catalog."""
_SLOTS = 176
"""Number of slots of each cluster, without a catalog."""
_FASTEST = 1.75
"""Speed of the fastest cluster relative to the reference processor, without a catalog."""
_FORMS = {".swf": "swf", ".gwf": "gwf", ".yaml": "yaml", ".yml": "yaml"}
"""Format of the output by suffix of its file."""


def generate_bags(
    *,
    row: str,
    tasks: int,
    load: float,
    sites: Path | None,
    clusters: int | None,
    arrival: Arrival,
    median_size: float | None,
    mean_runtime: str | None,
    inaccuracy: float,
    likeness: float,
    log_: Path | None,
    skip_bad_lines: bool,
    seed: int,
    form: str | None,
    output: Path | None,
) -> None:
    """Write the workload, and print its statistics. Raises InvalidError for an invalid log, catalog
    or parameter, and UsageError for options that exclude each other."""
    if sites is not None and clusters is not None:
        raise click.UsageError("--clusters has no effect with --sites. Leave out one of them.")
    if skip_bad_lines and log_ is None:
        raise click.UsageError("--skip-bad-lines has no effect without --log.")
    form = form or _form_of(output)
    path = output or Path(f"bags.{form}")
    if path.is_dir() and form != "yaml":
        raise click.UsageError(f"{path} is a folder, but a log is one file. Name a file.")
    model = row_called(row)
    specs = even_clusters(clusters or _CLUSTERS) if sites is None else read_catalog(sites).sites
    if log_ is None:
        workload = generate_workload(
            specs,
            row=row,
            load=load,
            tasks=tasks,
            seed=seed,
            arrival=arrival,
            median_size=median_size,
            mean_runtime_s=None if mean_runtime is None else _seconds(mean_runtime),
            inaccuracy=inaccuracy,
            likeness=likeness,
        )
    else:
        changed = median_size is not None or mean_runtime is not None or likeness
        if arrival != "realistic" or changed:
            raise click.UsageError(
                "--arrival, --median-size, --mean-runtime and --likeness apply to the model, not "
                "to a log."
            )
        found = bags_of_log(log_, skip_bad_lines=skip_bad_lines)
        workload = replay(found, specs, load=load, tasks=tasks, seed=seed)
        workload = with_estimates(workload, inaccuracy, seed)
    _write(workload, path, form, one_each=_is_folder(path))
    _print(make_console(), workload, model)
    click.echo(f"{path}: {len(workload.bags)} bags, {workload.tasks} tasks")


def _is_folder(path: Path) -> bool:
    return path.is_dir() or path.suffix == ""


def _form_of(output: Path | None) -> str:
    if output is None:
        return "gwf"
    if _is_folder(output):
        return "yaml"
    if output.suffix not in _FORMS:
        raise click.UsageError(f"The suffix of {output} names no known format. Give --format.")
    return _FORMS[output.suffix]


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--mean-runtime") from None


def even_clusters(count: int) -> list[SiteSpec]:
    """Clusters to use without a catalog, with speeds at equal intervals."""
    faster = (_FASTEST - 1) / max(count - 1, 1)
    return [
        SiteSpec(f"c{number + 1:02}", _SLOTS, round(1 + number * faster, 4))
        for number in range(count)
    ]


def _write(workload: BotWorkload, path: Path, form: str, *, one_each: bool) -> None:
    if form == "swf":
        write_swf(log_of(workload, grid=False), path)
    elif form == "gwf":
        write_gwf(log_of(workload, grid=True), path)
    else:
        (write_bag_files if one_each else write_bags)(workload, path)


def _print(console: Console, workload: BotWorkload, row: TraceFits) -> None:
    found = statistics_of(workload, row)
    console.print(_characteristics(found.characteristics))
    console.print(_sizes(found))
    mean = workload.tasks / len(workload.bags)
    lines = [
        f"{len(workload.clusters)} clusters, {found.users} users, mean size of a bag {mean:.2f}, "
        f"Zipf alpha {found.alpha:.2f} (table {row.users.alpha})",
        f"load {workload.load:.3f}: {workload.work_s / 3600:.1f} reference processor hours on "
        f"{workload.capacity:g} in {workload.span_s / 3600:.2f} h",
        *workload.remarks,
    ]
    for line in lines:
        console.print(line)


def _characteristics(found: Iterable[Characteristic]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("of a bag", no_wrap=True)
    table.add_column("Table 5.3", no_wrap=True)
    for name in ("10%", "median", "90%"):
        table.add_column(f"{name}\nhere / table", justify="right")
    table.add_column("KS\ndistance", justify="right")
    for each in found:
        pairs = (
            f"{_shown(here, each.unit)} / {_shown(there, each.unit)}"
            for here, there in zip(each.found, each.model, strict=True)
        )
        unit = "" if each.unit == "half hour" else f" [{each.unit}]"
        table.add_row(each.name + unit, each.fit, *pairs, f"{each.distance:.3f}")
    return table


def _sizes(found: BotStatistics) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("tasks of a bag")
    for name in ("bags", "bags in the model", "tasks"):
        table.add_column(name, justify="right")
    for each in found.sizes:
        table.add_row(each.name, *_percentages((each.bags, each.model, each.tasks)))
    return table


def _percentages(shares: Sequence[float]) -> list[str]:
    return [f"{share:.2%}" for share in shares]


def _shown(value: float, unit: str) -> str:
    if unit == "half hour":
        hours, minutes = divmod(round(value * 30), 60)
        return f"{hours}:{minutes:02}"
    if unit in ("tasks", "rank"):
        return f"{value:.0f}"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
