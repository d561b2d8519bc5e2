"""Each system call for a task fails once: the task is done all the same. One launcher runs them
all, so that many calls are tried in a short time."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failing.failing_calls import ROLES, SOURCE, compile_library
from tests.testbed.layout import MissingError
from wfrun.engine.model import SiteSpec
from wfrun.sites.local.site import LocalSite
from wfrun.sites.node import FOLDER
from wfrun.testing.probe import Probe, request

SCRIPT = """#!/bin/sh
set -e
cat input > output
mkdir tree
ln -s ../outside tree/out
echo inner > tree/inner
ln -s inner tree/in
echo outside > outside
ln -s outside link
echo printed
"""
QUICK = [("stat", errno.ESTALE)]
SLOW = [
    ("read", errno.EAGAIN),
    ("spawn", errno.EAGAIN),
    *((call, errno.EIO) for call in ("open", "rename", "link", "remove", "mkdir")),
]
REVOKED = """
import sys
sys.path.insert(0, sys.argv[1])
from store import AttemptError, refuse_revoked
for _ in range(2):
    try:
        refuse_revoked(sys.argv[2] + "/w/", "failing-1")
        print("it may commit")
    except (AttemptError, OSError) as error:
        print(type(error).__name__)
"""


class FailingLauncher:
    """A site whose launcher meets failing calls."""

    def __init__(self, folder: Path, call: str, error: int, patch: pytest.MonkeyPatch) -> None:
        try:
            library = compile_library(SOURCE, folder)
        except MissingError as missing:
            pytest.skip(str(missing))
        self.directory = folder / "w" / "site"
        self.directory.mkdir(parents=True)
        self._count = folder / "count"
        self._count.write_bytes(bytes(8))
        settings = {
            "LD_PRELOAD": str(library),
            "FAIL_ROLE": ROLES["launcher"],
            "FAIL_CALL": call,
            "FAIL_AT": str(1 << 30),
            "FAIL_ERRNO": str(error),
            "FAIL_UNDER": f"{folder}/w",
            "FAIL_COUNT": str(self._count),
        }
        for name, value in settings.items():
            patch.setenv(name, value)

    def arm(self, at: int) -> None:
        """Let the ``at``-th call from now on fail."""
        self._put((1 << 30) - at)

    @property
    def has_failed(self) -> bool:
        return int(struct.unpack("ii", self._count.read_bytes())[0]) >= 1 << 30

    def _put(self, count: int) -> None:
        fd = os.open(self._count, os.O_WRONLY)  # the launcher has the file mapped
        try:
            os.pwrite(fd, struct.pack("i", count), 0)
        finally:
            os.close(fd)


def test_an_attempt_may_not_commit_when_nobody_can_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt of its task may have committed its outputs by now."""
    FailingLauncher(tmp_path, "stat", errno.ESTALE, monkeypatch).arm(1)
    (tmp_path / "w" / "failing-1.revoked").touch()
    words = [
        sys.executable,
        "-I",
        "-c",
        REVOKED,
        str(FOLDER / "tasks"),
        str(tmp_path),
        "launcher.py",
    ]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["OSError", "AttemptError"]


async def try_all(folder: Path, call: str, error: int, patch: pytest.MonkeyPatch) -> int:
    """Let each call fail that a task needs; returns their number."""
    launcher = FailingLauncher(folder, call, error, patch)
    script = folder / "w" / "script"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    site, probe = LocalSite(SiteSpec("here", 1), 0, launcher.directory), Probe()
    await site.open(probe.post)
    try:
        store = launcher.directory / "files"
        (store / "in").write_text("content")
        for at in range(1, 1000):
            key = f"failing-{at}"
            names = {name: f"{name}-{at}" for name in ("output", "tree", "link")}
            launcher.arm(at)
            await site.submit(
                [request(key, str(script), inputs={"input": "in"}, outputs=names)],
            )
            outcome = await probe.ended(key)
            assert outcome.cause == "done", (at, outcome)
            assert (store / names["output"]).read_text() == "content", at
            assert (store / names["link"]).read_text() == "outside\n", at
            tree = store / names["tree"]
            assert sorted(path.name for path in tree.iterdir()) == ["in", "inner", "out"], at
            assert not (tree / "out").is_symlink(), at
            assert (tree / "in").read_text() == "inner\n", at
            assert (await site.log(key))[0] == b"printed\n", at
            if not launcher.has_failed:
                return at - 1
        raise AssertionError("there is no end of the calls")
    finally:
        await site.close()


@pytest.mark.slow
@pytest.mark.parametrize(("call", "error"), QUICK)
async def test_a_call_for_a_task_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    assert await try_all(tmp_path, call, error, monkeypatch) > 10


@pytest.mark.slow
@pytest.mark.parametrize(("call", "error"), SLOW)
async def test_every_call_for_a_task_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    assert await try_all(tmp_path, call, error, monkeypatch) > 0
