"""Why sites have free cores, for people. `wfrun.engine.explain.idleness` finds the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wfrun.engine.core.state import RunState
from wfrun.engine.explain.idleness import Idleness, explain_idleness
from wfrun.runners.display.durations import duration

_QUIET = ("done", "stopping")
"""Kinds of reasons that need no line, because the run waits for nothing."""


class IdleSites(NamedTuple):
    """Sites that have free cores for the same reason."""

    sites: tuple[str, ...]
    reason: Idleness

    def line(self, now_s: float) -> str:
        """The reason with the names of the sites."""
        return f"{', '.join(self.sites)}: {reason_text(self.reason, now_s)}"


def reason_text(reason: Idleness, now_s: float) -> str:
    """The text of a reason, and for how long it has held if that is known."""
    if reason.since_s is None:
        return reason.text
    return f"{reason.text} for {duration(max(0.0, now_s - reason.since_s))}"


def idle_sites(state: RunState) -> list[IdleSites]:
    """The sites that have free cores while the run has work, in the order of the catalog. Sites
    with the same reason are grouped."""
    return grouped(state, explain_idleness(state))


def grouped(state: RunState, reasons: Sequence[Idleness | None]) -> list[IdleSites]:
    """Group the sites of a run by reason; ``reasons`` has the reason of each site. Sites without a
    reason, or with a reason in `_QUIET`, are left out."""
    sites: dict[Idleness, list[str]] = {}
    for site, reason in zip(state.sites, reasons, strict=True):
        if reason is not None and reason.kind not in _QUIET:
            sites.setdefault(reason, []).append(site.spec.name)
    return [IdleSites(tuple(names), reason) for reason, names in sites.items()]
