"""``wfrun launchers``: the launchers of a run, from its log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from wfrun.engine.capabilities.launchers.launchers import Launchers
from wfrun.engine.capabilities.launchers.pool import Launcher, LauncherPhase
from wfrun.engine.core.state import RunState
from wfrun.engine.explain.visible import message_block, name_line
from wfrun.runners.display.durations import duration

_DAY_S = 86400.0
MAX_REASON = 500
"""Maximum number of characters shown of the reason why a launcher ended."""
MAX_HOST = 40
"""Maximum number of characters shown of the name of a host."""


def show(console: Console, state: RunState, *, driven: bool, simulated: bool, ended: bool) -> None:
    """Print a row for each launcher; with ``ended`` also for those that have ended."""
    now_s = time.time() if driven and not simulated else state.now_s
    launchers = state.find(Launchers)
    if launchers is None:
        console.print("no site of this run has launchers ('dispatch: launchers' in the catalog)")
        return
    rows = launcher_rows(state, ended=ended)
    if rows:
        console.print(
            launcher_table(rows, now_s, simulated=simulated, dismissed=state.ended is not None)
        )
    else:
        console.print("there are no launchers now")
    if not driven and not simulated and state.ended is None:
        console.print(f"state of {_clock(now_s, now_s)}: no process drives this run now")
    hidden = 0 if ended else sum(len(pool.ended) for pool in launchers.pools.values())
    if hidden:
        console.print(f"{hidden} {'has' if hidden == 1 else 'have'} ended; --all also shows them")
    for index in launchers.pools:
        site = state.sites[index]
        if site.pause_reason is not None:
            text = message_block(f"site {site.spec.name}: {site.pause_reason}")
            console.print(Text(text, style="yellow"), soft_wrap=True)


class LauncherRow(NamedTuple):
    """A launcher of a site."""

    site: str
    launcher: Launcher


def launcher_rows(state: RunState, *, ended: bool) -> list[LauncherRow]:
    """Launchers in the order of the sites and of their start. With ``ended``, ended launchers are
    included, and come first at each site."""
    launchers = state.find(Launchers)
    rows = []
    for index, pool in launchers.pools.items() if launchers is not None else ():
        past = pool.ended if ended else []
        name = state.sites[index].spec.name
        rows += [LauncherRow(name, x) for x in (*past, *pool.launchers.values())]
    return rows


def launcher_table(
    rows: Sequence[LauncherRow], now_s: float, *, simulated: bool = False, dismissed: bool = False
) -> Table:
    """A row for each launcher at ``now_s``. Times are times of day; in simulated runs they count
    from the start. ``dismissed``: the run has ended, so launchers that have not ended are shown as
    dismissed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("launcher", no_wrap=True)
    for heading in ("site", "where", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("since", "slots", "busy", "time left", "done", "tasks/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("channel", no_wrap=True)
    noted = any(why_text(row.launcher) for row in rows)
    if noted:
        table.add_column("why", overflow="fold")
    for site, launcher in rows:
        since_s = since_s_of(launcher)
        shown = duration(since_s) if simulated else _clock(since_s, now_s)
        is_here = launcher.phase in CONNECTED and not dismissed
        word = launcher.phase.name.lower()
        if dismissed and launcher.phase is not LauncherPhase.ENDED:
            word = "dismissed"
        left = ""
        if is_here and launcher.ends_s is not None:
            left = duration(max(0.0, launcher.ends_s - now_s))
        cells: list[str | Text] = [
            launcher.request.key,
            site,
            name_line(launcher.host, MAX_HOST),
            Text(word, style=PHASE_STYLES.get(word, "")),
            shown,
            str(launcher.slots or launcher.asked_slots),
            str(launcher.busy_cores) if is_here else "",
            left,
            str(launcher.done),
            rate_text(launcher, now_s),
            launcher.channel,
        ]
        if noted:
            cells.append(why_text(launcher))
        table.add_row(*cells)
    return table


PHASE_STYLES = {"live": "green", "draining": "yellow", "away": "yellow", "ended": "dim"}
CONNECTED = (LauncherPhase.LIVE, LauncherPhase.DRAINING)


def since_s_of(launcher: Launcher) -> float:
    """Time of the latest recorded step of a launcher: its end, otherwise its start, its queueing or
    its request."""
    if launcher.ended_s is not None:
        return launcher.ended_s
    if launcher.started_s is not None:
        return launcher.started_s
    return launcher.asked_s if launcher.queued_s is None else launcher.queued_s


def rate_text(launcher: Launcher, now_s: float) -> str:
    """Tasks per second since the launcher started; empty if it has not."""
    if launcher.started_s is None:
        return ""
    lived_s = (now_s if launcher.ended_s is None else launcher.ended_s) - launcher.started_s
    return f"{launcher.done / lived_s:.1f}" if lived_s > 0 else ""


def why_text(launcher: Launcher) -> str:
    """Why a launcher takes no tasks, or why it ended; empty if neither."""
    if launcher.stopped and launcher.cause in (None, "done", "cancelled"):
        return "no work was left for it"
    reason = (launcher.reason or "").strip()
    first = name_line(reason.splitlines()[0], MAX_REASON) if reason else ""
    if launcher.cause in (None, "done"):
        return first
    return f"{launcher.cause}: {first}" if first else str(launcher.cause)


def _clock(at_s: float, now_s: float) -> str:
    """The local time of day, with the date if it is more than a day ago."""
    form = "%H:%M:%S" if now_s - at_s < _DAY_S else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(at_s))
