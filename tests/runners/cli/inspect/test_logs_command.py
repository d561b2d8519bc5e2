"""``wfrun logs``: output of any size, its last lines, and output that is being written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

import wfrun
from tests.runners.harness import WFRUN, Engine, Job, User, make_workflow, wait_until
from wfrun.runners.inspect.logs import log_files, log_following
from wfrun.runners.inspect.logs.log_files import LocalFiles, LogPart, tail_start
from wfrun.runners.inspect.logs.log_printer import LogPrinter, TaskNumber
from wfrun.runners.inspect.logs.logs import print_logs
from wfrun.runners.run.directory.run_directory import RunDir

MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], "wb"))
print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""
"""Runs a command; prints its exit status and its peak memory in MB."""


def run_of(user: User, script: str, *options: str) -> Path:
    """A run of one task that has ended; returns the folder of the site."""
    done = user.wfrun(user.write([Job("a", script)]), "--run-dir", "run", *options)
    assert done.status == 0, done.text
    (site,) = (user.folder / "run" / "sites").iterdir()
    return site


def output_of(site: Path) -> Path:
    """The file of the stdout of the only attempt."""
    (path,) = (path for path in (site / "attempts").iterdir() if path.suffix == ".out")
    return path


@pytest.mark.slow
def test_memory_does_not_depend_on_the_size(user: User) -> None:
    site = run_of(user, "echo begun")
    with output_of(site).open("ab") as stream:
        stream.truncate(300 << 20)  # sparse
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nthe end\n")
    size = output_of(site).stat().st_size
    printed = user.folder / "printed"
    argv = [sys.executable, "-c", MEASURED, os.devnull, str(WFRUN), "logs", "run", "a"]
    said = subprocess.run(argv, check=True, cwd=user.folder, capture_output=True, timeout=100)
    status, peak_mb = map(int, said.stdout.split())
    assert status == 0
    assert peak_mb < 150
    argv[3] = str(printed)
    subprocess.run([*argv, "--tail", "1"], check=True, cwd=user.folder, timeout=100)
    first, *rest = printed.read_text().splitlines()
    assert first.endswith(f": stdout, without the first {size - 8:,} of {size:,} bytes")
    assert rest[0] == "the end"


@pytest.mark.slow
def test_tail(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = "seq 1000; seq 5 >&2; printf end >&2"
    run = RunDir(tmp_path / "run")
    assert wfrun.run(make_workflow([Job("a", script)]), run_dir=run.path).outcome == "done"

    def printed(tail: int | None) -> list[str]:
        print_logs(run, "a", tail=tail)
        return capfd.readouterr().out.splitlines()

    lines = printed(3)
    assert [line for line in lines if line[:3] != "---"] == ["998", "999", "1000", "4", "5", "end"]
    assert ": stdout, without the first 3,880 of 3,893 bytes" in lines[0]
    assert all(line.startswith("---") for line in printed(0))
    assert printed(5000) == printed(None)
    assert not any("without" in line for line in printed(None))


def test_a_log_that_was_cut_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A pack that is shorter than the record of the attempt says."""
    run = RunDir(tmp_path / "run")
    workflow = make_workflow([Job("a", "seq 1000")])
    assert wfrun.run(workflow, run_dir=run.path, pack_logs=True).outcome == "done"
    (pack,) = (run.path / "sites" / "local" / "logs").iterdir()
    os.truncate(pack, 200)
    for tail in (None, 3):
        print_logs(run, "a", tail=tail)
        assert "its output cannot be read" in capfd.readouterr().out


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1000])
async def test_the_start_of_the_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(log_files, "CHUNK_BYTES", chunk)
    files = LocalFiles(tmp_path)
    for text in (
        b"",
        b"\n",
        b"a",
        b"a\n",
        b"\n\n\n",
        b"a\nbb\n\nccc",
        b"a\nbb\n\nccc\n",
        b"aaaa\n",
    ):
        (tmp_path / "log").write_bytes(b"before" + text + b"after")
        part = LogPart("log", len("before"), len(text))
        lines = text.splitlines(keepends=True)
        for count in range(5):
            start = await tail_start(files, part, len(text), count)
            assert text[start:] == b"".join(lines[max(0, len(lines) - count) :]), (text, count)


@pytest.mark.parametrize("options", [[], ["--pack-logs"]], ids=["files", "packed"])
def test_following_a_task_to_its_end(user: User, options: list[str]) -> None:
    go = user.folder / "go"
    script = f"echo one; echo err >&2; while [ ! -e {go} ]; do sleep 0.02; done; printf 'two\\n3'"
    engine = user.start(user.write([Job("a", script)]), "--run-dir", "run", *options)
    assert wait_until(lambda: prints(user))
    follower = user.start("logs", "run", "a", "--follow")
    assert wait_until(lambda: "one\n" in printed(follower) and "err\n" in printed(follower))
    go.touch()
    done = follower.done()
    assert done.status == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert [line for line in lines if line[:3] != "---"] == ["one", "err", "two", "3"]
    assert "(done, " in lines[-1]
    assert engine.done().status == 0


def test_following_a_task_whose_output_is_cut(user: User) -> None:
    go = user.folder / "go"
    script = f"seq 2400; while [ ! -e {go} ]; do sleep 0.02; done; seq 100000; echo the end"
    document = user.write([Job("a", script)])
    engine = user.start(document, "--run-dir", "run", "--max-log", "8 kB")
    assert wait_until(lambda: prints(user))
    follower = user.start("logs", "run", "a", "--follow")
    assert wait_until(lambda: "2400\n" in printed(follower))
    go.touch()
    assert engine.done().status == 0
    done = follower.done()
    assert done.status == 0
    assert "stdout was cut meanwhile, by --max-log; what follows is new" in done.out
    whole = user.wfrun("logs", "run", "a")
    assert "bytes are left out here, by --max-log ---\n" in whole.out
    assert "\n1\n2\n3\n" in whole.out
    assert "\n99999\n100000\nthe end\n" in whole.out
    assert len(whole.out) < 9000
    resumed = user.wfrun("run", document, "--run-dir", "other", "--max-log", "1 kB")
    assert resumed.status == 2
    assert "--max-log is 1000, but must be at least 4096" in resumed.err
    assert user.wfrun("run", document, "--max-log", "8 k").status == 2


@pytest.mark.slow
def test_following_a_task_that_waits_and_one_that_has_ended(user: User) -> None:
    go = user.folder / "go"
    first = Job("a", f"echo; while [ ! -e {go} ]; do sleep 0.02; done")
    second = Job("b", "echo hello; exit 3", parents=["a"])
    engine = user.start(user.write([first, second]), "--run-dir", "run", "--retries", "0")
    assert wait_until(lambda: prints(user))
    follower = user.start("logs", "run", "b", "-f")
    assert wait_until(lambda: "task b has not been dispatched yet" in printed(follower))
    go.touch()
    done = follower.done()
    assert "hello\n" in done.out
    assert "exit code 3" in done.out.splitlines()[-1]
    assert engine.done().status == 1
    again = user.wfrun("logs", "run", "b", "-f")
    assert again.status == 0
    assert again.out.count("hello\n") == 1


def test_following_a_task_that_ends_between_two_looks(
    user: User, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It has no attempt when its log is first looked at, and has ended when its state is."""
    go = user.folder / "go"
    first = Job("a", f"echo; while [ ! -e {go} ]; do sleep 0.02; done")
    second = Job("b", "echo hello; exit 3", parents=["a"])
    engine = user.start(user.write([first, second]), "--run-dir", "run", "--retries", "0")
    assert wait_until(lambda: prints(user))
    has_settled = log_following._have_settled

    def look_late(printer: LogPrinter, wanted: Collection[TaskNumber]) -> bool:
        go.touch()
        assert engine.done().status == 1
        return has_settled(printer, wanted)

    monkeypatch.setattr(log_following, "_have_settled", look_late)
    print_logs(RunDir(user.folder / "run"), "b", follow=True)
    shown = capfd.readouterr().out
    assert shown.count("hello\n") == 1
    assert "exit code 3" in shown.splitlines()[-1]


def test_following_ends_with_ctrl_c_and_without_an_engine(user: User) -> None:
    go = user.folder / "go"
    job = Job("a", f"echo one; while [ ! -e {go} ]; do sleep 0.02; done")
    engine = user.start(user.write([job]), "--run-dir", "run")
    assert wait_until(lambda: prints(user))
    followers = [user.start("logs", "run", "a", "-f") for _ in range(2)]
    for follower in followers:
        assert wait_until(lambda follower=follower: "one\n" in printed(follower))  # type: ignore[misc]
    followers[0].signal(signal.SIGINT)
    interrupted = followers[0].done()
    assert (interrupted.status, interrupted.err) == (130, "")
    engine.kill()
    left = followers[1].done()
    assert left.status == 0
    assert "no process drives run" in left.err
    go.touch()


def test_a_log_that_is_no_file(user: User) -> None:
    """A pipe in its place must not block the reader."""
    site = run_of(user, "echo x")
    path = output_of(site)
    path.unlink()
    os.mkfifo(path)
    done = user.wfrun("logs", "run", "a")
    assert done.status == 0
    assert "x\n" not in done.out


def prints(user: User) -> bool:
    """Whether the task of the run has printed something."""
    return any(p.stat().st_size for p in user.folder.glob("run/sites/local/attempts/*.out"))


def printed(engine: Engine) -> str:
    """What a command has printed so far."""
    return engine.out.read_text()
