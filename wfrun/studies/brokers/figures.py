"""Figures 6.7 and 6.8 of the thesis with our results (matplotlib)."""

from __future__ import annotations

from pathlib import Path

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.samples import BrokerSamples
from wfrun.studies.common.figures import bars, grid_of, save

_FLOOR_S = 1.0
"""Smallest wait that the logarithmic axis shows."""


def draw(samples: BrokerSamples, folder: Path) -> list[str]:
    """Write the figures as PNG and return their file names. Raises OSError."""
    return [_waits(samples, folder), _throttle(samples, folder)]


def _waits(samples: BrokerSamples, folder: Path) -> str:
    """Figure 6.7: cumulative distributions of the queue wait."""
    figure, grid = grid_of(1, 1)
    axes = grid[0][0]
    for policy in paper.POLICIES:
        waits_s = [max(_FLOOR_S, wait) for wait in samples.waits_s(policy)]
        axes.step(waits_s, range(len(waits_s)), where="post", label=policy)
    axes.set_xscale("log")
    axes.set_xlabel("queue wait [s]")
    axes.set_ylabel("tasks [%]")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    return save(figure, folder, "figure-6.7.png")


def _throttle(samples: BrokerSamples, folder: Path) -> str:
    """Figure 6.8: a column for each policy, with the load of the head node over time and the total
    makespan by limit."""
    figure, grid = grid_of(2, len(paper.POLICIES))
    limits = (*paper.LIMITS, None)
    for column, policy in enumerate(paper.POLICIES):
        above, below = grid[0][column], grid[1][column]
        for limit in limits:
            loads = [max(1.0, 100 * load) for load in samples.loads(policy, limit)]
            span_s = samples.throttled(policy, limit, "makespan_s").mean
            times_s = [span_s * (number + 0.5) / len(loads) for number in range(len(loads))]
            above.plot(times_s, loads, linewidth=1, label=str(limit or "none"))
        above.set_title(policy, fontsize=9)
        above.set_yscale("log")
        above.set_xlabel("time [s]")
        above.grid(alpha=0.3)
        names = [str(limit or "none") for limit in limits]
        spans = [samples.throttled(policy, limit, "makespan_s") for limit in limits]
        bars(below, names, spans)
        below.set_xlabel("limit")
    grid[0][0].set_ylabel("load of Delft's head node [%]")
    grid[0][0].legend(fontsize=7, title="limit", title_fontsize=7)
    grid[1][0].set_ylabel("total makespan [s]")
    return save(figure, folder, "figure-6.8.png")
