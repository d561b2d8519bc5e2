"""Overheads that a run has measured are those that a simulation of it has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, LinkSpec, SiteSpec
from wfrun.engine.state import RunState
from wfrun.parsers.generate import generate
from wfrun.runners.run.overheads import Overheads, SiteOverheads, measure
from wfrun.runners.simulate.simulation import Platform, complete_links, simulate

SITES = Catalog((SiteSpec("alpha", 40), SiteSpec("beta", 40)))
MEASURED = Overheads(
    {"alpha": SiteOverheads(2.0, 0.5), "beta": SiteOverheads(3.0, 1.0)},
    tuple(
        LinkSpec(a, b, 1e6, 0.25)
        for a in ("alpha", "beta", "origin") for b in ("alpha", "beta") if a != b
    ),
)  # fmt: skip


class _Log:
    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events.extend(events)

    def commit(self) -> None:
        """Nothing is kept."""


def simulated(overheads: Overheads) -> tuple[RunState, Overheads]:
    """A run whose policy uses both sites, and what it has measured."""
    log = _Log()
    settings = ev.Settings(policy="round-robin")
    workflow = generate("montage", 30, 1)
    state = simulate([workflow], Platform(SITES, overheads=overheads), settings, log=log)
    return state, measure(log.events, state)


def test_overheads_are_measured_as_they_were_simulated() -> None:
    state, found = simulated(MEASURED)
    for name, site in MEASURED.sites.items():
        assert found.sites[name].start_s == pytest.approx(site.start_s)
        assert found.sites[name].end_s == pytest.approx(site.end_s)
    links = {(link.source, link.destination): link for link in found.links}
    between = links["alpha", "beta"]
    assert between.bandwidth_bytes_per_s == pytest.approx(1e6, rel=0.2)
    assert simulated(found)[0].now_s == pytest.approx(state.now_s, rel=0.1)
    assert simulated(Overheads())[0].now_s < state.now_s - 10


def test_a_start_that_had_to_wait_for_cores_is_no_overhead() -> None:
    log = _Log()
    platform = Platform(Catalog((SiteSpec("alpha", 2),)), overheads=MEASURED)
    state = simulate([generate("bag", 20, 1)], platform, ev.Settings(), log=log)
    assert measure(log.events, state).sites["alpha"].start_s == pytest.approx(2.0)


def test_links_of_the_catalog_come_first() -> None:
    own = LinkSpec("alpha", "beta", 5.0)
    links = complete_links(Catalog(SITES.sites, (own,)), MEASURED.links)
    found = {(link.source, link.destination): link for link in links}
    assert found["alpha", "beta"] == own
    assert found["beta", "alpha"] == LinkSpec("beta", "alpha", 1e6, 0.25)
    assert found["alpha", "origin"] == LinkSpec("alpha", "origin")
