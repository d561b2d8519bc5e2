"""Durations for people."""

from __future__ import annotations

import pytest

from wfrun.runners.display.durations import duration, task_rate


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1:00"), (187.2, "3:07"), (86399.7, "1 d 00:00")],
)
def test_a_duration_is_rounded_before_its_unit_is_chosen(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (0, "0.0 tasks/s"),
        (123.44, "123.4 tasks/s"),
        (0.1, "0.1 tasks/s"),
        (0.0999, "360 tasks/h"),
        (2 / 3600, "2 tasks/h"),
        (0.0001, "0.36 tasks/h"),
    ],
)
def test_slow_rates_are_per_hour(per_s: float, text: str) -> None:
    assert task_rate(per_s) == text
