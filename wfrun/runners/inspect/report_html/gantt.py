"""The Gantt chart of a report: attempts by site and lane. With many attempts, it shows the
utilization of each lane instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from wfrun.runners.inspect.report_html.chart import (
    COLOURS,
    FAILED,
    MAX_TYPES,
    REST,
    Figure,
    TimeAxis,
    bar,
    label,
    short_label,
)
from wfrun.runners.metrics.statistics import RunReading
from wfrun.runners.metrics.workflows import TaskTiming

MAX_BARS = 2000
"""Maximum number of attempts with a bar each."""
_MAX_ROWS = 240
"""Maximum number of rows; neighbouring lanes share one if there are more."""
_MAX_CELLS = 60_000
"""Maximum number of cells of a chart of binned attempts."""
_MAX_BINS = 1000
_BUSY = [[0, "rgba(0,114,178,0)"], [1, "#0072b2"]]
"""Colour scale of utilization. Idle lanes are transparent, since pages are light or dark."""
_SLACK_S = 0.1
"""Maximum overlap of two attempts in a lane, in seconds. An attempt without an exit record begins
when its start was reported, which may be before the recorded end of the previous attempt."""
_ROW_PX, _FRAME_PX, _MAX_HEIGHT_PX = 14, 160, 1500

Spans = Sequence[tuple[float, float]]


def attempts_of(reading: RunReading) -> tuple[TaskTiming, ...]:
    """All attempts of a chart: those that have ended, then those that still run."""
    return (*reading.timings.tasks, *reading.timings.running)


def gantt(reading: RunReading, spans_s: Spans, axis: TimeAxis) -> Figure:
    """The Gantt chart of a run. ``spans_s`` has the start and end of each attempt in
    `attempts_of`."""
    tasks = attempts_of(reading)
    lane_of = lanes(tasks, spans_s)
    if len(tasks) > MAX_BARS:
        return _binned(reading, spans_s, lane_of, axis)
    look = _looks(reading)
    bars: dict[str, Figure] = {}
    others, failed = bar("other types", REST), bar("failed or cancelled", FAILED, "/")
    superseded, running = bar("superseded", FAILED, "x"), bar("not ended", REST, ".")
    ended = len(reading.timings.tasks)
    for index, (t, lane, (start_s, end_s)) in enumerate(zip(tasks, lane_of, spans_s, strict=True)):
        task = reading.state.workflows[t.workflow].workflow.tasks[t.task]
        if index >= ended:
            one = running
        elif not t.done:
            one = superseded if t.superseded else failed
        elif task.name in look:
            one = bars.setdefault(task.name, bar(short_label(task.name), *look[task.name]))
        else:
            one = others
        one["y"].append(f"{label(reading.timings.sites[t.site].name)} {lane + 1}")
        one["base"].append(axis.at(start_s))
        one["x"].append(axis.length(end_s - start_s))
        one["hovertext"].append(f"{label(task.id)} ({label(task.name)}): {t.runtime_s:.1f} s")
    used = sorted({(t.site, lane) for t, lane in zip(tasks, lane_of, strict=True)}, reverse=True)
    names = [f"{label(reading.timings.sites[s].name)} {lane + 1}" for s, lane in used]
    shown = [one for one in (*bars.values(), others, failed, superseded, running) if one["x"]]
    return {"data": shown, "layout": bar_layout(axis, names) | {"barmode": "overlay"}}


def bar_layout(axis: TimeAxis, rows: list[str]) -> Figure:
    """Layout of a chart of bars with these ``rows``, from the bottom to the top."""
    height = min(_MAX_HEIGHT_PX, _FRAME_PX + _ROW_PX * len(rows))
    order = {"type": "category", "categoryorder": "array", "categoryarray": rows}
    return {"xaxis": axis.layout, "yaxis": order, "height": height}


def _looks(reading: RunReading) -> dict[str, tuple[str, str]]:
    """Colour and pattern of the types with the most core time."""
    types = sorted(reading.statistics.types, key=lambda one: -one.used_core_s)[:MAX_TYPES]
    return {
        one.name: (COLOURS[n % len(COLOURS)], "" if n < len(COLOURS) else "\\")
        for n, one in enumerate(types)
    }


def _binned(reading: RunReading, spans_s: Spans, lane_of: Sequence[int], axis: TimeAxis) -> Figure:
    """The share of time for which each lane, or group of neighbouring lanes, was in use."""
    tasks = attempts_of(reading)
    used: defaultdict[int, int] = defaultdict(int)
    for t, lane in zip(tasks, lane_of, strict=True):
        used[t.site] = max(used[t.site], lane + 1)
    group = -(-sum(used.values()) // _MAX_ROWS)
    first_row: dict[int, int] = {}
    names: list[str] = []
    sizes: list[int] = []
    for site in sorted(used):
        first_row[site] = len(names)
        name = label(reading.timings.sites[site].name)
        for lane in range(0, used[site], group):
            last = min(lane + group, used[site])
            names.append(f"{name} {lane + 1}" if group == 1 else f"{name} {lane + 1}–{last}")
            sizes.append(last - lane)
    bins = min(_MAX_BINS, _MAX_CELLS // len(names))
    width_s = axis.length_s / bins
    cells = [[0.0] * bins for _ in names]
    for t, lane, span_s in zip(tasks, lane_of, spans_s, strict=True):
        row = cells[first_row[t.site] + lane // group]
        for index, share in _shares(span_s, axis.begin_s, width_s, bins):
            row[index] += share
    shown = [[round(min(1.0, busy / size), 2) for busy in row]
             for row, size in zip(cells, sizes, strict=True)]  # fmt: skip
    heat = {
        "type": "heatmap", "x": axis.middles(bins), "y": names[::-1], "z": shown[::-1],
        "zmin": 0, "zmax": 1, "colorscale": _BUSY, "colorbar": {"tickformat": ".0%"},
        "hovertemplate": "%{y}: %{z:.0%}<extra></extra>",
    }  # fmt: skip
    return {"data": [heat], "layout": bar_layout(axis, names[::-1])}


def _shares(
    span_s: tuple[float, float], begin_s: float, width_s: float, bins: int
) -> Iterator[tuple[int, float]]:
    """Yield the index of each interval that a span covers, with the covered share of the
    interval."""
    start, end = (min(max(0.0, (at_s - begin_s) / width_s), bins) for at_s in span_s)
    for index in range(int(start), min(bins, int(end) + 1)):
        yield index, max(0.0, min(end, index + 1) - max(start, index))


def run_spans(tasks: Sequence[TaskTiming]) -> list[tuple[float, float]]:
    """Start and end of each attempt, in seconds of the clock of wfrun.

    The times of exit records are used, because ends are reported late, when the next attempt
    already has the cores. The clock offset of a site is estimated as the minimum delay of its
    reports.
    """
    shift_s: dict[int, float] = {}
    for t in tasks:
        if t.stated_start_s is not None:
            delay_s = t.end_s - (t.stated_start_s + t.runtime_s)
            shift_s[t.site] = min(delay_s, shift_s.get(t.site, delay_s))
    return [
        (t.start_s, t.end_s)
        if t.stated_start_s is None
        else (t.stated_start_s + shift_s[t.site], t.stated_start_s + shift_s[t.site] + t.runtime_s)
        for t in tasks
    ]


def lanes(tasks: Sequence[TaskTiming], spans: Spans) -> list[int]:
    """Assign each attempt a lane of its site, so that attempts in a lane do not overlap."""
    found = [0] * len(tasks)
    free: defaultdict[int, list[int]] = defaultdict(list)
    busy: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    used: defaultdict[int, int] = defaultdict(int)
    for index in sorted(range(len(tasks)), key=lambda n: spans[n]):
        t, (start_s, end_s) = tasks[index], spans[index]
        slack_s = _SLACK_S if t.stated_start_s is None else 0.0
        while busy[t.site] and busy[t.site][0][0] <= start_s + slack_s:
            heappush(free[t.site], heappop(busy[t.site])[1])
        if free[t.site]:
            lane = heappop(free[t.site])
        else:
            lane = used[t.site]
            used[t.site] += 1
        found[index] = lane
        heappush(busy[t.site], (end_s, lane))
    return found
