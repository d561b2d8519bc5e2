"""Rate-limited warnings about invalid messages, so that their senders cannot fill the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_LOGGER = logging.getLogger(__name__)
MAX_WARNINGS = 5
"""Maximum number of warnings in each interval."""
INTERVAL_S = 60.0


class LimitedWarnings:
    """Logs at most MAX_WARNINGS warnings about one site in each interval of INTERVAL_S seconds, and
    counts the rest. The first warning of a later interval gives the number of omitted ones."""

    def __init__(self, site: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._site = site
        self._clock = clock
        self._since_s = clock()
        self._written = 0
        self._omitted = 0

    def warn(self, text: str) -> None:
        """Log a warning, or only count it if the interval has MAX_WARNINGS already."""
        now_s = self._clock()
        if now_s - self._since_s >= INTERVAL_S:
            self._since_s, self._written = now_s, 0
        if self._written >= MAX_WARNINGS:
            self._omitted += 1
            return
        self._written += 1
        omitted, self._omitted = self._omitted, 0
        more = f" (and {omitted} more warnings like this before it)" if omitted else ""
        _LOGGER.warning("site %s: %s%s", self._site, text, more)
