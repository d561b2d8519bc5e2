"""The views of ``wfrun watch``, in the order of their keys: 1 to 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wfrun.runners.inspect.watch.listing import Listing
from wfrun.runners.inspect.watch.observation import RunObservation
from wfrun.runners.inspect.watch.views.events import events
from wfrun.runners.inspect.watch.views.failures import failures
from wfrun.runners.inspect.watch.views.launchers import launchers
from wfrun.runners.inspect.watch.views.sites import sites
from wfrun.runners.inspect.watch.views.tasks import tasks
from wfrun.runners.inspect.watch.views.transfers import transfers
from wfrun.runners.inspect.watch.views.workflows import workflows


class TableView(NamedTuple):
    """A view with a table."""

    name: str
    listing: Callable[[RunObservation], Listing]
    shows_end: bool = False
    """Whether the view follows its last row."""
    wraps: bool = False
    """Whether a row that is too long for the terminal continues on further rows."""


LISTINGS = (
    TableView("workflows", workflows),
    TableView("sites", sites),
    TableView("tasks", tasks),
    TableView("transfers", transfers),
    TableView("failures", failures),
    TableView("launchers", launchers),
    TableView("events", events, shows_end=True, wraps=True),
)
"""The views with a table. The overview comes before them."""
NAMES = ("overview", *(view.name for view in LISTINGS))
"""Names of all views."""
