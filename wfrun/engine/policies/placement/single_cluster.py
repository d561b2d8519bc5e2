"""Single Cluster (thesis section 6.1.3, policy 2)."""

from __future__ import annotations

from collections.abc import Mapping

from wfrun.engine.fitting.information import Information, R
from wfrun.engine.policies.placement.base import BasePlacement, least
from wfrun.engine.policies.placement.scores import Scores, first_where, lowest, score
from wfrun.engine.protocols import View


class SingleCluster(BasePlacement):
    """Maps the complete workflow to the cluster that is least loaded when its first task is placed.

    A task that cannot run there, because it is too large or has failed there, goes to the
    least-loaded other candidate; the rest of the workflow stays. A cluster that fits all tasks of
    the workflow has precedence. While the chosen cluster has no room, the workflow waits.
    """

    name = "single-cluster"
    information = Information(status=R)
    summary = "the whole workflow to the cluster least loaded at its submission"

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._site: int | None = None

    def place(self, task: int) -> int | None:
        sites = self.view.candidates(task)
        if self._site is None:
            everywhere = tuple(s for s in sites if self.view.fits_all(s))
            return least(everywhere or sites, self.view.load)
        if self._site in sites:
            return self._site
        if self.view.lacks_room(task, self._site):
            return None
        return least(sites, self.view.load)

    def scores(self, task: int) -> Scores:
        view, own = self.view, self._site
        sites = view.candidates(task)
        load = lowest("load", "", view.load)
        if own is None:
            return score(sites, first_where("fits all tasks", view.fits_all), load)
        found = score(sites, first_where("has workflow", lambda site: site == own), load)
        if own not in sites and view.lacks_room(task, own):
            note = "the workflow waits for room at the cluster that it was mapped to"
            return found._replace(best=None, note=note)
        return found

    def placed(self, task: int, site: int) -> None:
        if self._site is None:
            self._site = site
