"""Rules about withdrawn attempts."""

from __future__ import annotations

from tests.engine.model.audit.known_run import (
    KnownRun,
)
from wfrun.engine import events as ev
from wfrun.engine.core import actions as act


class WithdrawalRules(KnownRun):
    """Rules about withdrawn attempts."""

    def _idle_cores(self) -> list[int]:
        """Upper bound of the cores on which an attempt would start immediately, by site."""
        return [
            0
            if site in self._paused | self._left
            else max(0, self._slots_now(site) - self._committed(site))
            for site in range(len(self._specs))
        ]

    def _slots_now(self, site: int) -> int:
        if site not in self._launchers:
            return self._specs[site].slots - self._background_cores[site]
        launchers = self._launchers[site]
        closed = sum(
            t.cores
            for t in self._open.values()
            if t.placed.site == site and (x := launchers.get(t.launcher)) and not x.is_live
        )
        return closed + sum(x.slots for x in launchers.values() if x.is_live)

    def _unanswered_cores(self) -> int:
        return sum(t.cores for t in self._open.values() if t.withdrawn and not t.is_moving)

    def on_withdrawn(self, event: ev.AttemptsWithdrawn) -> None:
        for key in event.keys:
            one = self._open.get(key)
            is_waiting = (
                one is not None
                and one.placed.site == event.site
                and (one.submitted or key in self._submitted_now)
                and one.started_s is None
            )
            self._require("withdrawn-open", is_waiting, f"{event}: {key}")
            if one is not None:
                self._require("withdrawn-again", not one.withdrawn, f"{event}: {key}")
                self._require("withdrawn-at-once", one.submitted, f"{event}: {key}")
                one.withdrawn = True

    def _check_cancelled(self, action: act.CancelAttempts, withdrawn: set[str]) -> None:
        """Check orders to cancel queued attempts. ``withdrawn`` are the keys of this decision. A
        site that fails everything has its attempts taken back without an event."""
        if not action.queued_only or self._cancelled or self._settings.on_failure == "stop":
            return
        for key in action.keys:
            one = self._open.get(key)
            if one is not None and key not in withdrawn:
                self._require("withdrawn-again", not one.withdrawn, f"{action}: {key}")
                one.withdrawn = one.started_s is None

    def _check_withdrawn(self, events: list[ev.AttemptsWithdrawn], unanswered: int) -> None:
        """Check the withdrawals of one decision. ``unanswered`` are the cores that were withdrawn
        before."""
        if not events:
            return
        idle = self._idle_cores()
        total = 0
        for event in events:
            cores = sum(self._open[key].cores for key in event.keys if key in self._open)
            room = sum(idle) - idle[event.site]
            total += cores
            self._require("withdrawn-room", cores <= room, f"{event}: {cores} cores for {room}")
        if len(events) > 1:
            self._require(
                "withdrawn-room", total <= sum(idle), f"{events}: {total} cores for {sum(idle)}"
            )
        self._require(
            "withdrawn-unanswered",
            unanswered + total <= sum(idle),
            f"{events}: {unanswered} and {total} cores for {sum(idle)}",
        )
