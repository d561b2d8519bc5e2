"""Output of a plan as tables, at most 80 columns wide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine.explain.visible import name_line
from wfrun.runners.display.console import Hanging, name_cell
from wfrun.runners.display.counts import counted
from wfrun.runners.display.durations import duration
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.forecast.plan import PresentSite, RunPlan, Sources
from wfrun.runners.forecast.plan_alternatives import Alternative, Throttle
from wfrun.runners.simulate.plan import PlannedTask, SitePlan

NOTABLE = 0.02
"""Minimum gain of an alternative for which it is reported, as a fraction of the makespan. Smaller
differences are noise."""
SOURCE_STYLES = {"measured": "green", "predicted": "cyan", "assumed": "yellow"}
_MAX_STEPS = 8
"""Maximum number of tasks of the critical path that are shown."""


def print_plan(console: Console, plan: RunPlan) -> None:
    """Print a plan: the sites, the critical path, the sources of the values, and the best
    alternative."""
    run = plan.run
    if run.makespan_s is None:
        what = f"{run.unfinished} of {counted(run.tasks, 'task')} would not end"
    else:
        end = f"end{'s' * (run.tasks == 1)} after {duration(run.makespan_s)}"
        what = f"{counted(run.tasks, 'task')} {end}"
    head = f"{what} with {chosen(plan.policy, plan.throttle)}: {_hours(run.core_hours)} core-hours"
    console.print(Text(head, style="bold"))
    if run.failure is not None:
        console.print(Hanging(Text(run.failure, style="red")))
    console.print(
        f"copies: {run.copied_bytes / 1e6:,.1f} MB to sites, "
        f"{run.collected_bytes / 1e6:,.1f} MB of outputs to this machine"
    )
    print_without(console, plan.present)
    console.print()
    console.print(_sites(plan))
    console.print()
    console.print(_path(run.critical_path))
    console.print()
    print_sources(console, plan.sources, plan.present, is_emulated=plan.is_emulated)
    console.print()
    for text in _comparison(plan):
        console.print(text)


def print_without(console: Console, present: Sequence[PresentSite]) -> None:
    """Print the sites that are not up."""
    for site in present:
        if site.state != "up":
            verb = "" if site.state == "needs login" else "is "
            name = name_line(site.site)
            console.print(f"without {name}: it {verb}{site.state}: {name_line(site.reason)}")


def print_sources(
    console: Console, sources: Sources, present: Sequence[PresentSite], *, is_emulated: bool
) -> None:
    """Print the sources of the numbers."""
    for line in _sources(sources, present, is_emulated=is_emulated):
        text = Text(line)
        for words, style in SOURCE_STYLES.items():
            text.highlight_words([words], style)
        console.print(text)


def chosen(policy: str, throttle: Throttle) -> str:
    """Name the policy and its throttle, for messages."""
    return name_line(policy) + (f", throttle {throttle}" if throttle is not None else "")


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.3g}"


def _sites(plan: RunPlan) -> Table:
    present = {site.site: site for site in plan.present}
    columns = (
        RecordColumn("site", "site", name_cell, wraps=True),
        number_column("idle slots", lambda site: _idle(present[site.site])),
        number_column("tasks", "tasks"),
        number_column("core-h", "core_hours", _hours),
        number_column("MB in", lambda s: s.bytes_from_here + s.bytes_from_sites, "{:,.1f}", 1e6),
        number_column("starts", "first_start_s", duration),
        number_column("ends", "last_end_s", duration),
        RecordColumn("first tasks", _first_tasks, name_cell, wraps=True),
    )
    return record_table(plan.run.sites, columns)


def _idle(site: PresentSite) -> str:
    if not site.has_queue or site.idle_cores is None:
        return str(site.slots)
    return f"{min(site.idle_cores, site.slots)} of {site.slots}"


def _first_tasks(site: SitePlan) -> str:
    return ", ".join(task.task for task in site.first_tasks)


def _path(path: tuple[PlannedTask, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("critical path")
    table.add_column("type")
    table.add_column("site")
    for heading in ("waits", "runs", "ends"):
        table.add_column(heading, justify="right", no_wrap=True)
    before_s, skipped = 0.0, len(path) - _MAX_STEPS
    for number, task in enumerate(path):
        waits_s, before_s = task.started_s - before_s, task.ended_s
        if skipped > 1 and _MAX_STEPS // 2 <= number < _MAX_STEPS // 2 + skipped:
            if number == _MAX_STEPS // 2:
                table.add_row(f"… {skipped} more")
            continue
        table.add_row(
            name_cell(task.task),
            name_cell(task.type),
            name_cell(task.site),
            duration(max(0.0, waits_s)),
            duration(task.ended_s - task.started_s),
            duration(task.ended_s),
        )
    return table


def _sources(
    sources: Sources, present: Sequence[PresentSite], *, is_emulated: bool
) -> Iterator[str]:
    """Yield a line for each kind of value, with its sources."""
    runtimes, sizes = sources.runtimes, sources.sizes
    if any(site.has_queue for site in present):
        yield "Idle slots of clusters are measured. All other numbers above are predicted from"
    else:
        yield "Slots are those of the catalog. All other numbers above are predicted from"
    counts = [
        (runtimes.documented, "documented"),
        (runtimes.predicted, "predicted from earlier tasks"),
        (runtimes.assumed, "assumed (--runtime)"),
    ]
    yield "run times: " + ", ".join(f"{count} {how}" for count, how in counts if count)
    counts = [
        (sizes.documented, "documented"),
        (sizes.measured, "measured"),
        (sizes.assumed, "assumed to be 0"),
    ]
    if any(count for count, _ in counts):
        yield "sizes:     " + ", ".join(f"{count} {how}" for count, how in counts if count)
    how_of_links = {
        "catalog": "from the catalog",
        "measured": "measured by earlier runs",
        "assumed": "assumed to take no time",
    }
    links = [f"{count} {how_of_links[source]}" for source, count in sources.links.items() if count]
    yield "links:     " + ", ".join(links)
    overheads = []
    if sources.measured_overheads:
        overheads.append(f"measured at {_names(sources.measured_overheads)}")
    if sources.assumed_overheads:
        overheads.append(f"assumed to be none at {_names(sources.assumed_overheads)}")
    yield "overheads: " + ", ".join(overheads)
    yield from _present(present, is_emulated=is_emulated)


def _present(present: Sequence[PresentSite], *, is_emulated: bool) -> Iterator[str]:
    """Lines with the state that the sites have reported."""
    up = [site for site in present if site.state == "up"]
    ahead = [f"{site.jobs_ahead} at {name_line(site.site)}" for site in up if site.jobs_ahead]
    if ahead:
        yield f"queues:    measured, jobs ahead: {', '.join(ahead)}; their ends are assumed"
    elif any(site.has_queue for site in up):
        yield "queues:    measured, no slot is busy"
    loaded = [
        site.site
        for site in up
        if not site.has_queue and site.idle_cores is not None and site.idle_cores < site.slots
    ]
    if loaded and not is_emulated:
        yield f"load:      busy cores at {_names(tuple(loaded))}; tasks there may run longer"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(map(name_line, names))


def _comparison(plan: RunPlan) -> Iterator[Text]:
    """The best alternative, and the number of alternatives that were simulated."""
    compared, makespan_s = plan.comparison, plan.run.makespan_s
    for fault in compared.broken.values():
        yield Text(f"left out: {name_line(fault, 1000)}", style="yellow")
    count = f"{len(compared.alternatives)} of {compared.candidates}"
    within = f"{count} other policies and throttles simulated within {compared.limit_s:.3g} s"
    if not compared.alternatives:
        yield Text(f"best: unknown ({within})")
        return
    best = compared.alternatives[0]
    if makespan_s is None:
        yield Text(f"best: {_options(best)} ends after {duration(best.makespan_s)}", style="bold")
    elif makespan_s - best.makespan_s > NOTABLE * makespan_s:
        gain = 1 - best.makespan_s / makespan_s
        best_s = duration(best.makespan_s)
        yield Text(f"best: {_options(best)} ends after {best_s}, {gain:.0%} sooner", style="bold")
    else:
        yield Text(f"best: none is more than {NOTABLE:.0%} faster")
    yield Text(f"  {within}", style="dim")


def _options(best: Alternative) -> str:
    throttle = "" if best.throttle is None else f" --throttle {best.throttle}"
    return f"--policy {name_line(best.policy)}{throttle}"
