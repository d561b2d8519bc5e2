"""A file that vanishes at its site before it is copied is made again."""

from __future__ import annotations

from pathlib import Path

from tests.runners.harness import Job, User, lines_of
from wfrun import Resources

ONE = "sites:\n  alpha: {slots: 1}\n"
SITES = "sites:\n  alpha: {slots: 1, memory: 1 GB}\n  beta: {slots: 1, memory: 2 GB}\n"


def steal(run: Path, name: str) -> str:
    """A script that removes a file from the store of its site, when it runs for the first time."""
    return f"[ -e {run}/stolen ] || rm {run}/sites/*/files/*{name}; touch {run}/stolen"


def test_the_task_that_wrote_it_runs_again(user: User) -> None:
    """The last task fits only the site where the others do not run, so its input is copied."""
    record, run = user.folder / "record", user.folder / "run"
    large = Resources(memory_bytes=1_500_000_000)
    jobs = [
        Job("make", f"echo make >> {record}; echo made > middle", [], ["middle"]),
        Job("thief", steal(run, "-middle"), parents=["make"]),
        Job("use", "cat middle > out", ["middle"], ["out"], ["out"], large, ["thief"]),
    ]
    words = ("--sites", user.catalog(SITES), "-p", "round-robin", "--retry-delay", "0.01")
    done = user.wfrun("run", user.write(jobs), "--run-dir", run, *words)
    assert done.status == 0, done.text
    assert (run / "outputs" / "out").read_text() == "made\n"
    assert lines_of(record) == ["make", "make"]
    assert (run / "stolen").exists()


def test_a_file_that_vanished_where_it_is_read_is_made_again(user: User) -> None:
    """One site: nothing is copied, so only the node finds that the file is gone."""
    record, run = user.folder / "record", user.folder / "run"
    jobs = [
        Job("make", f"echo make >> {record}; echo made > middle", [], ["middle"]),
        Job("thief", steal(run, "-middle"), parents=["make"]),
        Job("use", "cat middle > out", ["middle"], ["out"], ["out"], parents=["thief"]),
    ]
    words = ("--sites", user.catalog(ONE), "--retries", "0", "--retry-delay", "0.01")
    done = user.wfrun("run", user.write(jobs), "--run-dir", run, *words)
    assert done.status == 0, done.text
    assert (run / "outputs" / "out").read_text() == "made\n"
    assert lines_of(record) == ["make", "make"]
    line = "files that vanished: 1 at alpha; 1 task run again for them"
    assert line in done.text
    assert line in user.wfrun("status", run).text


def test_an_input_that_vanished_at_its_site_is_copied_again(user: User) -> None:
    run = user.folder / "run"
    (user.folder / "given").write_text("given\n")
    jobs = [
        Job("first", "cat given > middle", ["given"], ["middle"]),
        Job("thief", steal(run, "-given"), parents=["first"]),
        Job(
            "use",
            "cat given middle > out",
            ["given", "middle"],
            ["out"],
            ["out"],
            parents=["thief"],
        ),
    ]
    words = ("--sites", user.catalog(ONE), "--retries", "0", "--retry-delay", "0.01")
    done = user.wfrun("run", user.write(jobs), "--run-dir", run, *words)
    assert done.status == 0, done.text
    assert (run / "outputs" / "out").read_text() == "given\n" * 2
    assert "files that vanished: 1 at alpha; 0 tasks run again for them" in done.text
