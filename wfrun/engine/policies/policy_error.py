"""Errors for exceptions in policies, which may be written by users, and for forbidden answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.events import Settings
from wfrun.engine.jobs.scavenging.policies import PREEMPTION, Preemption
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION
from wfrun.engine.protocols import Placement, Selection

_ADVICE = "Correct the policy, then continue the run with `wfrun resume`."


class PolicyError(InfeasibleError):
    """A policy raised an exception, or gave a forbidden answer. No results are lost: the run can be
    resumed with a corrected policy."""


def policy_error(error: Exception, settings: Settings) -> PolicyError | None:
    """The error that names the policy of the run, its file and its line, if ``error`` was raised in
    a policy; None otherwise."""
    for kind, policies, name in (
        ("policy", PLACEMENT, settings.policy),
        ("selection policy", SELECTION, settings.selection),
        ("order of preemption", PREEMPTION, settings.preempt),
    ):
        policy: type[Placement] | type[Selection] | Preemption | None = policies.get(name)
        place = None if policy is None else _last_place(error, policy.__module__)
        if place is not None:
            return PolicyError(
                f"{kind} {name!r} raised {_said(error)}",
                source=place[0],
                line=place[1],
                hint=_hint(error),
            )
    return None


def answer_error(message: str, method: Callable[..., Any], allowed: str) -> PolicyError:
    """The error for a forbidden answer of a method of a policy, with its file and line."""
    code = getattr(method, "__code__", None)
    return PolicyError(
        message,
        source=None if code is None else code.co_filename,
        line=None if code is None else code.co_firstlineno,
        hint=f"{allowed}. {_ADVICE}",
    )


def _said(error: Exception) -> str:
    text = error.message if isinstance(error, WfrunError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _hint(error: Exception) -> str:
    own = error.hint if isinstance(error, WfrunError) else None
    return f"{_ADVICE}\n  {own}" if own else _ADVICE


def _last_place(error: Exception, module: str) -> tuple[str, int] | None:
    """File and line of the last call in a module before the error; None if there is none."""
    place, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == module:
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return place
