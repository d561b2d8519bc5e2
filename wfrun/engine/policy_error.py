"""The error for an exception in a policy, which may be a user's own."""

from __future__ import annotations

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.events import Settings
from wfrun.engine.policies.placement import placement_class
from wfrun.engine.policies.selection import selection_class
from wfrun.engine.protocols import Placement, Selection


class PolicyError(InfeasibleError):
    """A policy raised an exception. Nothing is lost: the run goes on with a corrected policy."""


def policy_error(error: Exception, settings: Settings) -> PolicyError | None:
    """The error that names the policy of the run, its file and its line, if ``error`` comes out of
    one of them; None if it comes from elsewhere, or is one of ours."""
    if isinstance(error, WfrunError):
        return None  # it says what is wrong
    policies: list[tuple[str, type[Placement] | type[Selection]]] = []
    if settings.policy:
        policies.append(("policy", placement_class(settings.policy)))
    if settings.selection:
        policies.append(("selection policy", selection_class(settings.selection)))
    for kind, policy in policies:
        place = _last_place(error, policy.__module__)
        if place is not None:
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return PolicyError(
                f"{kind} {policy.name!r} raised {text}",
                source=place[0],
                line=place[1],
                hint="Correct the policy, then continue the run with `wfrun resume`.",
            )
    return None


def _last_place(error: Exception, module: str) -> tuple[str, int] | None:
    """File and line of the last call in a module on the way to the error; None if there is
    none."""
    place, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == module:
            place = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return place
