"""The present state of all sites of a catalog, for plans and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wfrun.engine.model import Catalog
    from wfrun.runners.forecast.plan import Present


def ask_present(catalog: Catalog, own: str | None = None) -> Present:
    """Ask all sites for their state concurrently. Jobs whose names begin with ``own`` belong to the
    run, and do not count as jobs ahead."""
    import asyncio
    import time

    from wfrun.runners.admin.site_now import QueueNow, SiteNow, ask_site
    from wfrun.runners.forecast.plan import Present, PresentSite
    from wfrun.runners.run.sites.make_sites import terminal_prompter
    from wfrun.runners.simulate.plan_queues import jobs_ahead

    async def ask() -> list[tuple[SiteNow, QueueNow]]:
        prompter = terminal_prompter()
        return list(await asyncio.gather(*(ask_site(spec, prompter) for spec in catalog.sites)))

    sites, ahead = [], {}
    for spec, (now, queue) in zip(catalog.sites, asyncio.run(ask()), strict=True):
        jobs = []
        if spec.has_batch_system and now.state == "up":
            idle = spec.slots if now.idle_cores is None else now.idle_cores
            ours = {job for job in queue.jobs if own is not None and job.name.startswith(own)}
            idle += sum(job.cores for job in ours if job.state == "running")
            others = [job for job in queue.jobs if job not in ours]
            jobs = jobs_ahead(others, spec.slots, idle, queue.cores, time.time())
            ahead[spec.name] = jobs
        sites.append(
            PresentSite(
                site=now.site,
                state=now.state,
                reason=now.reason,
                hint=now.hint,
                slots=now.slots,
                idle_cores=now.idle_cores,
                has_queue=spec.has_batch_system,
                jobs_ahead=len(jobs),
            )
        )
    return Present(tuple(sites), ahead)
