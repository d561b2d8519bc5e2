"""Round-Robin with Replication and Work Queue with Replication (thesis section 5.1.4, policies 3
and 4)."""

from __future__ import annotations

from wfrun.engine.fitting.information import Information
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.scores import Scores, lowest, score, turn
from wfrun.engine.protocols import View


class Rr(BasePlacement):
    """Assigns tasks in their initial order to free processors, the clusters in turn. When no task
    waits, each running task is replicated once on processors that become free."""

    name = "rr"
    information = Information()
    summary = "free processors in turn; then each task that runs is replicated once"
    binds_late = True
    replicas = 1

    def place(self, task: int) -> int | None:
        return next_in_turn(self.view, task)

    def scores(self, task: int) -> Scores:
        return turn_scores(self.view, task)


class Wqr(Rr):
    """RR with several replicas of a task: four by default (WQR4x of the thesis; WQR1x is RR)."""

    name = "wqr"
    summary = "rr, with up to four replicas of each task (--replicas)"
    replicas = 4


def next_in_turn(view: View, task: int) -> int | None:
    """The candidate after the site of the last placement in the run, in round-robin order."""
    sites = view.candidates(task)
    last = view.last_site()
    return next((site for site in sites if site > last), sites[0])


def turn_scores(view: View, task: int) -> Scores:
    """The scores by which ``next_in_turn`` chooses."""
    last, count = view.last_site(), view.site_count
    return score(view.candidates(task), lowest("turn", "", lambda site: turn(site, last, count)))
