"""The time that is left, for people."""

from __future__ import annotations

import pytest

from wfrun.engine.time_left import TimeLeft
from wfrun.runners.display.eta import eta_text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        ((2, 1, 4), "a few seconds left"),
        ((3, 1, 14), "about 5 s left (0–15)"),
        ((42, 31, 58), "about 40 s left (30–60)"),
        ((93, 91, 94), "about 95 s left (90–95)"),
        ((150, 150, 150), "about 2 min left"),
        ((8 * 60, 5 * 60, 14 * 60), "about 8 min left (5–14)"),
        ((12 * 60, 9 * 60, 19 * 60), "about 12 min left (9–19)"),
        ((47 * 60, 33 * 60, 64 * 60), "about 45 min left (35–65)"),
        ((3 * 3600, 2 * 3600, 9 * 3600), "about 3 h left (2–9)"),
        ((60 * 3600, 40 * 3600, 80 * 3600), "about 2 days left (2–3)"),
    ],
)
def test_texts(left: tuple[float, float, float], text: str) -> None:
    assert eta_text(TimeLeft(*left)) == text
    assert eta_text(TimeLeft(*left), has_interval=False) == text.split(" (")[0]
