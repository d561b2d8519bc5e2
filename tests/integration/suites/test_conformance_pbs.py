"""PBS, played back from recordings, passes the suite of all sites."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import pbs
from tests.integration.suites.conformance import Clustered, run_id
from wfrun.engine.model import Access, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.kind import AnySite


class TestPbs(Clustered):
    """wfrun on the head node itself, where the user's profile has the commands in PATH. Narrow jobs
    overtake a wide one unless the scheduler has ``strict_ordering`` and no backfilling."""

    keeps_order = False

    @pytest.fixture
    def tmp_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        home = tmp_path / "home"
        home.mkdir()
        (home / ".profile").write_text(f"PATH={tmp_path}/pbs/bin:$PATH; export PATH\n")
        monkeypatch.setenv("HOME", str(home))
        yield tmp_path
        pbs.end(tmp_path / "pbs")
        shutil.rmtree(tmp_path)

    def make(self, directory: Path, slots: int) -> AnySite:
        pbs.install(directory.parent / "pbs", slots)
        access = Access(transport="local", poll_min_s=0.3, poll_max_s=2.0)
        spec = SiteSpec("here", slots, kind="pbs", directory=str(directory), access=access)
        run = run_id(directory)
        return make_site(spec, 0, run, f"wfrun-{run}", directory, time.time)
