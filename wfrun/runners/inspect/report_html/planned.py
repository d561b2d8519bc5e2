"""The chart of the plan of a run whose jobs are packed into one allocation."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.jobs.packing import assign
from wfrun.runners.inspect.report_html.chart import COLOURS, Figure, TimeAxis, bar, label
from wfrun.runners.inspect.report_html.gantt import MAX_BARS, bar_layout
from wfrun.runners.metrics.statistics import RunReading
from wfrun.runners.run.prepare.pack_jobs import planned_schedule


def planned(reading: RunReading, spans_s: Sequence[tuple[float, float]], axis: TimeAxis) -> Figure:
    """When each job was planned to run on which processors, from the first start on; without bars
    if the jobs are not packed, if none has started, or for more bars than a chart has."""
    schedule = planned_schedule(reading.state)
    if schedule is None or not spans_s or sum(schedule.sizes) > MAX_BARS:
        return {"data": [], "layout": {}}
    processors = reading.state.settings.pack_processors or 1
    begin_s = min(start_s for start_s, _ in spans_s)
    ends_s = map(sum, zip(schedule.starts_s, schedule.times_s, strict=True))
    axis = TimeAxis(axis.begin_s, max(axis.begin_s + axis.length_s, begin_s + max(ends_s)))
    tasks = reading.state.workflows[0].workflow.tasks
    bars = bar("planned", COLOURS[0])
    for number, own in enumerate(assign(schedule, processors)):
        time_s = schedule.times_s[number]
        for processor in own:
            bars["y"].append(f"processor {processor + 1}")
            bars["base"].append(axis.at(begin_s + schedule.starts_s[number]))
            bars["x"].append(axis.length(time_s))
            bars["hovertext"].append(f"{label(tasks[number].id)}: {time_s:.1f} s planned")
    rows = [f"processor {number}" for number in range(processors, 0, -1)]
    return {"data": [bars], "layout": bar_layout(axis, rows) | {"barmode": "overlay"}}
