"""Predictions of run times."""

from __future__ import annotations


class Last2:
    """The average of the last two observed run times of one class of jobs.

    Source: thesis, section 7.2.1, method 5 (Last2). One object serves one class; wfrun uses the
    classification by site.
    """

    def __init__(self) -> None:
        self._last: tuple[float, ...] = ()

    def observe(self, runtime_s: float) -> None:
        self._last = (*self._last[-1:], runtime_s)

    def predict(self) -> float | None:
        """Seconds; None before the first observation."""
        return sum(self._last) / len(self._last) if self._last else None
