"""Retries of tasks after failed attempts: one table of rules, by cause of the failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.core.state import Attempt, RunState, TaskStatus, WorkflowState
from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.fitting.fit import (
    admitted_sizes,
    fits,
    granted_memory_bytes,
    granted_walltime_s,
    greatest_growth,
)
from wfrun.engine.model import Resources, SiteSpec

MAX_SETBACKS = 10
"""Maximum number of failures of a task that are not its own fault. A larger number of retries
replaces it. Without a limit, a task that no site ever runs would be retried for ever."""

GROWTH = 2
"""Factor by which a memory or walltime request grows."""

MAX_DELAY_DOUBLINGS = 10
"""Maximum number of doublings of the delay before a retry."""


class Rule(NamedTuple):
    """The retry rule for one cause of failure."""

    own: bool
    """Whether the failure is the task's own and costs a retry; otherwise it counts as a setback."""
    where: Literal["elsewhere first", "elsewhere", "never there", "anywhere"]
    """Where the task is retried. ``elsewhere first``: at sites where it has not failed, while there
    are any, then at all sites in turn. ``elsewhere``: only at sites where it has not failed.
    ``never there``: at other sites, since the site never accepts the task. ``anywhere``: at any
    site."""
    grows: Literal["memory", "walltime"] | None = None
    """The request that is doubled, within what sites grant."""


RULES: dict[Cause, Rule] = {
    "exit": Rule(True, "elsewhere first"),
    "signal": Rule(True, "elsewhere first"),
    "output": Rule(True, "elsewhere first"),
    "cancelled": Rule(True, "elsewhere first"),  # by its user, not by us
    "launch-failed": Rule(True, "elsewhere"),  # a missing program stays missing at this site
    "memory": Rule(True, "anywhere", "memory"),
    "walltime": Rule(True, "anywhere", "walltime"),
    "refused": Rule(False, "never there"),
    "staging": Rule(False, "elsewhere first"),
    "environment": Rule(False, "elsewhere first"),
    "disk-full": Rule(False, "elsewhere first"),
    "preempted": Rule(False, "elsewhere first"),
    "reclaimed": Rule(False, "anywhere"),  # of a task that was not to run any more
    "expired": Rule(False, "anywhere"),
    "node": Rule(False, "elsewhere first"),
    "lost": Rule(False, "elsewhere first"),
}


class RetryDecision(NamedTuple):
    """The consequence of a failed attempt."""

    retry: bool
    delay_s: float
    note: str
    """What changes for the next attempt, or why there is none; may be empty."""


def apply_retry_rule(
    state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome, *, own: bool
) -> RetryDecision:
    """Apply the rule for the cause of a failure: count the failure, and note which sites the task
    avoids and what it requests from now on. ``own``: whether the failure costs a retry; otherwise
    it is a setback."""
    rule = RULES[outcome.cause]
    task, bit = attempt.task, 1 << attempt.site
    settings = state.settings
    if rule.where == "never there" and not state.stopping and _narrow(state, w, attempt):
        # Halving bounds these refusals, so they are no setbacks.
        note = "there again with at most half the processors"
        return RetryDecision(True, settings.retry_delay_s, note)
    if own:
        times = w.failures[task] = w.failures.get(task, 0) + 1
        limit = settings.retries
    else:
        times = w.setbacks[task] = w.setbacks.get(task, 0) + 1
        limit = max(MAX_SETBACKS, settings.retries)
    delay_s = settings.retry_delay_s * 2 ** min(times - 1, MAX_DELAY_DOUBLINGS)
    if rule.where == "never there":
        _exclude_site(w, task, bit)
    if not w.feasible_sites(task):
        return RetryDecision(False, 0.0, "no site is left that takes it")
    if state.stopping:
        return RetryDecision(False, 0.0, "")
    if times > limit:
        note = "" if own else f"given up after {times} failures that were not its own"
        return RetryDecision(False, 0.0, note)
    note = ""
    if is_too_short(attempt, outcome):
        return RetryDecision(True, delay_s, "again with the longest walltime of its site")
    grown = _grown(state, w, attempt, outcome) if rule.grows else None
    if grown is not None:
        asked, note = grown
        if asked is None:
            return RetryDecision(False, 0.0, note)
        w.asks[task] = asked
        w.masks[task] = _possible_sites(state, w, task) & ~w.refused.get(task, 0)
    else:
        has_others = _avoid(w, task, bit)
        if rule.where == "elsewhere" and not has_others:
            return RetryDecision(False, 0.0, "")
    return RetryDecision(True, delay_s, note)


def is_too_short(attempt: Attempt, outcome: Outcome) -> bool:
    """Return whether an attempt was ended by a walltime learned from earlier tasks, not by a
    walltime of the user or the site."""
    return outcome.cause == "walltime" and attempt.walltime_s is not None


def note_site_to_avoid(w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    """Note that a task avoids the site of a failed attempt, or excludes it, by the rule for the
    cause. Called for attempts that fail while another attempt of the task is open."""
    rule, bit = RULES[outcome.cause], 1 << attempt.site
    if rule.where == "never there":
        _exclude_site(w, attempt.task, bit)
    if rule.grows is None:
        _avoid(w, attempt.task, bit)


def _avoid(w: WorkflowState, task: int, bit: int) -> bool:
    """Let a task avoid a site where it has failed. Returns whether there are sites where it has not
    failed. If there are none, the task avoids this site only: a site that fails everything at once
    is always free, and would use up the retries of the task."""
    avoid = w.avoid.get(task, 0) | bit
    has_others = bool(w.feasible_sites(task) & ~avoid)
    w.avoid[task] = avoid if has_others else bit
    return has_others


def _narrow(state: RunState, w: WorkflowState, attempt: Attempt) -> bool:
    """Limit a moldable job at a site that refused it to half the processors that it requested: the
    nodes of the site may be narrower. Other sites come first. Returns whether the job has such a
    size there."""
    if attempt.task not in w.workflow.moldable:
        return False
    most = attempt.cores // 2
    spec, growth = state.sites[attempt.site].spec, w.growth(attempt.task)
    sizes = admitted_sizes(w.workflow, attempt.task, spec, growth)
    if not sizes or sizes[0] > most:
        return False
    w.max_sizes[attempt.task, attempt.site] = most
    _avoid(w, attempt.task, 1 << attempt.site)
    return True


def _exclude_site(w: WorkflowState, task: int, bit: int) -> None:
    """Exclude a site for all further attempts of the task."""
    w.refused[task] = w.refused.get(task, 0) | bit
    w.masks[task] = w.feasible_sites(task) & ~bit


def avoiding_tasks(state: RunState) -> tuple[tuple[int, int], ...]:
    """The eligible tasks that avoid a healthy site, as (workflow, task). Cost: the tasks that have
    failed anywhere."""
    healthy = sum(1 << index for index, site in enumerate(state.sites) if site.is_healthy)
    return tuple(
        (w.index, task)
        for w in state.workflows
        for task, avoid in sorted(w.avoid.items())
        if w.status[task] == TaskStatus.ELIGIBLE
        and w.feasible_sites(task) & avoid & healthy & ~w.allowed_sites(task)
    )


def note_acceptance(state: RunState, w: WorkflowState, attempt: Attempt) -> None:
    """Allow a task at a site again that had refused it: an attempt of the task has succeeded
    there."""
    refused = w.refused.get(attempt.task, 0) & ~(1 << attempt.site)
    w.refused[attempt.task] = refused
    w.masks[attempt.task] = _possible_sites(state, w, attempt.task) & ~refused


def reset_retries(state: RunState, w: WorkflowState) -> None:
    """Reset the failure counts and the avoided and excluded sites of all tasks, after a resume.
    Grown requests are kept, since smaller requests are known to fail."""
    w.failures.clear()
    w.setbacks.clear()
    w.avoid.clear()
    w.refused.clear()
    w.max_sizes.clear()
    w.barred.clear()
    w.remakes.clear()
    w.worn_out.clear()
    w.masks = {task: _possible_sites(state, w, task) for task in {**w.asks, **w.workflow.moldable}}


def _possible_sites(state: RunState, w: WorkflowState, task: int) -> int:
    """The sites of the workflow that fit the next attempt of a task, as a mask. The size of a
    moldable job is chosen anew, so sites that fit another of its sizes count, too."""
    return state.queue_sites(w) & sum(
        1 << i for i, site in enumerate(state.sites) if _could_run(state, w, task, site.spec)
    )


def _could_run(state: RunState, w: WorkflowState, task: int, site: SiteSpec) -> bool:
    if task in w.workflow.moldable and state.settings.sizing:
        return bool(admitted_sizes(w.workflow, task, site, w.growth(task)))
    return fits(w.asked(task), site)


def _grown(
    state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome
) -> tuple[Resources | None, str] | None:
    """The next request of the task, with a note for the user. The request is None if no site grants
    more. The result is None if the task requested nothing and its use is unknown."""
    asked = w.asked(attempt.task)
    is_moldable = attempt.task in w.workflow.moldable and state.settings.sizing is not None
    offered = state.queue_sites(w) & ~w.refused.get(attempt.task, 0)
    specs = [s.spec for i, s in enumerate(state.sites) if offered >> i & 1]
    replace = msgspec.structs.replace
    if outcome.cause == "memory":
        had = asked.memory_bytes or outcome.peak_memory_bytes or 0
        rest = replace(asked, memory_bytes=0)
        bounds = [
            granted_memory_bytes(s)
            for s in specs
            if fits(rest, s) or (is_moldable and admitted_sizes(w.workflow, attempt.task, s))
        ]
        most = max(bounds, default=0)
        if not had:
            return None
        if most <= had:
            return None, f"no site grants more than {_size(most)} of memory"
        size_bytes = int(min(GROWTH * had, most))
        return replace(asked, memory_bytes=size_bytes), f"again with {_size(size_bytes)} of memory"
    if is_moldable:
        return _longer(w, attempt.task, specs)
    had_s = asked.walltime_s or _elapsed_s(outcome)
    rest = replace(asked, walltime_s=None)
    bounds = [granted_walltime_s(s, asked) for s in specs if fits(rest, s)]
    most_s = max(bounds, default=0.0)
    if not had_s:
        return None
    if most_s <= had_s:
        return None, f"no site grants a walltime of more than {most_s:.0f} s"
    walltime_s = min(GROWTH * had_s, most_s)
    return replace(asked, walltime_s=walltime_s), f"again with a walltime of {walltime_s:.0f} s"


def _longer(w: WorkflowState, task: int, sites: Sequence[SiteSpec]) -> tuple[Resources | None, str]:
    """Return the request of a moldable job with longer walltimes, with a note for the user. The
    request is None if no site grants more. With its present size the job may exceed what sites
    grant: its next size is chosen among the sizes that fit."""
    growth = w.growth(task)
    most = max((greatest_growth(w.workflow, task, s, growth) for s in sites), default=0.0)
    if most <= growth.walltimes:
        return None, "no site grants a longer walltime with any of its sizes"
    grown = growth._replace(walltimes=min(GROWTH * growth.walltimes, most))
    asked = w.grown(task, w.asked(task).cores, grown)
    return asked, f"again with {grown.walltimes:.4g} times its walltime"


def _elapsed_s(outcome: Outcome) -> float:
    if outcome.started_s is None or outcome.ended_s is None:
        return 0.0
    return max(0.0, outcome.ended_s - outcome.started_s)


def _size(size_bytes: float) -> str:
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.4g} GiB"
    return f"{size_bytes / 2**20:.4g} MiB"
