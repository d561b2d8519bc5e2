"""Results of the experiment of section 7.2, by workload, method and classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wfrun.engine.prediction.classes import CLASSIFICATIONS
from wfrun.engine.prediction.methods import METHODS
from wfrun.engine.prediction.registry import PREDICTORS
from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.runtimes.runtimes import CHAIN, GENERAL, SPECIFIC, RuntimeRow
from wfrun.studies.predictions.workloads import Workload

TITLES = {"es": "ES", "rm": "RM", "sm": "SM", "last": "Last", "last2": "Last2"}
"""Titles of the methods, as in the thesis."""


class Choice(NamedTuple):
    """A method under a classification."""

    method: str
    classification: str

    def __str__(self) -> str:
        return f"{TITLES[self.method]}, {CLASSIFICATIONS[self.classification].title}"


class RuntimeSamples:
    """Results by workload, method and classification."""

    def __init__(self, setting: PartSetting, rows: Sequence[RuntimeRow], every: bool) -> None:
        self.setting = setting
        self.every = every
        self._rows = {(r.workload, r.method, r.classification): r for r in rows}

    def row(self, workload: Workload, choice: Choice) -> RuntimeRow:
        return self._rows[workload.label, choice.method, choice.classification]

    def workloads(self, *kinds: str) -> list[Workload]:
        """The workloads of the given kinds; all workloads if no kind is given."""
        return [w for w in self.setting.workloads if not kinds or w.kind in kinds]

    def serves(self, workload: Workload, classification: str) -> bool:
        """Whether the workload has the fields that the classification needs."""
        return self.row(workload, Choice("last2", classification)).predicted > 0

    def accuracies(self, workload: Workload, classification: str) -> dict[str, float]:
        """Mean accuracy of each method; empty if the workload does not serve the classification."""
        if not self.serves(workload, classification):
            return {}
        return {m: self.row(workload, Choice(m, classification)).accuracy for m in METHODS}

    def chained(self, workload: Workload) -> dict[str, RuntimeRow]:
        """The results of the predictors that choose classes themselves, by name. Predictors without
        a prediction on this workload are absent."""
        rows = {name: self.row(workload, Choice(name, CHAIN)) for name in PREDICTORS}
        return {name: row for name, row in rows.items() if row.predicted}

    def best(
        self, workload: Workload, classifications: Sequence[str] = (*GENERAL, SPECIFIC)
    ) -> Choice:
        """The method and classification with the highest mean accuracy."""
        served = [c for c in classifications if self.serves(workload, c)]
        choices = [Choice(method, c) for c in served for method in METHODS]
        return max(choices, key=lambda choice: self.row(workload, choice).accuracy)

    def agree(self, findings: Mapping[str, bool]) -> bool:
        """Whether the claim holds on every workload or, if ``every`` is False, on more than half of
        them."""
        held = sum(findings.values())
        return bool(findings) and (
            held == len(findings) if self.every else 2 * held > len(findings)
        )
