"""Conformance suites on the testbed."""

from __future__ import annotations

import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from tests.testbed.layout import Layout
from tests.testbed.testbed import Testbed
from wfrun.engine.events import Event
from wfrun.engine.exchange import LauncherRequest
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.testing.probe import Probe
from wfrun.testing.sites import SiteConformance

TESTBED = "WFRUN_SUITE_TESTBED"
"""Base port and directory of the testbed of this process, or of the process that kills an
engine."""


def run_id(directory: Path) -> str:
    """Run id for a directory. It differs between tests, because the jobs of an earlier test may
    still be in the queue under its id."""
    return f"suite{zlib.crc32(os.fsencode(directory)):08x}"


def layout() -> Layout:
    base, _, directory = os.environ[TESTBED].partition(" ")
    return Layout.of(int(base), Path(directory))


def access_of(name: str, transport: Literal["asyncssh", "openssh"]) -> Access:
    """Access to a site of the testbed."""
    return Access((name,), transport=transport, ssh_config=str(layout().ssh_config))


def shared_directory(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a directory for a test below the testbed's, where test and site users can read and write
    each other's files."""
    directory = testbed.layout.directory
    monkeypatch.setenv(TESTBED, f"{testbed.layout.base} {directory}")
    place = directory / "suite" / secrets.token_hex(4)
    place.parent.mkdir(exist_ok=True)
    before = os.umask(0)
    try:
        place.mkdir()
        place.chmod(0o1777)  # as scratch directories: sites refuse what others could replace
        yield place
    finally:
        os.umask(before)
        # Jobs may write there until the testbed has cancelled them.
        shutil.rmtree(place, ignore_errors=True)


class Stored(SiteConformance):
    """A site whose directory the test can read."""

    def put(self, directory: Path, stored: str, content: bytes) -> None:
        self._path(directory, stored).write_bytes(content)

    def get(self, directory: Path, stored: str) -> bytes | None:
        path = self._path(directory, stored)
        return path.read_bytes() if path.exists() else None

    def _path(self, directory: Path, stored: str) -> Path:
        return directory / f"wfrun-{run_id(directory)}" / "files" / stored


class Clustered(Stored):
    """A cluster, whose queue is polled.

    Jobs stay in the queue when their engine ends. A start is reported by the next poll, or by the
    exit record, so the order of starts is that of the recorded times.
    """

    queued_survive = True
    crowd = 6

    def starts(self, probe: Probe) -> list[str]:
        keys = super().starts(probe)
        return sorted(keys, key=lambda key: probe.outcomes(key)[0].started_s or 0.0)


class OnTestbed(Stored):
    """Override ``name`` and ``access``."""

    name: str

    def access(self, slots: int) -> Access:
        """Access to this number of slots of the site."""
        raise NotImplementedError

    @pytest.fixture
    def tmp_path(self, testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        yield from shared_directory(testbed, monkeypatch)

    def make(self, directory: Path, slots: int) -> AnySite:
        site = layout().site(self.name)
        access = self.access(slots)
        spec = SiteSpec(self.name, slots, kind=site.kind, directory=str(directory), access=access)
        run = run_id(directory)
        return make_site(spec, 0, run, f"wfrun-{run}", directory, time.time)


class ClusterOnTestbed(Clustered, OnTestbed):
    """Override ``login`` and ``queue``."""

    def access(self, slots: int) -> Access:
        return msgspec.structs.replace(
            self.login(), queue=self.queue(slots), poll_min_s=0.3, poll_max_s=2.0
        )

    def login(self) -> Access:
        raise NotImplementedError

    def queue(self, slots: int) -> str:
        """A queue or partition of so few slots."""
        raise NotImplementedError


class WithLauncher:
    """A site whose attempts are run by launchers, with the one that a core would have asked for."""

    def __init__(self, site: BatchLauncherSite, request: LauncherRequest, place: Path) -> None:
        self.site = site
        self._request = request
        self._place = place
        """There when an engine before this one has asked for it."""

    async def open(self, post: Callable[[Event], None]) -> None:
        resumes = self._place.exists()
        await self.site.open(post)
        if resumes:
            await self.site.find_launchers([self._request.key])
        else:
            await self.site.start_launchers([self._request])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.site, name)


class LaunchersOnTestbed(OnTestbed):
    """A launcher of as many cores as the site has slots, in a job of a cluster. Override ``name``,
    ``channel`` and ``login``.

    What waits for room is held by the engine and gone with it, what a launcher has in advance is
    not.
    """

    queued_survive = None
    channel: Literal["tcp", "ssh", "spool"]

    def login(self) -> Access:
        raise NotImplementedError

    def access(self, slots: int) -> Access:
        return msgspec.structs.replace(
            self.login(),
            poll_min_s=0.3,
            poll_max_s=2.0,
            dispatch="launchers",
            launchers=LauncherSpec(cores=slots, channels=(self.channel,), patience_s=60.0),
        )

    def make(self, directory: Path, slots: int) -> Any:
        site = super().make(directory, slots)
        assert isinstance(site, BatchLauncherSite)
        request = LauncherRequest(f"{run_id(directory)}.L1", 1, slots, 0, 0, 600.0)
        return WithLauncher(site, request, directory / f"wfrun-{run_id(directory)}")
