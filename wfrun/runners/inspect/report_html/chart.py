"""What the charts of a report share: labels, colours, and the axis of time.

Plotly interprets some HTML in labels, so that all names are escaped here.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import Any

from wfrun.engine.explain.visible import name_line

Figure = dict[str, Any]
"""A figure of Plotly: a dictionary with ``data`` and ``layout``."""

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#f0e442")
"""Colours of sites and of types of tasks, from the palette of Okabe and Ito, which can be told
apart with every kind of colour vision. `FAILED` and `REST` mark failures and everything else."""
FAILED, REST = "#d55e00", "#999999"
MAX_TYPES = 2 * len(COLOURS)
"""Maximum number of types of tasks that are distinguished, each by a colour, plain or hatched."""
_LABEL = 22
"""Maximum number of characters of a short label. An axis on a phone has no room for more."""
_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "h"), (120.0, 60.0, "min"))
"""Units of the time axis, as (minimum length of the run in seconds, seconds per unit, name). The
first whose minimum is reached is used, otherwise seconds."""


def label(text: str) -> str:
    """A name as the text of a chart."""
    return escape(name_line(text))


def short_label(text: str) -> str:
    """A name beside an axis or in a legend."""
    return escape(name_line(text, _LABEL))


class TimeAxis:
    """The time axis of a chart: time since the start of a run, in a unit that fits the run's
    length."""

    def __init__(self, begin_s: float, end_s: float) -> None:
        self.begin_s = begin_s
        self.length_s = max(1e-3, end_s - begin_s)
        self.unit_s, self.unit = next(
            ((size_s, name) for least_s, size_s, name in _UNITS if self.length_s >= least_s),
            (1.0, "s"),
        )

    def edges_s(self, bins: int) -> list[float]:
        """The bounds of ``bins`` equal intervals, in seconds of the run's clock."""
        return [self.begin_s + self.length_s * n / bins for n in range(bins + 1)]

    def middles(self, bins: int) -> list[float]:
        """The middles of ``bins`` equal intervals, as values of the axis."""
        edges_s = self.edges_s(bins)
        return [self.at((a + b) / 2) for a, b in pairwise(edges_s)]

    def at(self, at_s: float) -> float:
        """A moment as a value of the axis."""
        return self.length(at_s - self.begin_s)

    def length(self, elapsed_s: float) -> float:
        """A duration as a value of the axis."""
        return round(elapsed_s / self.unit_s, 6)

    @property
    def layout(self) -> Figure:
        title = {"text": f"time since the start ({self.unit})"}
        return {"title": title, "range": [0, self.length(self.length_s)]}


def bar(name: str, colour: str, pattern: str = "") -> Figure:
    """A Plotly trace of horizontal bars of one kind, without bars yet. ``name`` is an escaped
    label."""
    return {
        "type": "bar", "orientation": "h", "name": name, "y": [], "x": [], "base": [],
        "hovertext": [], "hoverinfo": "text",
        "marker": {"color": colour, "pattern": {"shape": pattern}},
    }  # fmt: skip
