"""Logs of tasks: used again, shown, packed, with few files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from wfrun.engine.exchange import Outcome
from wfrun.engine.model import SiteSpec
from wfrun.sites.local import direct_launcher
from wfrun.sites.local.site import LocalSite
from wfrun.testing.probe import Probe, request, shell

SHORT = [f"s-{n}" for n in range(20)]


@asynccontextmanager
async def opened(directory: Path, *, pack: bool = False) -> AsyncIterator[tuple[LocalSite, Probe]]:
    site = LocalSite(SiteSpec("here", 2), 3, directory, pack_logs=pack)
    probe = Probe()
    await site.open(probe.post)
    try:
        yield site, probe
    finally:
        await site.close()


def inodes(attempts: Path) -> int:
    return len({entry.inode() for entry in os.scandir(attempts)})


async def test_tasks_that_print_nothing_take_no_inodes(tmp_path: Path) -> None:
    async with opened(tmp_path) as (site, probe):
        await site.submit([request(key, "true") for key in SHORT])
        for key in SHORT:
            assert (await probe.ended(key)).cause == "done"
    names = sorted(os.listdir(tmp_path / "attempts"))
    assert names == sorted(f"{key}.out" for key in SHORT)
    assert inodes(tmp_path / "attempts") == 1


async def test_each_task_has_its_own_log_and_an_empty_sandbox(tmp_path: Path) -> None:
    script = 'ls -A; echo "$1"; echo "$1" >&2; touch litter; mkdir more; test "$1" != s-13'
    async with opened(tmp_path) as (site, probe):
        await site.submit([request(f"w-{n}", "true") for n in range(6)])
        await site.submit([shell(key, script, key) for key in SHORT])
        for key in SHORT:
            assert (await probe.ended(key)).cause == ("exit" if key == "s-13" else "done")
            assert await site.log(key) == (f"{key}\n".encode(), f"{key}\n".encode())
    kept = [entry.name for entry in os.scandir(tmp_path / "attempts") if entry.is_dir()]
    assert kept == ["s-13"]
    assert sorted(os.listdir(tmp_path / "attempts" / "s-13")) == ["litter", "more"]


async def test_a_long_task_after_short_ones_shows_what_it_prints(tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = 'echo begun; while [ ! -e "$1" ]; do sleep 0.02; done; cd "$PWD" && echo ended'
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([request(key, "true") for key in SHORT])
        for key in SHORT:
            await probe.ended(key)
        await site.submit([shell("long", script, str(go))])
        while await site.log("long") != (b"begun\n", b""):
            await probe.let_pass(0.01)
        go.touch()
        assert (await probe.ended("long")).cause == "done"
        assert (await site.log("long"))[0] == b"begun\nended\n"


def unpacked(directory: Path, outcome: Outcome) -> tuple[bytes, bytes]:
    packed = outcome.packed
    assert packed is not None
    text = (directory / "logs" / packed.file).read_bytes()[packed.offset_bytes :]
    out = text[: packed.stdout_bytes]
    return out, text[packed.stdout_bytes :][: packed.stderr_bytes]


async def test_packed_logs(tmp_path: Path) -> None:
    script = 'echo "$1"; test "$1" = s-4 || echo "of $1" >&2; test "$1" != s-13'
    async with opened(tmp_path, pack=True) as (site, probe):
        await site.submit([shell(key, script, key) for key in SHORT])
        await site.submit([request("silent", "true")])
        for key in SHORT:
            outcome = await probe.ended(key)
            stderr = b"" if key == "s-4" else f"of {key}\n".encode()
            assert unpacked(tmp_path, outcome) == (f"{key}\n".encode(), stderr)
            if key == "s-13":
                assert outcome.message is not None
                assert outcome.message.endswith("the end of its stderr:\nof s-13")
        assert (await probe.ended("silent")).packed is None
    names = {f"{key}.out" for key in (*SHORT, "silent")} | {"s-13"}
    assert set(os.listdir(tmp_path / "attempts")) == names
    assert inodes(tmp_path / "attempts") == 2
    assert len(os.listdir(tmp_path / "logs")) == 1


async def test_long_output_is_not_packed(tmp_path: Path) -> None:
    async with opened(tmp_path, pack=True) as (site, probe):
        await site.submit([shell("big", "head -c 1048577 /dev/zero")])
        assert (await probe.ended("big")).packed is None
        assert (await site.log("big"))[0] == bytes(1048577)


async def test_an_attempt_that_is_not_sent_yet_is_active_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_launcher, "MAX_SENT_ATTEMPTS", 4)
    monkeypatch.setattr(direct_launcher, "MESSAGE_KEYS", 2)
    go = tmp_path / "go"
    script = 'while [ ! -e "$1" ]; do sleep 0.02; done'
    keys = [f"log-{n}" for n in range(20)]
    async with opened(tmp_path / "site") as (site, probe):
        await site.submit([shell(key, script, str(go)) for key in keys])
        await probe.started("log-1")
        found = await site.find(keys)
        assert {found[key].state for key in keys} == {"active"}
        await site.cancel(keys[10:15], queued_only=True)
        for key in keys[10:15]:
            assert (await probe.ended(key)).cause == "cancelled"
        go.touch()
        for key in (*keys[:10], *keys[15:]):
            assert (await probe.ended(key)).cause == "done"
    ran = set(os.listdir(tmp_path / "site" / "attempts"))
    assert ran == {f"{key}.out" for key in (*keys[:10], *keys[15:])}
