"""Charts of how the time of tasks divides into waits and run time: on the critical path, and on
average."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from wfrun.runners.inspect.report_html.chart import (
    FAILED,
    MAX_TYPES,
    REST,
    Figure,
    TimeAxis,
    bar,
    label,
    short_label,
)
from wfrun.runners.metrics.critical_path import PARTS, CriticalPath, PathStep
from wfrun.runners.metrics.statistics import TypeStatistics

MAX_STEPS = 40
"""Maximum number of tasks of a critical path that is drawn with a row for each task. A longer path
has a row for each type."""
_COLOURS = {
    "earlier_s": FAILED, "throttle_s": REST, "launcher_s": "#cc79a7", "room_s": "#f0e442",
    "staging_s": "#56b4e9", "queue_s": "#e69f00", "runtime_s": "#0072b2", "report_s": "#009e73",
}  # fmt: skip
_ROW_PX, _FRAME_PX = 26, 170


def path_figure(path: CriticalPath | None, axis: TimeAxis, submit_s: float) -> Figure:
    """The tasks of the critical path over time. ``submit_s``: submission of its workflow, in
    seconds of the run's clock."""
    if path is None:
        return {"data": [], "layout": {}}
    bars = {name: bar(text, _COLOURS[name]) for name, text in PARTS.items()}
    if len(path.steps) > MAX_STEPS:
        rows = _add_types(bars, path.steps, axis)
        title = {"title": {"text": f"time on the critical path ({axis.unit})"}}
    else:
        rows = _add_steps(bars, path.steps, axis, submit_s)
        title = axis.layout
    order = {"type": "category", "categoryorder": "array", "categoryarray": rows[::-1],
             "tickvals": rows, "ticktext": [row.partition(". ")[2] for row in rows]}  # fmt: skip
    layout = {"barmode": "overlay", "xaxis": title, "yaxis": order,
              "height": _FRAME_PX + _ROW_PX * len(rows)}  # fmt: skip
    return {"data": [one for one in bars.values() if one["x"]], "layout": layout}


def _add_steps(
    bars: dict[str, Figure], steps: Sequence[PathStep], axis: TimeAxis, submit_s: float
) -> list[str]:
    rows = []
    for number, step in enumerate(steps):
        rows.append(f"{number}. {short_label(f'{step.type} {step.task}')}")
        begin_s = submit_s + step.begin_s
        for name, part_s in zip(PARTS, step.parts_s, strict=True):
            if part_s > 0:
                text = f"{label(step.task)} ({label(step.type)}) at {label(step.site)}"
                _add(bars[name], rows[-1], axis.at(begin_s), axis.length(part_s), text, part_s)
            begin_s += part_s
    return rows


def _add_types(bars: dict[str, Figure], steps: Sequence[PathStep], axis: TimeAxis) -> list[str]:
    by_type: defaultdict[str, list[PathStep]] = defaultdict(list)
    for step in steps:
        by_type[step.type].append(step)
    rows = []
    for number, (kind, found) in enumerate(list(by_type.items())[:MAX_STEPS]):
        rows.append(f"{number}. {short_label(kind)}")
        begin_s = 0.0
        for name, parts_s in zip(PARTS, zip(*(s.parts_s for s in found), strict=True), strict=True):
            part_s = sum(parts_s)
            if part_s > 0:
                text = f"{len(found)} × {label(kind)}"
                _add(bars[name], rows[-1], axis.length(begin_s), axis.length(part_s), text, part_s)
            begin_s += part_s
    return rows


def _add(one: Figure, row: str, base: float, length: float, text: str, part_s: float) -> None:
    one["y"].append(row)
    one["base"].append(base)
    one["x"].append(length)
    one["hovertext"].append(f"{text}<br>{one['name']}: {part_s:.1f} s")


def waits_figure(types: Sequence[TypeStatistics]) -> Figure:
    """Mean waits of each type, by their cause, and mean run time."""
    shown = [one for one in types if one.runtime_s is not None]
    shown = sorted(shown, key=lambda one: -one.used_core_s)[:MAX_TYPES]
    rows = [f"{number}. {short_label(one.name)}" for number, one in enumerate(shown)]
    data = []
    for name, text in PARTS.items():
        if name in ("earlier_s", "report_s"):
            continue
        one = bar(text, _COLOURS[name])
        del one["base"]
        for row, kind in zip(rows, shown, strict=True):
            mean_s = getattr(kind, name) or 0.0
            one["y"].append(row)
            one["x"].append(round(mean_s, 3))
            one["hovertext"].append(f"{label(kind.name)}<br>{text}: {mean_s:.1f} s")
        if any(one["x"]):
            data.append(one)
    order = {"type": "category", "categoryorder": "array", "categoryarray": rows[::-1],
             "tickvals": rows, "ticktext": [row.partition(". ")[2] for row in rows]}  # fmt: skip
    layout = {"barmode": "stack", "xaxis": {"title": {"text": "mean time of a task (s)"}},
              "yaxis": order, "height": _FRAME_PX + _ROW_PX * len(rows)}  # fmt: skip
    return {"data": data, "layout": layout}
