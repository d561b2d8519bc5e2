"""Overheads that a run has measured are those that a simulation of it has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState
from wfrun.engine.model import (
    Access,
    Catalog,
    File,
    LauncherSpec,
    LinkSpec,
    SiteSpec,
    Task,
    Workflow,
)
from wfrun.parsers.generate import generate
from wfrun.runners.experiments.subjects.measured import completed
from wfrun.runners.run.history.overheads import Overheads, SiteOverheads, measure
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


def test_a_stall_during_some_starts_is_no_overhead() -> None:
    log = _Log()
    platform = Platform(Catalog((SiteSpec("alpha", 40),)), overheads=MEASURED)
    state = simulate([generate("bag", 40, 1)], platform, ev.Settings(), log=log)
    stalled = [
        replace(event, outcome=replace(event.outcome, started_s=event.outcome.started_s + 60))
        if isinstance(event, ev.AttemptEnded) and event.outcome.started_s and number % 5 == 0
        else event
        for number, event in enumerate(log.events)
    ]
    assert measure(stalled, state).sites["alpha"].start_s == pytest.approx(2.0)


def test_ends_in_launchers_are_reported_as_late_as_measured() -> None:
    log = _Log()
    access = Access(("head",), dispatch="launchers", launchers=LauncherSpec(cores=4, max=2))
    site = SiteSpec("alpha", 8, kind="slurm", access=access)
    platform = Platform(Catalog((site,)), overheads=MEASURED)
    state = simulate([generate("montage", 30, 1)], platform, ev.Settings(), log=log)
    assert measure(log.events, state).sites["alpha"].end_s == pytest.approx(0.5)


def bag_run(overheads: Overheads, tasks: int = 60) -> tuple[float, Overheads]:
    """Makespan of a bag on one site of four cores, and what it has measured."""
    log = _Log()
    platform = Platform(Catalog((SiteSpec("alpha", 4),)), overheads=overheads)
    state = simulate([generate("bag", tasks, 1)], platform, ev.Settings(), log=log)
    return state.now_s, measure(log.events, state)


def test_a_full_site_shows_how_long_tasks_hold_their_cores() -> None:
    real = Overheads({"alpha": SiteOverheads(2.0, 0.5, 7.0)})
    took_s, found = bag_run(real)
    assert found.sites["alpha"].hold_s == pytest.approx(7.0)
    assert bag_run(found)[0] == pytest.approx(took_s, rel=0.01)
    without = Overheads({"alpha": SiteOverheads(2.0, 0.5)})
    assert bag_run(without)[0] < took_s - 60


def test_a_site_with_free_cores_does_not_show_it() -> None:
    assert (
        bag_run(Overheads({"alpha": SiteOverheads(2.0, 0.5, 7.0)}), 4)[1].sites["alpha"].hold_s
        is None
    )


def test_what_the_latest_run_did_not_show_is_taken_from_older_ones() -> None:
    latest = Overheads({"alpha": SiteOverheads(1.0, 0.5), "gamma": SiteOverheads(1.0, 0.5, 0.1)})
    older = Overheads(
        {"alpha": SiteOverheads(9.0, 9.0, 7.0), "gamma": SiteOverheads(9.0, 9.0, 9.0),
         "beta": SiteOverheads(3.0, 1.0)},
        MEASURED.links,
    )  # fmt: skip
    assert completed(latest, older) == Overheads(
        {"alpha": SiteOverheads(1.0, 0.5, 7.0), "gamma": SiteOverheads(1.0, 0.5, 0.1),
         "beta": SiteOverheads(3.0, 1.0)},
        MEASURED.links,
    )  # fmt: skip


def test_links_of_the_catalog_come_first() -> None:
    own = LinkSpec("alpha", "beta", 5.0)
    links = complete_links(Catalog(SITES.sites, (own,)), MEASURED.links)
    found = {(link.source, link.destination): link for link in links}
    assert found["alpha", "beta"] == own
    assert found["beta", "alpha"] == LinkSpec("beta", "alpha", 1e6, 0.25)
    assert found["alpha", "origin"] == LinkSpec("alpha", "origin")


@pytest.mark.parametrize(
    ("link", "site_cap"),
    [
        (LinkSpec("origin", "alpha", 100e6, max_bandwidth_bytes_per_s=1e6), None),
        (LinkSpec("origin", "alpha", max_bandwidth_bytes_per_s=1e6), None),
        (LinkSpec("origin", "alpha", 1e6, max_bandwidth_bytes_per_s=100e6), None),
        (LinkSpec("origin", "alpha", 100e6), 1e6),
    ],
)
def test_copies_obey_the_maximum_bandwidth(link: LinkSpec, site_cap: float | None) -> None:
    log = _Log()
    site = SiteSpec("alpha", 1, max_bandwidth_bytes_per_s=site_cap)
    jobs = [Task("t", "x", "x", inputs=(0,), runtime_s=1.0)]
    workflow = Workflow("w", "w", jobs, [File("f", size_bytes=10_000_000)], [()])
    simulate([workflow], Platform(Catalog((site,), (link,))), ev.Settings("round-robin"), log=log)
    (copy,) = [event for event in log.events if isinstance(event, ev.TransferEnded)]
    assert copy.elapsed_s == pytest.approx(10.0)


def test_what_a_run_learns_of_links_does_not_change_them() -> None:
    """The catalog promises 100 MB/s; head nodes let a hundredth of that through."""
    log = _Log()
    links = tuple(LinkSpec("origin", site.name, 100e6) for site in SITES.sites)
    platform = Platform(replace(SITES, links=links), head_bytes_per_s=1e6)
    jobs = [Task(f"t{n}", "x", "x", inputs=(n,), runtime_s=1000.0) for n in range(8)]
    files = [File(f"f{n}", size_bytes=10_000_000) for n in range(8)]
    workflow = Workflow("w", "w", jobs, files, [(n - 1,) if n else () for n in range(8)])
    state = simulate([workflow], platform, ev.Settings(policy="file-aware-r"), log=log)
    copies = [event for event in log.events if isinstance(event, ev.TransferEnded)]
    assert [copy.elapsed_s for copy in copies] == pytest.approx([10.0] * 8)
    # After three copies to one site the other one looks better, until it proves the same.
    assert [copy.destination for copy in copies[:6]] == [0, 0, 0, 1, 1, 1]
    for site in (0, 1):
        _, seconds_per_byte, _ = state.network.best_source(0b100, site)
        assert seconds_per_byte == pytest.approx(1e-6)
