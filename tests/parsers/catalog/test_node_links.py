"""Links between the nodes of sites in catalogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import NodeLink
from wfrun.sites.catalog import read_catalog

SITES = "sites: {alpha: {slots: 4}, beta: {slots: 4}}\n"


def test_links_between_nodes_lead_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(f"""{SITES}node_links:
  - {{within: alpha, latency: 0.03 ms}}
  - {{between: [alpha, beta], latency: 0.4 ms, bandwidth: 185 MB/s}}
""")
    alpha, beta = read_catalog(path).sites
    assert alpha.node_links == (NodeLink("alpha", 3e-5), NodeLink("beta", 4e-4, 185e6))
    assert beta.node_links == (NodeLink("alpha", 4e-4, 185e6),)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{latency: 1 ms}", "either 'within' a site or 'between' two"),
        ("{within: alpha, between: [alpha, beta], latency: 1 ms}", "either 'within' a site or"),
        ("{within: alpha}", "neither 'bandwidth' nor 'latency'"),
        ("{within: gamma, latency: 1 ms}", "there is no site 'gamma'"),
        ("{between: [beta, [1]], latency: 1 ms}", "there is no site"),
        ("{between: beta, latency: 1 ms}", "'between' must be a list of two sites"),
        ("{between: [beta, beta], latency: 1 ms}", "'between' names beta twice"),
        ("{within: alpha, latency: -1 ms}", "latency of a link of nodes"),
        ("{within: beta, latency: 2 ms}", "nodes of beta is already on line 3"),
        ("{in: beta}", "a link of nodes has no key 'in'"),
    ],
)
def test_wrong_links_are_refused_with_their_line(entry: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(f"{SITES}node_links:\n  - {{within: beta, latency: 1 ms}}\n  - {entry}\n")
    with pytest.raises(InvalidError) as raised:
        read_catalog(path)
    assert message in str(raised.value)
    assert raised.value.line == 4


def test_they_are_a_list(tmp_path: Path) -> None:
    path = tmp_path / "sites.yaml"
    path.write_text(f"{SITES}node_links: {{within: beta}}\n")
    with pytest.raises(InvalidError, match="'node_links' must be a list"):
        read_catalog(path)
