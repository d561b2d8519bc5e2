"""How much random tests and tests with many cases try, so that ``make test`` takes minutes."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest


def examples(most: int) -> int:
    """The number of examples of a random test: a third of ``most``, which the Hypothesis profile
    ``explore`` tries."""
    return most if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else most // 3


def some(cases: Iterable[object], quick: int) -> list[object]:
    """Parameters of a test, of which all but the first ``quick`` are marked as slow."""
    parameters: list[object] = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = [pytest.mark.slow] if number >= quick else []
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
