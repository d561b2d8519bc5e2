"""A real OAR passes the suite of all sites. Each job takes it some seconds, so its order is that of
OAR, and waits are long."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.suites.conformance import Clustered, run_id
from tests.testbed import oar
from wfrun.engine.model import Access, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.kind import AnySite

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(oar.missing()), reason=oar.missing())]

CONFIG = "WFRUN_SUITE_OAR"
"""The configuration of ssh, also for a process that kills an engine."""


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    # The user must be able to reach it, so not below the directory of pytest.
    place = Path(tempfile.mkdtemp(prefix="wfrun-oar-"))
    place.chmod(0o755)
    try:
        with oar.running(place / "oar") as config:
            yield config
    finally:
        shutil.rmtree(place)


class TestOar(Clustered):
    """Narrow jobs overtake a wide one that waits, if they end before it could start."""

    keeps_order = False

    @pytest.fixture
    def tmp_path(self, server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        monkeypatch.setenv(CONFIG, str(server))
        place = server.parents[1] / secrets.token_hex(4)
        before = os.umask(0)
        try:
            place.mkdir()
            place.chmod(0o1777)
            yield place
        finally:
            os.umask(before)
            shutil.rmtree(place, ignore_errors=True)

    def make(self, directory: Path, slots: int) -> AnySite:
        access = Access(
            ("oar",),
            ssh_config=os.environ[CONFIG],
            options=("-p", f"slots = {slots}"),
            poll_min_s=0.3,
            poll_max_s=2.0,
        )
        spec = SiteSpec("oar", slots, kind="oar", directory=str(directory), access=access)
        run = run_id(directory)
        return make_site(spec, 0, run, f"wfrun-{run}", directory, time.time)
