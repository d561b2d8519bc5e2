"""``wfrun bench dispatch``: measures the time from a ready task to its start, and from its end to
the report of the end.

Each site gets a run of its own: a task that waits for the queue; tasks without work, all together;
a chain of such tasks; and tasks of 100 ms that fill all slots several times. All figures come from
the run's log.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from wfrun.engine.explain.visible import message_block
from wfrun.engine.model import SiteSpec
from wfrun.runners.admin.bench import BenchResult, is_batch, measure, sizes_of
from wfrun.runners.admin.bench_figures import TASK_S, BenchCounts
from wfrun.runners.cli.exit_statuses import DONE, INTERRUPTED, SITE
from wfrun.runners.cli.sites.sites_command import choose
from wfrun.runners.display.console import make_console
from wfrun.runners.run.prepare.prepare import this_machine
from wfrun.sites.catalog import read_catalog


def dispatch(catalog: Path | None, names: Sequence[str], tasks: int | None, limit_s: float) -> int:
    """Measure sites one after the other, and print a table. Returns the exit status: 0, 3 if a site
    cannot be used, 130 after Ctrl-C."""
    found = read_catalog(catalog) if catalog else this_machine()
    sites = choose(found.sites, names, str(catalog or "this machine"))
    results = []
    for spec in sites:
        click.echo(f"{spec.name}: {_plan(spec, sizes_of(spec, tasks))}", err=True)
        results.append(asyncio.run(measure(spec, sizes_of(spec, tasks), limit_s)))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if results[-1].interrupted:
            break
    console = make_console()
    console.print(result_table(results))
    for result in results:
        if result.problem:
            console.print(
                Text(message_block(f"site {result.spec.name}: {result.problem}"), style="yellow")
            )
    if results[-1].interrupted:
        return INTERRUPTED
    return DONE if all(result.is_usable for result in results) else SITE


def result_table(results: Sequence[BenchResult]) -> Table:
    """The table of results, with a row for each site."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site", no_wrap=True)
    table.add_column("tasks are")
    for heading in ("slots", "first start", "tasks/s", "latency",
                    f"{TASK_S * 1e3:.0f} ms tasks", "ideal", "overhead"):  # fmt: skip
        table.add_column(heading, justify="right")
    for spec, figures, _, _ in results:
        overhead = None
        if figures.took_s is not None and figures.ideal_s:
            overhead = figures.took_s / figures.ideal_s - 1
        table.add_row(
            spec.name,
            _way(spec),
            f"{figures.slots:.0f}",
            _or_dash(figures.first_s, "{:.2f} s"),
            _or_dash(figures.rate, "{:,.1f}"),
            _or_dash(figures.latency_s and figures.latency_s * 1e3, "{:,.1f} ms"),
            _or_dash(figures.took_s, "{:.2f} s"),
            _or_dash(figures.ideal_s, "{:.2f} s"),
            _or_dash(overhead, "{:.1%}"),
        )
    return table


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _way(spec: SiteSpec) -> str:
    if is_batch(spec):
        return "jobs"
    return "in launchers" if spec.has_batch_system else "processes"


def _plan(spec: SiteSpec, sizes: BenchCounts) -> str:
    return (
        f"{sizes.empty} tasks without work, a chain of {sizes.chain}, and {sizes.short} tasks of "
        f"{TASK_S * 1e3:.0f} ms; {_way(spec)}"
    )
