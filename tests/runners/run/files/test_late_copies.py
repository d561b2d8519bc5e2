"""A real link between two sites that stalls: the file goes by another transfer method."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import wfrun
from tests.network.host import UID
from tests.network.network import Network
from tests.runners.harness import Job, make_workflow
from wfrun.engine import events as ev
from wfrun.engine.capabilities.storing import late_copies
from wfrun.engine.model import Access, Catalog, LinkSpec, SiteSpec

SIZE_BYTES = 4 << 20


def site_of(network: Network, name: str) -> SiteSpec:
    """A host that sends files to the others itself."""
    key = network.hosts[name].home / "key"
    shutil.copy(network.directory / "id_ed25519", key)
    os.chown(key, UID, UID)
    access = Access(
        hosts=(name,), ssh_config=str(network.ssh_config), direct="key", direct_key="~/key"
    )
    return SiteSpec(name, 1, kind="ssh", access=access, directory="/home/user/wfrun")


@pytest.mark.slow
def test_a_file_goes_through_this_machine_where_a_link_stalls(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_copies, "MIN_LATE_S", 2.0)
    monkeypatch.setattr(late_copies, "MIN_INTERVAL_S", 0.5)
    network.shape("one", "two", rate=10_000)
    jobs = [
        Job("write", f"head -c {SIZE_BYTES} /dev/urandom > f", outputs=["f"]),
        Job("read", "cat f > g", inputs=["f"], outputs=["g"], collect=["g"]),
    ]
    links = (LinkSpec("one", "two", 100e6, methods=("sftp", "stream")),)
    seen: list[ev.Event] = []

    def observe(events: Sequence[ev.Event]) -> None:
        seen.extend(events)

    catalog = Catalog((site_of(network, "one"), site_of(network, "two")), links)
    result = wfrun.run(
        make_workflow(jobs), sites=catalog, run_dir=tmp_path / "run", policy="round-robin",
        keep="all", history=tmp_path / "history", observer=observe,
    )  # fmt: skip
    assert result.outcome == "done"
    (routed,) = [event for event in seen if isinstance(event, ev.CopyRouted)]
    (late,) = [event for event in seen if isinstance(event, ev.CopyLate)]
    assert (routed.method, routed.other) == (late.method, late.other) == ("sftp", "stream")
    ended = {e.destination: e for e in seen if isinstance(e, ev.TransferEnded)}
    assert (ended[1].method, ended[1].avoided) == ("stream", ("sftp",))
    assert (result.outputs / "g").stat().st_size == SIZE_BYTES
    store = network.hosts["two"].home / "wfrun"
    assert not list(store.rglob(".wfrun-part-*"))
