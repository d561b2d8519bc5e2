"""Tasks that fail, disks that are full, limits that bind, as a user of the command meets them."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, lines_of, wait_until
from wfrun import Resources

FAST = ("--retry-delay", "0.05")
TWO_SITES = "sites:\n  alpha: {slots: 2}\n  beta: {slots: 2}\n"


# Tasks that fail


def failing(folder: Path, times: int) -> Job:
    """A task that fails so often, and tells each time where it is tried."""
    return Job(
        "flaky",
        f"pwd >> {folder}/tried; echo flaky >> {folder}/record; "
        f"[ $(wc -l < {folder}/tried) -gt {times} ] || {{ echo no luck >&2; exit 7; }}; "
        "echo good > flaky.txt",
        (),
        ["flaky.txt"],
        ["flaky.txt"],
    )


def test_a_task_that_fails_twice_and_then_succeeds(user: User) -> None:
    """It is tried at another site too."""
    sites = user.catalog(TWO_SITES)
    document = user.write([failing(user.folder, 2)])
    done = user.wfrun(document, "--sites", sites, "--run-dir", "run", *FAST)
    assert done.status == 0, done.text
    assert "; 2 failed attempts" in done.out
    places = [Path(line).parts[-3] for line in lines_of(user.folder / "tried")]
    assert len(places) == 3
    assert set(places) == {"alpha", "beta"}
    assert (user.folder / "run/outputs/flaky.txt").read_text() == "good\n"
    logs = user.ask("logs", "run", "flaky").out
    assert logs.count("no luck") == 2
    assert logs.count("(exit, exit code 7, ") == 4  # stdout and stderr of two attempts
    assert logs.count("(done, ") == 2


def test_a_task_that_fails_too_often(user: User) -> None:
    """What does not depend on it runs; the summary shows the end of its stderr; resume gives it
    all its retries again."""
    record = user.folder / "record"
    document = user.write(
        [
            failing(user.folder, 4),
            Job("after", f"cat flaky.txt; echo after >> {record}", ["flaky.txt"]),
            Job("last", f"echo last >> {record}", parents=["after"]),
            Job("other", f"echo other >> {record}"),
        ]
    )
    done = user.wfrun(document, "--run-dir", "run", "--retries", "2", *FAST)
    assert done.status == 1
    assert "failed: 1/4 tasks done, 1 failed, 2 blocked in " in done.out
    assert "; 3 failed attempts" in done.out
    assert "no luck" in done.out
    assert "flaky" in done.out
    assert "to continue: wfrun resume run" in done.out
    assert Counter(lines_of(record)) == {"flaky": 3, "other": 1}
    assert "task last is blocked, because a task that it depends on has failed" in (
        user.ask("logs", "run", "last").out
    )
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    assert Counter(lines_of(record)) == {"flaky": 5, "other": 1, "after": 1, "last": 1}


def test_stop_after_a_failure(user: User) -> None:
    record = user.folder / "record"
    slow = f"while [ ! -e {user.folder}/go ]; do sleep 0.02; done; echo slow >> {record}"
    jobs = [Job("slow", slow), Job("bad", "exit 1")]
    jobs += [Job(f"t{n}", f"echo t{n} >> {record}") for n in range(20)]
    sites = user.catalog("sites:\n  alpha: {slots: 2}\n")
    options = ("--retries", "0", "--on-failure", "stop", "--throttle", "2")
    engine = user.start(user.write(jobs), "--sites", sites, "--run-dir", "run", *options)
    assert wait_until(lambda: "1 failed" in user.ask("status", "run").out)
    (user.folder / "go").touch()
    done = engine.done()
    assert done.status == 1, done.text
    assert lines_of(record) == ["slow"]  # what ran may end, and nothing else starts
    assert "failed: 1/22 tasks done, 1 failed" in done.out
    assert user.is_alone()


def test_continue_after_a_failure(user: User) -> None:
    record = user.folder / "record"
    jobs = [Job("bad", "exit 1"), *(Job(f"t{n}", f"echo t{n} >> {record}") for n in range(20))]
    done = user.wfrun(user.write(jobs), "--run-dir", "run", "--retries", "0", "--throttle", "1")
    assert done.status == 1, done.text
    assert len(lines_of(record)) == 20
    assert "failed: 20/21 tasks done, 1 failed" in done.out


def test_an_output_that_is_not_written(user: User) -> None:
    document = user.write([Job("forgetful", "echo hello > out.text", (), ["out.txt"], ["out.txt"])])
    done = user.wfrun(document, "--run-dir", "run", "--retries", "0")
    assert done.status == 1
    assert "ended without writing its output 'out.txt'" in done.out
    assert "forgetful" in done.out


def test_a_walltime(user: User) -> None:
    """The task and its children are ended."""
    asked = Resources(walltime_s=0.5)
    script = "echo on my way >&2; sleep 1000 & sleep 1000"
    document = user.write([Job("long", script, resources=asked)])
    done = user.wfrun(document, "--run-dir", "run", "--retries", "0")
    assert done.status == 1
    assert "walltime" in done.out
    assert user.is_alone()


def test_a_walltime_that_is_too_short_is_doubled(user: User) -> None:
    asked = Resources(walltime_s=1.0)
    tried = f"echo tried >> {user.folder}/tried; [ $(wc -l < {user.folder}/tried) -gt 1 ] || "
    document = user.write([Job("slow", tried + "sleep 60; sleep 1.2", resources=asked)])
    done = user.wfrun(document, "--run-dir", "run", "--retries", "1", *FAST)
    assert done.status == 0, done.text
    assert "; 1 failed attempt" in done.out


def test_a_task_that_is_killed_by_a_signal(user: User) -> None:
    document = user.write([Job("suicide", "kill -9 $$")])
    done = user.wfrun(document, "--run-dir", "run", "--retries", "0")
    assert done.status == 1
    assert "SIGKILL" in done.out or "signal 9" in done.out


# Files


def test_final_outputs_are_collected_and_the_rest_removed(user: User) -> None:
    jobs = [
        Job("a", "echo one > deep/er/a.txt", (), ["deep/er/a.txt"], ["deep/er/a.txt"]),
        Job("b", "cat deep/er/a.txt > b.txt; echo two >> b.txt", ["deep/er/a.txt"], ["b.txt"]),
        Job("c", "cat b.txt > c.txt", ["b.txt"], ["c.txt"], ["c.txt"]),
    ]
    sites = user.catalog(TWO_SITES)
    words = (user.write(jobs), "--sites", sites, "--policy", "round-robin")
    for name, kept in (("run", False), ("kept", True)):
        options = ["--keep", "all"] if kept else []
        done = user.wfrun(*words, "--run-dir", name, *options)
        assert done.status == 0, done.text
        assert f"outputs: {name}/outputs" in done.out
        outputs = user.folder / name / "outputs"
        found = {str(p.relative_to(outputs)) for p in outputs.rglob("*") if p.is_file()}
        assert found == {"deep/er/a.txt", "c.txt"}
        assert (outputs / "c.txt").read_text() == "one\ntwo\n"
        assert bool(list((user.folder / name).glob("sites/*/files/*b.txt"))) == kept


def test_initial_inputs_of_another_folder(user: User) -> None:
    inputs = user.folder / "data"
    inputs.mkdir()
    (inputs / "in.txt").write_text("from afar\n")
    document = user.write([Job("a", "cat in.txt > a.txt", ["in.txt"], ["a.txt"], ["a.txt"])])
    done = user.wfrun(document, "--run-dir", "run", "--inputs", "data")
    assert done.status == 0, done.text
    assert (user.folder / "run/outputs/a.txt").read_text() == "from afar\n"
    assert (inputs / "in.txt").read_text() == "from afar\n"


def test_an_input_that_a_task_changes_stays_as_it_was(user: User) -> None:
    """As seen by all others, also where the user may write everywhere."""
    (user.folder / "in.txt").write_text("good\n")
    jobs = [
        Job("a", "rm -f in.txt; echo bad > in.txt; cat in.txt > a.txt", ["in.txt"], ["a.txt"]),
        Job("b", "cat a.txt in.txt > b.txt", ["a.txt", "in.txt"], ["b.txt"], ["b.txt"]),
    ]
    done = user.wfrun(user.write(jobs), "--run-dir", "run")
    assert done.status == 0, done.text
    assert (user.folder / "run/outputs/b.txt").read_text() == "bad\ngood\n"
    assert (user.folder / "in.txt").read_text() == "good\n"


# Limits


@pytest.mark.cases
@pytest.mark.parametrize("policy", ["file-aware", "round-robin", "cluster-min"])
def test_the_throttle_bounds_what_runs(user: User, policy: str) -> None:
    """Tasks count those that run beside them, themselves included."""
    beside = user.folder / "beside"
    (user.folder / "now").mkdir()
    script = (
        f"cd {user.folder}; : > now/$$; ls now | wc -l >> {beside}; sleep 0.05; "
        f"ls now | wc -l >> {beside}; rm now/$$"
    )
    document = user.write([Job(f"t{n}", script) for n in range(24)])
    sites = user.catalog("sites:\n  alpha: {slots: 8}\n  beta: {slots: 8}\n")
    options = ("--policy", policy, "--throttle", "3")
    done = user.wfrun(document, "--sites", sites, "--run-dir", "run", *options)
    assert done.status == 0, done.text
    seen = [int(count) for count in lines_of(beside)]
    assert len(seen) == 48
    assert max(seen) == 3


def test_cores_bound_what_runs(user: User) -> None:
    """Three cores each at a site of eight: two at once."""
    beside = user.folder / "beside"
    (user.folder / "now").mkdir()
    script = f"cd {user.folder}; : > now/$$; sleep 0.05; ls now | wc -l >> {beside}; rm now/$$"
    asked = Resources(cores=3)
    document = user.write([Job(f"t{n}", script, resources=asked) for n in range(10)])
    sites = user.catalog("sites:\n  alpha: {slots: 8}\n")
    done = user.wfrun(document, "--sites", sites, "--run-dir", "run")
    assert done.status == 0, done.text
    assert max(int(count) for count in lines_of(beside)) == 2


# Disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """Mounts file systems of a given size below the user's folder."""
    mounted: list[Path] = []

    def mount(name: str, size: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        if os.geteuid() != 0 or subprocess.run(command, check=False).returncode != 0:
            pytest.skip("only root may mount a small file system, and not everywhere")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_site_whose_disk_fills_up(user: User, small_disk: Callable[[str, str], Path]) -> None:
    """Attempts that find no room fail there, and the other site takes over."""
    small_disk("small", "1m")
    sites = user.catalog(
        f"sites:\n  small: {{slots: 2, directory: {user.folder}/small}}\n  large: {{slots: 1}}\n"
    )
    script = "head -c 300000 /dev/zero > t{n}.bin && echo t{n} >> {folder}/record"
    jobs = [
        Job(
            f"t{n}",
            script.format(n=n, folder=user.folder),
            (),
            [f"t{n}.bin"],
            [f"t{n}.bin"] if n == 11 else [],
        )
        for n in range(12)
    ]
    words = (user.write(jobs), "--sites", sites, "--run-dir", "run", "--policy", "round-robin")
    done = user.wfrun(*words, *FAST, "--retries", "5")
    assert "Traceback" not in done.text
    assert done.status == 0, done.text
    assert "failed attempt" in done.out
    assert set(lines_of(user.folder / "record")) == {f"t{n}" for n in range(12)}
    assert (user.folder / "run/outputs/t11.bin").stat().st_size == 300_000
    assert user.is_alone()


def test_all_disks_full(user: User, small_disk: Callable[[str, str], Path]) -> None:
    small_disk("small", "256k")
    sites = user.catalog(f"sites:\n  small: {{slots: 1, directory: {user.folder}/small}}\n")
    document = user.write([Job("big", "head -c 300000 /dev/zero > big", (), ["big"])])
    done = user.wfrun(document, "--sites", sites, "--run-dir", "run", *FAST, "--retries", "1")
    assert done.status == 1, done.text
    assert "its stderr is empty, and the site's disk is full" in done.out
    assert "Traceback" not in done.text
    assert user.is_alone()


def test_no_room_for_the_final_outputs(user: User, small_disk: Callable[[str, str], Path]) -> None:
    """The tasks are done; resume collects once there is room, and runs nothing again."""
    disk = small_disk("runs", "1m")
    sites = user.catalog(f"sites:\n  alpha: {{slots: 1, directory: {user.folder}/alpha}}\n")
    script = f"head -c 2000000 /dev/zero > big; echo big >> {user.folder}/record"
    document = user.write([Job("big", script, (), ["big"], ["big"])])
    done = user.wfrun(document, "--sites", sites, "--run-dir", "runs/run", *FAST)
    assert done.status == 1, done.text
    assert "output not collected: big: " in done.out
    assert "No space left on device" in done.out
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    done = user.wfrun("resume", "runs/run")
    assert done.status == 0, done.text
    assert lines_of(user.folder / "record") == ["big"]
    assert (disk / "run/outputs/big").stat().st_size == 2_000_000


def test_the_log_has_no_room(user: User, small_disk: Callable[[str, str], Path]) -> None:
    """The engine ends with one message. With room again it goes on, each task once."""
    disk = small_disk("runs", "200k")
    sites = user.catalog(f"sites:\n  alpha: {{slots: 2, directory: {user.folder}/alpha}}\n")
    jobs = [Job(f"t{n}", f"sleep 0.01; echo t{n} >> {user.folder}/record") for n in range(400)]
    words = (user.write(jobs), "--sites", sites, "--run-dir", "runs/run", "--throttle", "4")
    engine = user.start(*words)
    assert wait_until(lambda: engine.ended or len(lines_of(user.folder / "record")) >= 5)
    fill(disk)
    done = engine.done()
    assert done.status == 3, done.text
    assert "Traceback" not in done.text
    assert "the event store cannot be used: database or disk is full" in done.err
    assert "wfrun resume" in done.err
    assert user.is_alone()
    before = len(lines_of(user.folder / "record"))
    assert before < 400
    (disk / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
    done = user.wfrun("resume", "runs/run")
    assert done.status == 0, done.text
    assert Counter(lines_of(user.folder / "record")) == Counter(f"t{n}" for n in range(400))
    assert user.is_alone()


def test_no_room_for_the_log_from_the_first(
    user: User, small_disk: Callable[[str, str], Path]
) -> None:
    disk = small_disk("runs", "64k")
    fill(disk)
    done = user.wfrun(user.write([Job("a", "true")]), "--run-dir", "runs/run")
    assert done.status == 3, done.text
    assert "Traceback" not in done.text
    assert "full" in done.err or "No space left" in done.err
    assert [path.name for path in disk.iterdir()] == ["filler"]


def fill(disk: Path) -> None:
    """Take all the room that is left."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
