"""The cap on what a task may print: ``--max-log``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.sites.node.jobs.test_job_walltime import directory as job_directory  # noqa: F401
from tests.sites.node.tasks.test_task_logs import opened, unpacked
from wfrun.sites.node.tasks.log_limits import LimitedLog
from wfrun.testing.probe import Probe, shell

LIMIT = 8192
NOTE = re.compile(rb"\n--- wfrun: (\d+) bytes are left out here, by --max-log ---\n")
PRINT = 'i=0; while [ $i -lt "$1" ]; do i=$((i+1)); echo "line $i"; done'
ABCD = b"".join(b"%07d\n" % number for number in range(1 << 16))
"""Half a MiB in which each part shows its position."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    """The descriptor of a log."""
    fd = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    yield fd
    os.close(fd)


def parts(text: bytes) -> tuple[bytes, int, bytes]:
    """The beginning of a log that was cut, the number of bytes left out, and the end."""
    start, number, end = NOTE.split(text)
    return start, int(number), end


@pytest.mark.parametrize("seed", range(20))
def test_beginning_and_end_stay_and_the_rest_is_counted(
    tmp_path: Path, log: int, seed: int
) -> None:
    random = Random(seed)
    limited = LimitedLog(log, LIMIT)
    printed = 0
    for _ in range(30):
        size = random.choice((0, 1, 100, 4000, 5000, 30_000))
        os.write(log, ABCD[printed : printed + size])
        printed += size
        limited.cut()
        assert os.fstat(log).st_size <= LIMIT * 1.5
    limited.cut(has_ended=True)
    start, left_out, end = parts((tmp_path / "log").read_bytes())
    assert len(start) + left_out + len(end) == printed
    assert ABCD.startswith(start)
    assert ABCD[:printed].endswith(end)
    assert min(len(start), len(end)) >= LIMIT / 2 - 100
    assert (tmp_path / "log").stat().st_size <= LIMIT


def test_a_log_within_the_limit_is_not_touched(tmp_path: Path, log: int) -> None:
    os.write(log, ABCD[:LIMIT])
    limited = LimitedLog(log, LIMIT)
    assert not limited.cut(has_ended=True)
    assert (tmp_path / "log").read_bytes() == ABCD[:LIMIT]


def test_a_task_writes_on_where_the_file_ended_before(tmp_path: Path, log: int) -> None:
    """As after `exec >/proc/self/fd/1`: its descriptor does not append."""
    limited = LimitedLog(log, LIMIT)
    printed = 0
    with (tmp_path / "log").open("wb", buffering=0) as stream:
        for _ in range(8):
            stream.write(ABCD[printed : printed + 60_000])
            printed += 60_000
            assert limited.cut()
            assert os.fstat(log).st_blocks * 512 <= LIMIT * 3
    start, left_out, end = parts((tmp_path / "log").read_bytes())
    assert len(start) + left_out + len(end) == printed
    assert ABCD[:printed].endswith(end)


def test_a_task_empties_its_log(tmp_path: Path, log: int) -> None:
    limited = LimitedLog(log, LIMIT)
    os.write(log, ABCD[:60_000])
    assert limited.cut()
    os.truncate(tmp_path / "log", 0)
    assert not limited.cut()
    os.write(log, ABCD[:50_000])
    assert limited.cut(has_ended=True)
    start, left_out, end = parts((tmp_path / "log").read_bytes())
    assert len(start) + left_out + len(end) == 50_000


def test_a_task_prints_as_fast_as_it_can(tmp_path: Path, log: int) -> None:
    limited = LimitedLog(log, LIMIT)
    script = "import os, sys\nfor n in range(40000): os.write(1, b'line %d\\n' % n)"
    with subprocess.Popen([sys.executable, "-I", "-c", script], stdout=log) as task:
        while task.poll() is None:
            limited.cut()
    limited.cut(has_ended=True)
    start, left_out, end = parts((tmp_path / "log").read_bytes())
    printed = sum(len(b"line %d\n" % n) for n in range(40_000))
    assert len(start) + left_out + len(end) <= printed
    assert len(start) > LIMIT / 3
    assert start.startswith(b"line 0\nline 1\n")
    assert end.endswith(b"\n")


async def grown(probe: Probe, path: Path) -> int:
    """The size of a log that has something in it."""
    while not (path.exists() and path.stat().st_size):
        await probe.let_pass(0.01)
    return path.stat().st_size


async def test_disks_are_spared_while_a_task_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = (
        'head -c 20000000 /dev/zero; echo done >&2; while [ ! -e "$1" ]; do sleep 0.02; done; '
        "echo the end"
    )
    out, err = tmp_path / "site" / "attempts" / "a.out", tmp_path / "site" / "attempts" / "a.err"
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([shell("a", script, str(go), max_log_bytes=LIMIT)])
        await grown(probe, err)
        while out.stat().st_size > LIMIT * 1.5:
            await probe.let_pass(0.01)
        go.touch()
        assert (await probe.ended("a")).cause == "done"
    assert out.stat().st_size <= LIMIT
    start, left_out, end = parts(out.read_bytes())
    # What is printed during a cut is not counted.
    assert 0 < len(start) + left_out + len(end) <= 20_000_000 + len("the end\n")
    assert end.endswith(b"\0the end\n")
    assert err.read_bytes() == b"done\n"


async def test_a_second_task_is_limited_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as (site, probe):
        for key in ("a", "b"):
            await site.submit([shell(key, PRINT, "3000", max_log_bytes=LIMIT)])
            assert (await probe.ended(key)).cause == "done"
            assert len((await site.log(key))[0]) <= LIMIT
        assert (await probe.ended("b")).cause == "done"


async def test_a_failure_quotes_the_end(tmp_path: Path) -> None:
    async with opened(tmp_path) as (site, probe):
        script = f"({PRINT}) >&2; exit 7"
        await site.submit([shell("a", script, "3000", max_log_bytes=LIMIT)])
        outcome = await probe.ended("a")
        assert outcome.exit_code == 7
        assert outcome.message is not None
        assert outcome.message.endswith("line 3000")
        assert len((await site.log("a"))[1]) <= LIMIT


async def test_packed_output_is_cut_first(tmp_path: Path) -> None:
    async with opened(tmp_path, pack=True) as (site, probe):
        await site.submit([shell("a", PRINT, "3000", max_log_bytes=LIMIT)])
        out, _ = unpacked(tmp_path, await probe.ended("a"))
        assert len(out) <= LIMIT
        assert parts(out)[2].endswith(b"line 3000\n")


async def test_declared_files_are_whole(tmp_path: Path) -> None:
    async with opened(tmp_path) as (site, probe):
        task = shell("a", PRINT, "3000", stdout="o", outputs={"o": "s"}, max_log_bytes=LIMIT)
        await site.submit([task])
        assert (await probe.ended("a")).cause == "done"
    assert len((tmp_path / "files" / "s").read_text().splitlines()) == 3000


def test_a_job_cuts_what_its_task_prints(job_directory: Path) -> None:  # noqa: F811
    import msgspec

    task = shell("full-1", PRINT, "3000", max_log_bytes=LIMIT)
    (job_directory / "batches" / "b.jsonl").write_bytes(msgspec.json.encode(task) + b"\n")
    words = ["sh", str(job_directory / "bin" / "job.sh"), str(job_directory), "b", "1"]
    subprocess.run(words, check=True, timeout=100)
    text = (job_directory / "attempts" / "full-1.out").read_bytes()
    assert len(text) <= LIMIT
    assert parts(text)[2].endswith(b"line 3000\n")
