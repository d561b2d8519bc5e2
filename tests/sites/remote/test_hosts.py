"""The requests of a site to its head node, answered by the agent."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, is_running, until
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote import agent, agent_client
from wfrun.sites.remote.agent_client import AgentHost
from wfrun.sites.remote.host import NewFile, Stat
from wfrun.sites.remote.transports.local_transport import LocalTransport

ODD_NAMES = [
    "a b  c",
    "'\"`\\",
    "line\nend\n",
    "$(touch broken)$HOME",
    "-rf",
    "--",
    "größe-日本",
    "undecodable-\udcff\udc80",
    "*?[a]{b,c};&|<>#!~",
    "\t\x01\x7f",
    "%s%b\\000",
    "...",
]


@pytest.fixture
async def host() -> AsyncIterator[AgentHost]:
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    yield host
    await host.close()
    await transport.close()


@pytest.mark.cases
@pytest.mark.parametrize("name", ODD_NAMES)
async def test_odd_names_pass_all_questions(host: AgentHost, tmp_path: Path, name: str) -> None:
    top = f"{tmp_path}/{name}"
    await host.make_directories([f"{top}/{name}"])
    here = f"{top}/{name}/{name}"
    await host.write([NewFile(here, b"content\0\xff", 0o750), NewFile(f"{here}2", b"")])
    assert Path(here).read_bytes() == b"content\0\xff"
    assert await host.read([here, f"{here}2", f"{here}3"]) == [b"content\0\xff", b"", None]
    assert await host.stat([here, top, f"{here}3"]) == [
        Stat(9, True, False),
        Stat(0, True, True),
        None,
    ]
    assert await host.claim([f"{here}.out", here]) == [True, False]
    await host.rename([(here, f"{top}/new {name}/{name}")])
    assert Path(f"{top}/new {name}/{name}").read_bytes() == b"content\0\xff"
    result = await host.run(["printf", "%s", name, here], env={"ODD": name})
    assert result.output == os.fsencode(name + here)
    assert (await host.run(["printenv", "ODD"], env={"ODD": name})).output == os.fsencode(
        name + "\n"
    )
    await host.remove([top])
    assert os.listdir(tmp_path) == []


async def test_arguments_and_input_arrive_byte_for_byte(host: AgentHost) -> None:
    draw = random.Random(7)
    alphabet = "ab '\"\\$`!*?~#;&|()<>{}[]\n\t\r-=%é日\udcfe"
    words = ["".join(draw.choices(alphabet, k=draw.randrange(12))) for _ in range(100)]
    result = await host.run(["printf", "%s\\0", *words])
    assert result.output == b"".join(os.fsencode(word) + b"\0" for word in words)
    stdin = draw.randbytes(300_000)
    assert (await host.run(["cat"], stdin=stdin)).output == stdin


async def test_a_command_tells_how_it_ended(host: AgentHost) -> None:
    result = await host.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.exit_code, result.output, result.errors) == (7, b"out\n", b"err\n")
    # A command may leave its input unread.
    assert (await host.run(["true"], stdin=bytes(1 << 20))).exit_code == 0
    for argv in (["wfrun-no-such-program"], ["/etc/passwd/x"], []):
        with pytest.raises(InfeasibleError):
            await host.run(argv)


async def test_a_hung_command_is_killed_with_its_children(host: AgentHost, tmp_path: Path) -> None:
    script = "sleep 100 & echo $!; sleep 100"
    began_s = time.monotonic()
    hung = asyncio.create_task(host.run(["sh", "-c", script], timeout_s=1.0))
    others = [asyncio.create_task(host.run(["echo", str(n)])) for n in range(8)]
    assert [result.output for result in await asyncio.gather(*others)] == [
        b"%d\n" % n for n in range(8)
    ]
    assert not hung.done() or time.monotonic() - began_s > 1.0
    result = await hung
    assert result.exit_code is None
    await until(lambda: not is_running(int(result.output)))


def recorded(file: Path, number: int, then: str = "true") -> list[str]:
    """A command that records that it ran."""
    return ["sh", "-c", f"echo {number} | tee -a {file}; {then}"]


async def test_a_series_ends_at_the_first_command_that_fails(
    host: AgentHost, tmp_path: Path
) -> None:
    file = tmp_path / "ran"
    good = [recorded(file, number) for number in range(4)]
    assert [r.output for r in await host.run_series(good)] == [b"0\n", b"1\n", b"2\n", b"3\n"]
    bad = recorded(file, 5, "echo no >&2; exit 3")
    results = await host.run_series([recorded(file, 4), bad, recorded(file, 6)])
    assert [(r.exit_code, r.errors) for r in results] == [(0, b""), (3, b"no\n")]
    hung = recorded(file, 7, "sleep 100")
    results = await host.run_series([hung, recorded(file, 8)], timeout_s=0.5)
    assert [r.exit_code for r in results] == [None]
    absent = ["wfrun-no-such-program"]
    assert len(await host.run_series([recorded(file, 9), absent, recorded(file, 10)])) == 1
    refused: list[list[list[str]]] = [[absent, recorded(file, 11)], [[]], []]
    for series in refused:
        with pytest.raises(InfeasibleError):
            await host.run_series(series)
    assert file.read_text().split() == ["0", "1", "2", "3", "4", "5", "7", "9"]


async def test_a_series_that_takes_long_is_not_run_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "agent.py"
    text = agent_client._SOURCE.read_text()
    source.write_text(re.sub("(?m)^SERIES_S = .*", "SERIES_S = 0.5", text))
    monkeypatch.setattr(agent_client, "_SOURCE", source)
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    assert len(await host.run_series([["sleep", "0.3"]] * 9)) == 2
    await host.close()
    await transport.close()


async def test_a_daemon_that_a_command_leaves_is_not_waited_for(host: AgentHost) -> None:
    result = await host.run(["sh", "-c", "sleep 100 & echo $!"], timeout_s=20.0)
    os.kill(int(result.output), 9)
    assert result.exit_code == 0


async def test_commands_run_in_the_login_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "wfrun-sbatch"
    program.write_text('#!/bin/sh\necho "submitted $CLUSTER"\n')
    program.chmod(0o755)
    for name in (".profile", ".zprofile"):
        (tmp_path / name).write_text(
            f"echo Welcome to the cluster\nPATH=$PATH:{tmp_path}/bin\nexport PATH\n"
            "CLUSTER='a b\n$c'; export CLUSTER\n"
        )
    monkeypatch.setenv("HOME", str(tmp_path))
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    assert (await host.run(["wfrun-sbatch"])).output == b"submitted a b\n$c\n"
    assert (await host.facts()).home == str(tmp_path)
    assert (await host.counts()).commands["wfrun-sbatch"] == 1
    await host.close()
    await transport.close()


async def test_files_are_written_whole_with_their_modes(host: AgentHost, tmp_path: Path) -> None:
    contents = [b"", b"x", b"\0\n" * 5000, random.Random(3).randbytes(2_000_000), b"last"]
    files = [
        NewFile(f"{tmp_path}/{n}", content, 0o644 if n % 2 else 0o700)
        for n, content in enumerate(contents)
    ]
    (tmp_path / "1").write_bytes(b"older and longer")
    await host.write(files)
    assert await host.read([file.path for file in files], limit=1 << 30) == contents
    assert await host.read([file.path for file in files], limit=3) == [c[-3:] for c in contents]
    for file, content in zip(files, contents, strict=True):
        assert await host.read_part(file.path, 1, 3) == content[1:4]
        assert await host.read_part(file.path, len(content), 3) == b""
    assert await host.read_part(f"{files[0].path}-absent", 0, 3) is None
    assert [os.stat(file.path).st_mode & 0o777 for file in files] == [file.mode for file in files]
    assert sorted(os.listdir(tmp_path)) == ["0", "1", "2", "3", "4"]


async def test_what_cannot_be_written_is_said_and_the_files_before_it_are_there(
    host: AgentHost, tmp_path: Path
) -> None:
    (tmp_path / "directory").mkdir()
    for bad in (f"{tmp_path}/absent/x", f"{tmp_path}/directory", "relative", f"{tmp_path}/\0"):
        with pytest.raises(InfeasibleError):
            await host.write([NewFile(bad, b"y")])
    with pytest.raises(InfeasibleError, match="absent"):
        await host.write(
            [
                NewFile(f"{tmp_path}/first", b"1"),
                NewFile(f"{tmp_path}/absent/x", b"2"),
                NewFile(f"{tmp_path}/third", b"3"),
            ]
        )
    assert sorted(os.listdir(tmp_path)) == ["directory", "first"]
    with pytest.raises(InfeasibleError):
        await host.make_directories([f"{tmp_path}/first/x"])
    with pytest.raises(InfeasibleError):
        await host.claim([f"{tmp_path}/absent/x"])


async def test_directories_are_made_with_parents_and_mode(host: AgentHost, tmp_path: Path) -> None:
    await host.make_directories([f"{tmp_path}/a/b/c", f"{tmp_path}/a/b/d", f"{tmp_path}/a"])
    for name in ("a", "a/b", "a/b/c", "a/b/d"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o700
    (tmp_path / "a").chmod(0o755)
    await host.make_directories([f"{tmp_path}/a"])
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


def claim_as_a_job(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    return True


@pytest.mark.slow
async def test_each_claim_has_one_winner(host: AgentHost, tmp_path: Path) -> None:
    """Of the engine and a job. The engine's holds for its later connections, too."""
    paths = [f"{tmp_path}/{n}.out" for n in range(300)]
    jobs = asyncio.to_thread(lambda: [claim_as_a_job(path) for path in reversed(paths)])
    ours, theirs = await asyncio.gather(host.claim(paths), jobs)
    theirs.reverse()
    assert [a + b for a, b in zip(ours, theirs, strict=True)] == [1] * 300
    transport = LocalTransport()
    other = AgentHost(transport)
    await other.start()
    assert await host.claim(paths) == await other.claim(paths) == ours
    await other.close()
    await transport.close()


async def test_what_a_job_prints_or_makes_executable_is_no_claim_of_the_engine(
    host: AgentHost, tmp_path: Path
) -> None:
    printed, empty, link, folder = (f"{tmp_path}/{name}" for name in ("a", "b", "c", "d"))
    Path(printed).write_text("x")
    Path(printed).chmod(0o500)
    Path(empty).touch()
    Path(empty).chmod(0o755)
    os.symlink("nowhere", link)
    os.mkdir(folder, 0o500)
    assert await host.claim([printed, empty, link, folder]) == [False] * 4


async def test_a_rename_replaces_and_never_moves_into(host: AgentHost, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "e"):
        (tmp_path / name).write_text(name)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "link").symlink_to(tmp_path / "full")
    await host.rename(
        [
            (f"{tmp_path}/a", f"{tmp_path}/b"),
            (f"{tmp_path}/b", f"{tmp_path}/new/deep/b"),
            (f"{tmp_path}/e", f"{tmp_path}/link"),
        ]
    )
    assert (tmp_path / "new/deep/b").read_text() == "a"
    assert (tmp_path / "link").read_text() == "e"
    assert not (tmp_path / "link").is_symlink()
    for pair in (("c", "full"), ("new", "full"), ("absent", "d")):
        with pytest.raises(InfeasibleError):
            await host.rename([(f"{tmp_path}/{pair[0]}", f"{tmp_path}/{pair[1]}")])
    assert os.listdir(tmp_path / "full") == ["x"]


async def test_a_removal_stays_in_its_tree(
    host: AgentHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("p")
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    (tree / "deep" / "link").symlink_to(outside)
    (tree / "file").write_text("x")
    (tree / "deep").chmod(0o500)
    (tmp_path / "link").symlink_to(outside)
    await host.remove([str(tree), f"{tmp_path}/link/", f"{tmp_path}/absent/x", str(tree)])
    assert [entry.name for entry in tmp_path.iterdir()] == ["outside"]
    assert (outside / "precious").read_text() == "p"


async def test_the_root_and_the_home_directory_are_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "homes" / "user"
    (home / "x").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "homes")
    (tmp_path / "to-home").symlink_to(home)
    monkeypatch.setenv("HOME", f"{tmp_path}/alias/user")
    transport = LocalTransport()
    host = AgentHost(transport)
    await host.start()
    for path in (
        str(home), f"{home}/", f"{home}//", f"{home}/.", f"{tmp_path}/homes",
        f"{tmp_path}/alias/user", f"{home}/x/..", str(tmp_path), "homes", "",
    ):  # fmt: skip
        with pytest.raises(InfeasibleError):
            await host.remove([path])
        assert (home / "x").is_dir()
    await host.remove([f"{tmp_path}/to-home"])
    assert not (tmp_path / "to-home").is_symlink()
    (tmp_path / "to-home").symlink_to(home)
    await host.close()
    await transport.close()


async def test_many_paths_are_answered_in_order(host: AgentHost, tmp_path: Path) -> None:
    paths = [f"{tmp_path}/{'x' * 60}-{n}" for n in range(150)]
    await host.write([NewFile(path, b"%d" % n) for n, path in enumerate(paths) if n % 3])
    assert await host.read(paths) == [b"%d" % n if n % 3 else None for n in range(150)]
    stats = await host.stat(paths)
    assert [stat and stat.size_bytes for stat in stats] == [
        len(str(n)) if n % 3 else None for n in range(150)
    ]
    await host.remove(paths)
    assert os.listdir(tmp_path) == []


def put(directory: Path, name: str, content: bytes) -> None:
    (directory / f"{name}.part").write_bytes(content)
    (directory / f"{name}.part").rename(directory / f"{name}.json")


async def test_a_watch_reports_old_and_new_records_once(host: AgentHost, tmp_path: Path) -> None:
    records: list[bytes] = []
    (tmp_path / "records.jsonl").write_bytes(b'{"key":"a"}\n{"key":"b"}\n{"key":"tor')
    put(tmp_path, "c", b'{\n "key": "c"\n}\n')
    put(tmp_path, "b", b'{"key":"b"}\n')  # reported before, but its file was not removed yet
    await host.watch(str(tmp_path), records.extend)
    assert sorted(records) == [b'{  "key": "c" }', b'{"key":"a"}', b'{"key":"b"}']
    for n in range(5):
        put(tmp_path, f"new {n}'", b'{"n":%d}' % n)
    await until(lambda: len(records) >= 8)
    await until(lambda: os.listdir(tmp_path) == ["records.jsonl"])
    assert sorted(records[3:]) == [b'{"n":%d}' % n for n in range(5)]
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines()
    assert set(records) <= set(lines)


async def test_what_is_asked_after_the_end_fails_at_once(host: AgentHost, tmp_path: Path) -> None:
    await host.close()
    assert host.ended.done()
    questions: Sequence[Callable[[], object]] = (
        lambda: host.run(["true"]),
        lambda: host.stat([str(tmp_path)]),
        host.facts,
    )
    for question in questions:
        with pytest.raises(TransientError):
            await question()  # type: ignore[misc]


async def test_facts_say_who_and_when(host: AgentHost) -> None:
    facts = await host.facts()
    assert facts.host == os.uname().nodename
    assert abs(facts.clock_offset_s) < 1.0
    assert 0 < facts.round_trip_s < PATIENCE_S
    assert facts.python.startswith("3.")


async def test_the_digest_of_a_file_that_is_being_written(host: AgentHost, tmp_path: Path) -> None:
    """It is there with the last byte, whatever the agent does meanwhile, and is that of the first
    bytes only."""
    path, half = tmp_path / "part", os.urandom(1 << 20)
    asked = asyncio.create_task(host.digest_of_growing(str(path), 2 * len(half)))
    others = [asyncio.create_task(host.digest_of_growing(f"{path}{n}", 1)) for n in range(10)]
    await host.stat([str(path)])
    with path.open("wb", buffering=0) as file:
        file.write(half)
        assert await host.stat([str(path)]) == [Stat(len(half), False, False)]
        assert not asked.done()
        file.write(half + b"more")
    assert await asked == hashlib.sha256(2 * half).hexdigest()
    assert await host.digest_of_growing(str(path), 0) == hashlib.sha256().hexdigest()
    for other in others:
        other.cancel()


def test_the_digest_of_a_file_that_is_written_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hole is read when it is filled; one that a complete file keeps is zeros."""
    path, block = tmp_path / "part", os.urandom(1 << 20)
    growing = agent.GrowingDigest(os.fsencode(path), 4 << 20)
    assert growing.look() is not None
    with path.open("wb", buffering=0) as file:
        for position in (1 << 20, 0):
            file.seek(position)
            file.write(block)
            assert growing.look() is not None
        file.truncate(4 << 20)
    monkeypatch.setattr(agent, "HOLE_S", 0.0)
    assert growing.look() is None
    assert growing.digest == hashlib.sha256(2 * block + bytes(2 << 20)).hexdigest()


def test_no_digest_of_a_file_that_is_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "part", tmp_path / "other"
    path.write_bytes(b"short")
    growing = agent.GrowingDigest(os.fsencode(path), 10)
    assert growing.look() is not None
    other.write_bytes(b"short" * 2)
    other.rename(path)
    assert growing.look() is None
    assert growing.digest is None


async def test_no_digest_of_a_file_that_is_removed(host: AgentHost, tmp_path: Path) -> None:
    path = tmp_path / "part"
    path.write_bytes(b"short")
    asked = asyncio.create_task(host.digest_of_growing(str(path), 10))
    assert await host.digest_of_growing(str(path), 5) == hashlib.sha256(b"short").hexdigest()
    await host.remove([str(path)])
    assert await asked is None
    with pytest.raises(InfeasibleError, match="not a regular file"):
        await host.digest_of_growing(str(tmp_path), 5)
