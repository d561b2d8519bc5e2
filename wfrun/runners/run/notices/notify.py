"""Notifies the user of a run by commands and URLs, as the option ``on`` states.

Each occurrence is reported once. The end of a notification is logged, so that an engine that takes
over the run repeats only unfinished notifications. So a notification is sent at least once, and a
second time only if wfrun was killed before the end was logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from wfrun.engine import events as ev
from wfrun.engine.capabilities.notifications import Notifications, Occurrence
from wfrun.engine.core.state import Phase, RunState
from wfrun.engine.explain.idleness import explain_idleness
from wfrun.engine.explain.visible import name_line
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.notices.notice import Notice, as_payload, as_variables
from wfrun.runners.run.notices.notice_targets import carry_out
from wfrun.sites.remote.connection import Connection
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)
LOOK_S = 0.5
"""Interval at which the notifier checks for logins and stalls, in seconds."""
AT_ONCE = 4
"""Maximum number of notifications that are carried out at the same time."""
MOVES = (
    ev.RunStarted, ev.RunResumed, ev.AttemptStarted, ev.AttemptEnded, ev.TransferEnded,
)  # fmt: skip
"""Events that show progress of a run. Decisions, launchers and failed copies do not count, because
they also recur in a run without progress."""
MAX_REASONS = 10
"""Maximum number of sites that a notification of a stall explains."""


class Notifier:
    """Starts notifications, and collects their ends for the log. ``after_commit`` is an `Observer`
    of the loop. A failed notification does not affect the run."""

    def __init__(
        self,
        run: RunDir,
        state: RunState,
        now: Callable[[], float],
        connections: Mapping[int, Connection],
    ) -> None:
        """``connections`` are the connections that may need a login, by site."""
        self._run, self._state, self._now, self._connections = run, state, now, connections
        self._logins: dict[int, str] = {}
        """For each site that needs a login, by number: the message for the user. Includes sites
        whose event is posted but not logged yet."""
        self._begun: dict[Occurrence, asyncio.Task[None]] = {}
        """Notifications whose end is not in the log yet, running or ended."""
        self._ended: list[ev.NotificationEnded] = []
        """Ends of notifications that have not been taken for the log yet."""
        self._moved_s = 0.0
        """Time of the last event of `MOVES`, in seconds of the event loop's clock; 0 before the
        first."""
        self._is_stalled = False
        self._places = asyncio.Semaphore(AT_ONCE)
        self._failed: set[str] = set()
        """Kinds of occurrences for which a warning of a failed notification was given."""

    def after_commit(self, events: Sequence[ev.Event]) -> None:
        """Start the notifications that are due."""
        if any(isinstance(event, MOVES) for event in events):
            self._moved_s, self._is_stalled = asyncio.get_running_loop().time(), False
        for event in events:
            if isinstance(event, ev.NotificationEnded):
                self._begun.pop((event.on, event.site), None)
        self.start_due()

    def start_due(self) -> None:
        """Start the notifications that are due according to the log."""
        notifications = self._state.find(Notifications)
        for occurrence in () if notifications is None else tuple(notifications.due()):
            self._start(occurrence)

    async def watch(self, post: Callable[[ev.Event], None]) -> None:
        """Check for logins and stalls, and post events of logins and of ended notifications, until
        cancelled."""
        notifications = self._state.find(Notifications)
        self._logins = {} if notifications is None else dict(notifications.logins)
        while True:
            for event in [*self._login_changes(), *self.ended()]:
                post(event)
            self._look_for_stall()
            await asyncio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Wait for the running notifications, each of which has a timeout."""
        if self._begun:
            await asyncio.wait(self._begun.values())

    def ended(self) -> list[ev.NotificationEnded]:
        """Return the ends of notifications that are not in the log yet. Each end is returned only
        once."""
        ended, self._ended = self._ended, []
        return ended

    async def leave(self, error: Exception) -> None:
        """Notify the user that the engine cannot continue the run, and wait for the notification.
        If the log caused the error, the end of the notification is not logged, so that the next
        engine may notify again."""
        self._start(("failed", None), str(error))
        await self.finish()

    async def close(self) -> None:
        """Cancel the notifications under way."""
        await end_tasks(list(self._begun.values()))

    def _login_changes(self) -> list[ev.Event]:
        changes: list[ev.Event] = []
        for site, connection in self._connections.items():
            asked = connection.needs_login
            if asked is not None and site not in self._logins:
                self._logins[site] = asked
                changes.append(ev.LoginNeeded(self._now(), site, asked))
            elif asked is None and self._logins.pop(site, None) is not None:
                changes.append(ev.LoginDone(self._now(), site))
        return changes

    def _look_for_stall(self) -> None:
        state = self._state
        idle_s = asyncio.get_running_loop().time() - self._moved_s
        if self._is_stalled or not self._moved_s or state.ended is not None:
            return
        if idle_s >= state.settings.stalled_after_s:
            self._is_stalled = True
            self._start(("stalled", None))

    def _start(self, occurrence: Occurrence, reason: str = "") -> None:
        targets = {str(on): target for on, target in self._state.settings.on.items()}
        target = targets.get(occurrence[0])
        if target and occurrence not in self._begun:
            work = self._carry_out(occurrence, target, reason)
            self._begun[occurrence] = asyncio.create_task(work)

    async def _carry_out(self, occurrence: Occurrence, target: str, reason: str) -> None:
        on, site = occurrence
        try:
            name = None if site is None else self._state.sites[site].spec.name
            notice = Notice(on, name, reason or self._reason(on, site), self._now())
            payload = as_payload(notice, self._state, self._run)
            async with self._places:
                error = await carry_out(target, payload, as_variables(payload), self._run)
        except Exception as defect:
            _LOGGER.exception("the notification on %s", on)
            error = f"internal error: {defect!r}"
        self._ended.append(ev.NotificationEnded(self._now(), on, site, error))
        if error and on not in self._failed:
            self._failed.add(on)
            _LOGGER.warning("the notification on %s failed: %s", on, name_line(error, 1000))

    def _reason(self, on: str, site: int | None) -> str:
        state = self._state
        if site is not None:
            return self._logins.get(site, "")
        if on == "stalled":
            names = [s.spec.name for s in state.sites]
            found = zip(names, explain_idleness(state), strict=True)
            reasons = [f"{name}: {idle.text}" for name, idle in found if idle is not None]
            running = sum(site.phases[Phase.RUNNING] for site in state.sites)
            return "\n".join([f"{running} tasks run", *reasons[:MAX_REASONS]])
        if on == "failed":
            failures = [f"{f.task} at {f.site}: {f.message}" for f in state.recent_failures]
            return state.end_reason or "".join(failures[-1:]) or "\n".join(state.uncollected)
        return ""
