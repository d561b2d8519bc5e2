"""Run times of other users' jobs at a site, as its queue shows them."""

from __future__ import annotations

from wfrun.engine.prediction.auto import Auto
from wfrun.engine.prediction.chain import Chain
from wfrun.engine.prediction.classes import ByClass
from wfrun.engine.prediction.job import Job, Predictor


class ForeignRuntimes:
    """Predicts how long other users' jobs run at one site: by the method from those with as many
    cores, else from all; with ``auto`` by the best so far. Queues name no owners and applications,
    so the size is what remains of the classes of thesis section 7.2.1."""

    def __init__(self, predictor: str) -> None:
        self._predictor: Predictor
        if predictor == "auto":
            self._predictor = Auto()
        else:
            classes = "application", "site"
            self._predictor = Chain([ByClass(predictor, name) for name in classes])
        self._cache: dict[int, float | None] = {}
        """Predictions since the last observation, by cores: queues are long."""

    def observe(self, cores: int, runtime_s: float) -> None:
        """Observe a job that has ended."""
        self._predictor.observe(_job(cores), runtime_s)
        self._cache.clear()

    def predict_s(self, cores: int) -> float | None:
        """Expected run time of a job; None before the first has ended."""
        if cores not in self._cache:
            found = self._predictor.predict(_job(cores))
            self._cache[cores] = None if found is None else found.value_s
        return self._cache[cores]


def _job(cores: int) -> Job:
    return Job("", "", cores=cores)
