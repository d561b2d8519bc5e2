"""The numbers in the text of the thesis (chapter 4). Its figures are pictures without numbers."""

from __future__ import annotations

from typing import NamedTuple


class OwnerRow(NamedTuple):
    """A row of Table 4.1, for one policy."""

    throughput: float
    """Tasks completed per minute."""
    preemptions: int
    nodes: int
    """Mean number of nodes."""


OWNERS = 3
HOUR_S = 3600.0
TABLE_4_1 = {
    "all": (OwnerRow(1.68, 346, 23), OwnerRow(3.3, 304, 45), OwnerRow(1.92, 333, 28)),
    "persite": (OwnerRow(2.55, 323, 37), OwnerRow(2.4, 321, 37), OwnerRow(2.7, 323, 37)),
}
"""Rows of CS User-1 to User-3 in Table 4.1, for WBlock, by policy."""

BLOCK_S, BLOCK_PERIOD_S = 600.0, 1200.0
BURST_S, BURST_PERIOD_S = 60.0, 600.0
"""Lengths and periods of WBlock and WBurst (section 4.3.2)."""
LOAD = 0.4
"""Share of all nodes that grid jobs hold while a workload imposes its load."""

GRID_DELAYS_S = (2.0, 8.0)
LOCAL_DELAYS_S = (8.0, 15.0)
"""Additional delays of grid and local jobs (section 4.3.3)."""
POLL_S = 10.0

LAUNCHER_NODES, LAUNCHER_TASK_S, LAUNCHER_TASKS = 32, 60.0, 4096
START_S, MONITOR_S = 5.0, 60.0
"""Seconds that a task takes to start without a launcher, and the period in seconds at which
information on idle nodes is renewed (section 4.3.1)."""
SEPARATE_LONGER_S = 5400.0
"""Approximate number of seconds by which the makespan of 4,096 separate tasks exceeds the ideal
makespan."""
