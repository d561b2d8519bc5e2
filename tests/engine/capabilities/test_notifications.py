"""What a user is to be notified of, as the log implies it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wfrun.engine import events as ev
from wfrun.engine.capabilities.notifications import Notifications
from wfrun.engine.core.core import Core
from wfrun.engine.model import SiteSpec

BEGUN = ev.RunStarted(0.0, "r", ev.Settings(), (SiteSpec("a", 1), SiteSpec("b", 1)), (), 1)
LOGIN, LOGGED_IN = ev.LoginNeeded(1.0, 1, "ssh b"), ev.LoginDone(2.0, 1)
NOTIFIED = ev.NotificationEnded(1.5, "needs-login", 1)
RESUMED = ev.RunResumed(3.0)
DONE, FAILED = ev.RunEnded(5.0, "done"), ev.RunEnded(5.0, "failed")
SAID = ev.NotificationEnded(5.5, "finished")
CHANGED = ev.RunChanged(3.0, ev.Settings(retries=5), BEGUN.sites, ())
NEEDS = ("needs-login", 1)


@pytest.mark.parametrize(
    ("log", "due"),
    [
        ([], []),
        ([LOGIN], [NEEDS]),
        ([LOGIN, NOTIFIED], []),
        ([LOGIN, NOTIFIED, RESUMED], []),
        ([LOGIN, NOTIFIED, CHANGED, RESUMED], []),
        ([LOGIN, CHANGED, RESUMED], [NEEDS]),
        ([LOGIN, NOTIFIED, LOGGED_IN, LOGIN], [NEEDS]),
        # The login is done while the notification is under way; the next one is another.
        ([LOGIN, LOGGED_IN, NOTIFIED, LOGIN], [NEEDS]),
        ([DONE], [("finished", None)]),
        ([FAILED], [("failed", None)]),
        ([ev.RunEnded(5.0, "cancelled")], []),
        ([DONE, SAID], []),
        ([FAILED, ev.NotificationEnded(5.5, "failed", error="no mail"), RESUMED], []),
        ([FAILED, ev.NotificationEnded(5.5, "failed"), RESUMED, FAILED], [("failed", None)]),
    ],
)
def test_an_occurrence_is_due_until_the_log_has_its_notification(
    log: Sequence[ev.Event], due: Sequence[tuple[str, int | None]]
) -> None:
    core = Core({})
    core.replay([BEGUN, *log])
    assert list(core.state.get(Notifications).due()) == due
