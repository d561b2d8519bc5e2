"""The rate at which tasks are done."""

from __future__ import annotations

import time
from collections import deque

RATE_WINDOW_S = 20.0
"""Length of the window over which the task rate is averaged, in seconds."""


class Rate:
    """Task rate, averaged over the last `RATE_WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, done: int) -> float:
        """Add the present number of done tasks. Returns the rate in tasks per second."""
        now_s = time.monotonic()
        self._samples.append((now_s, done))
        while now_s - self._samples[0][0] > RATE_WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()
        first_s, first = self._samples[0]
        if done == first or now_s == first_s:
            return 0.0
        return (done - first) / (now_s - first_s)
