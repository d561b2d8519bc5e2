"""Files leave the sites of a real run while it goes on, and ``--keep`` says which ones stay."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tests.runners.harness import Job, User, lines_of, wait_until
from wfrun.engine.capabilities.storing.cleanup import BATCH_BYTES
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

SIZE = BATCH_BYTES + 1


def chain(record: Path) -> list[Job]:
    """a → b → c; c waits for a file that the test makes."""
    go = record.with_name("go")
    fill = f"truncate -s {SIZE}"
    return [
        Job("a", f"echo a >> {record}; {fill} a", [], ["a"], []),
        Job("b", f"echo b >> {record}; cp a b", ["a"], ["b"], []),
        Job(
            "c",
            f"echo c >> {record}; while ! [ -e {go} ]; do sleep 0.1; done; wc -c < b > c",
            ["b"],
            ["c"],
            ["c"],
        ),
    ]


def stored(run: Path) -> list[str]:
    """The last parts of the names of files at the sites."""
    return sorted(path.name.split("-")[-1] for path in run.glob("sites/*/files/*"))


@pytest.mark.parametrize("keep", ["outputs", "all"])
def test_files_leave_while_the_run_goes_on(user: User, keep: str) -> None:
    record, run = user.folder / "record", user.folder / "run"
    engine = user.start(
        user.write(chain(record)), "--run-dir", run, "--checksums", "off", "--keep", keep
    )
    assert wait_until(lambda: len(lines_of(record)) == 3)
    if keep == "outputs":
        assert wait_until(lambda: stored(run) == ["b"])
    (user.folder / "go").touch()
    assert engine.done().status == 0
    assert stored(run) == ([] if keep == "outputs" else ["a", "b", "c"])
    assert int((run / "outputs" / "c").read_text()) == SIZE


def test_a_removed_file_is_made_again_after_a_crash(user: User) -> None:
    """The file of b vanishes when the run itself has removed that of a."""
    record, run = user.folder / "record", user.folder / "run"
    engine = user.start(user.write(chain(record)), "--run-dir", run, "--checksums", "off")
    assert wait_until(lambda: len(lines_of(record)) == 3)
    assert wait_until(lambda: stored(run) == ["b"])
    engine.kill()
    next(run.glob("sites/*/files/*-b")).unlink()
    (user.folder / "go").touch()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    assert lines_of(record)[3:5] == ["a", "b"]
    assert int((run / "outputs" / "c").read_text()) == SIZE


def test_files_of_failed_attempts_stay(user: User) -> None:
    """b fails once; its sandbox and its input stay after the run is done."""
    once = user.folder / "once"
    jobs = [
        Job("a", f"truncate -s {SIZE} a", [], ["a"], []),
        Job("b", f"[ -e {once} ] || {{ touch {once}; exit 1; }}; cp a b", ["a"], ["b"], []),
        Job("c", "wc -c < b > c", ["b"], ["c"], ["c"]),
    ]
    run = user.folder / "run"
    words = ("--run-dir", run, "--checksums", "off", "--keep", "failed", "--retry-delay", "0")
    done = user.wfrun(user.write(jobs), *words)
    assert done.status == 0, done.text
    assert stored(run) == ["a"]
    (sandbox,) = [p for p in run.glob("sites/*/attempts/*") if p.is_dir()]
    assert (sandbox / "a").stat().st_size == SIZE


@pytest.mark.slow
def test_kills_at_any_moment_leave_no_task_without_its_input(user: User) -> None:
    """The engine is killed at moments around removals; each resume goes on, and nothing fails."""
    count, run, random = 12, user.folder / "run", Random(15)
    jobs = [Job("t0", f"truncate -s {SIZE} f0", [], ["f0"], [])]
    jobs += [
        Job(f"t{n}", f"cp f{n - 1} f{n}", [f"f{n - 1}"], [f"f{n}"], ["f11"])
        for n in range(1, count)
    ]
    engine = user.start(user.write(jobs), "--run-dir", run, "--retries", "0", "--checksums", "off")
    for _ in range(8):
        before = stored(run)
        wait_until(lambda: stored(run) != before or engine.ended)  # noqa: B023
        time.sleep(random.choice([0, 0.001, 0.01, 0.05]))  # another moment each time
        engine.kill()
        engine = user.start("resume", run)
    done = engine.done()
    assert done.status == 0, done.text
    assert (run / "outputs" / "f11").stat().st_size == SIZE
    assert stored(run) == []
    assert not any(site.failed for site in read_state(RunDir(run)).sites)
