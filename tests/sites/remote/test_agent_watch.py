"""Exit records: none is lost when agents die, when several watch, or when the disk is full."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import until
from wfrun.sites.remote.agent import GARBAGE_S, RECORD_BYTES, RETRY_S, UNREADABLE_S, Watch
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.host import NewFile
from wfrun.sites.remote.transports.local_transport import LocalTransport


@pytest.fixture
def exits(tmp_path: Path) -> Path:
    (tmp_path / "exits").mkdir()
    return tmp_path / "exits"


class Watched:
    """A watch that scans when the test says, on the clock of the test."""

    def __init__(self, directory: Path) -> None:
        self.reported: list[bytes] = []
        self.watch = Watch(os.fsencode(directory), self.reported.extend)

    def look(self, now_s: float = 0.0) -> list[bytes]:
        """Scan; returns the new records."""
        before = len(self.reported)
        assert self.watch.scan(now_s) == len(self.reported) - before
        return self.reported[before:]


def put(directory: Path, *keys: object) -> None:
    for key in keys:
        (directory / f"{key}.part").write_bytes(record(key))
        (directory / f"{key}.part").rename(directory / f"{key}.json")


def record(key: object) -> bytes:
    return b'{"key": "%s"}' % str(key).encode()


def consolidated(directory: Path) -> list[bytes]:
    return (directory / "records.jsonl").read_bytes().splitlines()


# --------------------------------------------------------------------------------- single scans


def test_records_are_reported_once_and_merged(exits: Path) -> None:
    watched = Watched(exits)
    assert watched.look() == []
    put(exits, "b", "a")
    (exits / ".hidden.json").write_text("{}")
    (exits / "c.json.part").write_text('{"key": "c')
    assert watched.look() == [record("a"), record("b")]
    put(exits, "c")
    assert watched.look() == [record("c")]
    assert watched.look() == []
    assert consolidated(exits) == [record(key) for key in "abc"]
    assert sorted(os.listdir(exits)) == [".hidden.json", "c.json.part", "records.jsonl"]
    assert Watched(exits).look() == [record(key) for key in "abc"]


def test_a_torn_line_is_passed_over_and_does_not_tear_the_next(exits: Path) -> None:
    (exits / "records.jsonl").write_bytes(record("a") + b"\n" + record("b")[:-3])
    put(exits, "b", "c")
    assert sorted(Watched(exits).look()) == [record(key) for key in "abc"]
    assert consolidated(exits) == [record("a"), record("b")[:-3], record("b"), record("c")]
    assert Watched(exits).look() == [record(key) for key in "abc"]


def test_a_death_between_append_and_removal_does_no_harm(exits: Path) -> None:
    put(exits, "a")
    (exits / "records.jsonl").write_bytes(record("a") + b"\n")
    assert Watched(exits).look() == [record("a")]
    assert set(consolidated(exits)) == {record("a")}
    assert os.listdir(exits) == ["records.jsonl"]
    assert Watched(exits).look() == [record("a")]


def test_records_merged_by_another_agent_are_reported_too(exits: Path) -> None:
    one, two = Watched(exits), Watched(exits)
    one.look()
    two.look()
    for key in range(20):
        put(exits, key)
        (one if key % 3 else two).look()
        if not key % 5:
            two.look()
    one.look()
    two.look()
    expected = Counter({record(key): 1 for key in range(20)})
    assert Counter(one.reported) == expected
    assert Counter(two.reported) == expected
    assert Counter(consolidated(exits)) == expected


def test_an_invalid_record_is_read_again_and_then_reported_unchanged(exits: Path) -> None:
    watched = Watched(exits)
    (exits / "half.json").write_bytes(b'{"key": "ha')
    (exits / "list.json").write_bytes(b"[]")
    (exits / "mends.json").write_bytes(b"")
    put(exits, "a")
    assert watched.look(0.0) == [record("a")]
    assert watched.look(GARBAGE_S - 1) == []
    put(exits, "mends")
    assert watched.look(GARBAGE_S) == [b'{"key": "ha', b"[]", record("mends")]
    assert watched.look(10 * GARBAGE_S) == []
    # Nothing is lost: the next agent reports it too, and so does this one if it becomes a record.
    other = Watched(exits)
    assert other.look(0.0) == [record("a"), record("mends")]
    assert other.look(GARBAGE_S) == [b'{"key": "ha', b"[]"]
    put(exits, "half")
    assert watched.look(11 * GARBAGE_S) == [record("half")]
    assert sorted(os.listdir(exits)) == ["list.json", "records.jsonl"]


def test_what_cannot_be_read_is_not_looped_on(exits: Path) -> None:
    watched = Watched(exits)
    (exits / "directory.json").mkdir()
    os.mkfifo(exits / "pipe.json")
    (exits / "gone.json").symlink_to(exits / "nowhere")
    (exits / "long.json").write_bytes(b'{"a": "%s"}' % (b"x" * RECORD_BYTES))
    put(exits, "a")
    assert watched.look(0.0) == [record("a")]
    reported = watched.look(GARBAGE_S)
    assert [len(content) for content in reported] == [RECORD_BYTES]
    assert watched.look(GARBAGE_S + 1) == []
    (exits / "pipe.json").unlink()
    put(exits, "pipe")
    assert watched.look(GARBAGE_S + 2) == []
    assert watched.look(GARBAGE_S + UNREADABLE_S) == [record("pipe")]


def test_a_full_disk_loses_nothing(exits: Path) -> None:
    watched = Watched(exits)
    put(exits, "a", "b")
    (exits / "records.jsonl").symlink_to("/dev/full")
    assert watched.look(0.0) == [record("a"), record("b")]
    put(exits, "c")
    assert watched.look(1.0) == [record("c")]
    assert sorted(os.listdir(exits)) == ["a.json", "b.json", "c.json", "records.jsonl"]
    (exits / "records.jsonl").unlink()  # as if the disk had space again
    assert watched.look(2.0) == []
    assert watched.look(1.0 + RETRY_S) == []
    assert consolidated(exits) == [record(key) for key in "abc"]
    assert os.listdir(exits) == ["records.jsonl"]


def test_records_are_reported_where_they_cannot_be_merged(exits: Path) -> None:
    watched = Watched(exits)
    (exits / "records.jsonl").mkdir()
    put(exits, "a")
    assert watched.look(0.0) == [record("a")]
    put(exits, "b")
    assert watched.look(RETRY_S) == [record("b")]
    assert watched.look(2 * RETRY_S) == []
    assert sorted(os.listdir(exits)) == ["a.json", "b.json", "records.jsonl"]


def test_a_lock_of_another_is_respected(exits: Path) -> None:
    watched = Watched(exits)
    fd = os.open(exits / "records.jsonl", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    put(exits, "a")
    assert watched.look() == [record("a")]
    assert watched.look() == []
    assert (exits / "a.json").exists()
    os.close(fd)
    assert watched.look() == []
    assert consolidated(exits) == [record("a")]
    assert not (exits / "a.json").exists()


def test_a_record_that_is_replaced_while_it_is_merged_is_reported_again(exits: Path) -> None:
    reported: list[bytes] = []

    def tell(records: list[bytes]) -> None:
        if not reported:
            put(exits, "a.json.new")
            (exits / "a.json.new.json").rename(exits / "a.json")
        reported.extend(records)

    watch = Watch(os.fsencode(exits), tell)
    put(exits, "a")
    watch.scan(0.0)
    watch.scan(0.0)
    assert reported == [record("a"), record("a.json.new")]
    assert consolidated(exits) == [record("a.json.new")]


def test_a_file_of_records_that_shrank_is_read_from_its_start(exits: Path) -> None:
    watched = Watched(exits)
    put(exits, "a", "b")
    watched.look()
    (exits / "records.jsonl").write_bytes(record("c") + b"\n")
    assert watched.look() == [record("c")]


def test_a_directory_may_come_and_go(exits: Path) -> None:
    watched = Watched(exits)
    put(exits, "a")
    watched.look()
    for name in os.listdir(exits):
        (exits / name).unlink()
    exits.rmdir()
    assert not watched.watch.look()
    exits.mkdir()
    put(exits, "b")
    assert watched.look() == [record("b")]


# ------------------------------------------------------------------------------- whole agents


@pytest.mark.slow
async def test_ten_thousand_records_cost_little(exits: Path) -> None:
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    await host.run(["true"])  # so that the login shell does not count
    for n in range(10_000):
        (exits / f"{n}.json").write_bytes(record(n))
    reported: list[bytes] = []
    before = await host.counts()
    await host.watch(str(exits), reported.extend)
    assert Counter(reported) == Counter(record(n) for n in range(10_000))
    after = await host.counts()
    assert after.cpu_s - before.cpu_s < 5.0
    assert os.listdir(exits) == ["records.jsonl"]
    # Idle: the documented limit is 5% of a core with this many attempts.
    await asyncio.sleep(2.0)
    idle = await host.counts()
    assert idle.cpu_s - after.cpu_s < 0.1
    put(exits, "last")
    await until(lambda: reported[-1] == record("last"))
    await host.close()
    await transport.close()


@pytest.mark.slow
async def test_two_agents_tell_of_everything_while_one_is_killed_again_and_again(
    exits: Path,
) -> None:
    transport = LocalTransport()
    steady = AgentHost(transport)
    await steady.start()
    steady_records: list[bytes] = []
    await steady.watch(str(exits), steady_records.extend)
    mortal_records: list[bytes] = []
    n = 0
    for _ in range(6):
        mortal = AgentHost(transport)
        await mortal.start()
        mortal_records = []
        watching = asyncio.create_task(mortal.watch(str(exits), mortal_records.extend))
        for _ in range(150):
            put(exits, n)
            n += 1
        await asyncio.wait([watching], timeout=0.05 * (n % 7))
        os.kill(mortal.pid, signal.SIGKILL)
        await asyncio.gather(watching, return_exceptions=True)
        await mortal.close()
    expected = Counter(record(key) for key in range(n))
    await until(lambda: len(steady_records) >= n)
    last = AgentHost(transport)
    await last.start()
    last_records: list[bytes] = []
    await last.watch(str(exits), last_records.extend)
    await until(lambda: len(last_records) >= n)
    await until(lambda: os.listdir(exits) == ["records.jsonl"])
    assert Counter(steady_records) == expected
    assert Counter(last_records) == expected
    assert set(consolidated(exits)) == set(expected)
    for host in (steady, last):
        await host.close()
    await transport.close()


async def test_a_watch_may_begin_before_its_directory_is_there(tmp_path: Path) -> None:
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    reported: list[bytes] = []
    await host.watch(f"{tmp_path}/later", reported.extend)
    await host.make_directories([f"{tmp_path}/later"])
    await host.write([NewFile(f"{tmp_path}/later/a.json", b"{}")])
    await until(lambda: reported == [b"{}"])
    await host.close()
    await transport.close()
