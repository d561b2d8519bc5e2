"""The choices of policies follow the speed of real links, which the test shapes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import wfrun
from tests.network.network import Network
from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.model import Access, Catalog, LinkSpec, SiteSpec
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import load_links, place_of

SIZE_BYTES = 200_000
CATALOG_LINKS = (LinkSpec("origin", "one", 20e6), LinkSpec("origin", "two", 0.1e6))
"""Both links are faster than that at first."""


def catalog(network: Network) -> Catalog:
    def site(name: str) -> SiteSpec:
        access = Access(hosts=(name,), ssh_config=str(network.ssh_config))
        return SiteSpec(name, 2, kind="ssh", access=access, directory="/home/user/wfrun")

    return Catalog((site("one"), site("two")), CATALOG_LINKS)


def placed_by(network: Network, folder: Path, history: Path) -> list[str]:
    """The sites of four tasks, one after another, each of which has an input of its own."""
    folder.mkdir()
    jobs: list[Job] = []
    for number in range(4):
        (folder / f"in{number}").write_bytes(os.urandom(SIZE_BYTES))
        before = [jobs[-1].id] if jobs else []
        jobs.append(Job(f"t{number}", "true", [f"in{number}"], parents=before))
    seen: list[ev.Event] = []

    def observe(events: Sequence[ev.Event]) -> None:
        seen.extend(events)

    result = wfrun.run(
        make_workflow(jobs), sites=catalog(network), inputs=folder, run_dir=folder / "run",
        policy="file-aware-r", history=history, observer=observe,
    )  # fmt: skip
    assert result.outcome == "done"
    sites = ("one", "two")
    return [sites[event.site] for event in seen if isinstance(event, ev.AttemptPlaced)]


@pytest.mark.slow
def test_tasks_go_elsewhere_once_a_link_has_become_slow(network: Network, tmp_path: Path) -> None:
    history = tmp_path / "history"
    fast = placed_by(network, tmp_path / "fast", history)
    assert fast == ["one"] * 4
    network.shape("submit", "one", rate=75_000)
    # The run knows what the one before has seen, and then what it sees itself: a median of three.
    slow = placed_by(network, tmp_path / "slow", history)
    assert slow == ["one"] * 3 + ["two"]
    known = load_links(HistoryFile(history))
    assert known is not None
    place = place_of(catalog(network).sites[0])
    (copies,) = [link.copies for pair, link in known.items() if pair.destination == place]
    assert copies == 7
