"""Measures by policy, selection policy and architecture, for the claims of thesis section 5.4."""

from __future__ import annotations

from collections.abc import Iterable

from wfrun.studies.bags.experiments import BagSamples
from wfrun.studies.common.claim import Finding, both
from wfrun.studies.common.verdict import Sample, combine, mean_of

SHOWN = ("ect", "fplt", "rr", "wqr", "ect-p", "stfr", "fpf")
"""The seven policies of the thesis's figures. DFPLT is left out, since it equals FPLT in the
thesis."""
FAIR = ("s-u-t", "s-u-bot", "s-u-grr", "s-u-rr")
SELECTIONS = ("s-t", "s-bot", "s-u-prio", *FAIR)
MEASURES = (("makespan", "makespan_s"), ("NSL", "nsl"))
MANY = 10
"""Minimum number of bags of a size class, mean over the repetitions. The measures of a class with
fewer bags are not used."""


def by_policy(s: BagSamples, measure: str, names: Iterable[str] = SHOWN, **changes: object) -> (
    dict[str, Sample]
):  # fmt: skip
    """A measure, by policy."""
    return {name: s.sample(measure, policy=name, **changes) for name in names}


def overall(s: BagSamples, measure: str) -> dict[str, Sample]:
    """The mean of a measure over all loads, by policy."""
    tables = [by_policy(s, measure, load=load) for load in s.scale.loads]
    return {name: mean_of(table[name] for table in tables) for name in SHOWN}


def by_selection(s: BagSamples, measure: str, load: float) -> dict[str, Sample]:
    """A measure by selection policy, with the placement policy FPLT."""
    return {name: s.sample(measure, selection=name, load=load) for name in SELECTIONS}


def by_architecture(s: BagSamples, measure: str, load: float) -> dict[str, Sample]:
    """A measure, by architecture, with S-T and FPLT."""
    return {a: s.sample(measure, architecture=a, load=load) for a in ("csp", "sep-c", "fcondor")}


def ratio_of(one: Sample, other: Sample) -> Sample:
    """The value of ``one`` divided by that of ``other``, in each repetition."""
    return combine(lambda a, b: a / b, one, other)


def loads_between(s: BagSamples, least: float, most: float = 1.0) -> list[float]:
    """The loads of the study from ``least`` to ``most``, both included."""
    return [load for load in s.scale.loads if least <= load <= most]


def percent(ratio: float) -> str:
    """A ratio as the text of a relative change, such as ``+12%``."""
    return f"{100 * (ratio - 1):+.0f}%"


def changes_of(ratios: dict[str, Sample]) -> str:
    """The mean ratios by name as the text of relative changes."""
    return ", ".join(f"{name} {percent(ratio.mean)}" for name, ratio in ratios.items())


def in_both(findings: dict[str, Finding]) -> Finding:
    """A finding that holds if all ``findings`` hold, which are by name of the measure."""
    return both(findings.items())
