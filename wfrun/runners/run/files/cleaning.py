"""Removes the files of a run that is done from its sites."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import cast

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core.state import RunState, SiteState
from wfrun.engine.errors import WfrunError
from wfrun.engine.protocols import LauncherSite
from wfrun.sites.kind import AnySite, RemoteSite
from wfrun.sites.local.site import LocalSite

_LOGGER = logging.getLogger(__name__)

CLEAN_S = 120.0
"""Timeout for the removal of a run's files at a site, in seconds."""
CLEAN_SOON_S = 5.0
"""Timeout for the removal, in seconds, if the run cannot start, or where superseded attempts are
left. A site with such attempts has had time to end them, so it probably does not answer."""


async def clean_sites(
    state: RunState,
    sites: Sequence[AnySite],
    early: Sequence[ev.Event] | None,
    unreachable: Collection[int] = (),
) -> list[int]:
    """Remove the run's files from all sites, concurrently. Warns of each site where the removal
    fails. Returns the numbers of the sites that hold no more files of the run. A site that keeps
    the files of failed attempts is not among them.

    ``early`` is None in the session that drove the run to its end. A session that resumes a run
    already done first ends the attempts left at the sites; ``early`` has the events that sites have
    posted in it. ``unreachable`` sites are skipped.
    """
    reached = [number for number in range(len(sites)) if number not in unreachable]
    done = await asyncio.gather(*(_clean(state, n, sites[n], early) for n in reached))
    return [
        number
        for number, is_clean in zip(reached, done, strict=True)
        if is_clean and not keeps_failures(state, number)
    ]


async def remove_directories(sites: Sequence[AnySite]) -> None:
    """Remove the directories of a run at all reachable clusters, because it cannot start. If the
    removal fails, the cluster keeps an empty directory."""
    remote = (site for site in sites if not isinstance(site, LocalSite))
    removals = (asyncio.wait_for(_remove_directory(site), CLEAN_SOON_S) for site in remote)
    await asyncio.gather(*removals, return_exceptions=True)


async def _remove_directory(site: RemoteSite) -> None:
    directory = PurePosixPath(site.store_path("file")).parent.parent
    await (await site.connection.host()).remove([str(directory)])


async def _clean(
    state: RunState, number: int, site: AnySite, early: Sequence[ev.Event] | None
) -> bool:
    left = [a.key for a in state.attempts.values() if a.site == number]
    reason = state.sites[number].reported if early is None else _pause_reason(number, early)
    if reason is None:
        try:
            timeout_s = CLEAN_SOON_S if left and early is None else CLEAN_S
            work = _clear(state, number, site, left if early is not None else ())
            await asyncio.wait_for(work, timeout_s)
        except (WfrunError, asyncio.TimeoutError) as error:
            reason = str(error) or "it does not answer"
    if reason is not None and not left and not _was_reached(state.sites[number]):
        return True
    if reason is not None:
        _LOGGER.warning(
            "site %s: the run's files there are not removed%s: %s; once it answers, `wfrun "
            "resume` does so", site.spec.name,
            ", and superseded attempts are not ended" if left else "", reason,
        )  # fmt: skip
    return reason is None


def _was_reached(site: SiteState) -> bool:
    """Whether the run may have files at the site."""
    return bool(site.connections or site.done or site.failed or site.transfers_in)


def _pause_reason(number: int, early: Sequence[ev.Event]) -> str | None:
    """The reason why a site is paused after the events ``early``. None: it is not paused."""
    reported = (e for e in early if isinstance(e, (ev.SitePaused, ev.SiteReopened)))
    last = [event for event in reported if event.site == number][-1:]
    return last[0].reason if last and isinstance(last[0], ev.SitePaused) else None


async def _clear(state: RunState, number: int, site: AnySite, left: Sequence[str]) -> None:
    """Cancel the attempts ``left`` and their launchers, then remove the run's files."""
    if left:
        pool = pool_at(state, number)
        launching = cast(LauncherSite, site) if state.sites[number].spec.has_launchers else None
        if launching is not None and pool is not None:
            await launching.find_launchers(list(pool.launchers))
        found = await site.find(left)
        await site.cancel([key for key in left if found[key].state == "active"])
        if launching is not None:
            await launching.dismiss()
    if not keeps_failures(state, number):
        await site.clean()


def keeps_failures(state: RunState, site: int) -> bool:
    """Whether the inputs and sandboxes of attempts that failed at a site stay there."""
    return state.settings.keep == "failed" and state.sites[site].failed > 0
