"""The user's own estimate, and the predictions made with it (JGC paper, Table 5: models M1-M12).

An estimate is the run time that a user requests, p' in the paper. Until they have observed enough
jobs, all models but C2 answer with the estimate itself. A job without an estimate then gets no
prediction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from heapq import heappush, heappushpop
from random import Random
from typing import NamedTuple

from wfrun.engine.prediction.job import Job, Prediction

MAX_WINDOW = 10
"""The largest window of M1-M8 that the paper evaluates; the smallest is 1."""
ESTIMATE_TITLE = "user's estimate"


def estimate_s(job: Job) -> float | None:
    """The estimate of the job's user; None if it is missing or not positive."""
    requested_s = job.estimate_s
    return requested_s if requested_s is not None and requested_s > 0 else None


def as_estimated(job: Job) -> Prediction | None:
    """The user's estimate as a prediction; None if there is none."""
    requested_s = estimate_s(job)
    return None if requested_s is None else Prediction(requested_s, ESTIMATE_TITLE, 0)


class UserEstimate:
    """The user's estimate, unchanged (p')."""

    def observe(self, job: Job, runtime_s: float) -> None:
        """Learns nothing."""

    def predict(self, job: Job) -> Prediction | None:
        return as_estimated(job)


class HistoryModel(NamedTuple):
    """A row M1-M8 of Table 5: which jobs of the same user are averaged."""

    title: str
    """Name in the paper; ``k`` is the window."""
    is_recent: bool
    """Whether the model is Hrecent, which answers with the user's estimate until the window is
    full. H averages the jobs that are in the window so far."""
    same_estimate: bool = False
    same_size: bool = False


HISTORY_MODELS: dict[str, HistoryModel] = {
    "M1": HistoryModel("Hrecent_k", True),
    "M2": HistoryModel("Hrecent_k_p'", True, same_estimate=True),
    "M3": HistoryModel("Hrecent_k_size", True, same_size=True),
    "M4": HistoryModel("Hrecent_k_size&p'", True, same_estimate=True, same_size=True),
    "M5": HistoryModel("H_k", False),
    "M6": HistoryModel("H_k_p'", False, same_estimate=True),
    "M7": HistoryModel("H_k_size", False, same_size=True),
    "M8": HistoryModel("H_k_size&p'", False, same_estimate=True, same_size=True),
}
"""The history-based models by their names in the paper."""


class UserHistory:
    """The mean run time of the last ``window`` matching jobs of the same user (M1-M8).

    With fewer jobs, Hrecent answers with the user's estimate, and H with the mean of these jobs.
    Without any job, a case for which the paper does not define H, both answer with the estimate.
    Cost: linear in the window.
    """

    def __init__(self, model: HistoryModel, window: int) -> None:
        """``window``: k, at least 1."""
        self._model, self._window = model, window
        self._title = model.title.replace("_k", f"_{window}")
        self._least = window if model.is_recent else 1
        self._recent_s: dict[Hashable, deque[float]] = {}

    def observe(self, job: Job, runtime_s: float) -> None:
        key = self._key(job)
        recent_s = self._recent_s.get(key)
        if recent_s is None:
            recent_s = self._recent_s[key] = deque(maxlen=self._window)
        recent_s.append(runtime_s)

    def predict(self, job: Job) -> Prediction | None:
        recent_s = self._recent_s.get(self._key(job), ())
        if len(recent_s) < self._least:
            return as_estimated(job)
        return Prediction(sum(recent_s) / len(recent_s), self._title, len(recent_s))

    def _key(self, job: Job) -> Hashable:
        model = self._model
        return (
            job.owner,
            job.estimate_s if model.same_estimate else None,
            job.cores if model.same_size else None,
        )


class MeanAccuracy:
    """The user's estimate times the mean ratio of run time to estimate so far (C1, M9)."""

    def __init__(self) -> None:
        self._count = 0
        self._mean = 1.0

    def observe(self, job: Job, runtime_s: float) -> None:
        requested_s = estimate_s(job)
        if requested_s is not None:
            self._count += 1
            self._mean += (runtime_s / requested_s - self._mean) / self._count

    def predict(self, job: Job) -> Prediction | None:
        return _scaled(job, self._mean, "C1 of the user's estimate", self._count)


class ConstantFactor:
    """The user's estimate times a constant (C2, M10)."""

    def __init__(self, factor: float) -> None:
        """``factor``: c2, 0.01 to 1 in the paper."""
        self._factor = factor
        self._title = f"{factor:g} of the user's estimate"

    def observe(self, job: Job, runtime_s: float) -> None:
        """Learns nothing."""

    def predict(self, job: Job) -> Prediction | None:
        return _scaled(job, self._factor, self._title, 0)


class UniformRange:
    """The user's estimate times a uniform draw between the smallest and the largest ratio of run
    time to estimate so far (U1, M11). Each call of ``predict`` draws anew."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0
        self._low = self._high = 1.0

    def observe(self, job: Job, runtime_s: float) -> None:
        requested_s = estimate_s(job)
        if requested_s is None:
            return
        ratio = runtime_s / requested_s
        self._low = min(self._low, ratio) if self._count else ratio
        self._high = max(self._high, ratio) if self._count else ratio
        self._count += 1

    def predict(self, job: Job) -> Prediction | None:
        factor = self._random.uniform(self._low, self._high)
        return _scaled(job, factor, "U1 of the user's estimate", self._count)


class UniformHalves:
    """The user's estimate times a uniform draw between two means of the ratios of run time to
    estimate so far: the mean of the smaller half and the mean of the larger half (U2, M12). If
    their number is odd, the middle ratio belongs to both halves. Each call of ``predict`` draws
    anew. Keeps all ratios, as the paper defines; the cost of an observation is logarithmic in their
    number."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._smaller: list[float] = []
        """A heap of the negated smaller half, including the middle ratio."""
        self._larger: list[float] = []
        self._smaller_sum = self._larger_sum = 0.0

    def observe(self, job: Job, runtime_s: float) -> None:
        requested_s = estimate_s(job)
        if requested_s is None:
            return
        ratio = runtime_s / requested_s
        if len(self._smaller) == len(self._larger):
            moved = heappushpop(self._larger, ratio)
            self._larger_sum += ratio - moved
            heappush(self._smaller, -moved)
            self._smaller_sum += moved
        else:
            moved = -heappushpop(self._smaller, -ratio)
            self._smaller_sum += ratio - moved
            heappush(self._larger, moved)
            self._larger_sum += moved

    def predict(self, job: Job) -> Prediction | None:
        factor = self._random.uniform(*self._bounds())
        count = len(self._smaller) + len(self._larger)
        return _scaled(job, factor, "U2 of the user's estimate", count)

    def _bounds(self) -> tuple[float, float]:
        smaller, larger = self._smaller, self._larger
        if not smaller:
            return 1.0, 1.0
        is_odd = len(smaller) > len(larger)
        larger_sum = self._larger_sum - (smaller[0] if is_odd else 0.0)
        return self._smaller_sum / len(smaller), larger_sum / len(smaller)


def _scaled(job: Job, factor: float, title: str, observations: int) -> Prediction | None:
    requested_s = estimate_s(job)
    return None if requested_s is None else Prediction(factor * requested_s, title, observations)
