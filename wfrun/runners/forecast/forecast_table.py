"""Prints the prediction of a run as tables, at most 80 columns wide unless names are long."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import Hanging, name_cell
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.forecast.forecast import COVERAGE, End, RunForecast, SiteForecast
from wfrun.runners.forecast.forecast_runtimes import SiteRuntime, TypeForecast
from wfrun.runners.forecast.plan_table import chosen, print_sources, print_without
from wfrun.runners.simulate.queue_waits import BOUND

MAX_TYPES = 40
"""Maximum number of types of tasks in the table; `--json` has all."""


def print_forecast(console: Console, found: RunForecast) -> None:
    """Print the predicted end of the run, the run times by type and site, the waits, and the
    sources of the numbers."""
    tasks = counted(sum(each.tasks for each in found.types), "task")
    with_policy = chosen(found.policy, found.throttle)
    if found.end is None:
        console.print(Text(f"{tasks}: end unknown with {with_policy}", style="bold"))
        unknown = [name_line(each.type) for each in found.types if _is_unknown(each)]
        console.print(
            f"The run time of {', '.join(dict.fromkeys(unknown))} is neither documented nor known "
            "from earlier runs; assume one for all such tasks: --runtime SECONDS"
        )
    else:
        if found.end.makespan_s is None:
            text = f"{found.end.unfinished} of {tasks} would not end"
        else:
            text = f"{tasks} end after {duration(found.end.makespan_s)}{_interval(found.end)}"
        console.print(Text(f"{text} with {with_policy}", style="bold"))
        if found.end.failure is not None:
            console.print(Hanging(Text(found.end.failure, style="red")))
    print_without(console, [site.present for site in found.sites])
    console.print()
    console.print(_types(found.types))
    if len(found.types) > MAX_TYPES:
        console.print(f"… {len(found.types) - MAX_TYPES} more types; --json has all")
    if any(site.waits for site in found.sites):
        console.print()
        console.print(_waits(found.sites))
    console.print()
    for line in _remarks(found):
        console.print(line)
    if found.sources is not None:
        present = [site.present for site in found.sites]
        print_sources(console, found.sources, present, is_emulated=found.is_emulated)


def _is_unknown(each: TypeForecast) -> bool:
    return any(site.source == "unknown" for site in each.sites)


def _interval(end: End) -> str:
    if end.low_s is None or end.high_s is None:
        return ""
    return f" ({duration(end.low_s)} to {duration(end.high_s)})"


def _types(types: tuple[TypeForecast, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("type")
    for heading in ("tasks", "cores"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("site")
    for heading in ("run time", "interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for each in types[:MAX_TYPES]:
        for number, site in enumerate(each.sites):
            head = (name_cell(each.type), str(each.tasks), str(each.cores))
            table.add_row(
                *(("", "", "") if number else head),
                name_cell(site.site),
                "-" if site.runtime_s is None else duration(site.runtime_s),
                _runtime_interval(site),
                _source(site),
            )
    return table


def _runtime_interval(site: SiteRuntime) -> str:
    if site.low_s is None or site.high_s is None:
        return "-"
    low, high = duration(site.low_s), duration(site.high_s)
    return "-" if low == high else f"{low} to {high}"


def _source(site: SiteRuntime) -> str:
    if site.source != "predicted":
        return site.source
    return f"predicted: {site.observations} {'here' if site.from_site else 'elsewhere'}"


def _waits(sites: tuple[SiteForecast, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("site")
    for heading in ("idle slots", "jobs ahead", "cores", "wait", "at most"):
        table.add_column(heading, justify="right", no_wrap=True)
    for site in sites:
        for number, wait in enumerate(site.waits):
            idle = site.present.idle_cores
            head = (
                name_cell(site.present.site),
                "-" if idle is None else f"{min(idle, site.present.slots)} of {site.present.slots}",
                str(site.present.jobs_ahead),
            )
            table.add_row(
                *(("", "", "") if number else head),
                str(wait.cores),
                duration(wait.wait_s),
                duration(wait.bound_s),
            )
    return table


def _remarks(found: RunForecast) -> Iterator[str]:
    """Explanations of predictions and intervals in the tables."""
    predicted = [s for each in found.types for s in each.sites if s.source == "predicted"]
    if predicted:
        methods = ", ".join(dict.fromkeys(site.method for site in predicted))
        yield f"predicted: from this number of earlier tasks, here or elsewhere: {methods}"
    end = found.end
    if end is not None and end.low_s is not None:
        yield (
            f"interval of the end: {COVERAGE:.0%} of {end.samples} simulations, in which "
            + " and ".join(_varying(found, end))
            + " vary"
        )
    elif end is not None and (end.varied or any(s.present.jobs_ahead for s in found.sites)):
        yield f"interval of the end: unknown: {counted(end.samples, 'simulation')} within the limit"
    elif end is not None:
        yield "interval of the end: unknown: the errors of these run times are unknown"
    if any(site.waits for site in found.sites):
        yield f"waits: predicted, of a job submitted now; `at most` holds for {BOUND:.0%}"


def _varying(found: RunForecast, end: End) -> Iterator[str]:
    if end.varied:
        yield f"run times of {counted(end.varied, 'task')}"
    if any(site.present.jobs_ahead for site in found.sites):
        yield "ends of other users' jobs"
