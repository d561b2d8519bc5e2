"""A packing as text: the Gantt chart of its schedule."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.jobs.packing import PackedSchedule, assign
from wfrun.runners.display.durations import duration

MAX_ROWS = 24
"""Maximum number of rows of a chart. If there are more processors, a row stands for several."""
COLUMNS = 72
_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHADES = " ░▒▓█"


def text_gantt(schedule: PackedSchedule, processors: int) -> list[str]:
    """Return the lines of a chart of processors over time. Up to `MAX_ROWS` processors have a row
    each, in which a letter marks the job that runs for most of a column; letters repeat after 52
    jobs. If there are more processors, a row stands for a group, and shades show the share of busy
    processors."""
    end_s = schedule.makespan_s
    group = -(-processors // MAX_ROWS)
    rows = -(-processors // group)
    busy = [[0.0] * COLUMNS for _ in range(rows)]
    owner = [[" "] * COLUMNS for _ in range(rows)]
    most = [[0.0] * COLUMNS for _ in range(rows)]
    scale = COLUMNS / end_s if end_s else 0.0
    for job, own in enumerate(assign(schedule, processors)):
        begin = schedule.starts_s[job] * scale
        end = begin + schedule.times_s[job] * scale
        for column in range(int(begin), min(COLUMNS, int(end) + 1)):
            share = min(end, column + 1) - max(begin, column)
            for processor in own:
                row = processor // group
                busy[row][column] += share / min(group, processors - row * group)
                if share > most[row][column]:
                    most[row][column], owner[row][column] = share, _MARKS[job % len(_MARKS)]
    width = len(str(processors))
    lines = []
    for row in range(rows):
        first, last = row * group + 1, min(processors, (row + 1) * group)
        name = str(first).rjust(width) if group == 1 else f"{first:>{width}}–{last:<{width}}"
        shown = "".join(owner[row]) if group == 1 else _shaded(busy[row])
        lines.append(f"{name} |{shown}|")
    right = duration(end_s)
    lines.append(" " * (len(lines[0]) - COLUMNS - 2) + " 0" + right.rjust(COLUMNS - 1))
    return lines


def _shaded(shares: Sequence[float]) -> str:
    return "".join(_SHADES[min(4, int(share * 4 + 0.5))] for share in shares)
