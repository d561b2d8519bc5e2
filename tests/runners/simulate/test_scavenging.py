"""Owners who scavenge, in virtual time, beside jobs of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.engine.scavenging.worlds import sweep_of
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.cli.main import cli
from wfrun.runners.run.prepare.scavenging import scavengeable
from wfrun.runners.simulate.simulation import Platform, simulate
from wfrun.sites.simulated.queues import SimulatedJob

SWEEP = "command: work {n}\nowner: OWNER\nestimate: 30 s\nparameters: {n: {range: [1, 24]}}\n"


class Kept:
    """A log in memory."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events += events

    def commit(self) -> None:
        """Do nothing."""


def test_jobs_of_others_start_at_once() -> None:
    """The launchers that run for them are given back, and come again when they have ended."""
    others = [SimulatedJob(100.0, 50.0, 4, 50.0), SimulatedJob(300.0, 50.0, 8, 50.0)]
    log = Kept()
    state = simulate(
        [sweep_of("ann", 60, 40.0), sweep_of("bea", 60, 40.0)],
        Platform(
            scavengeable(Catalog((SiteSpec("a", 8), SiteSpec("b", 4))), simulated=True),
            background={"a": others},
        ),
        ev.Settings(scavenge="persite", retries=0),
        log=log,
    )
    assert state.ended == "done"
    loads = [e for e in log.events if isinstance(e, ev.SiteLoadObserved)]
    starts = [e.at_s for e in loads if e.running_cores]
    assert starts[0] == pytest.approx(102.0, abs=2.0)
    assert any(at_s == pytest.approx(302.0, abs=2.0) for at_s in starts)
    causes = Counter(e.outcome.cause for e in log.events if isinstance(e, ev.AttemptEnded))
    assert causes["done"] == 120
    assert set(causes) == {"done", "reclaimed"}
    local = [e for e in log.events if isinstance(e, ev.LaunchersStopped) and e.cause == "local"]
    assert sum(len(e.keys) for e in local) == 12


def command(folder: Path, *words: str) -> Result:
    for owner in ("ann", "bea"):
        (folder / f"{owner}.yaml").write_text(SWEEP.replace("OWNER", owner))
    (folder / "sites.yaml").write_text("sites: {one: {slots: 8}, two: {slots: 4}}\n")
    documents = [str(folder / "ann.yaml"), str(folder / "bea.yaml")]
    sites = ["--sites", str(folder / "sites.yaml"), "--quiet"]
    return CliRunner().invoke(cli, ["simulate", *documents, *sites, "--scavenge", "all", *words])


def test_the_command_keeps_a_run_and_its_shares(tmp_path: Path) -> None:
    assert command(tmp_path, "--run-dir", str(tmp_path / "run")).exit_code == 0
    shown = CliRunner().invoke(cli, ["shares", str(tmp_path / "run")])
    assert shown.output.count("50.0%") == 2


def test_the_command_refuses_policies(tmp_path: Path) -> None:
    for words in (("--policy", "rr"), ("--selection", "s-t"), ("--throttle", "3")):
        found = command(tmp_path, *words).exception
        assert isinstance(found, InvalidError)
        assert found.message.startswith(f"{words[0]} has no effect with --scavenge")
