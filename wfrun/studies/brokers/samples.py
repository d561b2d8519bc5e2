"""The measures of the study of brokers, by experiment."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from wfrun.studies.brokers import paper
from wfrun.studies.brokers.experiments import BrokersOutcome
from wfrun.studies.common.verdict import Sample

Workflow = tuple[str, int]


class BrokerSamples:
    """The measures of the study of brokers. Each ``measure`` is a field of BrokersOutcome, or one
    of its properties."""

    def __init__(self, rows: Sequence[BrokersOutcome]) -> None:
        self._rows = rows
        self._groups: dict[tuple[object, ...], list[BrokersOutcome]] = {}
        for row in rows:
            key = (row.experiment, row.family, row.size, row.instances, row.policy, row.throttle,
                   row.change)  # fmt: skip
            self._groups.setdefault(key, []).append(row)

    def table(self, workflow: Workflow, instances: int, policy: str, measure: str) -> Sample:
        """An entry of Table 6.6 (one instance) or 6.7 (five)."""
        return self._sample(("tables", *workflow, instances, policy, None, None), measure)

    def policies(self, workflow: Workflow, instances: int, measure: str) -> dict[str, Sample]:
        """A row of Table 6.6 or 6.7, by policy."""
        return {p: self.table(workflow, instances, p, measure) for p in paper.POLICIES}

    def throttled(self, policy: str, limit: int | None, measure: str) -> Sample:
        """A point of Figure 6.8."""
        key = ("throttle", *paper.CYBERSHAKE_1000, paper.INSTANCES, policy, limit, None)
        return self._sample(key, measure)

    def changed(self, change: str, policy: str, measure: str) -> Sample:
        """Five CyberShake-1000 with one change of the model."""
        key = ("change", *paper.CYBERSHAKE_1000, paper.INSTANCES, policy, None, change)
        return self._sample(key, measure)

    def with_change(self, change: str) -> BrokerSamples:
        """These samples, except that the runs with ``change`` replace those of five CyberShake-1000
        in Table 6.7."""
        of_change = [
            replace(row, experiment="tables", change=None)
            for row in self._rows
            if row.change == change
        ]
        changed = {(row.family, row.size, row.instances) for row in of_change}
        rest = [
            row
            for row in self._rows
            if row.experiment != "tables" or (row.family, row.size, row.instances) not in changed
        ]
        return BrokerSamples([*rest, *of_change])

    def waits_s(self, policy: str) -> list[float]:
        """Figure 6.7: percentiles 0 to 100 of the queue wait, means over repetitions."""
        key = ("tables", *paper.CYBERSHAKE_1000, paper.INSTANCES, policy, None, None)
        return _means([row.waits_s for row in self._groups[key]])

    def loads(self, policy: str, limit: int | None) -> list[float]:
        """Figure 6.8: loads of the head node over the run, means over repetitions."""
        key = ("throttle", *paper.CYBERSHAKE_1000, paper.INSTANCES, policy, limit, None)
        return _means([row.loads for row in self._groups[key]])

    def _sample(self, key: tuple[object, ...], measure: str) -> Sample:
        return Sample({row.repetition: float(getattr(row, measure)) for row in self._groups[key]})


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*rows, strict=True)]
