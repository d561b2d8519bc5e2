"""Durations and rates as texts for users."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """A duration as text, such as ``0.4 s``, ``3:07``, ``2:03:07`` or ``4 d 02:03``."""
    if seconds < 59.95:  # What rounds to 60.0 s is 1:00.
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours == 0:
        return f"{minute}:{second:02}"
    days, hour = divmod(hours, 24)
    return f"{days} d {hour:02}:{minute:02}" if days else f"{hours}:{minute:02}:{second:02}"


def task_rate(per_s: float) -> str:
    """A rate as tasks per second, or as tasks per hour if it is less than 0.1 per second."""
    return f"{per_s:.1f} tasks/s" if per_s >= 0.1 or not per_s else f"{per_s * 3600:.3g} tasks/h"
