"""The occurrences that a user is to be notified of: needed logins, and the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.events import Event, LoginDone, LoginNeeded, NotificationEnded, RunStarted

Occurrence = tuple[str, int | None]
"""An occurrence: its name in the option ``on``, and its site; the site is None if the occurrence
concerns the whole run."""


class Notifications(Capability):
    """Keeps the current occurrences (a site waits for a login, or the run has ended), and which of
    them this or an earlier engine has notified the user of. Cost: constant."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.logins: dict[int, str] = {}
        """By site that waits for a login: what the user has to do."""
        self._handled: set[Occurrence] = set()

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        """Always: any site may ask for a login."""
        return True

    def events(self) -> Mapping[type[Event], Callable[[Any], None]]:
        return {
            LoginNeeded: self._login_needed,
            LoginDone: self._login_done,
            NotificationEnded: self._notification_ended,
        }

    def take_over(self, before: Notifications) -> None:
        self.logins, self._handled = before.logins, before._handled

    def due(self) -> Iterator[Occurrence]:
        """The current occurrences of which the user was not notified yet."""
        for occurrence in self._lasting():
            if occurrence not in self._handled:
                yield occurrence

    def _lasting(self) -> Iterator[Occurrence]:
        for site in self.logins:
            yield "needs-login", site
        if self.state.ended == "done":
            yield "finished", None
        elif self.state.ended == "failed":
            yield "failed", None

    def _login_needed(self, event: LoginNeeded) -> None:
        self.logins[event.site] = event.reason

    def _login_done(self, event: LoginDone) -> None:
        self.logins.pop(event.site, None)
        self._handled.discard(("needs-login", event.site))

    def _notification_ended(self, event: NotificationEnded) -> None:
        if (event.on, event.site) in self._lasting():  # a login may be done meanwhile
            self._handled.add((event.on, event.site))

    def on_resumed(self, dismissed: bool) -> None:
        self._handled = {occurrence for occurrence in self._handled if occurrence[1] is not None}
