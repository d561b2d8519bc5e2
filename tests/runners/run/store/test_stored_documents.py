"""Large workflows are stored in parts, and read as they were written, in whole or part by part."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.runners.harness import Job, make_workflow
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.settings import Settings
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store import event_store as store
from wfrun.runners.run.store import stored_documents
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import FILE_NAME, Store
from wfrun.runners.run.store.stored_documents import StoredSequence
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform

TASKS = 1000
PARTS = 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MIN_TASKS", TASKS)
    monkeypatch.setattr(stored_documents, "PART_LENGTH", TASKS // PARTS)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The digests of the parts that are read."""
    found: list[str] = []
    read = Store._part

    def noted(self: Store, digest: str) -> bytes:
        found.append(digest)
        return read(self, digest)

    monkeypatch.setattr(Store, "_part", noted)
    return found


def chain(tasks: int) -> Workflow:
    """Each task reads what the one before it writes."""
    jobs = [
        Job(f"t{n}", "true", inputs=(f"f{n - 1}",) if n else (), outputs=(f"f{n}",))
        for n in range(tasks)
    ]
    workflow = make_workflow(jobs)
    timed = [msgspec.structs.replace(task, runtime_s=1.0) for task in workflow.tasks]
    return msgspec.structs.replace(workflow, tasks=timed)


def stored(folder: Path, workflow: Workflow) -> Store:
    log = Store(folder, create=True)
    log.put_workflows([workflow])
    return log


def parts_of(folder: Path) -> int:
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if "document_parts" not in names:
            return 0
        return int(db.execute("SELECT count(*) FROM document_parts").fetchone()[0])


@pytest.mark.parametrize("tasks", [TASKS - 1, TASKS, TASKS + 1])
def test_what_is_read_is_what_was_written(tmp_path: Path, tasks: int) -> None:
    workflow = chain(tasks)
    log = stored(tmp_path, workflow)
    (whole,), (lazy,) = log.workflows().values(), log.workflows(lazily=True).values()
    log.close()
    assert (parts_of(tmp_path) > 0) == (tasks >= TASKS)
    assert whole == workflow
    assert isinstance(lazy.tasks, StoredSequence) == (tasks >= TASKS)
    assert list(lazy.tasks) == workflow.tasks
    assert list(lazy.files) == workflow.files
    assert list(lazy.parents) == workflow.parents
    assert lazy.children() == workflow.children()
    assert [lazy.tasks[0], lazy.tasks[-1], *lazy.tasks[98:102]] == [
        workflow.tasks[0], workflow.tasks[-1], *workflow.tasks[98:102],
    ]  # fmt: skip
    with pytest.raises(IndexError):
        lazy.tasks[tasks]


def test_a_part_is_read_when_it_is_needed(tmp_path: Path, reads: list[str]) -> None:
    log = stored(tmp_path, chain(TASKS))
    (lazy,) = log.workflows(lazily=True).values()
    log.close()
    assert (len(lazy.tasks), len(lazy.files), len(lazy.parents)) == (TASKS, TASKS, TASKS)
    assert not reads
    assert [lazy.tasks[n].id for n in (250, 251, 299)] == ["t250", "t251", "t299"]
    assert len(reads) == 1


def test_a_reader_of_all_tasks_keeps_few(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_documents, "MAX_PARTS", 2)
    log = stored(tmp_path, chain(TASKS))
    (lazy,) = log.workflows(lazily=True).values()
    log.close()
    assert [lazy.tasks[n].id for n in range(TASKS)] == [f"t{n}" for n in range(TASKS)]
    assert len(reads) == PARTS
    assert isinstance(lazy.tasks, StoredSequence)
    assert list(lazy.tasks._parts) == [PARTS - 2, PARTS - 1]


def test_the_state_of_a_run_needs_no_tasks(tmp_path: Path, reads: list[str]) -> None:
    """It comes from the last checkpoint."""
    run = tmp_path / "run"
    platform = Platform(Catalog((SiteSpec("a", 4),), ()))
    simulate_into(run, [chain(TASKS)], platform, Settings("round-robin"))
    state = read_state(RunDir(run))
    summary(state, driven=False)
    assert (state.ended, state.done) == ("done", TASKS)
    assert not reads
    (w,) = state.workflows
    assert w.children[499] == (500,)
    assert len(reads) == 1


def test_without_a_checkpoint_all_is_read(tmp_path: Path, reads: list[str]) -> None:
    run = tmp_path / "run"
    platform = Platform(Catalog((SiteSpec("a", 4),), ()))
    simulate_into(run, [chain(TASKS)], platform, Settings("round-robin"))
    with closing(sqlite3.connect(run / FILE_NAME)) as db, db:
        db.execute("DELETE FROM checkpoints")
    assert read_state(RunDir(run)).done == TASKS
    assert len(reads) == 3 * PARTS  # the children are computed


@pytest.mark.parametrize(
    "statement",
    ["UPDATE document_parts SET body = zeroblob(100)", "DELETE FROM document_parts",
     "DROP TABLE document_parts", "UPDATE document_parts SET body = 7"],
)  # fmt: skip
def test_damaged_parts_are_refused(tmp_path: Path, statement: str) -> None:
    stored(tmp_path, chain(TASKS)).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as db, db:
        db.execute(statement)
    log = Store(tmp_path)
    with pytest.raises(InvalidError, match=r"damaged|cannot be read"):
        log.workflows()
    (lazy,) = log.workflows(lazily=True).values()
    log.close()
    with pytest.raises(InvalidError, match=r"damaged|cannot be read"):
        lazy.tasks[0]


def test_equal_documents_are_stored_once(tmp_path: Path) -> None:
    log = Store(tmp_path, create=True)
    first, second = log.put_workflows([chain(TASKS), chain(TASKS)])
    assert first == second
    assert len(log.workflows()) == 1
    log.close()
