"""The site and the size of parallel jobs with the earliest completion, by the present queues."""

from __future__ import annotations

from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.reallocating.site_queues import SiteQueues
from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, WorkflowState
from wfrun.engine.jobs.moldable import SIZINGS
from wfrun.engine.policies.placement.scores import Scores, lowest, score, shown


class SizeChooser(Capability):
    """Chooses site and size of moldable jobs at their submission. At each site it finds the size
    with the earliest completion; then it chooses the site where this completion is earliest
    (RR-7365, section 3.1, MCT).

    Cost of a placement: that of planning all queues, once for all placements at the same time, and
    the estimates of the search at each site.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._queues: SiteQueues | None = None
        """Cache: models of the queues at the time ``now_s`` of the models, with the jobs placed at
        that time."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.sizing is not None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_queues": None}

    def on_placed(self, attempt: Attempt) -> None:
        if self._queues is not None and self._queues.now_s == self.state.now_s:
            self._queues.place(attempt)

    def on_left(self, attempt: Attempt) -> None:
        self._queues = None

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        self._queues = None

    def on_load_changed(self, site: int) -> None:
        self._queues = None

    def on_health_changed(self, site: int) -> None:
        self._queues = None

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        if not mask & (mask - 1):
            return mask
        site = self._now().best_site(w, task, mask)
        return mask if site is None else 1 << site

    def scores(self, w: WorkflowState, task: int, mask: int) -> Scores | None:
        """The offers of the sites in a mask for a job, as scores that explain a decision to users;
        None if no site admits the job."""
        found = {offer.site: (offer, end_s) for offer, end_s in self._now().offers(w, task, mask)}
        if not found:
            return None
        now_s = self.state.now_s
        return score(
            list(found),
            lowest("ends in", "s", lambda site: found[site][1] - now_s),
            shown("size", "cores", lambda site: found[site][0].size),
        )

    def choose_size(self, w: WorkflowState, task: int, site: int) -> int:
        return self._now().size_at(w, task, site)

    def _now(self) -> SiteQueues:
        queues = self._queues
        if queues is None or queues.now_s != self.state.now_s:
            sizing = SIZINGS[self.state.settings.sizing or "binary"]
            queues = self._queues = SiteQueues(self.state, sizing, {}, {})
        return queues
