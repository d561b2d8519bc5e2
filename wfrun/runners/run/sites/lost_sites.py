"""Sites that left the catalog and are unreachable. All attempts and files of the run there count as
lost."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import WfrunError
from wfrun.engine.exchange import Outcome
from wfrun.engine.explain.visible import message_block
from wfrun.runners.run.sites.unusable import with_unreachable

_LOGGER = logging.getLogger(__name__)


def unreachable_of(
    left: Collection[int], results: Sequence[BaseException | None], events: Sequence[ev.Event]
) -> dict[int, str]:
    """Map each unreachable site that left the catalog (``left``) to the reason, by index. A site is
    unreachable if it could not be opened, or has reported since then that it is out of reach."""
    found = with_unreachable(results, events) if left else []
    return {
        number: error.message
        for number, error in enumerate(found)
        if number in left and isinstance(error, WfrunError)
    }


def lose_sites(state: RunState, unreachable: Mapping[int, str], now_s: float) -> list[ev.Event]:
    """Return the events that end all attempts and launchers at ``unreachable`` sites as lost, and
    warn of each site. ``unreachable`` maps the index of a site that left the catalog to the reason.
    A lost attempt may still write files, but under its own names, which nothing reads."""
    events: list[ev.Event] = []
    for index, reason in unreachable.items():
        name = state.sites[index].spec.name
        keys = [a.key for a in state.attempts.values() if a.site == index]
        pool = pool_at(state, index)
        launchers = [] if pool is None else list(pool.launchers)
        message = f"site {name} left the catalog and cannot be reached: {reason}"
        events += [ev.AttemptEnded(now_s, key, Outcome("lost", message=message)) for key in keys]
        events += [ev.LauncherEnded(now_s, index, key, "lost", message) for key in launchers]
        count = "1 attempt there counts" if len(keys) == 1 else f"{len(keys)} attempts there count"
        consequence = (
            f"{count} as lost, and so do its files; what is needed is made again elsewhere, and "
            "what still runs there is not stopped"
        )
        _LOGGER.warning("%s", message_block(f"{message}; {consequence}"))
    return events
