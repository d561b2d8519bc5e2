"""Inputs that a cluster has already, and inputs from a GridFTP server with certificates."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import Job
from tests.testbed.fixture import GridFTP
from wfrun.engine import events as ev

pytestmark = pytest.mark.slow

DATA = os.urandom(3 << 20)


def test_a_file_and_a_directory_of_a_cluster(grid: Grid) -> None:
    site = grid.testbed.layout.site("alpha")
    folder, user = site.home / "archive", grid.testbed.layout.user("alpha")
    (folder / "tree").mkdir(parents=True)
    try:
        (folder / "real").write_bytes(DATA)
        (folder / "link").symlink_to("real")
        (folder / "tree" / "member").write_bytes(b"member")
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user) if not path.is_symlink() else None
        (folder / "real").chmod(0o600)
        (grid.user.folder / "rc.txt").write_text(
            f"data {folder}/link site=alpha checksum.value={hashlib.sha256(DATA).hexdigest()}\n"
            f"tree file://{folder}/tree site=alpha\n"
        )
        names = ["one", "two"]
        script = "cat data tree/member > {0}; chmod -R +w data tree; echo no > tree/member"
        jobs = [Job(n, script.format(n), ["data", "tree"], [n], [n]) for n in names]
        done = grid.user.wfrun(
            "run", grid.user.write(jobs), "--sites", grid.catalog("alpha", "delta"),
            "--input-catalog", "rc.txt", "--policy", "round-robin", "--run-dir", grid.run,
        )  # fmt: skip
        assert done.status == 0, done.text
        assert {(grid.run / "outputs" / n).read_bytes() for n in names} == {DATA + b"member"}
        copies = [e for e in grid.events() if isinstance(e, ev.TransferEnded)]
        inputs = [(c.source, c.destination) for c in copies if c.destination >= 0]
        assert sorted(inputs) == [(0, 0), (0, 0), (0, 1), (0, 1)]
        assert (folder / "real").read_bytes() == DATA
        assert (folder / "tree" / "member").read_bytes() == b"member"
    finally:
        shutil.rmtree(folder)


def test_a_server_with_certificates(
    grid: Grid, gridftp: GridFTP, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in gridftp.environment.items():
        monkeypatch.setenv(name, value)
    file = grid.testbed.layout.site("alpha").home / "of alpha"
    file.write_bytes(DATA)
    try:
        url = gridftp.url("alpha", str(file), "gsiftp").replace(" ", "%20")
        (grid.user.folder / "rc.txt").write_text(f"data {url}\n")
        jobs = [Job("one", "cp data copy", ["data"], ["copy"], ["copy"])]
        done = grid.user.wfrun(
            "run", grid.user.write(jobs), "--input-catalog", "rc.txt", "--allow-urls", "127.0.0.1",
            "--run-dir", grid.run,
        )  # fmt: skip
        assert done.status == 0, done.text
        assert (grid.run / "outputs" / "copy").read_bytes() == DATA
    finally:
        file.unlink()
