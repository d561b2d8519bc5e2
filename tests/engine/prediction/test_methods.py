"""The methods of thesis section 7.2.1 on series computed by hand."""

from __future__ import annotations

import pytest

from wfrun.engine.prediction.classes import CLASSIFICATIONS, ByClass
from wfrun.engine.prediction.job import Job, is_plausible
from wfrun.engine.prediction.methods import METHODS

SERIES = [10.0, 20.0, 90.0, 40.0, 30.0, 60.0, 20.0]
EXPECTED: dict[str, list[float]] = {
    "es": [10, 15, 52.5, 46.25, 38.125, 49.0625, 34.53125],
    "rm": [10, 15, 40, 40, 38, 250 / 6, 270 / 7],
    "sm": [10, 15, 20, 30, 30, 40, 40],
    "last": SERIES,
    "last2": [10, 15, 55, 65, 35, 45, 40],
}
"""The prediction after each run time of the series."""


@pytest.mark.parametrize("name", METHODS)
def test_predictions_of_a_series(name: str) -> None:
    method = METHODS[name].make()
    assert method.predict() is None
    seen: list[float | None] = []
    for runtime_s in SERIES:
        method.observe(runtime_s)
        seen.append(method.predict())
    assert seen == pytest.approx(EXPECTED[name])


def test_classes_share_series_of_equal_keys() -> None:
    first = Job("a", "ann", "sort", 4)
    others = {
        "site": (first._replace(owner="bob", application="join", cores=1), Job("b", "ann")),
        "user": (first._replace(site="b", application="join"), Job("a", "bob", "sort", 4)),
        "user-site": (first._replace(application="join"), first._replace(site="b")),
        "application": (first._replace(estimate_s=5.0), first._replace(cores=8)),
    }
    assert list(others) == list(CLASSIFICATIONS)
    for name, (same, different) in others.items():
        predictor = ByClass("last", name)
        predictor.observe(first, 7.0)
        found = predictor.predict(same)
        assert found is not None
        assert (found.value_s, found.observations) == (7.0, 1)
        assert predictor.predict(different) is None


@pytest.mark.parametrize(
    ("runtime_s", "plausible"),
    [(0.001, True), (86_400, True), (0, False), (-1, False), (1e12, False),
     (float("inf"), False), (float("nan"), False)],
)  # fmt: skip
def test_absurd_run_times_are_refused(runtime_s: float, plausible: bool) -> None:
    assert is_plausible(runtime_s) == plausible
