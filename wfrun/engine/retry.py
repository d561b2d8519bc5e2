"""What follows for a task when an attempt of it has failed: one table of rules, by cause."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.exchange import Cause, Outcome
from wfrun.engine.fit import fits, granted_memory_bytes, granted_walltime_s
from wfrun.engine.model import Resources
from wfrun.engine.state import Attempt, RunState, WorkflowState

MAX_SETBACKS = 10
"""A task may fail so often for no fault of its own, or as often as it has retries if these are
more."""

GROWTH = 2
"""Memory and walltime are multiplied by this."""

MAX_DELAY_DOUBLINGS = 10
"""Of the delay before a retry."""


class Rule(NamedTuple):
    """How a task is tried again after one cause of failure."""

    own: bool
    """It counts as the task's own failure and costs a retry; else as a setback."""
    where: Literal["elsewhere first", "elsewhere", "never there", "anywhere"]
    """``elsewhere first``: at a site where it has not failed, as long as there is one.
    ``elsewhere``: at no other. ``never there``: this site is out of the question for it."""
    grows: Literal["memory", "walltime"] | None = None
    """What it asks for is doubled, within what sites grant."""


RULES: dict[Cause, Rule] = {
    "exit": Rule(True, "elsewhere first"),
    "signal": Rule(True, "elsewhere first"),
    "output": Rule(True, "elsewhere first"),
    "cancelled": Rule(True, "elsewhere first"),  # by its owner, behind our back
    "start": Rule(True, "elsewhere"),  # it is not there; waiting does not bring it
    "memory": Rule(True, "anywhere", "memory"),
    "walltime": Rule(True, "anywhere", "walltime"),
    "refused": Rule(False, "never there"),
    "staging": Rule(False, "elsewhere first"),
    "storage": Rule(False, "elsewhere first"),
    "preempted": Rule(False, "elsewhere first"),
    "expired": Rule(False, "anywhere"),
    "node": Rule(False, "elsewhere first"),
    "lost": Rule(False, "elsewhere first"),
}


class Verdict(NamedTuple):
    """What follows from a failed attempt."""

    retry: bool
    delay_s: float
    note: str
    """What is changed for the next attempt, or why there is none; empty: nothing to be said."""


def apply_retry_rule(
    state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome, *, own: bool
) -> Verdict:
    """Apply the rule of this cause: count the failure, and note for the task which sites it is to
    avoid and what it asks for from now on. ``own``: it is the task's own failure."""
    rule = RULES[outcome.cause]
    task, bit = attempt.task, 1 << attempt.site
    settings = state.settings
    if own:
        times = w.failures[task] = w.failures.get(task, 0) + 1
        limit = settings.retries
    else:
        times = w.setbacks[task] = w.setbacks.get(task, 0) + 1
        limit = max(MAX_SETBACKS, settings.retries)
    delay_s = settings.retry_delay_s * 2 ** min(times - 1, MAX_DELAY_DOUBLINGS)
    if rule.where == "never there":
        _never_there(w, task, bit)
    if not w.feasible_sites(task):
        return Verdict(False, 0.0, "no site is left that takes it")
    if state.stopping:
        return Verdict(False, 0.0, "")
    if times > limit:
        note = "" if own else f"given up after {times} failures that were not its own"
        return Verdict(False, 0.0, note)
    note = ""
    grown = _grown(state, w, attempt, outcome) if rule.grows else None
    if grown is not None:
        asked, note = grown
        if asked is None:
            return Verdict(False, 0.0, note)
        w.asks[task] = asked
        w.masks[task] = _mask(state, w, asked) & ~w.refused.get(task, 0)
    else:
        w.avoid[task] = w.avoid.get(task, 0) | bit
        if rule.where == "elsewhere" and not w.feasible_sites(task) & ~w.avoid[task]:
            return Verdict(False, 0.0, "")
    return Verdict(True, delay_s, note)


def note_site_to_avoid(w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
    """What is learnt from an attempt that failed while another one of its task goes on: where not
    to try it again."""
    rule, bit = RULES[outcome.cause], 1 << attempt.site
    if rule.where == "never there":
        _never_there(w, attempt.task, bit)
    if rule.grows is None:
        w.avoid[attempt.task] = w.avoid.get(attempt.task, 0) | bit


def _never_there(w: WorkflowState, task: int, bit: int) -> None:
    w.refused[task] = w.refused.get(task, 0) | bit
    w.masks[task] = w.feasible_sites(task) & ~bit


def reset_retries(state: RunState, w: WorkflowState) -> None:
    """After a resume all tasks have all their retries at all sites; what they have come to ask
    for stays."""
    w.failures.clear()
    w.setbacks.clear()
    w.avoid.clear()
    w.refused.clear()
    w.masks = {task: _mask(state, w, asked) for task, asked in w.asks.items()}


def _mask(state: RunState, w: WorkflowState, asked: Resources) -> int:
    return state.queue_sites(w) & sum(
        1 << i for i, site in enumerate(state.sites) if fits(asked, site.spec)
    )


def _grown(
    state: RunState, w: WorkflowState, attempt: Attempt, outcome: Outcome
) -> tuple[Resources | None, str] | None:
    """What the task asks for next, and the words for it; no resources where no site grants more.
    None: it asked for nothing, and what it had is not known."""
    asked = w.asked(attempt.task)
    refused = w.refused.get(attempt.task, 0)
    specs = [s.spec for i, s in enumerate(state.sites) if not refused >> i & 1]
    replace = msgspec.structs.replace
    if outcome.cause == "memory":
        had = asked.memory_bytes or outcome.peak_memory_bytes or 0
        rest = replace(asked, memory_bytes=0)
        bounds = [granted_memory_bytes(s) for s in specs if fits(rest, s)]
        most = max(bounds, default=0)
        if not had:
            return None
        if most <= had:
            return None, f"no site grants more than {_size(most)} of memory"
        size_bytes = int(min(GROWTH * had, most))
        return replace(asked, memory_bytes=size_bytes), f"again with {_size(size_bytes)} of memory"
    had_s = asked.walltime_s or _elapsed_s(outcome)
    rest = replace(asked, walltime_s=None)
    bounds = [granted_walltime_s(s) for s in specs if fits(rest, s)]
    most_s = max(bounds, default=0.0)
    if not had_s:
        return None
    if most_s <= had_s:
        return None, f"no site grants a walltime of more than {most_s:.0f} s"
    walltime_s = min(GROWTH * had_s, most_s)
    return replace(asked, walltime_s=walltime_s), f"again with a walltime of {walltime_s:.0f} s"


def _elapsed_s(outcome: Outcome) -> float:
    if outcome.started_s is None or outcome.ended_s is None:
        return 0.0
    return max(0.0, outcome.ended_s - outcome.started_s)


def _size(size_bytes: float) -> str:
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.4g} GiB"
    return f"{size_bytes / 2**20:.4g} MiB"
