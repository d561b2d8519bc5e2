"""Run times of other users' jobs at a site, as its queue shows them."""

from __future__ import annotations

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job, Predictor


class ForeignRuntimes:
    """Predicts how long other users' jobs run at one site: by one method from all of them, or, with
    ``auto``, by the best so far and also from those with as many cores. Queues name no owners."""

    def __init__(self, predictor: str) -> None:
        self._uses_cores = predictor == "auto"
        self._predictor: Predictor = Auto() if self._uses_cores else ByClass(predictor, "site")
        self._cache: dict[int, float] = {}
        """Predictions since the last observation, by cores: queues are long."""

    def observe(self, cores: int, runtime_s: float) -> None:
        """Observe a job that has ended."""
        self._predictor.observe(self._job(cores), runtime_s)
        self._cache.clear()

    def predict_s(self, cores: int) -> float:
        """Expected run time of a job; 0 before the first has ended."""
        value_s = self._cache.get(cores)
        if value_s is None:
            found = self._predictor.predict(self._job(cores))
            value_s = self._cache[cores] = 0.0 if found is None else found.value_s
        return value_s

    def _job(self, cores: int) -> Job:
        return Job("", "", cores=cores if self._uses_cores else 1)
