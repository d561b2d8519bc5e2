"""Images of containers stay at sites that are reached over a connection, for later runs."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.runners.harness import Done, User
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.sites import node

IMAGE = b"an image\n" * 20_000
"""Larger than files that share a message."""
SHA256 = hashlib.sha256(IMAGE).hexdigest()
BAG = "command: 'true'\ncontainer: an.sif\n"
SITES = """\
sites:
  far:
    kind: ssh
    transport: local
    slots: 1
    directory: {far}
    container: {{command: "sh -c 'cat \\"$0\\" >{used}; exec \\"$@\\"' {{image}}"}}
"""


class Site(NamedTuple):
    """A site of a user, and the runs of one task in a container there."""

    user: User
    directory: Path
    used: Path
    """The image that the last task had."""

    @property
    def cache(self) -> Path:
        return self.directory / "images"

    def words(self, run: str) -> list[str]:
        return ["run", "bag.yaml", "--sites", "sites.yaml", "--run-dir", run, "--keep", "all"]

    def run(self, run: str, *more: str) -> Done:
        self.used.unlink(missing_ok=True)
        return self.user.wfrun(*self.words(run), "--retry-delay", "0", *more)

    def sent_bytes(self, run: str) -> int:
        """Bytes that came to the site; the image is the only input."""
        (site,) = read_state(RunDir(self.user.folder / run)).sites
        assert site.transfers_in == 1
        return site.bytes_in


@pytest.fixture
def site(user: User) -> Site:
    made = Site(user, user.folder / "far", user.folder / "used")
    user.catalog(SITES.format(far=made.directory, used=made.used))
    (user.folder / "an.sif").write_bytes(IMAGE)
    (user.folder / "bag.yaml").write_text(BAG)
    return made


def test_a_second_run_sends_no_image(site: Site) -> None:
    first = site.run("first")
    assert first.status == 0, first.text
    assert site.sent_bytes("first") == len(IMAGE)
    assert stat.S_IMODE(site.cache.stat().st_mode) == 0o700
    assert {path.name for path in site.cache.iterdir()} == {SHA256, f"{SHA256}.checked"}
    second = site.run("second", "--checksums", "all")
    assert second.status == 0, second.text
    assert site.sent_bytes("second") == 0
    assert site.used.read_bytes() == IMAGE
    stored = list(site.directory.glob("wfrun-*/files/*an.sif"))
    assert len(stored) == 2
    assert all(path.samefile(site.cache / SHA256) for path in stored)
    assert not list(site.directory.glob("wfrun-*/files/.*"))


def test_a_damaged_image_is_sent_again(site: Site) -> None:
    site.cache.mkdir(parents=True, mode=0o700)
    cached = site.cache / SHA256
    cached.write_bytes(bytes(len(IMAGE)))
    done = site.run("run")
    assert done.status == 0, done.text
    assert site.sent_bytes("run") == len(IMAGE)
    assert site.used.read_bytes() == IMAGE
    assert cached.read_bytes() == IMAGE


@pytest.mark.slow
def test_damage_that_only_the_node_sees_is_mended_by_the_next_run(site: Site) -> None:
    """The size, the inode and the modification time are those of the image."""
    assert site.run("first").status == 0
    cached = site.cache / SHA256
    was = cached.stat()
    cached.chmod(0o600)
    with open(cached, "r+b") as file:
        file.write(b"\0")
    os.utime(cached, ns=(was.st_atime_ns, was.st_mtime_ns))
    second = site.run("second")
    assert second.status != 0
    assert "its checksum differs" in second.text
    assert not site.used.exists()
    third = site.run("third")
    assert third.status == 0, third.text
    assert site.used.read_bytes() == IMAGE


def test_a_cache_that_others_can_write_is_not_used(site: Site) -> None:
    site.cache.mkdir(parents=True)
    site.directory.chmod(0o700)
    (site.cache / SHA256).write_bytes(b"of somebody else")
    site.cache.chmod(0o777)
    done = site.run("run")
    assert done.status == 0, done.text
    assert f"{site.cache} can be written by other users" in done.err
    assert site.sent_bytes("run") == len(IMAGE)
    assert site.used.read_bytes() == IMAGE
    assert {path.name for path in site.cache.iterdir()} == {SHA256}


@pytest.mark.slow
def test_two_runs_at_once(site: Site) -> None:
    engines = [site.user.start(*site.words(run)) for run in ("first", "second")]
    for engine in engines:
        done = engine.done()
        assert done.status == 0, done.text
    assert {path.name for path in site.cache.iterdir()} == {SHA256, f"{SHA256}.checked"}
    assert (site.cache / SHA256).read_bytes() == IMAGE
    assert site.run("third").status == 0
    assert site.sent_bytes("third") == 0


def ask(what: str, cache: Path, stored: Path) -> bool:
    """The answer of the program at the site."""
    question = {
        "ask": what,
        "cache": str(cache),
        "sha256": SHA256,
        "stored": str(stored),
        "part": f"{stored}.part",
    }
    argv = [sys.executable, "-I", "-S", str(node.FOLDER / "alone/images.py")]
    done = subprocess.run(
        argv, input=json.dumps(question), capture_output=True, text=True, check=True
    )
    return bool(json.loads(done.stdout))


def test_both_have_sent_before_either_keeps_it(tmp_path: Path) -> None:
    stores = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    cache = tmp_path / "images"
    cache.mkdir()
    for stored in stores[:2]:
        assert not ask("take", cache, stored)
        stored.write_bytes(IMAGE)
    assert all(ask("keep", cache, stored) for stored in stores[:2])
    assert all(ask("take", cache, stored) for stored in stores)
    assert all(stored.samefile(cache / SHA256) for stored in stores)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "c", "images"}


@pytest.mark.parametrize("what", ["time", "size", "inode"])
def test_a_file_that_changed_after_its_check_is_removed(tmp_path: Path, what: str) -> None:
    cache, stored = tmp_path / "images", tmp_path / "a"
    cache.mkdir()
    stored.write_bytes(IMAGE)
    assert ask("keep", cache, stored)
    cached = cache / SHA256
    was = cached.stat()
    cached.chmod(0o600)
    if what == "inode":
        cached.rename(tmp_path / "before")
    cached.write_bytes(bytes(len(IMAGE) - (what == "size")))
    os.utime(cached, ns=(was.st_atime_ns, was.st_mtime_ns + (what == "time")))
    assert not ask("take", cache, tmp_path / "b")
    assert not cached.exists()
    assert not (tmp_path / "b").exists()


def test_without_hard_links_nothing_is_kept_or_taken(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system")
    stored = tmp_path / "a"
    with tempfile.TemporaryDirectory(dir=other) as folder:
        assert not ask("take", Path(folder), stored)
        stored.write_bytes(IMAGE)
        assert not ask("keep", Path(folder), stored)
        assert not list(Path(folder).iterdir())
        (Path(folder) / SHA256).write_bytes(IMAGE)
        assert not ask("take", Path(folder), stored)
    assert stored.read_bytes() == IMAGE
    assert list(tmp_path.iterdir()) == [stored]


def test_what_has_another_checksum_is_not_kept(tmp_path: Path) -> None:
    cache, stored = tmp_path / "images", tmp_path / "a"
    cache.mkdir()
    stored.write_bytes(IMAGE[1:])
    assert not ask("keep", cache, stored)
    assert not list(cache.iterdir())
