"""A file that vanishes at its site before it is copied is made again."""

from __future__ import annotations

from tests.runners.harness import Job, User, lines_of
from wfrun import Resources

SITES = "sites:\n  alpha: {slots: 1, memory: 1 GB}\n  beta: {slots: 1, memory: 2 GB}\n"


def test_the_task_that_wrote_it_runs_again(user: User) -> None:
    """The last task fits only the site where the others do not run, so its input is copied."""
    record, run = user.folder / "record", user.folder / "run"
    large = Resources(memory_bytes=1_500_000_000)
    steal = f"[ -e {run}/stolen ] || rm {run}/sites/*/files/*-middle; touch {run}/stolen"
    jobs = [
        Job("make", f"echo make >> {record}; echo made > middle", [], ["middle"]),
        Job("thief", steal, parents=["make"]),
        Job("use", "cat middle > out", ["middle"], ["out"], ["out"], large, ["thief"]),
    ]
    words = ("--sites", user.catalog(SITES), "-p", "round-robin", "--retry-delay", "0.01")
    done = user.wfrun("run", user.write(jobs), "--run-dir", run, *words)
    assert done.status == 0, done.text
    assert (run / "outputs" / "out").read_text() == "made\n"
    assert lines_of(record) == ["make", "make"]
    assert (run / "stolen").exists()
