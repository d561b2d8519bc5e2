"""Warns of batch jobs that stay in a cluster's queue after the run, with none of their tasks
left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from wfrun.engine.errors import WfrunError
from wfrun.engine.explain.visible import command_line
from wfrun.sites.cluster.site import ClusterSite
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite

_LOGGER = logging.getLogger(__name__)

LOOK_S = 20.0
"""Timeout of the query of a queue, in seconds."""


async def name_stuck_jobs(sites: Sequence[AnySite]) -> None:
    """Warn of jobs of the run that stay in queues although none of their tasks is left. The warning
    names the command that removes them."""
    await asyncio.gather(*(_look(site) for site in sites))


async def _look(site: AnySite) -> None:
    if not isinstance(site, ClusterSite | BatchLauncherSite):
        return
    try:
        command = await asyncio.wait_for(site.stuck_jobs(), LOOK_S)
    except (WfrunError, asyncio.TimeoutError) as error:
        _LOGGER.info("site %s: %s", site.spec.name, error)
        return
    if command:
        _LOGGER.warning(
            "site %s: its queue keeps jobs of this run of which nothing is left to run, as after a "
            "failure of its server; an administrator there removes them by: %s",
            site.spec.name, command_line(*command),
        )  # fmt: skip
