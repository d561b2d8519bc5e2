"""``wfrun run --dry-run``: shows what a run would do, without starting it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from rich.table import Table

from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import SiteSpec
from wfrun.runners.admin.checks.check import check
from wfrun.runners.cli.exit_statuses import DONE, SITE
from wfrun.runners.display.console import make_console, name_cell
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.run.prepare.prepare import Plan
from wfrun.runners.run.reuse.plan import Reuse, plan_reuse
from wfrun.runners.run.reuse.reasons import RerunReason, reasons
from wfrun.runners.run.sites.make_sites import terminal_prompter

MAX_WORKFLOW_ROWS = 40
"""Maximum number of workflows with a row each. Further workflows are counted in one row."""


def dry_run(plan: Plan, choice: str, *, connect: bool) -> int:
    """Print what a run would do, and return the exit status. With ``connect``, also check the sites
    as ``wfrun sites check`` does, without its test job; otherwise connect to no site."""
    reuse = plan_reuse(plan, choice)
    console = make_console()
    total = sum(len(workflow.tasks) for workflow in plan.workflows)
    console.print(f"would run {total - reuse.count} of {total} tasks", highlight=False)
    if len(plan.workflows) > 1:
        console.print(_workflow_table(plan, reuse))
    if choice != "none":
        for line in [*reuse_lines(reuse), *_why(reasons(reuse)), *_files(reuse)]:
            console.print(f"  {line}", highlight=False)
    sites = plan.catalog.sites
    console.print("sites: " + ", ".join(map(_site, sites)), highlight=False)
    if not connect:
        return DONE
    checked = asyncio.run(check(sites, None, terminal_prompter(), as_json=False))
    return SITE if checked.has_failures else DONE


def _workflow_table(plan: Plan, reuse: Reuse) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workflow")
    for heading in ("tasks", "would run", "reused"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = distinct_names(plan.workflows)
    rows = zip(names, plan.workflows, reuse.workflows, strict=True)
    for name, workflow, tasks in islice(rows, MAX_WORKFLOW_ROWS):
        count, reused = len(workflow.tasks), len(tasks.reused)
        table.add_row(name_cell(name), str(count), str(count - reused), str(reused))
    if len(plan.workflows) > MAX_WORKFLOW_ROWS:
        table.add_row(f"and {len(plan.workflows) - MAX_WORKFLOW_ROWS} more")
    return table


def _why(found: Iterable[RerunReason]) -> Iterable[str]:
    """A line for each reason why tasks run again, the most frequent first."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for reason in found:
        counts[reason.text] += 1
        first.setdefault(reason.text, reason.task)
    for text, count in counts.most_common():
        yield f"{count} × {text}, first: {name_line(first[text])}"


def _files(reuse: Reuse) -> Iterable[str]:
    """Lines on the files of earlier runs that the run would use: number and size on this machine,
    number at each site."""
    kept = [file for tasks in reuse.workflows for file in tasks.needed().values()]
    here = [file.size_bytes for file in kept if file.site is None]
    if here:
        size = f"{sum(here) / 1e6:.1f} MB"
        yield f"files that are linked or copied on this machine: {len(here)} ({size})"
    at_sites = Counter(file.site.name for file in kept if file.site is not None)
    for name, count in at_sites.items():
        yield f"files that {name_line(name)} is asked for when the run starts: {count}"


def reuse_lines(reuse: Reuse) -> Iterable[str]:
    """Lines with the number of reused tasks by run, and the number of done tasks that run again
    because files are gone."""
    total = sum(len(tasks.workflow.tasks) for tasks in reuse.workflows)
    runs = [f"{count} of {name_line(path)}" for path, count in reuse.by_run().items()]
    yield f"{reuse.count} of {total} tasks are reused" + (f": {', '.join(runs)}" if runs else "")
    gone = sum(len(tasks.gone) for tasks in reuse.workflows)
    if gone:
        yield (
            f"{gone} of the tasks that were done run again, because files of theirs are gone "
            "(--keep all keeps the files of a run at its sites)"
        )


def _site(spec: SiteSpec) -> str:
    return f"{name_line(spec.name)} ({spec.kind}, {spec.slots} slots)"
