"""The work that waits for each site: cores that eligible tasks ask for."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import ceil, inf

from wfrun.engine.state import RunState, WorkflowState

FIRST_DECLINE_S = 60.0
MAX_DECLINE_S = 3600.0
"""No launchers are asked for at a site for a workflow whose policy keeps its tasks from it. The
policy is asked again after the first time, then after twice as long each time, up to the second."""


class _Decline:
    """A policy keeps a workflow's tasks from a site."""

    __slots__ = ("length_s", "until_s")

    def __init__(self) -> None:
        self.length_s = 0.0
        self.until_s = -inf


class Demand:
    """Cores that eligible tasks ask for, by the sites that may get them, as far as throttle and
    policy let them start.

    Sums over workflows are kept up to date with one workflow at a time, so that an event costs what
    its own workflow does: the number of its classes of tasks.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._of: dict[int, dict[int, int]] = {}
        """By workflow and mask of sites."""
        self.total: dict[int, int] = {}
        """By mask of sites; no mask without any."""
        self._stale: set[int] = set()
        self._declines: dict[int, dict[int, _Decline]] = {}
        """By workflow and site."""
        self._expiries: list[tuple[float, int, int]] = []
        """When declines are over, and of which workflows and sites."""

    def changed(self, workflow: int) -> None:
        """The eligible set of this workflow, or what its throttle allows, has changed."""
        self._stale.add(workflow)

    def not_declined(self, workflow: int, sites: int) -> tuple[int, ...]:
        """Of these sites, a mask, those that the workflow's policy has not declined lately."""
        now_s, declines = self._state.now_s, self._declines.get(workflow, {})
        return tuple(
            site
            for site in range(len(self._state.sites))
            if sites >> site & 1 and (site not in declines or declines[site].until_s <= now_s)
        )

    def decline(self, workflow: int, sites: Iterable[int]) -> None:
        """The policy has left a task unplaced that these sites could have got."""
        now_s = self._state.now_s
        declines = self._declines.setdefault(workflow, {})
        for site in sites:
            decline = declines.get(site)
            if decline is None:
                decline = declines[site] = _Decline()
            decline.length_s = min(max(FIRST_DECLINE_S, 2 * decline.length_s), MAX_DECLINE_S)
            decline.until_s = now_s + decline.length_s
            heapq.heappush(self._expiries, (decline.until_s, workflow, site))
            self._stale.add(workflow)

    def accept(self, workflow: int, site: int) -> None:
        """The policy has placed a task there."""
        declines = self._declines.get(workflow)
        if declines is not None and declines.pop(site, None) is not None:
            self._stale.add(workflow)
            if not declines:
                del self._declines[workflow]

    def expired(self) -> list[tuple[int, int]]:
        """The declines that are over since the last call, as pairs of workflow and site."""
        found = []
        while self._expiries and self._expiries[0][0] <= self._state.now_s:
            until_s, workflow, site = heapq.heappop(self._expiries)
            decline = self._declines.get(workflow, {}).get(site)
            if decline is not None and decline.until_s == until_s:
                found.append((workflow, site))
                self._stale.add(workflow)
        return found

    def refresh(self) -> float:
        """Bring the sums up to date; returns when they change next by time alone, infinite: they do
        not, or only after a policy has declined for so long that the run need not wait for it."""
        state = self._state
        for workflow in self._stale:
            self._refresh(state.workflows[workflow])
        self._stale.clear()
        if not self._expiries:
            return inf
        until_s, workflow, site = self._expiries[0]
        decline = self._declines.get(workflow, {}).get(site)
        return inf if decline is None or decline.length_s >= MAX_DECLINE_S else until_s

    def health_changed(self) -> None:
        """Declined sites are counted on while no other is healthy."""
        self._stale.update(self._declines)

    def _refresh(self, w: WorkflowState) -> None:
        total = self.total
        for mask, cores in self._of.pop(w.index, {}).items():
            total[mask] -= cores
            if not total[mask]:
                del total[mask]
        eligible, throttle = w.eligible, self._state.settings.throttle
        if not eligible.count:
            return
        allowed = eligible.count
        if throttle is not None:
            allowed = min(allowed, max(0, throttle - w.dispatched))
        if not allowed:
            return
        wanted: dict[int, int] = {}
        for kind, count in eligible.counts.items():
            mask = self._willing(w.index, kind.mask)
            cores = ceil(count * kind.cores * allowed / eligible.count)
            wanted[mask] = wanted.get(mask, 0) + cores
        self._of[w.index] = wanted
        for mask, cores in wanted.items():
            total[mask] = total.get(mask, 0) + cores

    def _willing(self, workflow: int, mask: int) -> int:
        """Without the sites that the policy keeps the workflow from, while it can run elsewhere."""
        declines = self._declines.get(workflow)
        if declines is None:
            return mask
        now_s = self._state.now_s
        declined = sum(1 << site for site, d in declines.items() if d.until_s > now_s)
        elsewhere = any(
            site.is_healthy and (mask & ~declined) >> other & 1
            for other, site in enumerate(self._state.sites)
        )
        return mask & ~declined if elsewhere else mask

    def at(self, site: int) -> int:
        """Cores that a site could get work for. Cost: the number of masks; there are few."""
        return sum(cores for mask, cores in self.total.items() if mask >> site & 1)

    def helpers(self, site: int) -> int:
        """The sites that could all get any of the work that this one could, as a mask."""
        common = ~0
        for mask in self.total:
            if mask >> site & 1:
                common &= mask
        return common
