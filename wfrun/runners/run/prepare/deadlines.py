"""Deadlines of bags with optional tasks. Times of day are on the clock and in the time zone of this
machine."""

from __future__ import annotations

from datetime import datetime, timedelta
from math import fsum

from wfrun.engine.explain.visible import name_line
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.tasks.bag import tasks_of


def time_of_day_deadline(workflow: Workflow, now_s: float) -> float | None:
    """The next time, in seconds since the epoch, that equals the time of day at which the bag is
    due. None: the bag's deadline is not a time of day."""
    optional = None if workflow.bag is None else workflow.bag.optional
    if optional is None or optional.until_s is None:
        return None
    now = datetime.fromtimestamp(now_s)
    hours, minutes = divmod(int(optional.until_s) // 60, 60)
    due = now.replace(hour=hours, minute=minutes, second=0, microsecond=0)
    if due <= now:
        due += timedelta(days=1)  # Naive times: the same hour, also across a change of the clocks.
    return due.timestamp()


def late_warning(workflow: Workflow, catalog: Catalog, now_s: float | None) -> str | None:
    """Return a warning if the mandatory tasks of a bag cannot all end by its deadline, even if all
    sites run only this bag. None: they can, or the bag has no deadline or no estimate. ``now_s`` is
    in seconds since the epoch; None in simulations, where the day begins at time 0."""
    optional = None if workflow.bag is None else workflow.bag.optional
    runtimes_s = None if optional is None else tasks_of(workflow).runtimes_s()
    if optional is None or not runtimes_s:
        return None
    within_s = optional.within_s
    if within_s is None:
        due_s = optional.until_s if now_s is None else time_of_day_deadline(workflow, now_s)
        if due_s is None:
            return None
        within_s = due_s - (now_s or 0.0)
    mandatory_s = runtimes_s[: optional.min]
    cores = workflow.tasks[0].resources.cores
    speed = fsum(site.slots * site.speed_ratio for site in catalog.sites)
    fastest = max(site.speed_ratio for site in catalog.sites)
    least_s = max(fsum(mandatory_s) * cores / speed, max(mandatory_s, default=0.0) / fastest)
    if least_s <= within_s:
        return None
    return (
        f"the mandatory tasks (min {len(mandatory_s)}) of the bag {name_line(workflow.name)} "
        f"cannot end by its deadline, which is in {within_s:.0f} s: by their estimate they take "
        f"{least_s:.0f} s on all slots. They are all run"
    )
