"""Edited workflows and changed catalogs over real clusters."""

from __future__ import annotations

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import Done, Job
from tests.testbed import faults
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

pytestmark = pytest.mark.slow


def pairs(grid: Grid, edited: str = "") -> None:
    """Four chains p0 → q0 and so on, over the sites in turn; the second tasks may be edited."""
    grid.jobs = []
    for n in range(4):
        noted = f"echo begin:{{}}{n}:x >> {grid.record}"
        grid.jobs += [
            Job(f"p{n}", f"{noted.format('p')}; echo {n} > p{n}", [], [f"p{n}"]),
            Job(f"q{n}", f"{noted.format('q')}; cat p{n}; cat p{n} > q{n} {edited}",
                [f"p{n}"], [f"q{n}"], [f"q{n}"]),
        ]  # fmt: skip


def ran(grid: Grid) -> list[str]:
    """The tasks that have begun since the last call, sorted."""
    begun = sorted(grid.begun())
    grid.record.write_text("")
    return begun


def do(grid: Grid, name: str, sites: tuple[str, ...], *words: str) -> Done:
    """Run the workflow to its end as the run ``name``."""
    catalog = grid.catalog(*sites)
    document = grid.user.write(grid.jobs)
    engine = grid.user.start(
        document, "--sites", catalog, "--policy", "round-robin", "--run-dir", name, *words
    )
    return engine.done()


def test_files_that_were_kept_at_sites(grid: Grid) -> None:
    """They are linked within their sites, and not at a site that left the catalog."""
    pairs(grid)
    first = do(grid, "one", ("alpha", "delta"), "--keep", "all")
    assert first.status == 0, first.text
    state = read_state(RunDir(grid.user.folder / "one"))
    at = {name: {n for n in range(4) if state.workflows[0].present[2 * n] >> site & 1}
          for site, name in enumerate(("alpha", "delta"))}  # fmt: skip
    assert at["alpha"]
    assert at["delta"]
    assert len(ran(grid)) == 8
    pairs(grid, edited="# edited")
    done = do(grid, "two", ("alpha", "delta"), "--reuse", "one", "--keep", "all")
    assert done.status == 0, done.text
    assert "4 of 8 reused" in done.out
    assert ran(grid) == ["q0", "q1", "q2", "q3"]
    assert [(grid.user.folder / f"two/outputs/q{n}").read_text() for n in range(4)] == [
        f"{n}\n" for n in range(4)
    ]
    pairs(grid, edited="# again")
    done = do(grid, "three", ("alpha",), "--reuse", "two")
    assert done.status == 0, done.text
    again = [f"p{n}" for n in range(4) if n not in at["alpha"]]
    assert ran(grid) == [*again, "q0", "q1", "q2", "q3"]


def test_files_that_were_removed_at_a_site(grid: Grid) -> None:
    """The site is asked when the run starts: what it does not have is made again."""
    pairs(grid)
    assert do(grid, "one", ("delta",), "--keep", "all").status == 0
    ran(grid)
    scratch = grid.testbed.layout.site("delta").home / "scratch"
    name = read_state(RunDir(grid.user.folder / "one")).site_directory
    (kept,) = scratch.glob(f"{name}/files/*-p1")
    kept.unlink()
    pairs(grid, edited="# edited")
    done = do(grid, "two", ("delta",), "--reuse", "one")
    assert done.status == 0, done.text
    assert ran(grid) == ["p1", "q0", "q1", "q2", "q3"]


def test_a_cluster_that_left_and_does_not_answer(grid: Grid) -> None:
    """What it has is lost, and the run ends at another site without waiting for it."""
    go = grid.record.with_name(f"{grid.record.name}-go")
    wait = f"while ! [ -e {go} ]; do sleep 0.2; done"
    grid.jobs = [
        Job(f"t{n}", f"echo begin:t{n}:x >> {grid.record}; {wait}; echo {n} > t{n}",
            [], [f"t{n}"], [f"t{n}"])
        for n in range(4)
    ]  # fmt: skip
    engine = grid.start(grid.catalog("delta"), held="none")
    grid.wait_begun(engine, 2)
    engine.kill()
    faults.stop(grid.testbed, "delta.sshd")
    go.touch()
    engine = grid.user.start("resume", grid.run, "--sites", grid.catalog("alpha"))
    done = engine.done()
    assert done.status == 0, done.text
    assert "site delta left the catalog and cannot be reached" in done.err
    assert "4 attempts there count as lost" in done.err
    assert ran(grid) == ["t0", "t0", "t1", "t1", "t2", "t3"]
    state = read_state(RunDir(grid.run))
    assert (state.left_sites, [site.done for site in state.sites]) == ((0,), [0, 4])
