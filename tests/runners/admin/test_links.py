"""Measured links are written into the catalog, or the catalog stays as it is."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import LinkSpec
from wfrun.runners.admin.links.links import MeasuredLink, write_links
from wfrun.sites.catalog import parse_catalog, read_catalog

DOCUMENT = "sites:\n  one: {kind: ssh, host: one, slots: 2}\n  two: {slots: 3}  # here\n"
LINK = MeasuredLink(LinkSpec("origin", "one", 2e6, 0.01), LinkSpec("one", "origin", 3e6, 0.02))


def test_the_catalog_keeps_its_permissions_and_its_place(tmp_path: Path) -> None:
    real = tmp_path / "folder" / "real.yaml"
    real.parent.mkdir()
    real.write_text(DOCUMENT)
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 1234, 1235)
    path = tmp_path / "sites.yaml"
    path.symlink_to("folder/real.yaml")
    write_links(path, [LINK])
    assert path.is_symlink()
    assert parse_catalog(real.read_bytes(), real).links == (LINK.up, LINK.down)
    found = real.stat()
    assert found.st_mode & 0o7777 == 0o640
    if os.geteuid() == 0:
        assert (found.st_uid, found.st_gid) == (1234, 1235)
    assert [each.name for each in real.parent.iterdir()] == ["real.yaml"]


def test_relative_directories_stay_those_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    sites = "sites:\n  two: {slots: 3, directory: store}\n  one: {kind: ssh, host: one, slots: 2}\n"
    (tmp_path / "a" / "real.yaml").write_text(sites)
    path = tmp_path / "sites.yaml"
    path.symlink_to(tmp_path / "a" / "real.yaml")
    write_links(path, [LINK])
    assert read_catalog(path).sites[0].directory == str(tmp_path / "store")


def test_a_full_disk_leaves_the_catalog(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(DOCUMENT)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(InvalidError, match="cannot be written: File too large"):
            write_links(path, [LINK])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == DOCUMENT
    assert [each.name for each in tmp_path.iterdir()] == ["sites.yaml"]


REFUSED = {
    # The empty lines belong to the text, and the links would stand among them.
    "a text to the end": "sites:\n  one:\n    kind: ssh\n    host: one\n    slots: 2\n"
    "    environment:\n      A: |+\n        x\n\n\n",
    "a question mark": "sites:\n  one: {kind: ssh, host: one, slots: 2}\nlinks:\n"
    "- ? from\n  : origin\n  ? to\n  : one\n  ? latency\n  : 1 ms\n  ? bandwidth\n  : |-\n    9\n",
    "braces": "{sites: {one: {kind: ssh, host: one, slots: 2}}}\n",
}


@pytest.mark.parametrize("document", REFUSED.values(), ids=REFUSED)
def test_an_edit_that_would_reach_further_is_refused(document: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(document)
    read_catalog(path)  # it is a catalog
    with pytest.raises(InvalidError, match="cannot be written into the catalog") as caught:
        write_links(path, [LINK])
    assert "- {from: origin, to: one, bandwidth: 2 MB/s, latency: 10 ms}" in str(caught.value)
    assert path.read_text() == document


def test_a_catalog_that_has_changed_is_left_to_the_user(tmp_path: Path) -> None:
    from wfrun.runners.admin.catalog_file import rewrite

    path = tmp_path / "sites.yaml"
    path.write_text(DOCUMENT)
    with pytest.raises(InvalidError, match="changed meanwhile"):
        rewrite(path, b"sites:\n", b"other")
    assert path.read_text() == DOCUMENT


@pytest.mark.parametrize(
    "links",
    [
        "- {between: [origin, one], max_bandwidth: 50 MB/s, transfer: [scp, stream]}",
        "- {from: one, to: origin, transfer: scp, max_transfers: 3}",
        "- between: [one, origin]\n    bandwidth: 5 kB/s\n    max_transfers: 3\n"
        "    transfer:\n      - rsync\n      - stream\n    max_bandwidth: '7 MB/s'",
    ],
)
def test_how_a_link_is_used_stays(tmp_path: Path, links: str) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(f"{DOCUMENT}links:\n  {links}\n")
    before = {(link.source, link.destination): link for link in read_catalog(path).links}
    write_links(path, [LINK])
    after = {(link.source, link.destination): link for link in read_catalog(path).links}
    for way in LINK:
        ends = way.source, way.destination
        figures = {"bandwidth_bytes_per_s": way.bandwidth_bytes_per_s, "latency_s": way.latency_s}
        assert after[ends] == replace(before.get(ends, LinkSpec(*ends)), **figures)
