"""`wfrun predict --learn` as its user meets it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.runners.harness import User, assert_refused
from wfrun.runners.run.history.history_file import history_file


def rows_of(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(
            "SELECT owner, application, cores, site, place, latest_s, observations FROM classes"
        ).fetchall()


@pytest.fixture
def default() -> Path:
    found = history_file(None)
    assert found is not None
    return found.path


def test_runs_are_learned_from_once(user: User, default: Path) -> None:
    """One run fed the history itself, the other one had none."""
    (user.folder / "list.txt").write_text("true\n" * 3)
    assert user.wfrun("run", "list.txt", "--run-dir", "fed").status == 0
    assert user.wfrun("run", "list.txt", "--run-dir", "other", "--no-history").status == 0
    before = rows_of(default)
    assert "1 classes of tasks with 3 run times, 0 of them new" in learn(user, "fed")
    assert rows_of(default) == before
    found = json.loads(learn(user, "fed", "other", "--json"))
    assert [(one["run"], one["run_times"], one["new"]) for one in found] == [
        ("fed", 3, 0), ("other", 3, 3)
    ]  # fmt: skip
    ((*_, body),) = rows_of(default)
    assert isinstance(body, bytes)
    assert len(json.loads(body)) == 6
    before = rows_of(default)
    learn(user, "other", "fed")
    assert rows_of(default) == before


def learn(user: User, *words: str) -> str:
    done = user.ask("predict", "--learn", *words)
    assert (done.status, done.err) == (0, "")
    return done.out


def test_times_that_are_not_those_of_the_sites_need_a_file_of_their_own(
    user: User, default: Path
) -> None:
    assert user.ask("generate", "bag", "--tasks", "4", "-o", "bag.dax").status == 0
    simulated = ("--policy", "round-robin", "--run-dir", "sim")
    assert user.ask("simulate", "bag.dax", *simulated).status == 0
    emulated = ("--emulate", "--time-scale", "0", "--run-dir", "em")
    assert user.wfrun("run", "bag.dax", *emulated).status == 0
    for run, how in (("sim", "simulated"), ("em", "emulated")):
        assert_refused(user.ask("predict", "--learn", run), 2, [run, how, "--history FILE"])
    assert not default.exists()
    named = json.loads(learn(user, "sim", "--history", "mine", "--json"))
    assert named[0]["run_times"] == 4
    assert rows_of(user.folder / "mine")


def test_what_cannot_be_learned_from(user: User, default: Path) -> None:
    assert_refused(user.ask("predict", "--learn", "nowhere"), 2, ["nowhere"])
    assert_refused(user.ask("predict", "--learn"), 2, ["runs"])
    default.parent.mkdir(parents=True)
    default.write_text("no database " * 100)
    (user.folder / "list.txt").write_text("true\n")
    assert user.wfrun("run", "list.txt", "--run-dir", "one", "--no-history").status == 0
    done = user.wfrun("predict", "--learn", "one")
    assert (done.status, done.out) == (1, "")
    assert done.err.count("cannot be written") == 1
