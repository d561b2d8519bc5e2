"""``wfrun sites links --nodes``: links between nodes of real clusters, measured and written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.jobs.coallocated import SITES, WFRUN, Jobs
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
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert catalog.read_text().startswith(f"# kept\n{text}node_links:\n")
    for site in read_catalog(catalog).sites:
        assert {link.site for link in site.node_links} == set(SITES)
        for link in site.node_links:
            assert 0 < (link.latency_s or 0) < 1
            assert (link.bandwidth_bytes_per_s or 0) > 1e6
    jobs.check_quiet()


@pytest.mark.testbed
def test_nodes_reach_each_other(testbed: Testbed, tmp_path: Path) -> None:
    jobs = Jobs(testbed, tmp_path)
    catalog = tmp_path / "sites.yaml"
    catalog.write_text(yaml.safe_dump(jobs.catalog))
    argv = [sys.executable, "-c", WFRUN, "sites", "check", "--nodes", "--json", "--wait", "300"]
    done = subprocess.run(
        [*argv, "--sites", str(catalog)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = {
        site["site"]: [each["text"] for each in site["checks"] if each["check"] == "nodes"]
        for site in json.loads(done.stdout)
    }
    # Grid Engine of the testbed gives one node to a job.
    assert found == {
        "alpha": ["reached from the nodes of its own, beta, gamma"],
        "beta": ["reached from the nodes of alpha, its own, gamma"],
        "gamma": ["reached from the nodes of alpha, beta"],
    }
    jobs.check_quiet()
