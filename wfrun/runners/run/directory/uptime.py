"""The time since the machine booted. A file of its own: readers of runs need no event loop."""

from __future__ import annotations

import time


def uptime_s() -> float:
    """Seconds since the machine booted; on Linux including suspension."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
