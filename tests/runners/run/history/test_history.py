"""What runs leave for later ones."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import wfrun
from tests.runners.harness import User, wait_until
from tests.runners.histories import harvest
from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.observations import (
    MAX_OBSERVATIONS,
    Observation,
    Observations,
    in_order,
)
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.model import Axis, Bag, Catalog, Progression, SiteSpec, Workflow
from wfrun.engine.prediction.job import Job
from wfrun.engine.settings import Settings
from wfrun.engine.tasks.bag import expand
from wfrun.runners.run.history import runtime_history as history_module
from wfrun.runners.run.history.history_file import HistoryFile, history_file
from wfrun.runners.run.history.runtime_history import (
    Harvest,
    StoredClass,
    add_history,
    harvest_of,
    read_history,
)
from wfrun.runners.run.store.event_store import Store

SITES = Catalog((SiteSpec("near", slots=2), SiteSpec("far", slots=2)))


def sweep(owner: str = "ann", tasks: int = 6) -> Workflow:
    axes = (Axis(("i",), (Progression(0, 1, tasks),)),)
    nap = Bag("sweep", "sweep.yaml", "sleep", ("0.01",), axes=axes, owner=owner, application="nap")
    return expand(nap)


def history_of(run_dir: Path) -> ev.HistoryRead:
    """What a run has read."""
    store = Store(run_dir)
    found = [event for event in store.load() if isinstance(event, ev.HistoryRead)]
    store.close()
    (read,) = found
    return read


def state_of(run_dir: Path) -> Core:
    store = Store(run_dir)
    core = Core(store.workflows())
    core.replay(store.load())
    store.close()
    return core


def run(folder: Path, name: str, **options: object) -> Path:
    result = wfrun.run(
        sweep(), sites=SITES, run_dir=folder / name,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip
    assert result.outcome == "done"
    return result.directory


def read(file: HistoryFile, *, usage: bool = False, owner: str = "ann") -> ev.HistoryRead:
    return read_history(HistoryFile(file.path), [sweep(owner)], SITES.sites, 0.0, usage=usage)


@pytest.fixture
def file(tmp_path: Path) -> HistoryFile:
    return HistoryFile(tmp_path / "state" / "history.sqlite")


# What a run finds


@pytest.mark.slow
def test_a_run_knows_what_the_one_before_has_seen(tmp_path: Path) -> None:
    """Whatever its policy."""
    history = tmp_path / "kept" / "history.sqlite"
    first = history_of(run(tmp_path, "first", history=history))
    assert (first.classes, first.usage_s) == ((), {})
    second = history_of(run(tmp_path, "second", history=history))
    assert {(c.owner, c.application, c.cores) for c in second.classes} == {("ann", "nap", 1)}
    assert sum(len(c.runtimes_s) for c in second.classes) == 6
    assert all(0.01 <= s < 5 for c in second.classes for s in c.runtimes_s)
    assert second.usage_s == {}


@pytest.mark.slow
def test_the_usage_of_owners_counts_where_it_is_asked_for(tmp_path: Path) -> None:
    options = {"history": tmp_path / "history", "selection": "s-u-t", "policy": "ect-p"}
    run(tmp_path, "first", **options)
    second = history_of(run(tmp_path, "second", past_usage=True, **options))
    assert 0.06 <= second.usage_s["ann"] < 30
    assert history_of(run(tmp_path, "third", **options)).usage_s == {}


@pytest.mark.slow
def test_what_a_run_saw_and_used_is_counted_once_however_often_it_ends(tmp_path: Path) -> None:
    """As a run does that is resumed: its log has the tasks of its first part."""
    path = tmp_path / "history.sqlite"
    directory = run(tmp_path, "first", history=path, selection="s-t", policy="ect-p")
    before = dump(path)
    assert add_history(HistoryFile(path), harvest_of(state_of(directory).state)) == 0
    assert [row for row in dump(path) if row[0] != "usage"] == [
        row for row in before if row[0] != "usage"
    ]
    assert len(dump(path)) == len(before)


def dump(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        classes = db.execute("SELECT 'classes', * FROM classes").fetchall()
        return classes + db.execute("SELECT 'usage', * FROM usage").fetchall()


@pytest.mark.slow
def test_without_a_history_nothing_is_written(tmp_path: Path) -> None:
    directory = run(tmp_path, "first", no_history=True)
    store = Store(directory)
    assert not [event for event in store.load() if isinstance(event, ev.HistoryRead)]
    store.close()
    assert state_of(directory).state.get(Observations).by_class == {}
    assert not default_file().exists()
    assert history_file("none") is history_file(None, without=True) is None


@pytest.mark.slow
def test_an_emulated_run_has_only_a_history_that_was_named(tmp_path: Path) -> None:
    bag = wfrun.generate("bag", tasks=2, seed=1)
    for name, history in (("first", None), ("second", tmp_path / "named")):
        wfrun.run(bag, emulate=True, time_scale=0, run_dir=tmp_path / name, history=history)
    assert not default_file().exists()
    assert history_of(tmp_path / "second").file == str(tmp_path / "named")


def default_file() -> Path:
    found = history_file(None)
    assert found is not None
    return found.path


def test_the_history_of_a_user_is_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_file() == tmp_path / "wfrun" / "history.sqlite"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_file() == Path("/home/ann/.local/state/wfrun/history.sqlite")


def test_only_the_owners_and_sites_of_the_run_are_asked_for(file: HistoryFile) -> None:
    add_history(file, harvest([1.0]))
    other = Catalog((SiteSpec("far", slots=2),))
    assert [c.site for c in read(file).classes] == ["near"]
    assert read(file, owner="bob").classes == ()
    assert read_history(file, [sweep()], other.sites, 0.0).classes == ()


def test_another_machine_of_the_same_name_has_a_history_of_its_own(file: HistoryFile) -> None:
    ((kind, latest),) = harvest([1.0]).classes.items()
    add_history(file, Harvest({StoredClass(kind.kind, "ann@far.org"): latest}, []))
    assert read(file).classes == ()


# What is kept


def test_a_class_keeps_what_ended_last(file: HistoryFile) -> None:
    """In whichever order runs add theirs."""
    later, earlier = harvest([2.0] * 30, first=100), harvest([1.0] * 40)
    assert add_history(file, later) == 30
    assert add_history(file, earlier) == 20
    (kind,) = read(file).classes
    assert kind.runtimes_s == (1.0,) * 20 + (2.0,) * 30
    assert len(kind.runtimes_s) == MAX_OBSERVATIONS
    assert list(kind.ended_s) == sorted(kind.ended_s)
    assert add_history(file, later) == add_history(file, earlier) == 0


def test_the_file_keeps_the_classes_that_ended_last(
    file: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MAX_CLASSES", 2)
    for number, application in enumerate("cab"):
        add_history(file, harvest([1.0], application, first=number))
    assert {c.application for c in read(file).classes} == {"a", "b"}


def test_a_run_reads_its_own_applications_first(
    file: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MAX_READ", 5)
    add_history(file, harvest([1.0, 2.0, 3.0]))
    for number, application in enumerate("xyz"):
        add_history(file, harvest([9.0], application, first=100 + number))
    assert [c.application for c in read(file).classes] == ["nap", "z", "y"]
    monkeypatch.setattr(history_module, "MAX_READ", 2)
    assert [c.runtimes_s for c in read(file).classes] == [(2.0, 3.0)]


def test_observations_of_several_classes_are_in_the_order_of_their_ends(file: HistoryFile) -> None:
    add_history(file, harvest([1.0, 2.0], "a", first=1))
    add_history(file, harvest([3.0], "b", first=0))
    assert [(job.application, s) for job, s in in_order(read(file))] == [
        ("b", 3.0), ("a", 1.0), ("a", 2.0)
    ]  # fmt: skip


@pytest.mark.parametrize("runtime_s", [0.0, -1.0, float("nan"), float("inf"), 1e12])
def test_absurd_run_times_are_refused(file: HistoryFile, runtime_s: float) -> None:
    add_history(file, harvest([runtime_s, 5.0]))
    assert [c.runtimes_s for c in read(file).classes] == [(5.0,)]


def test_tasks_of_a_wrong_clock_do_not_stay_the_latest(file: HistoryFile) -> None:
    add_history(file, harvest([1.0], first=10_000_000))
    assert read(file).classes == ()


def test_names_that_sqlite_cannot_hold_are_left_out() -> None:
    core = Core({})
    core.apply_undecided(ev.RunStarted(0.0, "r", Settings("ect"), SITES.sites, (), 0))
    known = core.state.get(Observations)
    for application in ("caf\udce9", "nap"):
        latest = known._latest(Job("near", "ann", application))
        latest.append(Observation(1.0, 1.0, "k"))
    assert [kind.kind.application for kind in harvest_of(core.state).classes] == ["nap"]


def test_a_killed_and_resumed_run_loses_nothing_and_counts_nothing_twice(user: User) -> None:
    """It had added what had ended until then, and adds all at its end."""
    path = user.folder / "history"
    go = user.folder / "go"
    lines = ["true\n"] * 4 + [f"while [ ! -e {go} ]; do sleep 0.05; done\n"]
    (user.folder / "list.txt").write_text("".join(lines))
    words = ("run", "list.txt", "--history", path, "--run-dir", "run", "--policy", "round-robin")
    engine = user.start(*words)

    def ended() -> int:
        return state_of(user.folder / "run").state.counts[TaskStatus.DONE]

    assert wait_until(lambda: (user.folder / "run" / "events.sqlite").exists() and ended() == 4)
    engine.kill()
    add_history(HistoryFile(path), harvest_of(state_of(user.folder / "run").state))
    go.touch()
    assert user.wfrun("resume", "run").status == 0
    assert ran(path) == {f"0.{task}.1" for task in range(5)}
    assert user.wfrun("resume", "run", "--no-history").status == 0
    assert len(ran(path)) == 5


def ran(path: Path) -> set[str]:
    """The attempts that a history has, without the id of the run. Each is there once."""
    with closing(sqlite3.connect(path)) as db:
        bodies = db.execute("SELECT observations FROM classes").fetchall()
    keys = [row[2].partition(".")[2] for (body,) in bodies for row in json.loads(body)]
    assert len(keys) == len(set(keys))
    return set(keys)


def test_what_has_ended_is_added_while_the_run_goes_on(
    file: HistoryFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "WRITE_INTERVAL_S", 0.01)
    core = Core({})
    core.apply_undecided(ev.RunStarted(0.0, "r", Settings("round-robin"), SITES.sites, (), 0))
    latest = core.state.get(Observations)._latest(Job("near", "ann", "nap"))
    latest.append(Observation(1.0, 1.0, "r.0.0.1"))

    async def drive() -> None:
        keeper = asyncio.create_task(history_module.keep_history(file, core.state))
        while not file.path.exists() or not read(file).classes:
            await asyncio.sleep(0.01)
        keeper.cancel()

    asyncio.run(asyncio.wait_for(drive(), 20))
    assert [c.runtimes_s for c in read(file).classes] == [(1.0,)]


# Runs at once


def _add(path: Path, number: int) -> None:
    for n in range(5):
        add_history(HistoryFile(path), harvest([1.0 + number], first=10 * number + n))


def test_runs_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """Eight processes extend one class, from the first moment of the file on."""
    path = tmp_path / "state" / "history.sqlite"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add, args=(path, n)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    (kind,) = read(HistoryFile(path)).classes
    assert sorted(kind.runtimes_s) == [1.0 + n for n in range(8) for _ in range(5)]
