"""Asks a batch system, before the first submission, whether it would accept the jobs of a site. So
a queue, account or option that does not exist is reported once, not for each task."""

from __future__ import annotations

import logging
import re

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.batch.system import BatchJob, BatchSystem
from wfrun.sites.cluster.head_node import answer
from wfrun.sites.entry_error import EntryError
from wfrun.sites.remote.host import Host

_LOGGER = logging.getLogger(__name__)

ANSWER_S = 20.0
"""Timeout of the question. If the batch system does not answer, the submissions will report why."""

_KEYS = {
    "queue": re.compile(r"partition|queue", re.IGNORECASE),
    "account": re.compile(r"account|project", re.IGNORECASE),
}
"""Pattern of the messages that refuse the value of a catalog key, by key."""


async def ask(host: Host, system: BatchSystem, spec: SiteSpec) -> EntryError | None:
    """Ask whether the batch system accepts a job of one core or, at a site with launchers, the job
    of a launcher. Returns the error if it refuses; None if it accepts or gives no answer."""
    assert spec.access is not None
    try:
        argv = system.rehearse(_job(spec, spec.access))
        if argv is None:
            return None
        result = await host.run(argv, env=system.environment, timeout_s=ANSWER_S)
        system.rehearsed(*answer(result))
    except InfeasibleError as error:
        return EntryError(
            f"site {spec.name}: its batch system refuses all jobs: {error.message}",
            key=_key(spec.access, error.message),
            hint="Correct the entry in the catalog; `wfrun sites check` shows what the site has.",
        )
    except WfrunError as error:  # a limit on jobs, or a fault that may pass
        _LOGGER.info("site %s: %s", spec.name, error.message)
    return None


def _key(access: Access, message: str) -> str:
    for key, pattern in _KEYS.items():
        if getattr(access, key) is not None and pattern.search(message):
            return key
    return "options" if access.options else ""


def _job(spec: SiteSpec, access: Access) -> BatchJob:
    """Return the job to ask about: the job of a launcher if launchers of the catalog's size run the
    tasks, else a job of one core."""
    launchers = access.launchers if access.dispatch == "launchers" else None
    if launchers is not None and not launchers.max:
        launchers = None  # Each placeholder of a claim has a size of its own.
    return BatchJob(
        name="wfrun-rehearsal",
        count=1,
        nodes=1 if launchers is None else launchers.nodes,
        cores=1 if launchers is None else launchers.cores,
        memory_bytes=0 if launchers is None else launchers.memory_bytes,
        gpus=0 if launchers is None else launchers.gpus,
        walltime_s=spec.walltime_s if launchers is None else launchers.walltime_s,
        queue=access.queue,
        account=access.account,
        options=access.options,
        avoid_nodes=(),
        log="/dev/null",
        output="/dev/null",
        command=(),
    )
