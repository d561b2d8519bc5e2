"""The time that is left, for people."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from wfrun.engine.events import Event
from wfrun.engine.explain.time_left import TimeLeft
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.parsers.generate import generate
from wfrun.runners.display import eta
from wfrun.runners.display.eta import Eta, eta_text
from wfrun.runners.simulate.simulation import Platform, begun


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


def test_it_follows_a_run_without_flicker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks more frequent than estimates show that time goes on; the end is never announced early
    or late by more than a few steps of the text."""
    monkeypatch.setattr(eta, "EVERY_S", 0.0)
    monkeypatch.setattr(eta, "MAX_SHARE", 1e9)
    display: Eta | None = None
    shown: list[tuple[float, TimeLeft]] = []

    def observe(_: Sequence[Event]) -> None:
        nonlocal display
        state = simulation.state
        if state.open_workflows:
            display = display or Eta(state)
            left = display.at(state.now_s)
            assert left is not None
            assert left.low_s <= left.value_s <= left.high_s
            shown.append((state.now_s, left))

    simulation = begun(
        [generate("montage", 100, 1)],
        Platform(Catalog((SiteSpec("a", slots=8),))),
        Settings(policy="single-cluster"),
        observers=[observe],
    )
    simulation.core.run.is_watched = True
    end_s = simulation.run().end_s
    errors = [abs(at_s + left.value_s - end_s) / end_s for at_s, left in shown]
    assert max(errors) < 0.2
    ends = [at_s + left.value_s for at_s, left in shown]
    jumps = [abs(after - before) / end_s for before, after in pairwise(ends)]
    assert max(jumps) < 0.08
    assert display is not None
    assert display.at(end_s) is None
    assert display.text(end_s) == ""
