"""The event store: what is read is what was written, by whom and when it may be read, and what is
refused."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.errors import InvalidError, TransientError
from wfrun.engine.exchange import LauncherRequest, Outcome
from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.runners.run.store import event_store
from wfrun.runners.run.store.event_store import FILE_NAME, Store
from wfrun.runners.run.store.packing import DICTIONARY, packed

SETTINGS = ev.Settings(
    "coarsening", {"size": 3, "share": 0.5, "mode": "x"}, throttle=7, on_failure="stop", seed=-1
)
OUTCOME = Outcome(
    "exit",
    exit_code=3,
    started_s=1.5,
    ended_s=2.25,
    cpu_s=0.1,
    peak_memory_bytes=1 << 40,
    host="h",
    sizes=(1, None, 1 << 50),
    message='quoted "text"\nand \u2028 lines\x00 and \ud7ff',
)
EVENTS: list[ev.AnyEvent] = [
    ev.RunStarted(
        1.0,
        "r1",
        SETTINGS,
        (SiteSpec("a", 2), SiteSpec("b", 3, 1.5, 10, 1, 60.0, "local", "/x", True)),
        (LinkSpec("a", "b", 1e6, 0.01), LinkSpec("origin", "a")),
        2,
    ),
    ev.WorkflowAdded(
        1.0, 0, "montage", "abc", reused=(ev.ReusedTasks("/runs/1", (0, 2), ((3, 10, -1),), (4,)),)
    ),
    ev.SubmissionEnded(1.0),
    ev.ArrivalsPlanned(1.0, (("abc", 0.5), ("def", 3600.0))),
    ev.LinksRead(2.0, "/state/history", (ev.LinkHistory("origin", "alpha", 1e6, None, 12),)),
    ev.HistoryRead(
        1.0, "h.sqlite", (ev.ClassHistory("ann", "dock", 1, "a", (1.5, 2.0)),), {"ann": 3.5}
    ),
    ev.HistoryRead(
        1.0,
        "h.sqlite",
        (
            ev.ClassHistory(
                "ann", "dock", 1, "a", (1.5, 2.0), (9.0, 9.5), (None, 60.0), (1e9, None)
            ),
        ),
        {},
    ),
    ev.RunResumed(2.0),
    ev.AttemptPlaced(2.5, "r1.0.0.1", 0, 0, 1),
    ev.AttemptsSubmitted(2.5, 1, ("r1.0.0.1", "r1.0.1.1")),
    ev.AttemptStarted(2.6, "r1.0.0.1"),
    ev.AttemptEnded(2.7, "r1.0.0.1", OUTCOME),
    ev.AttemptsFound(2.8, 1, ("r1.0.1.1",), ()),
    ev.TransferEnded(3.0, 0, 5, -1, 1, 1 << 41, 0.125),
    ev.TransferFailed(3.1, 0, 5, 1, -1, "no\nroom", True),
    ev.SiteObserved(3.2, 0, (ev.BackgroundJob("17.host", 4, None, 3600.0),)),
    ev.SiteLoadObserved(3.25, 0, 40, 8),
    ev.CoresReserved(3.26, 0, 2, 1),
    ev.ReservationDeclined(3.27, 0, 2, 1),
    ev.SitesDeclined(3.28, 0, (0, 1)),
    ev.SitePaused(3.3, 0, "down"),
    ev.SiteReopened(3.4, 0),
    ev.TimerFired(3.5, "retry:0:1"),
    ev.CancelAsked(3.6, "drain"),
    ev.CopyLate(3.0, 0, 5, 1, -1, 120.5),
    ev.CopyLate(3.0, 0, 5, 1, 0, 120.5, "rsync", "stream"),
    ev.CopyRouted(3.0, 0, 5, 1, 0, "rsync", "stream"),
    ev.StorageAwaited(3.0, 0, 5, (1,)),
    ev.AvoidanceEnded(3.0, ((0, 5), (1, 2))),
    ev.FilesDiscarded(3.0, 1, ((0, 7), (0, 8))),
    ev.FilesLost(3.0, 1, ((0, 7),)),
    ev.FilesRemoved(3.0, 1),
    ev.JobLimitReached(3.0, 1, 200),
    ev.JobLimitLifted(4.0, 1),
    ev.PlacementTried(3.0, (4, 0), 2),
    ev.ClaimsAsked(
        3.0, "r1.C1", 0, 2, (ev.ClaimPart(0, LauncherRequest("r1.C1.0", 1, 4, 0, 0, 60.0)),)
    ),
    ev.ClaimEnded(3.5, "r1.C1", "late", "not all came"),
    ev.GrowthAsked(3.6, "r1.C1", (LauncherRequest("r1.C1.1", 1, 1, 0, 0, 60.0),)),
    ev.GrowthOffered(3.7, "r1.C1", 1, ("r1.C1.1",)),
    ev.ShrinkAsked(3.8, "r1.C1", 2, 1, "local"),
    ev.JobResized(3.9, "r1.0.2.1", 1, ("r1.C1.1",)),
    ev.JobResized(3.9, "r1.0.2.1", 1, (), True, "it says nothing"),
    ev.GrowthReleased(3.9, "r1.C1", ("r1.C1.1",), "given-back"),
    ev.JobsWait(4.0, 1, "Priority"),
    ev.JobsWait(4.0, 1, "JobHeldUser", 3),
    ev.RunChanged(3.0, SETTINGS, (SiteSpec("a", 2),), (LinkSpec("a", "b", 1e6),), (1,)),
    ev.SiteCounted(1e10 / 3, 1, 1, {"sbatch": 2, "squeue": 40}, 0.25),
    ev.AttemptStarted(3.7, "r1.0.2.1", "r1.L1.1"),
    ev.AttemptsKilled(8.0, 0, ("r.0.1.1", "r.0.2.1")),
    ev.JobsReallocated(9.0, (("r.0.1.1", 1),)),
    ev.JobsReallocated(9.0, (("r.0.1.1", 1),), ((99.5, 88.25),)),
    ev.AttemptsWithdrawn(3.8, 1, ("r1.0.2.1",)),
    ev.LaunchersAsked(3.9, 1, (LauncherRequest("r1.L1.1", 2, 16, 1 << 36, 1, 3600.0),)),
    ev.LaunchersSubmitted(4.0, 1, ("r1.L1.1",)),
    ev.LauncherStarted(4.1, 1, "r1.L1.1", "node-7", 32, 1e10 / 3, "tcp", 0.015),
    ev.LauncherDraining(4.2, 1, "r1.L1.1", "its time is nearly over"),
    ev.LaunchersStopped(4.3, 1, ("r1.L1.1",)),
    ev.LaunchersStopped(4.3, 1, ("r1.C1.1",), "local", True),
    ev.ProcessorsShared(4.3, (0, 2), (4, 1), ((2, 0), (0, 0), (2, 1)), ((0, 0), (0, 0), (1, 0))),
    ev.LauncherEnded(4.4, 1, "r1.L1.1", "lost", "its node failed"),
    ev.LoginNeeded(4.4, 1, "a password"),
    ev.LoginDone(4.4, 1),
    ev.NotificationEnded(4.4, "stalled", 1, "exit 3"),
    ev.SiteHeld(4.5, 1),
    ev.SiteFreed(4.6, 1),
    ev.PriorityRaised(4.7, 0, 2),
    ev.PriorityRaised(4.7, 0),
    ev.TaskCancelled(4.8, 0, 2),
    ev.RunEnded(1e10 / 3, "failed", "no site"),
]


def log_of(directory: Path) -> list[ev.AnyEvent]:
    store = Store(directory)
    try:
        return list(store.load())
    finally:
        store.close()


def write(directory: Path, *groups: list[ev.AnyEvent]) -> None:
    store = Store(directory, create=not (directory / FILE_NAME).exists())
    list(store.load())
    for group in groups:
        store.append(group)
        store.commit()
    store.close()


def test_every_type_of_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert {type(event) for event in EVENTS} == set(get_args(ev.AnyEvent))
    write(tmp_path, *([event] for event in EVENTS))
    assert log_of(tmp_path) == EVENTS


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(EVENTS), max_size=5), max_size=8))
def test_groups_keep_their_order(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[ev.AnyEvent]]
) -> None:
    directory = tmp_path_factory.mktemp("store")
    half = len(groups) // 2
    write(directory, *groups[:half])
    write(directory, *groups[half:])  # another engine appends behind
    assert log_of(directory) == [event for group in groups for event in group]


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 2**62))
@settings(max_examples=50, deadline=None)
def test_any_text_and_number_is_kept(
    tmp_path_factory: pytest.TempPathFactory, text: str, number: float, size: int
) -> None:
    directory = tmp_path_factory.mktemp("store")
    events: list[ev.AnyEvent] = [
        ev.TransferFailed(number, 0, 1, 2, 3, text, False),
        ev.TransferEnded(0.0, 0, 1, 2, 3, size, number),
    ]
    write(directory, events)
    assert log_of(directory) == events


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, EVENTS[:3])
    store = Store(tmp_path)
    assert len(list(store.load())) == 3
    store.append(EVENTS[3:5])
    store.close()
    assert log_of(tmp_path) == EVENTS[:3]


def test_a_commit_of_nothing(tmp_path: Path) -> None:
    write(tmp_path, [], EVENTS[:1], [], [])
    assert log_of(tmp_path) == EVENTS[:1]


def test_sequence_numbers_go_on(tmp_path: Path) -> None:
    write(tmp_path, EVENTS[:3], EVENTS[3:4])
    store = Store(tmp_path)
    assert store.next_seq == 0
    list(store.load())
    assert store.next_seq == 4
    store.close()


def test_workflows_are_kept_once_by_digest(tmp_path: Path) -> None:
    workflow = make_workflow([Job("a", "true", (), ["x"]), Job("b", "true", ["x"])])
    other = msgspec.structs.replace(workflow, name="other")
    store = Store(tmp_path, create=True)
    digests = store.put_workflows((workflow, other, workflow))
    assert digests[0] == digests[2] != digests[1]
    store.close()
    store = Store(tmp_path)
    assert store.workflows() == {digests[0]: workflow, digests[1]: other}
    store.close()


@pytest.mark.slow
def test_a_reader_sees_whole_groups_while_a_writer_writes(tmp_path: Path) -> None:
    """Another process appends groups of three; whatever is read ends with a whole one."""
    write(tmp_path, EVENTS[:1])
    program = (
        "import sys; from pathlib import Path; from wfrun.engine import events as ev; "
        "from wfrun.runners.run.store.event_store import Store; store = Store(Path(sys.argv[1])); "
        "list(store.load())\n"
        "for n in range(200):\n"
        "    store.append([ev.TimerFired(float(n), str(i)) for i in range(3)]); store.commit()"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    lengths = []
    while writer.poll() is None:
        log = log_of(tmp_path)
        assert [e.at_s for e in log[1:]] == [float(n // 3) for n in range(len(log) - 1)]
        lengths.append(len(log))
    assert writer.returncode == 0
    assert all(length % 3 == 1 for length in lengths)
    assert lengths == sorted(lengths)
    assert len(log_of(tmp_path)) == 601


def test_a_log_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path, EVENTS[:2])
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("UPDATE events SET version = ?", (ev.SCHEMA_VERSION + 1,))
    db.close()
    with pytest.raises(InvalidError, match="written by a newer wfrun") as caught:
        log_of(tmp_path)
    assert FILE_NAME in str(caught.value)
    assert "upgrade" in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        b"this is not a database, but it is long enough to look like one." * 20,
        b"SQLite format 3\0" + bytes(4096),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)
    with pytest.raises((InvalidError, TransientError)) as caught:
        log_of(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"{", b'{"event":"unheard-of","at_s":1}\n', b'{"at_s":1}', b"\xff"]
)
def test_a_damaged_group_is_refused(tmp_path: Path, body: bytes) -> None:
    write(tmp_path, EVENTS[:2])
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("UPDATE events SET body = ?", (body,))
    db.close()
    with pytest.raises(InvalidError, match="damaged") as caught:
        log_of(tmp_path)
    assert str(tmp_path / FILE_NAME) in str(caught.value)


def test_a_file_without_tables_is_a_log_without_events(tmp_path: Path) -> None:
    """An engine is about to make them."""
    (tmp_path / FILE_NAME).touch()
    store = Store(tmp_path)
    assert not store.has_events()
    assert store.workflows() == {}
    assert list(store.load()) == []
    store.close()


def test_a_damaged_workflow_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, create=True)
    store.put_workflows([make_workflow([Job("a", "true")])])
    store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("UPDATE documents SET body = ?", (b"\x93\x01",))
    db.close()
    store = Store(tmp_path)
    with pytest.raises(InvalidError, match="damaged"):
        store.workflows()
    store.close()


def test_a_folder_without_a_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"is not a run directory: it has no events\.sqlite"):
        Store(tmp_path)


def test_the_journal_works_on_network_file_systems(tmp_path: Path) -> None:
    """No write-ahead log: it wants shared memory."""
    write(tmp_path, EVENTS)
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() != ("wal",)
    db.close()
    assert not list(tmp_path.glob("*-wal")) + list(tmp_path.glob("*-shm"))


# The size of the log


def events_of_a_task(task: int) -> list[ev.Event]:
    """The events of a task that writes nothing, as of a local site."""
    at_s, key = 1.79e9 + 0.01234567 * task, f"r6fef5ee0.0.{task}.1"
    outcome = Outcome(
        "done", exit_code=0, started_s=round(at_s - 2.3, 6), ended_s=round(at_s, 6),
        cpu_s=0.0007 + 1e-6 * (task * 7919 % 300), peak_memory_bytes=14938112, host="node17",
    )  # fmt: skip
    return [
        ev.AttemptPlaced(at_s - 3, key, 0, task, 0),
        ev.AttemptsSubmitted(at_s - 2.9, 0, (key,)),
        ev.AttemptStarted(at_s - 2.2, key),
        ev.AttemptEnded(at_s, key, outcome),
    ]


@pytest.mark.parametrize(("tasks_per_commit", "limit_bytes"), [(1, 150), (4, 100), (25, 90)])
def test_how_much_of_the_log_a_task_takes(
    tmp_path: Path, tasks_per_commit: int, limit_bytes: int
) -> None:
    """Its four events have 530 bytes as JSON."""
    store = Store(tmp_path, create=True)
    store._db.execute("PRAGMA synchronous=OFF")
    empty = store.path.stat().st_size
    tasks = 2000
    for first in range(0, tasks, tasks_per_commit):
        for task in range(first, first + tasks_per_commit):
            store.append(events_of_a_task(task))
        store.commit()
    store.close()
    assert (store.path.stat().st_size - empty) / tasks <= limit_bytes
    assert len(log_of(tmp_path)) == 4 * tasks


def test_a_row_that_unpacks_to_more_than_a_row_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, EVENTS[:1])
    bomb = packed(b" " * 3_000_000)
    assert len(bomb) < 20_000
    with sqlite3.connect(tmp_path / FILE_NAME) as db:
        db.execute("UPDATE events SET body = ?", (bomb,))
    db.close()
    monkeypatch.setattr("wfrun.runners.run.store.event_store.ROW_BYTES", 2_000_000)
    with pytest.raises(InvalidError, match="larger than any event"):
        log_of(tmp_path)


def test_readers_open_a_log_read_only_and_call_no_function_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of another user, which could name functions in its schema."""
    write(tmp_path, EVENTS[:1])
    monkeypatch.setattr(event_store, "_is_ours", lambda _: False)
    store = Store(tmp_path)
    assert store._db.execute("PRAGMA trusted_schema").fetchone() == (0,)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store._db.execute("DELETE FROM events")
    store.close()


def test_the_dictionary_is_that_of_the_logs_that_exist() -> None:
    """It may never change: it would need a version of its own."""
    assert hashlib.sha256(DICTIONARY).hexdigest()[:16] == "7bdd26316f57ed2e"
