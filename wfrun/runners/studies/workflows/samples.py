"""Means over the repetitions of the study."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import msgspec

from wfrun.runners.experiments.metrics.samples import Summary, summarize
from wfrun.runners.studies.workflows import paper
from wfrun.runners.studies.workflows.experiments import Outcome, multi_name

MEASURES = ("makespan_s", "nsl", "held_s", "qwt_s", "ftd_s", "nft", "once_s", "main_share")


class Samples:
    """What was measured; ``measure`` is one of MEASURES everywhere.

    A repetition's value for a workload is the mean over the workflows in it (Table 6.2); means and
    confidence intervals are over repetitions.
    """

    def __init__(self, rows: Sequence[Outcome], *, medians: bool = False) -> None:
        """With ``medians``, these replace the means."""
        self._medians = medians
        groups: dict[tuple[object, ...], dict[int, list[Outcome]]] = {}
        for row in rows:
            key = (row.experiment, row.workload, row.policy, row.throttle, row.loaded, row.places)
            groups.setdefault(key, {}).setdefault(row.repetition, []).append(row)
        self._groups = groups

    def single(
        self, workload: str, policy: str, measure: str, *, loaded: bool, throttle: int | None = None
    ) -> Summary:
        """A measure of single workflows."""
        return self._summary(("single", workload, policy, throttle, loaded, 1), measure)

    def multi(self, size: int, instances: int, variant: int, measure: str) -> Summary:
        """A measure of several instances; ``variant`` is an index of paper.MULTI_VARIANTS."""
        policy, throttled = paper.MULTI_VARIANTS[variant]
        throttle = paper.MULTI_LIMITS[size] if throttled else None
        key = ("multi", multi_name(size, instances), policy, throttle, False, 1)
        return self._summary(key, measure)

    def places(self, workload: str, places: int, measure: str) -> Summary:
        """A measure of Single Cluster, with ``places`` tasks per node."""
        experiment = "single" if places == 1 else "places"
        return self._summary((experiment, workload, paper.SINGLE, None, False, places), measure)

    def _summary(self, key: tuple[object, ...], measure: str) -> Summary:
        repetitions = self._groups[key].values()
        summary = summarize(
            fsum(float(getattr(row, measure)) for row in rows) / len(rows) for rows in repetitions
        )
        if self._medians:
            return msgspec.structs.replace(summary, mean=summary.median, half_width=None)
        return summary


def shown(summary: Summary) -> str:
    """As ``12.3 ± 0.4``, mean and half width of the 95% confidence interval."""
    text = number(summary.mean)
    if not summary.half_width or number(summary.half_width) == "0":
        return text
    return f"{text} ± {number(summary.half_width)}"


def number(value: float) -> str:
    """About three significant digits."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
