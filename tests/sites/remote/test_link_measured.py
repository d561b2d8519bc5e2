"""The link of a site is measured with real copies over a real sshd."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.sites.remote.conftest import Cluster
from wfrun.engine.errors import TransientError
from wfrun.engine.files.link_samples import LinkSample, bandwidth_of, latency_of
from wfrun.engine.model import Access, Catalog, SiteSpec
from wfrun.runners.admin.init import connected
from wfrun.runners.admin.links import links
from wfrun.runners.admin.links.link_table import show_links
from wfrun.runners.admin.links.links import MeasuredLink, measure_link, measure_ways
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import PlacePair, load_links, place_of, write_links
from wfrun.sites.remote.files.directory import make_directory
from wfrun.sites.transfers import METHODS


def spec_of(cluster: Cluster, transport: Literal["asyncssh", "openssh"]) -> SiteSpec:
    access = Access(hosts=(cluster.host,), transport=transport, ssh_config=str(cluster.config))
    return SiteSpec("near", 2, kind="ssh", access=access)


@pytest.mark.parametrize("transport", ["asyncssh", pytest.param("openssh", marks=pytest.mark.slow)])
async def test_both_ways(
    shared_cluster: Cluster,
    transport: Literal["asyncssh", "openssh"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(links, "_MAX_BYTES", 1 << 20)
    spec = spec_of(shared_cluster, transport)
    assert spec.access is not None
    async with connected(spec.access, None) as (connection, host):
        base = await make_directory(host, "near", str(tmp_path), "wfrun-test")
        ways = await measure_ways(spec, connection, base)
        left = os.listdir(f"{base}/files")
    link = MeasuredLink(*(way.link for way in ways))
    assert (link.up.source, link.up.destination) == ("origin", "near")
    assert (link.down.source, link.down.destination) == ("near", "origin")
    for each in link:
        assert each.latency_s > 0
        assert each.bandwidth_bytes_per_s is not None
        assert 1e4 < each.bandwidth_bytes_per_s < 1e12
    assert left == []
    for way in ways:
        assert way.method in METHODS
        assert max(sample.size_bytes for sample in way.samples) <= links._MAX_BYTES
        assert latency_of(way.samples[:3]) == way.link.latency_s
        assert bandwidth_of(way.samples[3:]) is not None


async def test_what_is_measured_replaces_what_earlier_runs_have_learned(
    shared_cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(links, "_MAX_BYTES", 1 << 20)
    spec = replace(spec_of(shared_cluster, "asyncssh"), directory=str(tmp_path / "sites"))
    there, history = place_of(spec), HistoryFile(tmp_path / "history")
    earlier = [LinkSample(1.0 + n, 10, 77.0) for n in range(3)]
    write_links(
        history,
        {PlacePair(there, place_of(None)): (earlier, ""), PlacePair("x", "y"): (earlier, "")},
    )
    said: list[str] = []
    catalog = Catalog((spec, SiteSpec("here", 1)))
    has_failures = await show_links(
        catalog, history, None, measures=True, as_json=True, say=said.append
    )
    assert not has_failures
    assert said == ["measuring 2 links, one after another: about 4 s"]
    rows = {(row["source"], row["destination"]): row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == 6
    known = load_links(history)
    assert known is not None
    for ends in (("origin", "near"), ("near", "origin")):
        assert rows[ends]["known_from"] == ["measured"]
        assert 0 < rows[ends]["latency_s"] < 77
    back = known[PlacePair(there, place_of(None))]
    assert back.latency_s == rows["near", "origin"]["latency_s"]
    assert back.copies == rows["near", "origin"]["copies"]
    assert known[PlacePair("x", "y")].latency_s == 77.0
    assert rows["near", "here"]["known_from"] == ["history"]  # the same link
    assert list((tmp_path / "sites").iterdir()) == []


async def test_a_link_that_stalls_is_not_waited_for(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_DIRECTION_S", 0.05)
    monkeypatch.setattr(links, "_ROUNDS", 10**6)
    spec = spec_of(cluster, "asyncssh")
    assert spec.access is not None
    async with connected(spec.access, None) as (connection, host):
        base = await make_directory(host, "near", str(tmp_path), "wfrun-test")
        with pytest.raises(TransientError, match="is not copied in"):
            await measure_link(spec, connection, base)


async def test_a_site_that_cannot_make_files_is_not_measured(
    shared_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_MAX_BYTES", 1 << 20)
    monkeypatch.setattr(links, "_NOISE", "no-such-command")
    spec = spec_of(shared_cluster, "asyncssh")
    assert spec.access is not None
    async with connected(spec.access, None) as (connection, host):
        base = await make_directory(host, "near", str(tmp_path), "wfrun-test")
        with pytest.raises(TransientError, match="1,000 bytes cannot be made there"):
            await measure_link(spec, connection, base)
