"""Results of the experiments of section 7.3, by site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wfrun.studies.predictions.part import PartSetting
from wfrun.studies.predictions.waits.queue_waits import WaitRow, Waits


class WaitPlace(NamedTuple):
    """A site, and where its waits come from."""

    title: str
    kind: str
    waits: Waits
    rows: Mapping[str, WaitRow]
    """The measures by predictor."""

    @property
    def some_wait(self) -> bool:
        return any(row.nonzero > 0 for row in self.rows.values())


class WaitSamples:
    """Results by site."""

    def __init__(self, setting: PartSetting, rows: Sequence[WaitRow], every: bool) -> None:
        self.setting = setting
        self.every = every
        found: dict[tuple[str, str, Waits], dict[str, WaitRow]] = {}
        for row in rows:
            found.setdefault((row.workload, row.site, row.waits), {})[row.predictor] = row
        workloads = {w.label: w for w in setting.workloads}
        self.places = [
            WaitPlace(
                f"{workloads[label].title} {site}" if workloads[label].generated else
                workloads[label].title,
                workloads[label].kind,
                waits,
                by_predictor,
            )
            for (label, site, waits), by_predictor in found.items()
        ]  # fmt: skip

    def of(self, waits: Waits | None = None, predictor: str = "bmbp") -> list[WaitPlace]:
        """The sites with waits of the kind ``waits`` (None: any kind) where ``predictor`` was
        measured and some job waited."""
        return [
            place
            for place in self.places
            if waits in (None, place.waits) and predictor in place.rows and place.some_wait
        ]

    def agree(self, findings: Mapping[str, bool]) -> bool:
        """Whether the claim holds at every site or, if ``every`` is False, at more than half of
        them."""
        held = sum(findings.values())
        if self.every:
            return bool(findings) and held == len(findings)
        return 2 * held > len(findings)
