"""Order statistics that bound a quantile with a stated confidence (binomial method).

Source: J. Brevik, D. Nurmi, R. Wolski, "Predicting bounds on queuing delay for batch-scheduled
parallel machines", PPoPP 2006, the method BMBP. Of n independent waits the number above the
quantile q is binomial with n trials of probability 1 - q. The bound with m waits above it is below
the quantile only if at most m of the n are above the quantile, so m is the largest number for which
that has a probability of at most 1 - C.

BMBP takes the normal approximation for long histories. Here the probability is carried from n to
n + 1 exactly, in constant time, so that no approximation is needed.
"""

from __future__ import annotations

QUANTILE = 0.95
CONFIDENCE = 0.95
"""Of the thesis, section 7.3.2."""


class BinomialTable:
    """How many waits of a history are above the bound of a quantile.

    One table serves all histories. It grows with the longest one: a step for each further wait.
    """

    def __init__(self, quantile: float = QUANTILE, confidence: float = CONFIDENCE) -> None:
        self._above = 1 - quantile
        self._most = 1 - confidence
        self._lengths: list[int] = []
        """By m: length of the shortest history of which m waits may be above the bound."""
        self._length = 0
        # Of Binomial(_length, _above), at m = len(_lengths):
        self._density = 1.0
        self._cumulative = 1.0

    def shortest(self, above: int) -> int:
        """Length of the shortest history in which ``above`` waits may exceed the bound: 59, 93,
        124, … for 0, 1, 2, …, with a quantile and a confidence of 0.95."""
        while len(self._lengths) <= above:
            self._grow()
        return self._lengths[above]

    def _grow(self) -> None:
        p, m, n = self._above, len(self._lengths), self._length
        self._cumulative -= p * self._density
        self._density *= (n + 1) / (n + 1 - m) * (1 - p) if m <= n else 0.0
        self._length = n = n + 1
        if self._cumulative <= self._most:
            self._lengths.append(n)
            self._density *= (n - m) / (m + 1) * p / (1 - p)
            self._cumulative += self._density
