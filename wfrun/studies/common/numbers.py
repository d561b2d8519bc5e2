"""Numbers as pages of studies show them."""

from __future__ import annotations

from wfrun.runners.metrics.samples import Summary
from wfrun.studies.common.verdict import Sample


def shown(summary: Summary | Sample) -> str:
    """The mean and the half width of the 95% confidence interval as text, such as ``12.3 ±
    0.4``."""
    if isinstance(summary, Sample):
        summary = summary.summary
    text = number(summary.mean)
    if not summary.half_width or number(summary.half_width) == "0":
        return text
    return f"{text} ± {number(summary.half_width)}"


def number(value: float) -> str:
    """The number with about three significant digits, and at most two decimals."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
