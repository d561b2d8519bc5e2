"""Files that vanish at clusters, one by one or with all that a run has there, are made again."""

from __future__ import annotations

import shutil
import signal
from typing import Any

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import Job, lines_of
from wfrun.engine import events as ev

pytestmark = pytest.mark.slow

LAUNCHERS = {"dispatch": "launchers", "launchers": {"nodes": 1, "walltime": "5 min"}}


def jobs(grid: Grid, thief: str) -> list[Job]:
    """make → thief → use. They run at one site, so nothing is copied between them."""
    (grid.user.folder / "given").write_text("given\n")
    return [
        Job("make", f"echo make >> {grid.record}; cat given > middle", ["given"], ["middle"]),
        Job("thief", thief, parents=["make"]),
        Job("use", "cat given middle > out", ["given", "middle"], ["out"], ["out"],
            parents=["thief"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("site", "change"), [("delta", {}), ("alpha", {}), ("alpha", LAUNCHERS)],
    ids=["ssh", "jobs", "launchers"],
)  # fmt: skip
def test_files_that_vanish_where_they_are_read(
    grid: Grid, site: str, change: dict[str, Any]
) -> None:
    """The output of a task, and an input of the workflow."""
    steal = (
        f"grep -q stolen {grid.record} || "
        f"{{ rm ../../files/*-middle ../../files/*-given; echo stolen >> {grid.record}; }}"
    )
    catalog = grid.catalog(site, changes={site: change})
    words = ("--retries", "0", "--retry-delay", "0.1", "--run-dir", grid.run)
    done = grid.user.wfrun("run", grid.user.write(jobs(grid, steal)), "--sites", catalog, *words)
    assert done.status == 0, done.text
    assert (grid.run / "outputs" / "out").read_text() == "given\n" * 2
    assert lines_of(grid.record) == ["make", "stolen", "make"]
    assert [len(e.files) for e in grid.events() if isinstance(e, ev.FilesLost)] == [2]


def test_a_resume_after_the_purge_of_a_site(grid: Grid) -> None:
    """All that a cancelled run has at its site is gone."""
    wait = f"echo thief >> {grid.record}; sleep 1000"
    grid.jobs = jobs(grid, f"[ $(grep -c thief {grid.record}) -gt 0 ] || {{ {wait}; }}")
    engine = grid.start(grid.catalog("delta"), held="none")
    grid.wait(engine, lambda: "thief" in lines_of(grid.record))
    engine.signal(signal.SIGINT)
    grid.wait(engine, lambda: "interrupted" in engine.told or "Ctrl-C" in engine.told)
    engine.signal(signal.SIGINT)
    assert engine.done().status == 130
    home = grid.testbed.layout.site("delta").home / "scratch" / grid.state().site_directory
    assert home.is_dir()
    shutil.rmtree(home)
    done = grid.resume().done()
    assert done.status == 0, done.text
    assert (grid.run / "outputs" / "out").read_text() == "given\n" * 2
    assert lines_of(grid.record) == ["make", "thief", "make"]
