"""The views of ``wfrun watch``, in the order of their keys: 1 to 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wfrun.runners.display.watch.listing import Listing
from wfrun.runners.display.watch.observation import Observation
from wfrun.runners.display.watch.views.events import events
from wfrun.runners.display.watch.views.failures import failures
from wfrun.runners.display.watch.views.launchers import launchers
from wfrun.runners.display.watch.views.sites import sites
from wfrun.runners.display.watch.views.tasks import tasks
from wfrun.runners.display.watch.views.transfers import transfers
from wfrun.runners.display.watch.views.workflows import workflows


class View(NamedTuple):
    """A view with a table."""

    name: str
    listing: Callable[[Observation], Listing]
    shows_end: bool = False
    """Whether it follows the end of its rows."""


LISTINGS = (
    View("workflows", workflows),
    View("sites", sites),
    View("tasks", tasks),
    View("transfers", transfers),
    View("failures", failures),
    View("launchers", launchers),
    View("events", events, shows_end=True),
)
"""The views with a table. The overview comes before them."""
NAMES = ("overview", *(view.name for view in LISTINGS))
"""Names of all views."""
