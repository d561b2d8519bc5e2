"""Durations for people."""

from __future__ import annotations

import pytest

from wfrun.runners.display.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1:00"), (187.2, "3:07"), (86399.7, "1 d 00:00")],
)
def test_a_duration_is_rounded_before_its_unit_is_chosen(seconds: float, text: str) -> None:
    assert duration(seconds) == text
