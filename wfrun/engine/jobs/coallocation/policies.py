"""Policies that divide a job over the idle processors of sites (thesis section 2.3).

Each is a pure function, and returns None if the idle processors do not suffice. Of equal sites the
first in the catalog is taken; the thesis leaves this open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from wfrun.engine.jobs.coallocation.idle import IdleProcessors, Ranked
from wfrun.engine.jobs.coallocation.node_links import NodeLinks
from wfrun.engine.jobs.coallocation.requests import Placement, PlacementRequest

POLICIES = {
    "wf": "worst fit: components with sizes of their own, each on the site with the most idle "
    "processors",
    "fcm": "flexible cluster minimization: as few sites as possible",
    "ca": "communication-aware: sites whose nodes are near each other",
}
"""Descriptions of the placement policies, by name."""


def worst_fit(
    sizes: Sequence[int], idle: Sequence[int], widths: Sequence[int] = ()
) -> Placement | None:
    """Worst Fit (WF, section 2.3.1): places components in decreasing order of size, each on the
    site with the most remaining idle processors. Sites whose ``widths`` are below the size of the
    component are left out; without ``widths`` all are considered. The placement is in the order of
    ``sizes``."""
    remaining = list(idle)
    placed: list[tuple[int, int]] = [(0, 0)] * len(sizes)
    for number in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        size = sizes[number]
        offered = remaining
        if widths:
            offered = [n if size <= most else 0 for n, most in zip(remaining, widths, strict=True)]
        most = max(offered)
        if most < size:
            return None
        site = offered.index(most)
        remaining[site] -= size
        placed[number] = site, size
    return tuple(placed)


def cluster_minimization(request: PlacementRequest, idle: IdleProcessors) -> Placement | None:
    """Flexible Cluster Minimization (FCM, section 2.3.2): takes sites by decreasing number of idle
    processors. Each gets a component of all its idle processors until the job is complete.

    The thesis leaves open how bounds count. Here a placement is found whenever one exists within
    the bounds, and it has the fewest components: if the last component would be smaller than
    ``least``, processors move to it from the last but one.
    """
    return _fewest(request, idle.ranked(request.sites, request.unit, request.widths))


def _fewest(request: PlacementRequest, ranked: Ranked) -> Placement | None:
    """Place the job on as few of the ranked sites as possible; None if it does not fit."""
    last = bisect_left(ranked.sums, request.size)
    if last == len(ranked.sums):
        return None
    if ranked.idle[last] < request.least or (request.most is not None and last >= request.most):
        return None
    return _filled(request, list(zip(ranked.sites[: last + 1], ranked.idle, strict=False)))


def _filled(request: PlacementRequest, offered: Sequence[tuple[int, int]]) -> Placement | None:
    """Fill the offered sites, in order, until the job is complete. Return None if not every
    component can have ``least`` processors. ``offered``: (site, idle processors), at least
    ``least`` at each site."""
    sizes: list[int] = []
    missing = request.size
    for _, count in offered:
        sizes.append(min(count, missing))
        missing -= sizes[-1]
        if not missing:
            break
    short = request.least - sizes[-1]
    for number in range(len(sizes) - 2, -1, -1):
        if short <= 0:
            break
        moved = min(short, sizes[number] - request.least)
        sizes[number] -= moved
        sizes[-1] += moved
        short -= moved
    if short > 0:
        return None
    return tuple((site, size) for (site, _), size in zip(offered, sizes, strict=False))


def communication_aware(
    request: PlacementRequest, idle: IdleProcessors, links: NodeLinks
) -> Placement | None:
    """Communication-Aware (CA, section 2.3.3): places the whole job on the site with the best
    internal link among those that can hold it. If no site can, sites are taken by the mean of their
    links to all sites, and filled as FCM does.

    The thesis leaves a maximum number of components open. Here, with a maximum of k, sites are
    added in this order until the k of them with the most idle processors can hold the job. If a
    component would have fewer than ``least`` processors, FCM places the job.
    """
    usable = idle.usable(request.sites, request.unit, request.widths)
    if sum(usable) < request.size:
        return None
    for site in links.by_own:
        if usable[site] >= request.size:
            return ((site, request.size),)
    most = len(usable) if request.most is None else request.most
    offered: list[tuple[int, int]] = []
    for site in links.by_mean:
        if usable[site] < max(1, request.least):
            continue
        offered.append((site, usable[site]))
        if len(offered) > most:
            offered.remove(min(reversed(offered), key=lambda each: each[1]))
        if sum(count for _, count in offered) >= request.size:
            return _filled(request, offered) or cluster_minimization(request, idle)
    return None


def place(
    request: PlacementRequest, idle: IdleProcessors, policy: str, links: NodeLinks | None = None
) -> Placement | None:
    """Place a job; None if the idle processors cannot hold it.

    A request with splits is placed by its first split that fits. A flexible request is divided by
    ``policy``, a name in `POLICIES`. Components without a site are placed by Worst Fit under every
    policy.

    Raises ValueError for a flexible request with ``wf``, which divides no job, or with ``ca`` if
    there are no links.
    """
    if not request.splits:
        return _divided(request, idle, policy, links)
    usable = idle.usable(request.sites, 1)
    for split in request.splits:
        if split[0][1] is None:
            found = worst_fit([size for size, _ in split], usable, request.widths)
        else:
            found = _fixed(split, usable, request.widths)
        if found is not None:
            return found
    return None


def _divided(
    request: PlacementRequest, idle: IdleProcessors, policy: str, links: NodeLinks | None
) -> Placement | None:
    if policy == "fcm":
        return cluster_minimization(request, idle)
    if policy == "ca" and links is not None:
        return communication_aware(request, idle, links)
    raise ValueError(f"{policy} divides no flexible request" if policy != "ca" else "no links")


def _fixed(
    split: Iterable[tuple[int, int | None]], idle: Sequence[int], widths: Sequence[int]
) -> Placement | None:
    remaining = list(idle)
    placed = []
    for size, site in split:
        assert site is not None, "all components of a fixed request have a site"
        remaining[site] -= size
        if remaining[site] < 0 or (widths and size > widths[site]):
            return None
        placed.append((site, size))
    return tuple(placed)
