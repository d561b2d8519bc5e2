"""`wfrun simulate --on` over sites of this machine, as a user gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.places import ROOT
from tests.runners.harness import User, wait_until

DAS3 = ROOT / "examples" / "das3.yaml"
LOCAL = "sites:\n  here: {kind: local, slots: 2}\n"
WITHOUT = "sites:\n  bare: {kind: local, slots: 1, environment: {PATH: '/usr/bin:/bin'}}\n"


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def simulate(*words: str | Path) -> list[str | Path]:
    grid = ["--policy", "heft,round-robin", "--seeds", "3"]
    return ["simulate", "small.dax", "--sites", DAS3, *grid, *words]


def test_results_are_those_of_a_local_run(user: User) -> None:
    user.ask("generate", "montage", "--tasks", "20", "-o", "small.dax")
    user.catalog(LOCAL)
    here = user.wfrun(*simulate("-o", "here.csv", "--jobs", "1"))
    there = user.wfrun(*simulate("-o", "there.csv", "--on", "sites.yaml"))
    assert there.status == 0, there.text
    assert there.out == here.out
    assert (user.folder / "there.csv").read_text() == (user.folder / "here.csv").read_text()
    more = user.wfrun(*simulate("-o", "there.csv", "--on", "sites.yaml"))
    assert (more.status, more.out) == (0, here.out)
    assert "run there.csv.runs" not in more.err  # nothing was left to do


@pytest.mark.slow
def test_a_site_without_wfrun(user: User) -> None:
    """One message says what to do, and the command then continues."""
    user.ask("generate", "montage", "--tasks", "20", "-o", "small.dax")
    user.catalog(WITHOUT)
    done = user.wfrun(*simulate("-o", "out.csv", "--on", "sites.yaml"))
    assert done.status == 3, done.text
    assert done.err.count("cannot run the simulations") == 1
    assert "sites.yaml: site bare" in done.err
    assert "tried: python3 -m wfrun.runners.experiments.on_sites.installation" in done.err
    assert "No module named 'wfrun'" in done.err
    assert "prologue:" in done.err
    user.catalog(WITHOUT + LOCAL.removeprefix("sites:\n"))
    done = user.wfrun(*simulate("-o", "out.csv", "--on", "sites.yaml"))
    assert done.status == 0, done.text
    assert "Its simulations go to other sites" in done.err
    assert len((user.folder / "out.csv").read_text().splitlines()) == 1 + 3 * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "sites.yaml"], "name the file with --output"),
        (["--on", "sites.yaml", "--jobs", "2", "-o", "out.csv"], "--jobs has no effect with --on"),
        (["--on", "sites.yaml", "--run-dir", "run"], "--on is for experiments"),
        (["--on", "absent.yaml", "-o", "out.csv"], "absent.yaml"),
    ],
)
def test_what_is_refused(user: User, words: list[str], message: str) -> None:
    user.ask("generate", "montage", "--tasks", "20", "-o", "small.dax")
    user.catalog(LOCAL)
    done = user.ask(*simulate(*words))
    assert done.status == 2
    assert message in done.err
    assert not (user.folder / "out.csv.runs").exists()


@pytest.mark.slow
def test_a_run_of_other_simulations_is_stopped(user: User) -> None:
    """Its tasks would simulate what the command does not ask for."""
    user.ask("generate", "montage", "--tasks", "20", "-o", "small.dax")
    user.catalog(LOCAL)
    engine = user.start(*simulate("-o", "out.csv", "--on", "sites.yaml"))
    attempts = user.folder / "out.csv.runs" / "1" / "run" / "sites" / "here" / "attempts"
    assert wait_until(lambda: any(attempts.glob("*.0.*")) or engine.ended)
    assert not engine.ended, engine.told
    engine.kill()
    words = ["--policy", "heft-p", "-o", "out.csv", "--on", "sites.yaml"]
    done = user.wfrun(*simulate(), *words)
    assert done.status == 0, done.text
    assert "run out.csv.runs/1/run: stopped" in done.err
    assert "run out.csv.runs/2/run: 2 simulated runs" in done.err
    lines = (user.folder / "out.csv").read_text().splitlines()
    user.wfrun(*simulate(), "--policy", "heft-p", "-o", "here.csv")
    assert lines[-3:] == (user.folder / "here.csv").read_text().splitlines()[1:]
    assert user.is_alone()
