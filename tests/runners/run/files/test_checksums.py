"""With ``--checksums`` a resume finds files whose contents have changed, and not their sizes."""

from __future__ import annotations

from pathlib import Path

from tests.runners.harness import Job, User, lines_of, wait_until
from wfrun.engine.core.state import WorkflowState
from wfrun.engine.model import ORIGIN
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.sites.node.tasks.digests import digest_of_bytes


def damage(path: Path) -> None:
    """Replace a file by one of the same size; who has it open reads what it was."""
    size_bytes = path.stat().st_size
    path.unlink()
    path.write_bytes(bytes(size_bytes))


def test_what_has_changed_is_fetched_or_made_again(user: User) -> None:
    record, run, go = user.folder / "record", user.folder / "run", user.folder / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.05; done"
    jobs = [
        Job("a", f"echo a >> {record}; mkdir a; echo from a > a/member", [], ["a"], ["a"]),
        Job("b", f"echo b >> {record}; cat a/member > b; echo b > b2", ["a"], ["b", "b2"], ["b2"]),
        Job("c", f"echo c >> {record}; {wait}; cat b > c", ["b"], ["c"], ["c"]),
    ]
    engine = user.start(user.write(jobs), "--run-dir", run, "--checksums", "all")
    outputs = run / "outputs"
    assert wait_until(lambda: len(lines_of(record)) == 3 or engine.ended), engine.told
    assert wait_until(lambda: (outputs / "a").exists() and (outputs / "b2").exists())
    assert wait_until(lambda: _collected(run) == {"a", "b2"})
    engine.kill()
    (stored,) = run.glob("sites/*/files/*-b")
    damage(stored)
    damage(outputs / "a" / "member")
    go.touch()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    assert (outputs / "a" / "member").read_text() == "from a\n"
    assert (outputs / "c").read_text() == "from a\n"
    assert lines_of(record)[3:].count("b") == 1
    assert "a" not in lines_of(record)[3:]
    w = _workflow(run)
    digests = {w.workflow.files[file].name: digest for file, digest in w.digests.items()}
    assert set(digests) == {"a", "b", "b2", "c"}
    assert digests["b2"] == digest_of_bytes(b"b\n")


def _workflow(run: Path) -> WorkflowState:
    return read_state(RunDir(run)).workflows[0]


def _collected(run: Path) -> set[str]:
    """Outputs that the log says are in ``outputs/``."""
    state = read_state(RunDir(run))
    (w,) = state.workflows
    origin = state.network.bit(ORIGIN)
    return {w.workflow.files[n].name for n, places in enumerate(w.present) if places & origin}
