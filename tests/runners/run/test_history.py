"""What runs leave for later ones."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import wfrun
from wfrun.engine import events as ev
from wfrun.engine.bag import expand
from wfrun.engine.core import Core
from wfrun.engine.model import Axis, Bag, Catalog, Progression, SiteSpec, Workflow
from wfrun.runners.run.history import add_history, history_file, read_history
from wfrun.runners.run.store import Store

SITES = Catalog((SiteSpec("near", slots=2), SiteSpec("far", slots=2)))


def sweep(owner: str = "ann", tasks: int = 6) -> Workflow:
    axes = (Axis(("i",), (Progression(0, 1, tasks),)),)
    bag = Bag("sweep", "sweep.yaml", "sleep", ("0.01",), axes=axes, owner=owner, application="nap")
    return expand(bag)


def history_of(run_dir: Path) -> ev.HistoryRead:
    """What a run has read."""
    store = Store(run_dir)
    found = [event for event in store.load() if isinstance(event, ev.HistoryRead)]
    store.close()
    (read,) = found
    return read


def run(folder: Path, name: str, **options: object) -> Path:
    result = wfrun.run(
        sweep(), sites=SITES, policy="ect-p", selection="s-u-t", run_dir=folder / name,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    assert result.outcome == "done"
    return result.directory


def test_a_run_knows_what_the_one_before_has_seen(tmp_path: Path) -> None:
    history = tmp_path / "kept" / "history.sqlite"
    first = history_of(run(tmp_path, "first", history=history))
    assert (first.classes, first.usage_s) == ((), {})
    second = history_of(run(tmp_path, "second", history=history, past_usage=True))
    assert {(c.owner, c.application, c.cores) for c in second.classes} == {("ann", "nap", 1)}
    assert {c.site for c in second.classes} <= {"near", "far"}
    assert all(0.01 <= s < 5 for c in second.classes for s in c.runtimes_s)
    assert 0.06 <= second.usage_s["ann"] < 30
    third = history_of(run(tmp_path, "third", history=history))
    assert third.usage_s == {}, "what others used counts only where it is asked for"


def test_what_a_run_used_is_counted_once_however_often_it_ends(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    directory = run(tmp_path, "first", history=history)
    store = Store(directory)
    core = Core(store.workflows())
    core.replay(store.load())
    store.close()
    with closing(sqlite3.connect(history)) as db:
        before = db.execute("SELECT * FROM usage").fetchall()
        add_history(core.state)
        assert db.execute("SELECT * FROM usage").fetchall() == before


def test_without_a_history_nothing_is_written(tmp_path: Path) -> None:
    directory = run(tmp_path, "first", history="none")
    store = Store(directory)
    assert not [event for event in store.load() if isinstance(event, ev.HistoryRead)]
    store.close()
    assert history_file("none") is None


def test_the_history_of_a_user_is_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file(None) == tmp_path / "wfrun" / "history.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert history_file(None) == Path("/home/ann/.local/state/wfrun/history.sqlite")


def test_a_damaged_history_is_warned_of_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = tmp_path / "history.sqlite"
    history.write_text("this is no database, and long enough to be taken for one. " * 20)
    run(tmp_path, "first", history=history)
    assert "the history of earlier runs cannot be read" in caplog.text
    assert "the history of earlier runs cannot be written" in caplog.text
    assert history.read_text().startswith("this is no database")


def test_a_history_whose_name_is_not_utf8_is_warned_of_and_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, "first", history=tmp_path / "caf\udce9" / "history.sqlite")
    assert "the history of earlier runs cannot be used: its name is not UTF-8" in caplog.text
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("caf")] == []


def test_only_the_owners_of_the_run_are_asked_for(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    run(tmp_path, "first", history=history)
    read = read_history(history, [sweep("bob")], 0.0, usage=True)
    assert (read.classes, read.usage_s) == ((), {})
