"""Tables and texts about a run, made from its state. They include advice to use launchers where
batch jobs add much overhead to the run times of tasks."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wfrun.engine.capabilities.binding import Binding
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.reallocating.reallocations import Reallocations
from wfrun.engine.capabilities.replication.replication import Replication
from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.core.state import Phase, RunState
from wfrun.engine.explain.shares import share_text, turns_text
from wfrun.engine.explain.time_left import TimeLeftEstimator
from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import ORIGIN
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION
from wfrun.runners.display.console import Hanging, name_cell
from wfrun.runners.display.counts import counted, retries_text, task_counts
from wfrun.runners.display.durations import duration, task_rate
from wfrun.runners.display.eta import eta_text
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.inspect.failures.failures import failure_summary
from wfrun.runners.inspect.tables.idle_sites import idle_sites
from wfrun.runners.inspect.tables.running import running_table, running_tasks
from wfrun.runners.inspect.tables.site_table import SiteTable, launcher_lines
from wfrun.runners.inspect.tables.sizes import size_table
from wfrun.runners.metrics.optional_bags import OptionalShares, optional_shares

MAX_WORKFLOW_ROWS = 40
"""Maximum number of workflows with a row of their own in a table."""

MAX_RUNNING_ROWS = 10
"""Maximum number of running tasks in a summary."""

MAX_FALLBACKS = 10
MAX_FALLBACK = 500
"""Maximum number of lines about transfer methods that failed, and of characters in each."""

MAX_PROGRAMS = 20
"""Maximum number of programs named in a list of programs that ran on a head node."""


def outcome_text(state: RunState, *, driven: bool) -> str:
    """The state of a run in one word. ``driven``: an engine drives the run now."""
    if driven:
        return "draining" if state.draining else "running"
    return state.ended or "interrupted"


def workflow_table(state: RunState) -> Table:
    """A row per workflow. The last row gives the number of workflows that are left out. If any
    document names an owner, there is a column of owners."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    bags = all(w.workflow.bag is not None for w in state.workflows)
    owned = any(w.workflow.owner for w in state.workflows)
    table.add_column("bag" if bags else "workflow")
    if owned:
        table.add_column("owner")
    for heading in ("tasks", "done", "failed", "blocked", "makespan"):
        table.add_column(heading, justify="right", no_wrap=True)
    names = distinct_names([w.workflow for w in state.workflows])
    for name, w in zip(names[:MAX_WORKFLOW_ROWS], state.workflows, strict=False):
        end_s = w.ended_s if w.ended_s is not None else state.now_s
        has_makespan = w.done + w.unneeded == len(w.workflow.tasks) or not state.ended
        table.add_row(
            name_cell(name),
            *([name_cell(w.workflow.owner or "-")] if owned else []),
            str(len(w.workflow.tasks)),
            str(w.done),
            str(w.failed),
            str(w.blocked),
            duration(end_s - w.added_s) if has_makespan else "-",
        )
    if len(state.workflows) > MAX_WORKFLOW_ROWS:
        table.add_row(f"and {len(state.workflows) - MAX_WORKFLOW_ROWS} more")
    return table


def summary(state: RunState, *, driven: bool = False) -> RenderableType:
    """The summary of a run that has ended, or is running (``driven``)."""
    now_s = time.time() if driven else state.end_s
    parts: list[RenderableType] = [_headline(state, now_s, driven=driven)]
    if state.end_reason:
        parts.append(Hanging(Text(state.end_reason, style="red")))
    parts += [SiteTable(state), *launcher_lines(state), *idle_lines(state, now_s, driven=driven)]
    parts += share_lines(state)
    parts += advice_lines(state)
    if len(state.workflows) > 1:
        parts.append(workflow_table(state))
    if driven:
        parts += _running(state, now_s)
    sizes = size_table(state, now_s)
    if sizes is not None:
        parts.append(sizes)
    parts.append(Text(_totals(state), style="dim"))
    if state.vanished:
        parts.append(Text(_vanished(state), style="dim"))
    replication = state.find(Replication)
    if replication is not None and replication.placed_total:
        parts.append(Text(_replicas(replication), style="dim"))
    shares = optional_shares(state)
    if shares is not None:
        parts.append(Text(_shares(shares), style="dim"))
    claims = state.find(ProcessorClaims)
    if claims is not None:
        parts.append(Text(_claims(claims), style="dim"))
    parts += [Text(line, style="dim") for line in _head_nodes(state)]
    failures = failure_summary(state)
    if failures is not None:
        parts.append(failures)
    for problem in state.uncollected[:10]:
        parts.append(Hanging(Text(f"output not collected: {problem}", style="red")))
    return Group(*parts)


def _headline(state: RunState, now_s: float, *, driven: bool) -> Text:
    elapsed_s = max(1e-9, now_s - state.started_s)
    head = Text()
    word = outcome_text(state, driven=driven)
    style = {"done": "bold green", "failed": "bold red"}.get(word, "bold yellow")
    head.append(word, style=style)
    head.append(f": {task_counts(state, is_over=not driven)} in {duration(elapsed_s)}")
    ran = max(0, state.done - state.reused)
    head.append(f" ({task_rate(ran / elapsed_s)})")
    left = TimeLeftEstimator(state).at(now_s) if driven else None
    if left is not None:
        head.append(f", {eta_text(left)}")
    settings = state.settings
    is_policy = not (settings.sizing or settings.pack or settings.malleable or settings.scavenge)
    head.append(", policy " if is_policy else ", ").append(state.settings.placed_by)
    if state.settings.reallocate:
        moves = counted(state.get(Reallocations).moves, "move")
        head.append(f", reallocate {state.settings.reallocate} ({moves})")
    if state.settings.selection:
        head.append(f", selection {state.settings.selection}")
    head.append(retries_text(state))
    return head


def idle_lines(state: RunState, now_s: float, *, driven: bool) -> list[RenderableType]:
    """Return a line for each reason why sites have free cores. If no engine drives the run, pauses
    are the only reasons given."""
    return [
        Hanging(Text(found.line(now_s), style="yellow"))
        for found in idle_sites(state)
        if driven or found.reason.kind == "paused"
    ]


def share_lines(state: RunState) -> list[RenderableType]:
    """Return a line for each site with the number of launchers of each scavenging owner, and why
    there are no more; after the end of the run, with the number of launchers given back. A last
    line names the owners who wait for their turn. Empty in runs without ``--scavenge``."""
    if state.find(Scavenging) is None:
        return []
    lines = [
        f"{site.spec.name}: {text}"
        for index, site in enumerate(state.sites)
        if (text := share_text(state, index))
    ]
    turns = turns_text(state)
    return [Hanging(Text(line)) for line in [*lines, *([turns] if turns else [])]]


def advice_lines(state: RunState) -> list[RenderableType]:
    """Advice to use launchers, and transfer methods that have failed."""
    advice = launcher_advice(state)
    lines = [] if advice is None else [advice]
    return [Hanging(Text(line, style="yellow")) for line in (*lines, *fallback_lines(state))]


def fallback_lines(state: RunState) -> list[str]:
    """Transfer methods that are no longer used between two sites, and why."""
    return [name_line(text, MAX_FALLBACK) for text in state.fallbacks[:MAX_FALLBACKS]]


def _running(state: RunState, now_s: float) -> list[RenderableType]:
    tasks = running_tasks(state, now_s, MAX_RUNNING_ROWS)
    count = sum(site.phases[Phase.RUNNING] for site in state.sites)
    return [running_table(tasks, count - len(tasks))] if tasks else []


def _totals(state: RunState) -> str:
    """The metrics of thesis section 6.2.4 that can be computed from the state."""
    ready = sum(1 for a in state.attempts.values() if a.phase is not Phase.STAGING)
    started = max(1, state.done + sum(s.failed for s in state.sites) + ready)
    waiting_s = sum(w.waiting_s for w in state.workflows) / started
    staging_s = sum(w.staging_s for w in state.workflows) / started
    by_method = ", ".join(
        f"{count} by {method}" for method, count in state.transfer_methods.most_common()
    )
    return (
        f"{state.transfers} files ({state.moved_bytes / 1e6:.1f} MB) moved between sites; "
        f"{f'copies: {by_method}; ' if by_method else ''}per "
        f"task {staging_s:.2f} s file transfer delay, {waiting_s:.2f} s queue wait"
    )


def _vanished(state: RunState) -> str:
    """Number of files that vanished, by site, and of tasks that were repeated for them."""
    at = ", ".join(
        f"{count} at {'outputs/' if site == ORIGIN else state.sites[site].spec.name}"
        for site, count in sorted(state.vanished.items())
    )
    return f"files that vanished: {at}; {counted(state.redone, 'task')} run again for them"


def _replicas(replicas: Replication) -> str:
    """Number of replicas, their successes, and the core time of superseded attempts."""
    return (
        f"{counted(replicas.placed_total, 'replica')}, {replicas.won} done first; "
        f"superseded attempts used {replicas.superseded_core_s:.1f} core seconds"
    )


def _shares(shares: OptionalShares) -> str:
    """The metrics of bags with optional tasks."""
    unfair = "" if shares.unfairness is None else f", unfairness {shares.unfairness:.2f}"
    return (
        f"bags with optional tasks: {counted(shares.completed, 'task')} done, "
        f"{shares.unhappy_owners} of {counted(len(shares.owners), 'owner')} unhappy{unfair}"
    )


def _claims(claims: ProcessorClaims) -> str:
    """The claims of a run, and the phases of its jobs (thesis, Figure 2.5)."""
    phases = claims.phases
    causes = [(cause, count) for cause, count in phases.ended.items() if cause != "done"]
    lost = "".join(f", {count} {cause}" for cause, count in sorted(causes))
    sums = (phases.queue_s, phases.claim_s, phases.start_s, phases.execution_s)
    counts = (phases.placed, phases.granted, phases.started, phases.started)
    queue, claim, start, execution = (
        duration(total_s / max(1, count)) for total_s, count in zip(sums, counts, strict=True)
    )
    return (
        f"{counted(phases.placed, 'claim')}{lost}; mean {queue} in the placement queue, "
        f"{claim} for all processors of a claim, {start} to start, {execution} execution"
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
            f"head node of {site.spec.name}: {counted(site.connections, 'connection')}, "
            f"{counted(count, 'command')}{f' ({each})' if each else ''}, "
            f"{site.head_cpu_s:.1f} s CPU"
        )
    return lines


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


MIN_DONE = 20
"""Minimum number of tasks that a site has done before launchers are advised for it."""
MIN_COST_RATIO = 0.25
"""Minimum ratio of the overhead of a batch job to the run time of its task for which launchers are
advised. Below it, launchers save less than a fifth of the time."""
MAX_SITES = 4
"""Maximum number of sites in the advice."""


def launcher_advice(state: RunState) -> str | None:
    """Advice to use launchers, with the times that it is based on; None if launchers would not
    pay."""
    binding = state.find(Binding)
    if binding is None:
        return None
    sites = []
    for site, pace in zip(state.sites, binding.paces, strict=True):
        cost_s, runtime_s = pace.cost_s, pace.runtime_s
        if not site.spec.has_batch_system or site.spec.has_launchers or site.done < MIN_DONE:
            continue
        if cost_s is None or runtime_s is None or cost_s < MIN_COST_RATIO * runtime_s:
            continue
        sites.append(
            f"{name_line(site.spec.name)}: tasks take {duration(runtime_s)}, a job costs "
            f"{duration(cost_s)} more"
        )
    if not sites:
        return None
    more = f"; and {len(sites) - MAX_SITES} more sites" if len(sites) > MAX_SITES else ""
    # A resumed run keeps the dispatch of its sites: it may have jobs there (`changes.py`).
    present = "" if state.ended == "done" else (
        "; this run keeps the dispatch of its sites, but `wfrun resume --sites` takes a new entry "
        "of another name"
    )  # fmt: skip
    return (
        f"{'; '.join(sites[:MAX_SITES])}{more}. With 'dispatch: launchers' in the catalog of a new "
        f"run one job runs many tasks (docs/launchers.md){present}."
    )
