"""``wfrun bench dispatch``: figures from a log, and real runs on sites of this machine."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import User
from wfrun.engine import events as ev
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.bench import bench_workflow, measure, sizes_of
from wfrun.runners.admin.bench_figures import BenchCounts, Figures, figures_of

SIZES = BenchCounts(empty=4, chain=2, short=4)
LAUNCHERS = Access(hosts=("h",), dispatch="launchers", launchers=LauncherSpec(cores=2, max=2))


def log(spec: SiteSpec) -> Iterator[ev.Event]:
    """Empty tasks from 110 to 112; steps of 3 s in the chain, of which tasks take 1 s; the short
    ones in the first 0.3 s from 118 on. What is at the site is 50 s ahead of the engine."""
    yield ev.RunStarted(100.0, "r", ev.Settings(policy="x"), (spec,), (), 1)
    yield from ended(0, 108.0, 109.0)
    for task in range(1, 5):
        yield from ended(task, 110.0 + task / 10, 112.0 if task == 4 else 110.5)
    for task, at_s in ((5, 112.0), (6, 115.0), (7, 118.0)):
        yield from ended(task, at_s - 1.0, at_s)
    for task in range(8, 12):
        yield from ended(task, 118.1, 118.3)


def ended(task: int, started_s: float, known_s: float) -> Iterator[ev.Event]:
    key = f"r.0.{task}.1"
    yield ev.AttemptStarted(started_s, key)
    outcome = Outcome("done", 0, started_s=started_s + 50.0, ended_s=started_s + 51.0)
    yield ev.AttemptEnded(known_s, key, outcome)


def test_figures_are_those_of_the_log() -> None:
    spec = SiteSpec("a", 2)
    figures = figures_of(log(spec), spec, SIZES)
    assert figures == pytest.approx(
        Figures(first_s=8.0, rate=4 / 1.9, latency_s=2.0, slots=2, ideal_s=0.2, took_s=0.3)
    )


def test_slots_are_those_of_live_launchers() -> None:
    spec = SiteSpec("a", 4, kind="slurm", access=LAUNCHERS)
    one = ev.LauncherStarted(105.0, 0, "r.l.1", "n1", 2, None, "tcp", 0.002)
    two = ev.LauncherStarted(118.1, 0, "r.l.2", "n2", 2, None, "tcp", 0.002)
    events = sorted([*log(spec), one, two], key=lambda event: event.at_s)
    figures = figures_of(events, spec, SIZES)
    # Two slots for 0.1 s, then four for the other 0.2 core seconds.
    assert figures.ideal_s == pytest.approx(0.15)
    assert figures.slots == pytest.approx(0.4 / 0.15)


def test_a_log_that_breaks_off_gives_what_it_has() -> None:
    spec = SiteSpec("a", 2)
    begun = list(itertools.takewhile(lambda event: event.at_s <= 110.5, log(spec)))
    nothing = Figures(None, None, None, 2, None, None)
    assert figures_of(begun[:1], spec, SIZES) == nothing
    figures = figures_of(begun, spec, SIZES)
    assert (figures.first_s, figures.took_s, figures.latency_s) == (8.0, None, None)
    assert figures.rate == pytest.approx(3 / 0.4)


def test_a_site_is_asked_for_no_more_than_it_bears() -> None:
    jobs = SiteSpec("a", 10, kind="slurm", access=Access(hosts=("h",)), walltime_s=30.0)
    assert sizes_of(jobs, None) == BenchCounts(20, 3, 20)
    assert sizes_of(SiteSpec("a", 8), None) == BenchCounts(5000, 50, 400)
    assert sizes_of(SiteSpec("a", 8), 7).empty == 7
    workflow = bench_workflow(jobs, SIZES)
    assert {task.resources.walltime_s for task in workflow.tasks} == {30.0}
    assert workflow.parents[5] == (1, 2, 3, 4)


def test_a_real_site_is_measured_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = SiteSpec("a", 2, directory=str(tmp_path / "site"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    result = asyncio.run(measure(spec, BenchCounts(40, 5, 8), 60.0))
    assert result.problem is None
    figures = result.figures
    assert figures.rate is not None
    assert figures.latency_s is not None
    assert figures.took_s is not None
    assert figures.rate > 0
    assert 0 <= figures.latency_s < 60
    assert figures.ideal_s == pytest.approx(0.4)
    assert figures.took_s >= 0.4
    assert list((tmp_path / "site").iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_the_command_says_what_was_not_done_in_time(user: User) -> None:
    """Its 50 tasks of 0.1 s take longer than the limit on one slot, even on a fast machine."""
    (user.folder / "sites.yaml").write_text("sites:\n  a: {slots: 1}\n  b: {slots: 1}\n")
    told = user.wfrun(
        "bench",
        "dispatch",
        "--sites",
        "sites.yaml",
        "--site",
        "b",
        "--tasks",
        "20",
        "--limit",
        "4.5",
    )
    assert told.status == 0
    heading, row, *rest = told.out.splitlines()
    assert heading.split()[:4] == ["site", "tasks", "are", "slots"]
    assert row.split()[:3] == ["b", "processes", "1"]
    assert row.split()[-3:] == ["-", "-", "-"]
    assert "site b: stopped after 4.5 s, the --limit" in rest[0]
    assert not (user.folder / "wfrun-runs").exists()


def test_a_site_that_can_not_be_used_has_a_status_of_its_own(user: User) -> None:
    (user.folder / "file").touch()
    (user.folder / "sites.yaml").write_text("sites:\n  a: {slots: 1, directory: file/x}\n")
    told = user.wfrun("bench", "dispatch", "--sites", "sites.yaml")
    assert told.status == 3
    assert "site a" in told.out
    assert "file/x" in told.out
    unknown = user.wfrun("bench", "dispatch", "--sites", "sites.yaml", "--site", "c")
    assert unknown.status == 2
    assert "there is no site 'c'" in unknown.err
