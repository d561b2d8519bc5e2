"""Runs that an earlier version of wfrun left behind: ``wfrun resume`` goes on with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.engine.core.old_logs import read
from tests.runners.harness import User, lines_of
from tests.runners.stored_log import store_log
from wfrun.engine import events as ev
from wfrun.engine.core.state import TaskStatus
from wfrun.engine.model import Workflow
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.files.stored_names import stored_name
from wfrun.runners.run.store.checkpoints import read_state


def restore(user: User, kind: str) -> tuple[RunDir, list[Workflow]]:
    """Make the run directory that a log tells of: the log, the documents, and the files of its
    sites. Everything that was under way is gone."""
    events, documents = read(kind, str(user.folder))
    run = RunDir(user.folder / "run")
    store_log(run.path, events, documents)
    workflows = [documents[e.digest] for e in events if isinstance(e, ev.WorkflowAdded)]
    for workflow, file, site, size in stored_files(events, workflows):
        folder = run.path / "sites" / site / "files"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / stored_name(workflows[workflow], workflow, file)).write_bytes(b"x" * size)
    return run, workflows


def stored_files(
    events: Sequence[ev.AnyEvent], workflows: Sequence[Workflow]
) -> Iterator[tuple[int, int, str, int]]:
    """Workflow, file, site and bytes of each file that was at a site at the end of a log."""
    started = events[0]
    assert isinstance(started, ev.RunStarted)
    sites = [spec.name for spec in started.sites]
    placed = {e.key: e for e in events if isinstance(e, ev.AttemptPlaced)}
    for event in events:
        if isinstance(event, ev.TransferEnded) and event.destination >= 0:
            yield event.workflow, event.file, sites[event.destination], event.size_bytes
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            where = placed[event.key]
            outputs = workflows[where.workflow].tasks[where.task].outputs
            for file, size in zip(outputs, event.outcome.sizes, strict=True):
                yield where.workflow, file, sites[where.site], size or 0


def line_of(workflow: Workflow, task: int) -> str:
    """What the task appends to the record when it has done its work."""
    return workflow.tasks[task].id if workflow.bag is None else f"{workflow.name}-{task + 1}"


@pytest.mark.cases
@pytest.mark.parametrize(
    ("kind", "stood"),
    [
        ("workflow-killed", "interrupted: 4/17 tasks done"),
        ("bag-killed", "interrupted: 3/60 tasks done"),
        ("bags-with-history", "interrupted: 3/90 tasks done"),
        ("cancelled", "cancelled: 7/12 tasks done"),
        ("failed", "failed: 5/8 tasks done"),
    ],
)
def test_it_is_resumed(user: User, kind: str, stood: str) -> None:
    """To its end; what was done is not run again, all else is run once."""
    run, workflows = restore(user, kind)
    (user.folder / "go").touch()
    (user.folder / "mended").touch()
    assert stood in user.ask("status", run.path).out
    before = read_state(run)
    left = sorted(
        line_of(workflow, task)
        for w, workflow in zip(before.workflows, workflows, strict=True)
        for task, status in enumerate(w.status)
        if status != TaskStatus.DONE
    )
    assert len(left) == before.tasks - before.done
    done = user.wfrun("resume", run.path)
    assert done.status == 0, done.text
    assert f"done: {before.tasks}/{before.tasks} tasks done" in done.out
    assert sorted(lines_of(user.folder / "record")) == left
    assert user.is_alone()
