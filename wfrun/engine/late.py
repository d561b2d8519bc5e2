"""How much a site without launchers takes, in a run with bags: late binding."""

from __future__ import annotations

from wfrun.engine.health import update
from wfrun.engine.model import SiteSpec
from wfrun.engine.state import RunState, SiteState
from wfrun.engine.stock import stock_per_slot

AHEAD = 2
"""A site takes no more than so many times its slots, for policies that assign tasks to queues: it
would else hold all that is eligible before others, or launchers, have room for it. Of short tasks
it takes as many as it can run until the next could be there."""

HERE_S, CONNECTED_S, BATCH_S = 0.02, 0.2, 10.0
"""From the end of an attempt until another one could have started there: a site of this machine,
one behind a connection, and one with a batch system."""

LATEST = 0.1
"""What the latest attempt took counts so much in the mean."""


def bound(state: RunState, *, late: bool) -> None:
    """From now on sites take no more than they have room for. ``late``: attempts start at once."""
    state.bounded = True
    for index, site in enumerate(state.sites):
        site.late = late
        site.most_cores = AHEAD * site.spec.slots
        update(state, index)


def learn(site: SiteState, elapsed_s: float) -> None:
    """An attempt took so long: those that are short are worth having in advance."""
    mean_s = site.task_s
    site.task_s = elapsed_s if mean_s is None else mean_s + LATEST * (elapsed_s - mean_s)
    site.stock = site.spec.slots * stock_per_slot(_latency_s(site.spec), site.task_s)


def _latency_s(spec: SiteSpec) -> float:
    if spec.kind == "local":
        return HERE_S
    return CONNECTED_S if spec.kind == "ssh" else BATCH_S
