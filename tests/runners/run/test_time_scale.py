"""An emulation takes the decisions of the run that it stands for, however much faster it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wfrun.engine import events as ev
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec
from wfrun.engine.policies.placement import WORKFLOW_POLICIES
from wfrun.parsers.generate import generate
from wfrun.runners.run.prepare.prepare import prepare
from wfrun.runners.simulate.simulation import Platform, simulate

CATALOG = Catalog(
    (SiteSpec("fast", 3, 1.6), SiteSpec("slow", 6, 0.7)),
    (LinkSpec("fast", "slow", 4e6, 0.05), LinkSpec("slow", "fast", 4e6, 0.05)),
)
"""Without links from where initial inputs are: policies assume a bandwidth there."""


class _Placed:
    def __init__(self) -> None:
        self.at: list[tuple[int, int]] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.at += [(e.task, e.site) for e in events if isinstance(e, ev.AttemptPlaced)]

    def commit(self) -> None:
        """Nothing is kept."""


def placed(policy: str, time_scale: float) -> list[tuple[int, int]]:
    settings = Settings(policy=policy, emulate=True, time_scale=time_scale)
    plan = prepare([generate("cybershake", 60, 1)], CATALOG, settings)
    log = _Placed()
    simulate(plan.workflows, Platform(plan.catalog), settings, log=log)
    return log.at


@pytest.mark.parametrize("policy", [policy.name for policy in WORKFLOW_POLICIES])
def test_the_time_scale_changes_no_decision(policy: str) -> None:
    real_time = placed(policy, 1.0)
    assert len(real_time) == 60
    assert placed(policy, 2**-7) == real_time  # a power of two: no rounding
