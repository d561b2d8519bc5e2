"""``wfrun sites links --nodes``: links between nodes of real clusters, measured and written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.coallocated import SITES, WFRUN, Jobs
from tests.testbed.testbed import Testbed
from wfrun.sites.catalog import read_catalog


@pytest.mark.testbed
def test_links_between_nodes_are_measured_and_written(testbed: Testbed, tmp_path: Path) -> None:
    """In place of those that were there; other lines stay."""
    jobs = Jobs(testbed, tmp_path)
    catalog = tmp_path / "sites.yaml"
    text = yaml.safe_dump(jobs.catalog)
    catalog.write_text(f"node_links:\n  - {{within: alpha, latency: 9 s}}\n# kept\n{text}")
    argv = [sys.executable, "-c", WFRUN, "sites", "links", "--nodes", "--write"]
    done = subprocess.run(
        [*argv, "--sites", str(catalog)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert catalog.read_text().startswith(f"# kept\n{text}node_links:\n")
    for site in read_catalog(catalog).sites:
        assert {link.site for link in site.node_links} == set(SITES)
        for link in site.node_links:
            assert 0 < (link.latency_s or 0) < 1
            assert (link.bandwidth_bytes_per_s or 0) > 1e6
    jobs.check_quiet()
