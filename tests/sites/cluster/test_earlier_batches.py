"""The next engine finds the jobs of the one before, or waits until it can."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.sites.cluster.earlier_engine import leave_batch
from wfrun.engine.model import Access, SiteSpec
from wfrun.runners.run.sites.make_sites import make_site
from wfrun.sites.cluster.site import ClusterSite
from wfrun.testing.probe import Probe

LS = """\
#!/bin/sh
if rm {once} 2>/dev/null; then kill -9 $$; fi
exec /bin/ls "$@"
"""


async def test_batches_that_cannot_be_listed_are_not_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel kills ls, as it does when a head node is short of memory."""
    leave_batch(tmp_path)
    program = tmp_path / "bin" / "ls"
    program.parent.mkdir()
    once = tmp_path / "once"
    once.touch()
    program.write_text(LS.format(once=once))
    program.chmod(0o755)
    (tmp_path / ".profile").write_text(f"PATH={program.parent}:$PATH; export PATH\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    access = Access(transport="local")
    spec = SiteSpec("here", 2, kind="slurm", directory=f"{tmp_path}/scratch", access=access)
    site = make_site(spec, 0, "r1", "wfrun-r1", tmp_path, time.time)
    try:
        assert isinstance(site, ClusterSite)
        await site.open(Probe().post)
        await asyncio.wait_for(site.head.ready.wait(), 60)
        assert site.head.batches.any
    finally:
        await site.close()
    assert not once.exists()
