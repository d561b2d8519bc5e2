"""Demand for sites: cores that eligible tasks request."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import ceil, inf

from wfrun.engine.core.state import RunState, WorkflowState

FIRST_DECLINE_S = 60.0
MAX_DECLINE_S = 3600.0
"""First and maximum period in seconds of a decline: if the policy of a workflow declines a site, no
launchers are requested there for the workflow during this period. Each further decline doubles the
period."""


class _Decline:
    """The decline of a site by the policy of a workflow."""

    __slots__ = ("period_s", "until_s")

    def __init__(self) -> None:
        self.period_s = 0.0
        self.until_s = -inf


class Demand:
    """Cores that eligible tasks request, by the sites that may run them, as far as throttle and
    policy let them start.

    Sums are recomputed only for workflows that changed, so an event costs the task classes of its
    own workflow.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._by_workflow: dict[int, dict[int, int]] = {}
        """Cores by workflow and mask of sites."""
        self.total: dict[int, int] = {}
        """Total cores by mask of sites; masks without cores are absent."""
        self._stale: set[int] = set()
        self._declines: dict[int, dict[int, _Decline]] = {}
        """Declines by workflow and site."""
        self._expiries: list[tuple[float, int, int]] = []
        self._longest: list[tuple[float, int, int]] = []
        """Heaps of the expiry times of declines, with workflow and site; those of the maximum
        period `MAX_DECLINE_S` are apart."""

    def changed(self, workflow: int) -> None:
        """Note that the eligible set of a workflow, or what its throttle allows, has changed."""
        self._stale.add(workflow)

    def not_declined(self, workflow: int, sites: int) -> tuple[int, ...]:
        """The sites of a mask that the policy of the workflow does not decline at present."""
        now_s, declines = self._state.now_s, self._declines.get(workflow, {})
        return tuple(
            site
            for site in range(len(self._state.sites))
            if sites >> site & 1 and (site not in declines or declines[site].until_s <= now_s)
        )

    def decline(self, workflow: int, sites: Iterable[int]) -> None:
        """Note that the policy left a task unplaced although ``sites`` had room."""
        now_s = self._state.now_s
        declines = self._declines.setdefault(workflow, {})
        for site in sites:
            decline = declines.get(site)
            if decline is None:
                decline = declines[site] = _Decline()
            decline.period_s = min(max(FIRST_DECLINE_S, 2 * decline.period_s), MAX_DECLINE_S)
            decline.until_s = now_s + decline.period_s
            heap = self._longest if decline.period_s >= MAX_DECLINE_S else self._expiries
            heapq.heappush(heap, (decline.until_s, workflow, site))
            self._stale.add(workflow)

    def accept(self, workflow: int, site: int) -> None:
        """Note that the policy placed a task at a site, which ends its decline of the site."""
        declines = self._declines.get(workflow)
        if declines is not None and declines.pop(site, None) is not None:
            self._stale.add(workflow)
            if not declines:
                del self._declines[workflow]

    def expired(self) -> list[tuple[int, int]]:
        """Remove and return the declines that have expired since the last call, as pairs of
        workflow and site."""
        found = []
        for heap in (self._expiries, self._longest):
            while heap and heap[0][0] <= self._state.now_s:
                until_s, workflow, site = heapq.heappop(heap)
                decline = self._declines.get(workflow, {}).get(site)
                if decline is not None and decline.until_s == until_s:
                    found.append((workflow, site))
                    self._stale.add(workflow)
        return found

    def refresh(self) -> float:
        """Update the sums. Return the time at which they next change without an event: the earliest
        expiry of a decline; infinite if no decline is left. Declines of the maximum period
        `MAX_DECLINE_S` do not count: a run need not wait for their expiry."""
        state = self._state
        for workflow in self._stale:
            self._refresh(state.workflows[workflow])
        self._stale.clear()
        while self._expiries:
            until_s, workflow, site = self._expiries[0]
            decline = self._declines.get(workflow, {}).get(site)
            if decline is not None and decline.until_s == until_s:
                return until_s
            heapq.heappop(self._expiries)  # The policy has placed a task there since.
        return inf

    def health_changed(self) -> None:
        """Note a change of the health of some site. Declined sites count while no other site is
        healthy."""
        self._stale.update(self._declines)

    def _refresh(self, w: WorkflowState) -> None:
        total = self.total
        for mask, cores in self._by_workflow.pop(w.index, {}).items():
            total[mask] -= cores
            if not total[mask]:
                del total[mask]
        eligible, throttle = w.eligible, self._state.throttle
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
        self._by_workflow[w.index] = wanted
        for mask, cores in wanted.items():
            total[mask] = total.get(mask, 0) + cores

    def _willing(self, workflow: int, mask: int) -> int:
        """The mask without the sites that the policy declines. The whole mask if no other site in
        it is healthy."""
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
        """Number of cores that are requested by the eligible tasks that a site may run. Cost: the
        number of masks, which is small."""
        return sum(cores for mask, cores in self.total.items() if mask >> site & 1)

    def helpers(self, site: int) -> int:
        """Mask of the sites that may run all the work that ``site`` may run."""
        common = ~0
        for mask in self.total:
            if mask >> site & 1:
                common &= mask
        return common
