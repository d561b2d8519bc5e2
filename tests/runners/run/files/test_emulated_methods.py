"""Transfer methods of the catalog in emulated runs."""

from __future__ import annotations

from pathlib import Path

from wfrun.runners.run.prepare.scaling import emulated
from wfrun.sites.catalog import read_catalog

CATALOG = """\
transfer: rsync
sites:
  a: {kind: ssh, host: a.org, slots: 1, direct: key}
  b: {kind: ssh, host: b.org, slots: 1, direct: key}
"""


def test_clusters_that_are_emulated_here_use_no_methods_between_clusters(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(CATALOG)
    catalog = read_catalog(path)
    assert {link.methods for link in emulated(catalog, 0.1, at_sites=True).links} == {("rsync",)}
    assert {link.methods for link in emulated(catalog, 0.1, at_sites=False).links} == {()}
