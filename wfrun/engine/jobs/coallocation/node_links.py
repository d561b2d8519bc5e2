"""Links between the nodes of sites, as the Communication-Aware policy orders sites by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Metric = Literal["latency", "bandwidth"]


class NodeLinks:
    """The known links between nodes, within each site and between each pair of sites.

    ``values[i][j]`` is the latency (any unit) or the bandwidth between nodes of sites i and j. The
    diagonal is that within a site. None: not measured. Raises ValueError unless each site has a
    value on the diagonal.
    """

    def __init__(self, values: Sequence[Sequence[float | None]], metric: Metric) -> None:
        sign = 1.0 if metric == "latency" else -1.0
        within: list[float] = []
        mean: list[float] = []
        for site, row in enumerate(values):
            own = row[site]
            if own is None:
                raise ValueError(f"nothing is known of the link within site {site}")
            known = [value for value in row if value is not None]
            within.append(sign * own)
            mean.append(sign * sum(known) / len(known))
        self.by_own = tuple(sorted(range(len(within)), key=within.__getitem__))
        """Sites by the link within, the best first."""
        self.by_mean = tuple(sorted(range(len(mean)), key=mean.__getitem__))
        """Sites by the mean of their links to all sites, their own included, the best first. Pairs
        without a value do not count: the thesis leaves such sites out."""
