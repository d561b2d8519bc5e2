"""Resumes with other options and other sites."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.runners.harness import Job, User, lines_of, make_workflow, wait_until
from tests.runners.replicated import events_of
from wfrun import Catalog, LinkSpec, Resources, SiteSpec
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError
from wfrun.runners.api import resume
from wfrun.runners.api import run as run_workflow
from wfrun.runners.experiments.subjects.past_run import past_run
from wfrun.runners.inspect.tables.run_records import run_record
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

OTHER = 65534
"""The user `nobody`."""
A, B = SiteSpec("a", 1), SiteSpec("b", 1)


def failed_run(folder: Path) -> Path:
    """A run at two sites of which a task has failed, and succeeds once `go` is there."""
    script = f"echo ran >> {folder}/ran; [ -e {folder}/go ]"
    first = run_workflow(
        make_workflow([Job("t", script)]),
        sites=Catalog((A, B)), run_dir=folder / "run", retries=0, policy="round-robin",
    )  # fmt: skip
    assert first.outcome == "failed"
    return first.directory


@pytest.mark.slow
def test_options_that_change(tmp_path: Path) -> None:
    run = failed_run(tmp_path)
    again = resume(run, retries=2, retry_delay_s=0.01, policy="heft", throttle=7)
    assert (again.outcome, len(lines_of(tmp_path / "ran"))) == ("failed", 4)
    settings = read_state(RunDir(run)).settings
    assert (settings.retries, settings.policy, settings.throttle) == (2, "heft", 7)
    (change,) = [e for e in events_of(run) if isinstance(e, ev.RunChanged)]
    assert change.settings == settings
    (tmp_path / "go").touch()
    assert resume(run, retries=2).outcome == "done"  # what stays is no change
    assert len([e for e in events_of(run) if isinstance(e, ev.RunChanged)]) == 1


@pytest.mark.slow
def test_a_simulation_of_the_run_has_its_last_sites(tmp_path: Path) -> None:
    run = failed_run(tmp_path)
    (tmp_path / "go").touch()
    links = (LinkSpec("origin", "b", 1e6), LinkSpec("origin", "c", 1e6))
    sites = Catalog((B, SiteSpec("c", 2)), links)
    assert resume(run, retries=2, sites=sites).outcome == "done"
    past = past_run(str(run), warn=pytest.fail)
    assert past.catalog == sites


@pytest.mark.slow
def test_the_time_of_a_run_ends_when_it_is_done(tmp_path: Path) -> None:
    """Not when its files are removed, or when a resume finds nothing to do."""
    workflow = make_workflow([Job("t", "true")])
    first = run_workflow(workflow, run_dir=tmp_path / "run")
    again = resume(first.directory)
    assert isinstance(events_of(first.directory)[-1], ev.FilesRemoved)
    assert again.makespan_s == first.makespan_s
    state = read_state(RunDir(first.directory))
    record = run_record(first.directory, state, driven=False)
    assert first.makespan_s is not None
    assert record.elapsed_s == first.makespan_s < state.now_s - state.started_s


@pytest.mark.slow
def test_changes_that_are_refused(tmp_path: Path) -> None:
    """The log is as it was, and the run can be resumed."""
    job = Job("t", f"[ -e {tmp_path}/go ]", resources=Resources(walltime_s=60.0))
    run = run_workflow(
        make_workflow([job]), sites=Catalog((A, B)), run_dir=tmp_path / "run", retries=0
    ).directory
    before = events_of(run)
    moved = Catalog((SiteSpec("a", 1, directory="/tmp/x"),))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"throttle": 0}, "throttle is 0, but must be at least 1"),
        ({"policy": "best"}, "best"),
        ({"policy": "heft", "policy_options": {"size": 3}}, "has no option 'size'"),
        ({"time_scale": 2.0}, "time_scale cannot be changed"),
        ({"sites": moved}, "the directory of site 'a' was None when the run began"),
        ({"sites": Catalog((SiteSpec("c", 1, walltime_s=1.0),))}, "fits no site"),
        ({"replicas": 2}, "--replicas is 2, but the sites have 2 cores in all"),
    ]
    for options, message in refused:
        with pytest.raises(InvalidError, match=message):
            resume(run, **options)
    assert events_of(run) == before
    (tmp_path / "go").touch()
    assert resume(run).outcome == "done"


def under_way(user: User, sites: str) -> Path:
    """A run whose engine was killed while a task runs at `a`; another one has run there, and wrote
    an input of a third one. They end when `go` is there."""
    go, record = user.folder / "go", user.folder / "ran"
    wait = f"while ! [ -e {go} ]; do sleep 0.05; done"
    jobs = [
        Job("first", f"echo first >> {record}; echo 1 > one", [], ["one"]),
        Job("slow", f"echo slow >> {record}; {wait}; cat one > two", ["one"], ["two"], ["two"]),
        Job("last", f"echo last >> {record}; cat one > three", ["one"], ["three"], ["three"]),
    ]
    catalog = user.catalog(sites)
    engine = user.start(user.write(jobs), "--sites", catalog, "--run-dir", "run", "--throttle", "1")
    assert wait_until(lambda: lines_of(record) == ["first", "slow"])
    engine.kill()
    return user.folder / "run"


def test_a_site_that_left_while_a_task_runs_there(user: User) -> None:
    """The task is awaited, its output and the file that it read are taken from there, and the
    other task runs at the new site."""
    run = under_way(user, "sites:\n  a: {slots: 1}\n")
    (user.folder / "go").touch()
    catalog = user.catalog("sites:\n  b: {slots: 1}\n")
    done = user.wfrun("resume", "run", "--sites", catalog, "--throttle", "4")
    assert done.status == 0, done.text
    assert "site a is no longer in the catalog: it gets no more tasks" in done.err
    assert "site b is new" in done.err
    assert "--throttle: 1 before, 4 now" in done.err
    assert Counter(lines_of(user.folder / "ran")) == {"first": 1, "slow": 1, "last": 1}
    assert (run / "outputs/two").read_text() == (run / "outputs/three").read_text() == "1\n"
    state = read_state(RunDir(run))
    assert [(site.spec.name, site.done) for site in state.sites] == [("a", 2), ("b", 1)]
    assert not list(run.glob("sites/*/files/*"))  # both were cleaned


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_site_that_left_and_is_out_of_reach(user: User) -> None:
    """What was there counts as lost, which is said: the task runs again elsewhere, and so does the
    one whose file is there."""
    away = user.folder / "away"
    run = under_way(user, f"sites:\n  a: {{slots: 1, directory: {away}}}\n")
    (inside,) = away.iterdir()
    os.chown(inside, OTHER, OTHER)
    (user.folder / "go").touch()
    catalog = user.catalog("sites:\n  b: {slots: 1}\n")
    done = user.wfrun("resume", "run", "--sites", catalog)
    assert done.status == 0, done.text
    assert "site a left the catalog and cannot be reached" in done.err
    assert "1 attempt there counts as lost" in done.err
    assert Counter(lines_of(user.folder / "ran")) == {"first": 2, "slow": 2, "last": 1}
    assert (run / "outputs/two").read_text() == "1\n"
    lost = [
        e for e in events_of(run) if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "lost"
    ]
    assert len(lost) == 1
    state = read_state(RunDir(run))
    assert (state.ended, state.left_sites) == ("done", (0,))
