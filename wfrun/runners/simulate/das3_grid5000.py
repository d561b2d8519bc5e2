"""The DAS-3 and Grid'5000 together, the multicluster grid of thesis section 5.3.1.

The thesis gives the size, "20 clusters and over 3500 processors", and the range of the speeds,
"between 1.0 and 1.75" by SPEC values, but no list. Here the DAS-3 is that of Table 1.2 with all its
cores. Grid'5000 has 15 of the clusters that it had until 2008, at all its nine locations, with
their real nodes, processors and cores. The 20 clusters have 3,568 processors. Speeds are assigned
within the range by type and clock rate of the processors: 1.0 is an Opteron 246 of 2.0 GHz, 1.75 a
Xeon 5148, about the ratio of their SPECint values.
"""

from __future__ import annotations

from wfrun.engine.model import Catalog, SiteSpec

_CLUSTERS = (
    # the DAS-3: nodes, cores of each, speed
    ("vrije", 85, 4, 1.25),  # Opteron, 2.4 GHz dual-core
    ("amsterdam", 41, 4, 1.15),  # 2.2 GHz dual-core
    ("delft", 68, 2, 1.2),  # 2.4 GHz
    ("multimedian", 46, 2, 1.2),  # 2.4 GHz
    ("leiden", 32, 2, 1.3),  # 2.6 GHz
    # Grid'5000
    ("bordemer", 48, 2, 1.1),  # Bordeaux: Opteron 248, 2.2 GHz
    ("icluster2", 103, 2, 1.05),  # Grenoble: Itanium 2, 0.9 GHz
    ("chuque", 53, 2, 1.1),  # Lille: Opteron 248, 2.2 GHz
    ("chicon", 26, 4, 1.4),  # Lille: Opteron 285, 2.6 GHz dual-core
    ("capricorne", 56, 2, 1.0),  # Lyon: Opteron 246, 2.0 GHz
    ("sagittaire", 79, 2, 1.2),  # Lyon: Opteron 250, 2.4 GHz
    ("grillon", 47, 2, 1.0),  # Nancy: Opteron 246, 2.0 GHz
    ("gdx", 310, 2, 1.1),  # Orsay: Opteron 246 and 250, 2.0 and 2.4 GHz
    ("parasol", 64, 2, 1.1),  # Rennes: Opteron 248, 2.2 GHz
    ("paravent", 99, 2, 1.0),  # Rennes: Opteron 246, 2.0 GHz
    ("paraquad", 66, 4, 1.75),  # Rennes: Xeon 5148, 2.33 GHz dual-core
    ("azur", 74, 2, 1.0),  # Sophia Antipolis: Opteron 246, 2.0 GHz
    ("helios", 56, 4, 1.15),  # Sophia Antipolis: Opteron 275, 2.2 GHz dual-core
    ("sol", 50, 4, 1.4),  # Sophia Antipolis: Opteron 2218, 2.6 GHz dual-core
    ("violette", 57, 2, 1.1),  # Toulouse: Opteron 248, 2.2 GHz
)


def das3_grid5000() -> Catalog:
    """The catalog of the 20 clusters. Transfers between them take no time (section 5.3.4)."""
    return Catalog(
        tuple(
            SiteSpec(name, nodes * cores, speed_ratio=speed_ratio)
            for name, nodes, cores, speed_ratio in _CLUSTERS
        )
    )
