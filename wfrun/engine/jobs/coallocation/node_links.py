"""Links between nodes, and the orders of sites that the Communication-Aware policy takes from
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Metric = Literal["latency", "bandwidth"]


class NodeLinks:
    """The known links between nodes, within each site and between each pair of sites.

    ``values[i][j]`` is the latency (any unit) or the bandwidth between nodes of sites i and j. The
    diagonal has the links within each site. None: not measured. Raises ValueError if a value on the
    diagonal is None.
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
        """Sites by the link within the site, the best first."""
        self.by_mean = tuple(sorted(range(len(mean)), key=mean.__getitem__))
        """Sites by the mean of their links to all sites, their own included, the best first. Links
        without a value do not count in the mean, as in the thesis."""
