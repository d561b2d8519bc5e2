"""What a copy writes is durable before it is reported, so that a power failure cannot leave a log
that says more than the disk has."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import ANYTHING, Content
from wfrun.engine.model import ORIGIN, SiteSpec
from wfrun.sites.transfers.endpoints import local_endpoint
from wfrun.sites.transfers.endpoints.endpoint import part_name
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local import disk
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.method import Location


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The fsyncs and renames, in order, by the name of what was synced or replaced."""
    made: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note_fsync(fd: int) -> None:
        made.append("fsync " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def note_rename(path: Path, target: Path) -> Path:
        made.append(f"rename {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    return made


def check(calls: list[str], contents: int, *, is_output: bool) -> None:
    """The contents were synced before the rename, the directory after it."""
    renamed = calls.index("rename out")
    parts = [call for call in calls[:renamed] if part_name("") in call or "inner" in call]
    assert len(parts) >= contents, calls
    assert ("fsync outputs" in calls[renamed:]) == is_output, calls


@pytest.mark.parametrize("is_output", [True, False])
@pytest.mark.parametrize("is_tree", [True, False])
async def test_a_copy_on_this_machine(
    tmp_path: Path, calls: list[str], is_output: bool, is_tree: bool
) -> None:
    source = tmp_path / "source"
    if is_tree:
        source.mkdir()
        (source / "inner").write_text("x")
    else:
        source.write_text("x")
    method = LocalCopy()
    store = LocalEndpoint(0, SiteSpec("a", 1), tmp_path / "outputs")
    final = str(tmp_path / "outputs" / "out") if is_output else "out"
    there = LocalEndpoint() if is_output else store
    await method.copy(Location(LocalEndpoint(), str(source)), Location(there, final), "k", ANYTHING)
    method.close()
    check(calls, 1, is_output=is_output)
    assert f"fsync {tmp_path.name}" in calls  # the new directory `outputs`


@pytest.mark.parametrize("is_output", [True, False])
async def test_a_file_from_another_site(tmp_path: Path, calls: list[str], is_output: bool) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield b"x"

    spec = None if is_output else SiteSpec("a", 1)
    endpoint = LocalEndpoint(ORIGIN, spec, tmp_path / "outputs")
    await endpoint.write("out", content(), Content(1), False, "k")
    check(calls, 1, is_output=is_output)


async def test_a_large_file_moves_to_the_disk_while_it_is_written(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_endpoint, "_FLUSH_BYTES", 2)

    async def content() -> AsyncIterator[bytes]:
        yield b"xx"
        while not calls:
            await asyncio.sleep(0.001)
        yield b"x"

    await LocalEndpoint(0, SiteSpec("a", 1), tmp_path).write(
        "out", content(), Content(3), False, "k"
    )
    check(calls, 2, is_output=False)


async def test_an_error_of_the_disk_fails_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports a lost page once, to the first one that asks."""
    monkeypatch.setattr(local_endpoint, "_FLUSH_BYTES", 1)
    failures = [OSError(errno.EIO, os.strerror(errno.EIO))]
    fsync = os.fsync

    def fail_once(fd: int) -> None:
        if failures:
            raise failures.pop()
        fsync(fd)

    monkeypatch.setattr(os, "fsync", fail_once)

    async def content() -> AsyncIterator[bytes]:
        yield b"x"
        while failures:
            await asyncio.sleep(0.001)

    store = LocalEndpoint(0, SiteSpec("a", 1), tmp_path)
    with pytest.raises(TransientError, match="Input/output error"):
        await store.write("out", content(), Content(1), False, "k")
    assert not list(tmp_path.iterdir())


def test_a_tree_with_a_pipe(tmp_path: Path) -> None:
    """It is not waited for a writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("absent")
    disk.sync_tree(tmp_path)


def test_the_files_of_a_directory_are_synced_together(tmp_path: Path, calls: list[str]) -> None:
    """Not one by one while they are copied, which takes five times as long."""
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / f"f{number}").write_text("x")
    written: list[int] = []
    copy = disk._copy_content

    def note(*args: Any) -> None:
        copy(*args)
        written.append(len([call for call in calls if call.startswith("fsync f")]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "_copy_content", note)
        assert disk.copy_path(source, tmp_path / "copy", True, ()) == 20
    assert written == [0] * 20
    assert {f"fsync f{number}" for number in range(20)} <= set(calls)


def test_many_files_are_synced_at_once(
    tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fsync after another would take minutes."""
    monkeypatch.setattr(disk, "MANY_FILES", 3)
    for number in range(4):
        (tmp_path / f"f{number}").write_text("x")
    disk.sync_tree(tmp_path)
    assert not calls
    (tmp_path / "f0").unlink()
    disk.sync_tree(tmp_path)
    assert len(calls) == 4  # three files, and their directory


def test_what_the_disk_does_not_take_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may report a full disk only then."""
    (tmp_path / "f").write_text("x")
    (tmp_path / "link").symlink_to("nowhere")
    disk.sync_tree(tmp_path)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        disk.sync_tree(tmp_path)
