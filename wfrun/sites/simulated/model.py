"""Parameters of a simulated site."""

from __future__ import annotations

from math import inf

import msgspec

from wfrun.engine.errors import InvalidError


class SiteModel(msgspec.Struct, frozen=True):
    """Parameters of a simulated site. Times and rates of 0 are not modelled."""

    lrm: str = "fcfs"
    kill_overruns: bool = True
    """Kill tasks that run past their walltime."""
    submit_s: float = 0.0
    """Time that the head node takes to submit one attempt; submissions queue up there."""
    overload_jobs: int = 0
    """Number of our attempts at the site at which a submission takes twice as long: the factor is 1
    + (jobs/overload_jobs)², like that of the overloaded head nodes of thesis section 6.4.2. 0: no
    overload."""
    poll_s: float = 0.0
    """Interval at which ends of attempts are reported."""
    start_s: float = 0.0
    """Delay of each submission between the head node and the queue, independent of the number of
    submissions."""
    end_s: float = 0.0
    """Time from the end of a task to its report."""
    hold_s: float = 0.0
    """Time for which a task holds its cores after its end. It includes the delay between the moment
    when the cores are free and the start of the next task."""
    observe_s: float = 60.0
    """Interval at which the information service reports other users' jobs, if they have changed."""
    failure_rate: float = 0.0
    """Share of attempts that fail, at a random time of their run."""
    outage_every_s: float = 0.0
    """Mean of the exponentially distributed time between outages of the whole site."""
    outage_s: float = 0.0
    """Mean of the exponentially distributed length of an outage. Attempts that run or wait at its
    start are lost."""

    def __post_init__(self) -> None:
        for name in (
            "submit_s", "overload_jobs", "poll_s", "start_s", "end_s", "hold_s", "failure_rate",
            "outage_every_s", "outage_s",
        ):  # fmt: skip
            value = getattr(self, name)
            if not 0 <= value < inf:
                raise InvalidError(
                    f"{name} of a simulated site is {value}", hint="use a number of at least 0"
                )
        if self.failure_rate > 1:
            raise InvalidError(
                f"failure_rate of a simulated site is {self.failure_rate}",
                hint="it is a share of the attempts, at most 1",
            )
        if not 0 < self.observe_s < inf:
            raise InvalidError(
                f"observe_s of a simulated site is {self.observe_s}",
                hint="use a positive number of seconds",
            )
