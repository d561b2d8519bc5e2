"""Copies between two sites pass through this machine, so its links show how long they take."""

from __future__ import annotations

from pathlib import Path

from wfrun.sites.catalog import read_catalog

CATALOG = """\
sites:
  near: {kind: ssh, host: near, slots: 2}
  far: {kind: ssh, host: far, slots: 2}
  here: {slots: 2}
  there: {slots: 2}
  new: {kind: ssh, host: new, slots: 2}
links:
  - {from: origin, to: near, bandwidth: 50 MB/s, latency: 10 ms}
  - {from: near, to: origin, bandwidth: 80 MB/s, latency: 20 ms}
  - {from: origin, to: far, bandwidth: 5 MB/s, latency: 100 ms}
  - {from: far, to: origin, latency: 200 ms}
  - {from: far, to: near, bandwidth: 1 GB/s}
"""


def test_links_through_this_machine_are_added(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(CATALOG)
    found = {
        (x.source, x.destination): (x.bandwidth_bytes_per_s, round(x.latency_s, 9))
        for x in read_catalog(path).links[5:]
    }
    assert found == {
        ("near", "far"): (5e6, 0.12),
        ("near", "here"): (80e6, 0.02), ("near", "there"): (80e6, 0.02),
        ("here", "near"): (50e6, 0.01), ("there", "near"): (50e6, 0.01),
        ("far", "here"): (None, 0.2), ("far", "there"): (None, 0.2),
        ("here", "far"): (5e6, 0.1), ("there", "far"): (5e6, 0.1),
    }  # fmt: skip


def test_a_catalog_without_links_gets_none(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text("sites:\n  here: {slots: 2}\n  near: {kind: ssh, host: near, slots: 2}\n")
    assert read_catalog(path).links == ()
