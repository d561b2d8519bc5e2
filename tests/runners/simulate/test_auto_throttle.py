"""The throttle that tunes itself is about as good as the best fixed one."""

from __future__ import annotations

import statistics

import pytest

from tests.engine.policies.test_policies import sites
from wfrun.engine import events as ev
from wfrun.parsers.generate import generate
from wfrun.runners.simulate.simulation import Platform, simulate

MAX_RATIO = 1.02
"""Maximum makespan relative to the best fixed throttle; ``bench/throttle.py`` measures it with more
sizes, seeds and platforms."""

PLATFORMS = (sites((16, 1.0)), sites((8, 2.0), (16, 1.0), (32, 0.5)))


@pytest.mark.cases
@pytest.mark.parametrize(
    "family", ["montage", "cybershake", "inspiral", "sipht", "epigenomics", "layered"]
)
def test_auto_is_within_two_percent_of_the_best_fixed_throttle(family: str) -> None:
    workflow = generate(family, 100, seed=1)
    ratios = []
    for catalog in PLATFORMS:
        slots = sum(site.slots for site in catalog.sites)
        auto_s, *fixed_s = (
            simulate([workflow], Platform(catalog), ev.Settings("heft", throttle=throttle)).now_s
            for throttle in ("auto", "none", slots // 4, slots, 2 * slots)
        )
        ratios.append(auto_s / min(fixed_s))
    assert statistics.fmean(ratios) <= MAX_RATIO
