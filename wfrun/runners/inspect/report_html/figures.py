"""The charts of a report. Two charts are only in some reports: the plan, if the jobs of the run are
packed into one allocation, and the sizes of malleable jobs over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from wfrun.engine.jobs.packing import assign
from wfrun.engine.model import ORIGIN
from wfrun.runners.inspect.report_html.chart import (
    COLOURS,
    REST,
    Figure,
    TimeAxis,
    bar,
    label,
    short_label,
)
from wfrun.runners.inspect.report_html.gantt import (
    MAX_BARS,
    attempts_of,
    bar_layout,
    gantt,
    run_spans,
)
from wfrun.runners.inspect.report_html.parts import path_figure, waits_figure
from wfrun.runners.inspect.tables.sizes import job_sizes
from wfrun.runners.metrics.jobs import JobTiming, utilization
from wfrun.runners.metrics.statistics import RunReading
from wfrun.runners.run.prepare.pack_jobs import planned_schedule

_BINS = 300
"""Number of intervals of time."""


def figures(reading: RunReading) -> dict[str, Figure]:
    """The charts of a run by name; those that have nothing to show are left out."""
    charts = _Charts(reading)
    path = reading.statistics.critical_path
    found = {
        "path": path_figure(path, charts.axis, charts.path_submit_s),
        "plan": planned(reading, charts.spans_s, charts.axis),
        "gantt": gantt(reading, charts.spans_s, charts.axis),
        "activity": charts.activity(),
        "sizes": sizes(reading, charts.axis),
        "cores": charts.cores(),
        "waits": waits_figure(reading.statistics.types),
        "transfers": charts.transfers(),
    }
    return {name: figure for name, figure in found.items() if figure["data"]}


class _Charts:
    def __init__(self, reading: RunReading) -> None:
        self._timings = reading.timings
        self._tasks = attempts_of(reading)
        self.axis = TimeAxis(self._timings.started_s, self._timings.end_s)
        self.spans_s = run_spans(self._tasks)
        path = reading.statistics.critical_path
        index = 0 if path is None else path.index
        workflows = self._timings.workflows
        self.path_submit_s = workflows[index].submit_s if workflows else self.axis.begin_s
        self._edges_s = self.axis.edges_s(_BINS)
        self._middles = self.axis.middles(_BINS)

    def _line(self, name: str, values: Sequence[float], **more: object) -> Figure:
        shown = [round(value, 3) for value in values]
        return {"type": "scatter", "mode": "lines", "name": name, "x": self._middles, "y": shown,
                **more}  # fmt: skip

    def _mean(self, spans: Iterable[tuple[float, float, int]]) -> list[float]:
        """Mean number of tasks in each interval of the axis. ``spans`` are (start, end, number of
        tasks), with times in seconds."""
        jobs = [JobTiming(a, a, b, tasks) for a, b, tasks in spans if b > a]
        return utilization(jobs, 1, self._edges_s)

    def _over_time(self, lines: list[Figure], title: str) -> Figure:
        y_axis = {"title": {"text": title}, "rangemode": "tozero"}
        return {"data": lines, "layout": {"xaxis": self.axis.layout, "yaxis": y_axis}}

    def activity(self) -> Figure:
        """Number of tasks over time: eligible, at a site, running."""
        tasks, end_s = self._tasks, self._timings.end_s
        eligible = [(t.eligible_s, t.placed_s, 1) for t in tasks]
        staging = [(t.placed_s, a, 1) for t, (a, _) in zip(tasks, self.spans_s, strict=True)]
        for waiting in self._timings.waiting:
            placed_s = end_s if waiting.placed_s is None else waiting.placed_s
            eligible.append((waiting.eligible_s, placed_s, waiting.tasks))
            staging.append((placed_s, end_s, waiting.tasks))
        running = self._mean((a, b, 1) for a, b in self.spans_s)
        lines = [
            self._line(
                "eligible", self._mean(eligible), line={"color": COLOURS[1], "dash": "dash"}
            ),
            self._line(
                "files or queue", self._mean(staging), line={"color": COLOURS[3], "dash": "dot"}
            ),
            self._line("running", running, line={"color": COLOURS[0]}),
        ]
        return self._over_time(lines if eligible else [], "tasks")

    def cores(self) -> Figure:
        """Cores in use over time, stacked by site, and the capacity of all sites."""
        jobs = [
            JobTiming(start_s, start_s, end_s, t.cores, t.site)
            for t, (start_s, end_s) in zip(self._tasks, self.spans_s, strict=True)
        ]
        used_s: defaultdict[int, float] = defaultdict(float)
        for job in jobs:
            used_s[job.site] += job.cores * (job.end_s - job.start_s)
        shown = sorted(used_s, key=lambda site: -used_s[site])[: len(COLOURS)]
        lines = [
            self._area(label(self._timings.sites[site].name), [j for j in jobs if j.site == site],
                       COLOURS[n])
            for n, site in enumerate(sorted(shown))
        ]  # fmt: skip
        rest = [job for job in jobs if job.site not in shown]
        if rest:
            lines.append(self._area("other sites", rest, REST))
        if lines:
            lines.append(
                self._line("capacity", self._capacity(), line={"color": REST, "dash": "dash"})
            )
        return self._over_time(lines, "cores")

    def _area(self, name: str, jobs: Sequence[JobTiming], colour: str) -> Figure:
        busy = utilization(jobs, 1, self._edges_s)
        return self._line(name, busy, stackgroup="sites", line={"color": colour, "width": 1})

    def _capacity(self) -> list[float]:
        """Mean number of cores of all sites in each interval."""
        points = self._timings.capacity
        ends_s = [at_s for at_s, _ in points[1:]] + [self._edges_s[-1]]
        spans = [
            JobTiming(at_s, at_s, end_s, cores)
            for (at_s, cores), end_s in zip(points, ends_s, strict=False)
            if end_s > at_s and cores
        ]
        return utilization(spans, 1, self._edges_s)

    def transfers(self) -> Figure:
        """A heat map of the bytes copied from each place (row) to each other place (column)."""
        names = {ORIGIN: "this machine"}
        names |= {n: label(site.name) for n, site in enumerate(self._timings.sites)}
        copies = {(c.source, c.destination): c for c in self._timings.copies}
        sources = sorted({source for source, _ in copies})
        destinations = sorted({destination for _, destination in copies})
        megabytes: list[list[float | None]] = []
        texts = []
        for source in sources:
            row = [copies.get((source, destination)) for destination in destinations]
            megabytes.append([None if c is None else round(c.size_bytes / 1e6, 3) for c in row])
            texts.append(["" if c is None else f"{c.size_bytes / 1e6:,.1f} MB<br>{c.files} files"
                          for c in row])  # fmt: skip
        heat = {"type": "heatmap", "z": megabytes, "x": [names[n] for n in destinations],
                "y": [names[n] for n in sources], "text": texts, "texttemplate": "%{text}",
                "hoverinfo": "text", "colorscale": "Cividis",
                "colorbar": {"title": {"text": "MB"}}}  # fmt: skip
        axes = {"xaxis": {"type": "category", "title": {"text": "to"}},
                "yaxis": {"type": "category", "title": {"text": "from"}, "autorange": "reversed"},
                "height": 200 + 44 * len(sources)}  # fmt: skip
        return {"data": [heat] if copies else [], "layout": axes}


def planned(reading: RunReading, spans_s: Sequence[tuple[float, float]], axis: TimeAxis) -> Figure:
    """The planned schedule of packed jobs on their processors, from the first actual start on. The
    chart has no bars if the jobs of the run are not packed, if no job has started, or if there
    would be more than `MAX_BARS` bars."""
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
