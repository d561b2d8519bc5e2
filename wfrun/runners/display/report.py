"""Tables and texts about a run, made from its state."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from wfrun.engine.bag import tasks_of
from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import LauncherPhase, LauncherPool
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.engine.model import Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION
from wfrun.engine.state import Failure, Phase, RunState, SiteState, TaskStatus
from wfrun.engine.visible import command_line, name_line
from wfrun.parsers.bags.names import shown_parameters
from wfrun.runners.display.console import Hanging, name_cell

MAX_WORKFLOW_ROWS = 40
"""Maximum number of workflows with a row of their own in a table."""

MAX_EXCERPT_LINE = 1000
"""Maximum number of characters shown of a line of a failed task's output."""

MAX_PROGRAMS = 20
"""Maximum number of programs named of those that ran on a head node."""

MANY_FAILURES = 20
"""Number of failed attempts, without any success, from which the display suggests to look."""


def outcome_text(state: RunState, *, driven: bool) -> str:
    """The state of a run in one word. ``driven``: an engine drives the run now."""
    if driven:
        return "draining" if state.draining else "running"
    return state.ended or "interrupted"


def progress_line(state: RunState) -> str:
    """Numbers of tasks by state, on one line."""
    parts = [f"{state.done}/{state.tasks} tasks done"]
    if state.reused:
        parts.append(f"{state.reused} of {state.tasks} reused")
    running = sum(s.phases[Phase.RUNNING] for s in state.sites)
    queued = sum(s.phases[Phase.QUEUED] + s.phases[Phase.SUBMITTING] for s in state.sites)
    staging = sum(s.phases[Phase.STAGING] for s in state.sites)
    counts = {
        "running": running,
        "queued": queued,
        "staging": staging,
        "waiting to retry": sum(w.delayed for w in state.workflows),
        "failed": state.failed,
        "blocked": state.blocked,
        "retried": state.retried,
    }
    parts += [f"{count} {word}" for word, count in counts.items() if count]
    return ", ".join(parts)


class SiteTable:
    """A row per site: cores in use, attempts by phase, tasks done. A narrow terminal gets fewer
    columns."""

    def __init__(self, state: RunState) -> None:
        self._state = state

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = _site_rows(self._state)
        headings = list(_SITE_HEADINGS)
        for heading in (*_LESS_WANTED, ""):
            width = sum(2 + max(len(row[h].plain) for row in [*rows, _HEAD]) for h in headings) - 2
            if width <= options.max_width or not heading:
                break
            headings.remove(heading)
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in headings:
            justify: Literal["left", "right"] = "left" if heading == "site" else "right"
            table.add_column(heading, justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(row[heading] for heading in headings))
        yield table
        launchers = self._state.find(Launchers)
        for index, site in enumerate(self._state.sites):
            if launchers is not None and index in launchers.pools:
                line = launcher_line(self._state, site, launchers.pools[index])
                yield Text(line, style="dim")
            if site.pause_reason is not None:
                reason = f"site {site.spec.name} is paused: {site.pause_reason}"
                yield Hanging(Text(reason, style="yellow"))


def launcher_line(state: RunState, site: SiteState, pool: LauncherPool) -> str:
    """The launchers of a site on one line."""
    head = f"launchers of {site.spec.name}: "
    if state.ended is not None:
        return f"{head}{len(pool.launchers) + len(pool.ended)} in all"
    phases = Counter(launcher.phase for launcher in pool.launchers.values())
    live = phases.pop(LauncherPhase.LIVE, 0)
    parts = [f"{live} live with {_plural(pool.live_slots, 'slot')}"] if live else []
    parts += [f"{count} {phase.name.lower()}" for phase, count in sorted(phases.items())]
    if pool.ended:
        parts.append(f"{len(pool.ended)} ended")
    return head + (", ".join(parts) or "none yet")


_SITE_HEADINGS = (
    "site", "slots", "used", "staging", "queued", "running", "done", "failed", "files", "MB",
)  # fmt: skip
_LESS_WANTED = ("MB", "files", "used", "staging", "slots", "queued")
_HEAD = {heading: Text(heading) for heading in _SITE_HEADINGS}


def _site_rows(state: RunState) -> list[dict[str, Text]]:
    used = [0] * len(state.sites)
    for attempt in state.attempts.values():
        if attempt.phase is Phase.RUNNING:
            task = state.workflows[attempt.workflow].workflow.tasks[attempt.task]
            used[attempt.site] += task.resources.cores
    rows = []
    for index, site in enumerate(state.sites):
        phases = site.phases
        values = (
            site.spec.name,
            site.spec.slots,
            used[index],
            phases[Phase.STAGING],
            phases[Phase.QUEUED] + phases[Phase.SUBMITTING],
            phases[Phase.RUNNING],
            site.done,
            site.failed,
            site.transfers_in,
            f"{site.bytes_in / 1e6:.1f}",
        )
        row = {h: Text(str(v)) for h, v in zip(_SITE_HEADINGS, values, strict=True)}
        if site.pause_reason is not None:
            row["site"].stylize("yellow")
        if site.failed:
            row["failed"].stylize("red")
        rows.append(row)
    return rows


def workflow_table(state: RunState) -> Table:
    """A row per workflow. The last row gives the number of workflows that are left out. Owners have
    a column if the documents name any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    bags = all(w.workflow.bag is not None for w in state.workflows)
    owned = any(w.workflow.owner for w in state.workflows)
    table.add_column("bag" if bags else "workflow")
    if owned:
        table.add_column("owner")
    for heading in ("tasks", "done", "failed", "blocked", "makespan"):
        table.add_column(heading, justify="right", no_wrap=True)
    for w in state.workflows[:MAX_WORKFLOW_ROWS]:
        end_s = w.ended_s if w.ended_s is not None else state.now_s
        table.add_row(
            name_cell(w.workflow.name),
            *([name_cell(w.workflow.owner or "-")] if owned else []),
            str(len(w.workflow.tasks)),
            str(w.done),
            str(w.failed),
            str(w.blocked),
            duration(end_s - w.added_s),
        )
    if len(state.workflows) > MAX_WORKFLOW_ROWS:
        table.add_row(f"and {len(state.workflows) - MAX_WORKFLOW_ROWS} more")
    return table


def task_parameters(workflow: Workflow, task: int) -> str:
    """The parameters of a bag's task, such as ``seed=91, ligand=a``; empty for other tasks."""
    if workflow.bag is None:
        return ""
    return shown_parameters(tasks_of(workflow).expansion, task)


def failure_list(state: RunState, failures: Sequence[Failure]) -> RenderableType:
    """A line for each failure, with the parameters of its task, and the end of its output."""
    parts = []
    for failure in failures:
        word = "failed" if failure.final else "failed, retried"
        _, workflow, task, _ = failure.key.rsplit(".", 3)
        parameters = task_parameters(state.workflows[int(workflow)].workflow, int(task))
        shown = name_line(failure.task)
        if parameters:
            shown += f" ({name_line(parameters)})"
        text = Text()
        text.append(f"{shown} at {failure.site} {word}", style="red")
        text.append(f" ({failure.cause}, attempt {failure.key})", style="dim")
        for line in failure.message.strip().split("\n")[-4:]:
            text.append(f"\n{name_line(line, MAX_EXCERPT_LINE)}")
        parts.append(Hanging(text))
    return Group(*parts)


def nothing_succeeds(state: RunState, run: str) -> str | None:
    """A remark for a run with `MANY_FAILURES` failures or more and no success."""
    count = sum(site.failed for site in state.sites)
    if state.done or count < MANY_FAILURES or not state.recent_failures:
        return None
    command = command_line("wfrun", "logs", run, state.recent_failures[-1].task)
    return (
        f"no task has succeeded, and {count} attempts have failed: "
        f"`{command}` "
        "shows the output of one, Ctrl-C stops the run"
    )


def summary(state: RunState, *, driven: bool = False) -> RenderableType:
    """The summary of a run that has ended, or is running (``driven``)."""
    now_s = time.time() if driven else state.now_s
    elapsed_s = max(1e-9, now_s - state.started_s)
    head = Text()
    word = outcome_text(state, driven=driven)
    style = {"done": "bold green", "failed": "bold red"}.get(word, "bold yellow")
    head.append(word, style=style)
    head.append(f": {progress_line(state)} in {duration(elapsed_s)}")
    ran = max(0, state.done - state.reused)
    head.append(f" ({ran / elapsed_s:.1f} tasks/s), policy {state.settings.policy}")
    if state.settings.selection:
        head.append(f", selection {state.settings.selection}")
    parts: list[RenderableType] = [head]
    if state.end_reason:
        parts.append(Hanging(Text(state.end_reason, style="red")))
    parts.append(SiteTable(state))
    if len(state.workflows) > 1:
        parts.append(workflow_table(state))
    parts.append(Text(_totals(state), style="dim"))
    replication = state.find(Replication)
    if replication is not None and replication.placed_total:
        parts.append(Text(_replicas(replication), style="dim"))
    parts += [Text(line, style="dim") for line in _head_nodes(state)]
    final = [f for f in state.recent_failures if f.final and _has_failed(state, f)]
    if final:
        parts.append(failure_list(state, final))
        if state.failed > len(final):
            parts.append(
                Text(
                    f"and {state.failed - len(final)} more: `wfrun results` lists all tasks",
                    style="red",
                )
            )
    for problem in state.uncollected[:10]:
        parts.append(Hanging(Text(f"output not collected: {problem}", style="red")))
    return Group(*parts)


def _has_failed(state: RunState, failure: Failure) -> bool:
    """Whether this failure is the reason for which the task has failed. The task may have been
    retried since, after a resume."""
    _, workflow, task, number = failure.key.rsplit(".", 3)
    w = state.workflows[int(workflow)]
    return w.status[int(task)] == TaskStatus.FAILED and w.attempts_of[int(task)] == int(number)


def _totals(state: RunState) -> str:
    """The metrics of thesis section 6.2.4 that can be computed from the state."""
    ready = sum(1 for a in state.attempts.values() if a.phase is not Phase.STAGING)
    started = max(1, state.done + sum(s.failed for s in state.sites) + ready)
    waiting_s = sum(w.waiting_s for w in state.workflows) / started
    staging_s = sum(w.staging_s for w in state.workflows) / started
    return (
        f"{state.transfers} files ({state.moved_bytes / 1e6:.1f} MB) moved between sites; per "
        f"task {staging_s:.2f} s file transfer delay, {waiting_s:.2f} s queue wait"
    )


def _replicas(replicas: Replication) -> str:
    """Number of replicas, their successes, and the core time of superseded attempts."""
    return (
        f"{_plural(replicas.placed_total, 'replica')}, {replicas.won} done first; "
        f"superseded attempts used {replicas.superseded_core_s:.1f} core seconds"
    )


def _head_nodes(state: RunState) -> list[str]:
    """A line for each cluster: connections, commands and CPU time on its head node."""
    lines = []
    for site in state.sites:
        if not site.connections and not site.commands:
            continue
        count = sum(site.commands.values())
        commands = site.commands.most_common(MAX_PROGRAMS)
        each = ", ".join(f"{n} {name_line(program)}" for program, n in commands)
        lines.append(
            f"head node of {site.spec.name}: {_plural(site.connections, 'connection')}, "
            f"{_plural(count, 'command')}{f' ({each})' if each else ''}, "
            f"{site.head_cpu_s:.1f} s CPU"
        )
    return lines


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def policy_table() -> Table:
    """The placement policies and their information, as in Tables 5.1 and 6.1 of the thesis."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", no_wrap=True)
    for heading in ("status", "speed", "links", "run time", "file size"):
        table.add_column(heading, justify="center")
    table.add_column("places", overflow="fold")
    for policy in PLACEMENT.values():
        known = policy.information
        options = ", ".join(f"{name}={value}" for name, value in policy.options.items())
        table.add_row(
            policy.name,
            known.status.value,
            known.processing_speed.value,
            known.link_speed.value,
            known.task_runtime.value,
            known.file_size.value,
            policy.summary + (f" (-O {options})" if options else ""),
        )
    table.caption = (
        "Site status and speed, link speeds, run times of tasks and sizes of files are U unknown "
        "or ignored, K known in advance, R obtained at run time, H estimated from earlier tasks"
    )
    table.caption_justify = "left"
    return table


def selection_table() -> Table:
    """The selection policies (thesis section 5.1.3)."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("selection", no_wrap=True)
    table.add_column("selects", overflow="fold")
    for policy in SELECTION.values():
        table.add_row(policy.name, policy.summary)
    return table


def duration(seconds: float) -> str:
    """``0.4 s``, ``3:07``, ``2:03:07`` or ``4 d 02:03``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours == 0:
        return f"{minute}:{second:02}"
    days, hour = divmod(hours, 24)
    return f"{days} d {hour:02}:{minute:02}" if days else f"{hours}:{minute:02}:{second:02}"
