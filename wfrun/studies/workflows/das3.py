"""The DAS-3 of the thesis.

Source: O. O. Sonmez, "Application-oriented scheduling in multicluster grids", TU Delft 2010:
Table 1.2 (clusters), Table 2.1 (links).
"""

from __future__ import annotations

from wfrun.engine.model import Catalog, LinkSpec, SiteSpec

_GHZ = 2.4
"""Clock rate in GHz of three of the five clusters. Their processors are the reference processor."""

_LINKS = (
    ("vrije", "amsterdam", 185.0, 0.4),
    ("vrije", "delft", 45.0, 1.15),
    ("vrije", "multimedian", 185.0, 0.4),
    ("vrije", "leiden", 77.0, 1.0),
    ("amsterdam", "delft", 53.0, 1.1),
    ("amsterdam", "multimedian", 512.0, 0.03),
    ("amsterdam", "leiden", 115.0, 0.6),
    ("delft", "multimedian", 10.0, 1.45),
    ("delft", "leiden", 10.0, 1.45),
    ("multimedian", "leiden", 115.0, 0.6),
)
"""(cluster, cluster, bandwidth in MB/s, latency in ms). Delft-Leiden could not be measured (section
2.4.1); it has the values of Delft-MultimediaN, the slowest link of Delft."""


def das3(processors_per_node: int = 1) -> Catalog:
    """The five clusters, fully connected, in the order of Table 1.2.

    By default a node runs one task. Table 7.4, too, states the number of nodes as the size of the
    simulated clusters. With 272 slots the queue waits of Single Cluster for large workflows are
    those of Table 6.3. With 544 or 816 slots (two processors a node, dual cores) they are far
    below.
    """
    clusters = (
        ("vrije", 85, 2.4),
        ("amsterdam", 41, 2.2),
        ("delft", 68, 2.4),
        ("multimedian", 46, 2.4),
        ("leiden", 32, 2.6),
    )
    sites = tuple(
        SiteSpec(name, nodes * processors_per_node, speed_ratio=ghz / _GHZ)
        for name, nodes, ghz in clusters
    )
    links = tuple(
        LinkSpec(source, destination, bandwidth * 1e6, latency / 1e3)
        for one, other, bandwidth, latency in _LINKS
        for source, destination in ((one, other), (other, one))
    )
    return Catalog(sites, links)
