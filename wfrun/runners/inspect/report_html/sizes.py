"""The chart of the sizes of malleable jobs over time."""

from __future__ import annotations

from wfrun.runners.inspect.report_html.chart import COLOURS, Figure, TimeAxis, short_label
from wfrun.runners.inspect.tables.sizes import job_sizes
from wfrun.runners.metrics.statistics import RunReading

MAX_JOBS = 40
"""Maximum number of jobs drawn, the first ones."""


def sizes(reading: RunReading, axis: TimeAxis) -> Figure:
    """A line of steps for each malleable job; without data if none has started."""
    lines: list[Figure] = []
    for number, one in enumerate(job_sizes(reading.state)):
        if number == MAX_JOBS:
            break
        points = [(axis.at(each.at_s), each.size) for each in one.sizes]
        if one.sizes[-1].size:
            points.append((axis.at(reading.timings.end_s), one.sizes[-1].size))
        lines.append({
            "type": "scatter", "mode": "lines", "name": short_label(one.job),
            "x": [x for x, _ in points], "y": [y for _, y in points],
            "line": {"shape": "hv", "color": COLOURS[number % len(COLOURS)]},
        })  # fmt: skip
    y_axis = {"title": {"text": "processors"}, "rangemode": "tozero"}
    return {"data": lines, "layout": {"xaxis": axis.layout, "yaxis": y_axis}}
