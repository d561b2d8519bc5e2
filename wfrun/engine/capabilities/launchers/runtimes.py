"""How long tasks take, as those of the same kind did."""

from __future__ import annotations

MIN_OBSERVATIONS = 3
"""Number of observed run times of a kind that count more than its document."""


class RuntimeEstimates:
    """Run times on the reference processor, by kind of task in its workflow."""

    def __init__(self) -> None:
        self._means: dict[tuple[int, str], tuple[int, float]] = {}
        self.longest_s: float | None = None
        """That any task took, or is said to take: on the reference processor too."""

    def observe(self, kind: tuple[int, str], elapsed_s: float, speed_ratio: float) -> None:
        """A task of this kind took so long at a site of this speed."""
        count, mean_s = self._means.get(kind, (0, 0.0))
        mean_s += (elapsed_s * speed_ratio - mean_s) / (count + 1)
        self._means[kind] = count + 1, mean_s
        self.foresee(elapsed_s, speed_ratio)

    def foresee(self, runtime_s: float, speed_ratio: float = 1.0) -> None:
        """Some task is going to take as long as this at a site of this speed."""
        self.longest_s = max(self.longest_s or 0.0, runtime_s * speed_ratio)

    def expected_s(
        self, kind: tuple[int, str], documented_s: float | None, speed_ratio: float
    ) -> float | None:
        """At a site of this speed: the mean of its kind, or while that stands on little what its
        document says; None: nothing is known."""
        count, mean_s = self._means.get(kind, (0, 0.0))
        if count >= MIN_OBSERVATIONS or (count and documented_s is None):
            return mean_s / speed_ratio
        return None if documented_s is None else documented_s / speed_ratio
