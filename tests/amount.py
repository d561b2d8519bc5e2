"""Divides a test with many cases between ``make test`` and ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def some(cases: Iterable[object], quick: int) -> list[object]:
    """Parameters of a test, of which all but the first ``quick`` are marked as slow."""
    parameters: list[object] = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        marks = [pytest.mark.slow] if number >= quick else []
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
