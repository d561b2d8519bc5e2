"""Checkpoints save readers the replay of long logs, and never change what they show."""

from __future__ import annotations

import os
import pickle
import shutil
import sqlite3
import stat
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.capabilities.estimates.predictions import Predictions
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.settings import Settings
from wfrun.runners.run.history.history_file import state_directory
from wfrun.runners.run.store import checkpoints
from wfrun.runners.run.store.checkpoints import CheckpointWriter, read_core
from wfrun.runners.run.store.event_store import FILE_NAME, Store
from wfrun.runners.run.store.frozen import freeze, thaw
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

SITES = Catalog((SiteSpec("a", 20), SiteSpec("b", 30, 1.5)), ())


def two_levels(tasks: int) -> Workflow:
    """Pairs of a task that writes a file and one that reads it."""
    jobs = []
    for number in range(tasks // 2):
        jobs.append(Job(f"w{number}", "true", outputs=(f"f{number}",)))
        jobs.append(Job(f"r{number}", "true", inputs=(f"f{number}",)))
    workflow = make_workflow(jobs)
    timed = [
        msgspec.structs.replace(task, runtime_s=1.0 + number % 7)
        for number, task in enumerate(workflow.tasks)
    ]
    return msgspec.structs.replace(workflow, tasks=timed)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated run of 1,000 tasks, whose log has its last checkpoint."""
    path = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(path.parent / "state"))
        simulate_into(path, [two_levels(1000)], Platform(SITES), Settings("file-aware"))
    return path


@pytest.fixture
def run(logged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of this run, of the same user."""
    shutil.copytree(logged.parent / "state", tmp_path / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "run"
    path.mkdir(0o700)
    (path / FILE_NAME).write_bytes((logged / FILE_NAME).read_bytes())
    return path


def read(run: Path) -> tuple[RunState, int]:
    """The state of a run, and the number of events that were replayed for it."""
    store = Store(run)
    documents = store.workflows()
    found = checkpoints._latest(store, documents)
    store.close()
    store = Store(run)
    try:
        core = read_core(store)
        return core.state, store.next_seq - (0 if found is None else _seq(run))
    finally:
        store.close()


def _seq(run: Path) -> int:
    with sqlite3.connect(run / FILE_NAME) as db:
        return int(db.execute("SELECT max(seq) FROM checkpoints").fetchone()[0])


def change(run: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(run / FILE_NAME) as db:
        db.execute(statement, values)


def shown(state: RunState) -> object:
    """What a state says about tasks, files and sites."""
    (w,) = state.workflows
    return (
        state.ended, state.now_s, list(w.status), list(w.present), list(w.attempts_of), w.staging_s,
        [(s.done, s.phases, s.bytes_in, s.used_core_s) for s in state.sites],
    )  # fmt: skip


def test_a_reader_begins_with_the_last_checkpoint(run: Path) -> None:
    state, replayed = read(run)
    assert state.done == 1000
    assert replayed == 0
    change(run, "DELETE FROM checkpoints")
    whole, replayed = read(run)
    assert replayed > 3000
    assert shown(state) == shown(whole)


def test_a_reader_replays_the_events_after_a_checkpoint(run: Path) -> None:
    whole, _ = read(run)
    change(run, "DELETE FROM checkpoints")
    store = Store(run, write=True)
    events = list(store.load())
    half = len(events) // 2
    core = Core(store.workflows())
    core.replay(events[:half])
    change(run, "DELETE FROM events")
    store.next_seq = 0
    store.append(events[:half])
    store.commit()
    writer = CheckpointWriter(store, core)
    writer._last = 0
    writer.after_commit(last=True)
    store.append(events[half:])
    store.commit()
    store.close()
    state, replayed = read(run)
    assert replayed == len(events) - half
    assert shown(state) == shown(whole)


def test_checkpoints_are_as_far_apart_as_they_have_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "MIN_EVENTS", 200)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
    monkeypatch.setattr(checkpoints, "BYTES_PER_EVENT", 1000)
    monkeypatch.setattr("wfrun.runners.simulate.simulated_run.GROUP_SIZE", 100)
    path = tmp_path / "run"
    simulate_into(path, [two_levels(1000)], Platform(SITES), Settings("file-aware"))
    with sqlite3.connect(path / FILE_NAME) as db:
        found = [seq for (seq,) in db.execute("SELECT seq FROM checkpoints ORDER BY seq")]
    assert len(found) >= 4
    assert all(after - before >= 200 for before, after in pairwise(found))


def test_checkpoints_take_a_share_of_the_time_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event takes 0.1 ms, a checkpoint 0.2 s, which is 4% of the time of 50,000 events."""
    now_s, core = 0.0, Core({"x": two_levels(2)})

    def frozen(frozen_core: Core) -> bytes:
        nonlocal now_s
        now_s += 0.2
        return freeze(frozen_core)

    monkeypatch.setattr(checkpoints, "freeze", frozen)
    store = Store(tmp_path, create=True)
    writer = CheckpointWriter(store, core, lambda: now_s)
    for _ in range(120):
        now_s += 0.1
        store.next_seq += 1000
        writer.after_commit()
    assert [seq for seq, _ in store.checkpoint_sizes()] == [20_000, 70_000, 120_000]
    store.close()


def test_old_checkpoints_go_when_they_take_too_much_room() -> None:
    """They stay spread over the log, and each is there for readers of the past."""
    stored: list[tuple[int, int]] = []
    for events in range(100_000, 4_000_001, 100_000):
        gone = set(checkpoints.surplus_of(stored, events))
        stored = [one for one in stored if one[0] not in gone]
        assert sum(size for _, size in stored) <= checkpoints.BYTES_PER_EVENT * events
        stored.append((events, 2_000_000))
    assert len(stored) == 11
    gaps = [after - before for before, after in pairwise([0, *(seq for seq, _ in stored)])]
    assert max(gaps) <= 1_100_000
    assert stored[-1][0] == 4_000_000


def test_an_engine_goes_on_from_the_last_checkpoint(run: Path) -> None:
    """It replays the events after it alone."""
    asked: list[int] = []
    store = Store(run)
    read_rows = store._rows
    store._rows = lambda last: asked.append(store.next_seq) or read_rows(last)  # type: ignore[method-assign, func-returns-value]
    core = read_core(store)
    assert asked
    assert min(asked) == store.next_seq
    assert core.state.done == 1000
    store.close()


# What is no checkpoint


def _another_code(run: Path) -> None:
    change(run, "UPDATE checkpoints SET wfrun = 'another'")


def _of_later_events(run: Path) -> None:
    """As if the last events of the log had been cut off."""
    change(run, "UPDATE checkpoints SET seq = seq + 1")


def _damaged(run: Path) -> None:
    change(run, "UPDATE checkpoints SET body = zeroblob(length(body))")


def _no_state(run: Path) -> None:
    _put(run, pickle.dumps(42))


def _huge(run: Path) -> None:
    _put(run, bytes(10**6 + 1))


def _short(run: Path) -> None:
    _put(run, zlib.compress(bytes(1000))[:-8], is_compressed=True)


def _of_another_user(run: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser can give files away")
    os.chown(run / FILE_NAME, 12345, 12345)


def _put(run: Path, body: bytes, *, is_compressed: bool = False) -> None:
    change(run, "UPDATE checkpoints SET seq = 5 WHERE seq = 0")
    store = Store(run, write=True)
    store.next_seq = _seq(run)
    sealed = checkpoints.sealed(_seq(run), body if is_compressed else zlib.compress(body))
    assert sealed is not None
    store.put_checkpoint(checkpoints._stamp(), sealed)
    store.close()


@pytest.mark.parametrize(
    "spoil", [_another_code, _of_later_events, _damaged, _no_state, _huge, _short, _of_another_user]
)
def test_what_cannot_be_used_is_passed_over(
    run: Path, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = read(run)
    monkeypatch.setattr(checkpoints, "MAX_BYTES", 10**6)
    spoil(run)
    state, replayed = read(run)
    assert replayed > 3000
    assert shown(state) == shown(whole)


class _Command:
    """Runs a command when it is read by an ordinary unpickler."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self._path}",)


def test_bytes_run_no_code(run: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    _put(run, pickle.dumps(_Command(mark)))
    state, _ = read(run)
    assert state.done == 1000
    assert not mark.exists()
    pickle.loads(pickle.dumps(_Command(mark)))
    assert mark.exists()


STATE_OF_A_CLASS = (
    b"\x80\x04\x8c\x17wfrun.engine.core.state\x8c\x08RunState\x93"  # the class
    b"N}\x8c\x06markedK\x01s\x86b."  # (None, {"marked": 1}), the state of its slots
)


@pytest.mark.parametrize("whose", ["nobody", "another"])
def test_only_what_this_user_has_frozen_is_thawed(
    run: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """A state can be set on a class, which changes all that it does. A log may be a copy of another
    user's, and belongs to this one then."""
    if whose == "another":
        theirs = run.parent / "theirs"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(theirs))
            _put(run, STATE_OF_A_CLASS)
    else:
        monkeypatch.setattr(checkpoints, "sealed", lambda _, content: bytes(32) + content)
        _put(run, STATE_OF_A_CLASS)
    state, replayed = read(run)
    assert state.done == 1000
    assert replayed > 3000
    assert not hasattr(RunState, "marked")


def test_the_key_is_the_users_alone(run: Path) -> None:
    key = state_directory() / checkpoints.KEY_NAME
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert read(run)[1] == 0
    key.chmod(0o644)  # others may have read it
    assert read(run)[1] > 3000
    key.unlink()
    assert read(run)[1] > 3000
    assert not key.exists()  # readers make none


@pytest.mark.parametrize(
    "name",
    [("builtins", "eval"), ("builtins", "getattr"), ("wfrun.engine.core.state", "array.fromfile"),
     ("wfrun.engine.core.core", "Iterable"), ("wfrun.runners.run.store.event_store", "Store"),
     ("os", "system")],
)  # fmt: skip
def test_names_outside_of_states_are_refused(name: tuple[str, str]) -> None:
    module, attribute = (text.encode() for text in name)
    body = b"\x80\x04" + b"\x8c" + bytes([len(module)]) + module
    body += b"\x8c" + bytes([len(attribute)]) + attribute + b"\x93."
    with pytest.raises(pickle.UnpicklingError, match="no part of a state"):
        thaw(body, {})


def test_a_policy_of_the_user_means_no_checkpoint(tmp_path: Path) -> None:
    workflow = two_levels(2)
    core = Core({"x": workflow})
    core.run.state.timers["x"] = _Command(tmp_path)  # type: ignore[assignment]
    store = Store(tmp_path, create=True)
    writer = CheckpointWriter(store, core)
    store.next_seq = 10**6
    writer.after_commit()
    assert list(store.checkpoints(checkpoints._stamp())) == []
    store.close()


def test_a_frozen_state_names_documents_by_their_digests() -> None:
    workflow = two_levels(20_000)
    assert len(freeze(Core({"x": workflow}))) < 10_000


def test_predictions_are_frozen_too() -> None:
    """Also those of ``auto``, with sizes of inputs."""
    sites = (SiteSpec("a", 20),)
    for predictor in ("last2", "auto"):
        core = Core({"x": two_levels(60)})
        settings = Settings("ect-p", predictor=predictor)
        core.step(ev.RunStarted(0, "r", settings, sites, (), 1))
        runtimes_s = tuple(10.0 + n % 5 for n in range(30))
        kind = ev.ClassHistory("", "x", 1, "a", runtimes_s)
        core.step(ev.HistoryRead(0, "h", (kind,), {}))
        core.step(ev.WorkflowAdded(0, 0, "x", "x"))
        thawed = thaw(freeze(core), {"x": two_levels(60)})
        found = [
            one.state.get(Predictions).predict(one.state.workflows[0], 0, 0)
            for one in (core, thawed)
        ]
        assert found[0] is not None
        assert found[0] == found[1]
