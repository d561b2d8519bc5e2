"""Recent speed of sites."""

from __future__ import annotations

from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt
from wfrun.engine.events import RunStarted
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.information import Knowledge

LATEST_WEIGHT = 0.2
"""Weight of the latest task in the speed of a site."""


class Performance(Capability):
    """Recent speed of sites relative to the reference processor: the ratio of documented to
    observed run times (DFPLT, thesis section 5.1.4). Cost: constant."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.by_site: list[float | None] = [None] * len(self.state.sites)
        """Speed by site; None until a task has ended there."""

    def take_over(self, before: Performance) -> None:
        self.by_site[: len(before.by_site)] = before.by_site

    @classmethod
    def is_wanted(cls, run: Run, begun: RunStarted) -> bool:
        return run.state.information.processing_speed is Knowledge.HISTORICAL

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        runtimes_s = self.state.workflows[attempt.workflow].runtimes_s
        if runtimes_s is None or outcome.started_s is None or outcome.ended_s is None:
            return
        elapsed_s = outcome.ended_s - outcome.started_s
        if elapsed_s > 0:
            latest = runtimes_s[attempt.task] / elapsed_s
            known = self.by_site[attempt.site]
            self.by_site[attempt.site] = (
                latest if known is None else known + LATEST_WEIGHT * (latest - known)
            )
