"""Expected time to copy a file between two sites."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.model import ORIGIN, LinkSpec

DEFAULT_BANDWIDTH_BYTES_PER_S = 100e6
"""Bandwidth that decisions assume where the catalog states none, so that fewer bytes are better."""


class Network:
    """Links between sites by index, with ORIGIN as one of them.

    A pair of sites without a link in the catalog gets the default bandwidth, which is meant for
    real time. In a run with scaled time the ``links`` are scaled, and ``time_scale`` scales the
    default as well, so that decisions are those of a run in real time. With scale 0, the unscaled
    default keeps the order of byte counts.
    """

    def __init__(
        self, site_names: Sequence[str], links: Sequence[LinkSpec], *, time_scale: float = 1.0
    ) -> None:
        self.sites = len(site_names)
        index = {name: i for i, name in enumerate(site_names)} | {"origin": ORIGIN}
        size = self.sites + 1  # The last row and column, at index -1, are ORIGIN's.
        default = (time_scale or 1.0) / DEFAULT_BANDWIDTH_BYTES_PER_S
        self._seconds_per_byte = [[default] * size for _ in range(size)]
        self._latency_s = [[0.0] * size for _ in range(size)]
        for link in links:
            source, destination = index[link.source], index[link.destination]
            if link.bandwidth_bytes_per_s is not None:
                self._seconds_per_byte[source][destination] = 1 / link.bandwidth_bytes_per_s
            self._latency_s[source][destination] = link.latency_s
        self.best: list[dict[int, tuple[int, float, float]]] = [{} for _ in range(size)]
        """Results of ``best_source``, by destination and mask of places."""

    def bit(self, site: int) -> int:
        """The bit of a site, or of ORIGIN, in a mask of places."""
        return 1 << (site if site >= 0 else self.sites)

    def best_source(self, present: int, destination: int) -> tuple[int, float, float]:
        """The place in the mask ``present``, which is not 0, with the fastest link to
        ``destination``. Ties go to the lowest index, ORIGIN last.

        Returns (site, seconds per byte, latency in seconds).
        """
        answers = self.best[destination]
        found = answers.get(present)
        if found is None:
            places = [site for site in range(self.sites) if present >> site & 1]
            if present >> self.sites & 1:
                places.append(ORIGIN)
            seconds_per_byte, latency_s, _, site = min(
                (self._seconds_per_byte[s][destination], self._latency_s[s][destination], i, s)
                for i, s in enumerate(places)
            )
            found = answers[present] = (site, seconds_per_byte, latency_s)
        return found

    def reference_seconds_per_byte(self) -> float:
        """Mean seconds per byte over all pairs of different sites: the reference bandwidth of
        HEFT."""
        pairs = [(s, d) for s in range(self.sites) for d in range(self.sites) if s != d]
        if not pairs:
            return 0.0
        return sum(self._seconds_per_byte[s][d] for s, d in pairs) / len(pairs)
