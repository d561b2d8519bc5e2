"""Explanation of the number of launchers that scavenging owners have at a site."""

from __future__ import annotations

from wfrun.engine.capabilities.scavenging.scavenging import Scavenging
from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import name_line
from wfrun.engine.jobs.scavenging.idleness import is_within


def share_bound(state: RunState, index: int) -> str:
    """The limit on the number of launchers at a site, as text for the user; empty if only the work
    of the owners limits it."""
    scavenging, site = state.get(Scavenging), state.sites[index]
    idle, rules = scavenging.idle[index], scavenging.idle[index].rules
    if site.pause_text:
        return site.pause_text
    if not idle.is_known:
        return "its queue has not been seen since the engine was restarted"
    if not is_within(rules.hours, state.now_s + rules.utc_offset_s):
        return "it is not within the hours of its 'scavenge'"
    if idle.queued:
        more = f", and get {idle.extra} more since they still wait" if idle.extra else ""
        empty = ", and its queue has to be empty" if rules.queue_empty else ""
        return f"jobs of others wait for {idle.queued} processors{more}{empty}"
    left = idle.slots - idle.running
    if left < rules.idle_share * idle.slots:
        return f"{left} of {idle.slots} processors are idle, less than its 'idle_share'"
    if idle.late_until_s > state.now_s:
        return "launchers have waited too long in its queue; no more for a minute"
    held = sum(row[index] for row in scavenging.division.held)
    if held < scavenging.idle_at(index):
        return ""
    if rules.most is not None and rules.most <= left:
        return f"its 'scavenge' allows {rules.most} processors"
    if idle.running:
        return f"jobs of others hold {idle.running} of {idle.slots} processors"
    return f"it has {idle.slots} processors" if held else f"launchers have {idle.unit} processors"


def share_text(state: RunState, index: int) -> str:
    """The number of launchers of each owner at a site, as text for the user. After the end of the
    run: the number of launchers that were given back; empty if none were."""
    scavenging = state.get(Scavenging)
    given = scavenging.reclaims[index]
    if state.ended is not None:
        return f"{given} launchers were given back to others" if given else ""
    shares = [
        f"{name_line(owner.name or '-')} {len(row[index].kept)}"
        for owner, row in zip(scavenging.owners.all, scavenging.held, strict=True)
        if row[index].kept
    ]
    count = sum(len(row[index].kept) for row in scavenging.held)
    text = f"{count} launcher{'s' * (count != 1)}"
    if shares:
        text += f": {', '.join(shares)}"
    if bound := share_bound(state, index):
        text += f"; {bound}"
    return f"{text}; {given} given back to others so far" if given else text


def turns_text(state: RunState) -> str:
    """The names of the owners who wait for their turn, as text for the user; empty if there are
    none or the run has ended."""
    scavenging = state.get(Scavenging)
    names = [name_line(scavenging.owners.all[n].name or "-") for n in scavenging.owners.waiting()]
    if not names or state.ended is not None:
        return ""
    most = state.settings.most_scavengers
    what = "owner at a time has" if most == 1 else "owners at a time have"
    return f"at most {most} {what} processors; waiting for their turn: {', '.join(names)}"
