"""Expected time to copy a file between two sites."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.events import LinkHistory, TransferEnded
from wfrun.engine.files.link_samples import LinkSamples, bandwidth_of, latency_of
from wfrun.engine.model import ORIGIN, LinkSpec

DEFAULT_BANDWIDTH_BYTES_PER_S = 100e6
"""Assumed bandwidth of a link with unknown bandwidth, so that decisions prefer to move fewer
bytes."""


class Network:
    """Links between sites by index, with ORIGIN as one of them.

    A pair of sites without a link in the catalog has the default bandwidth. In a run with scaled
    time the caller scales the ``links``, and ``time_scale`` scales the default, so that decisions
    are those of a run in real time. With scale 0 the default is not scaled, so that smaller files
    still have shorter copies.

    Bandwidth and latency of a link come from the catalog. Measurements of earlier runs
    (``believe``) replace them. If the Network ``learns``, measurements of this run (``observe``)
    replace both. Otherwise the values stay as they were at the start of the run, as policies that
    declare links as known expect.
    """

    def __init__(
        self,
        site_names: Sequence[str],
        links: Sequence[LinkSpec],
        *,
        time_scale: float = 1.0,
        learns: bool = False,
    ) -> None:
        self.sites = len(site_names)
        self.samples: dict[tuple[int, int], LinkSamples] = {}
        """Measurements of the copies of this run, by source and destination."""
        self._known: set[tuple[int, int]] = set()
        """Links with a bandwidth known from the catalog or from a copy."""
        self._least: dict[tuple[int, int], float] = {}
        """By link with a maximum bandwidth: minimum number of seconds per byte."""
        self.learns = learns
        self._history: Sequence[LinkHistory] = ()
        index = self._index = {name: i for i, name in enumerate(site_names)} | {"origin": ORIGIN}
        size = self.sites + 1  # The last row and column, at index -1, are ORIGIN's.
        default = (time_scale or 1.0) / DEFAULT_BANDWIDTH_BYTES_PER_S
        self._seconds_per_byte = [[default] * size for _ in range(size)]
        self._latency_s = [[0.0] * size for _ in range(size)]
        for link in links:
            source, destination = index[link.source], index[link.destination]
            if link.bandwidth_bytes_per_s is not None:
                self._known.add((source, destination))
                self._seconds_per_byte[source][destination] = 1 / link.bandwidth_bytes_per_s
            if link.max_bandwidth_bytes_per_s is not None:
                least = self._least[source, destination] = 1 / link.max_bandwidth_bytes_per_s
                capped = max(least, self._seconds_per_byte[source][destination])
                self._seconds_per_byte[source][destination] = capped
            self._latency_s[source][destination] = link.latency_s
        self.bits = [1 << place for place in range(size)]
        """By place: its bit in masks; the bit of ORIGIN is the last."""
        self.best: list[dict[int, tuple[int, float, float]]] = [{} for _ in range(size)]
        """Results of ``best_source``, by destination and mask of places."""
        self.links: dict[int, list[tuple[float, float]]] = {}
        """Results of ``best_links``, by mask of places."""

    def take_over(self, before: Network) -> None:
        """Take over the measurements made before a change of the run's sites. Sites keep their
        numbers."""
        self.believe(before._history)
        self.samples = before.samples
        for source, destination in self.samples if self.learns else ():
            self._learn(source, destination)

    def believe(self, history: Sequence[LinkHistory]) -> None:
        """Use the measurements of earlier runs. Links of unknown sites are skipped."""
        self._history = history
        for link in history:
            source, destination = map(self._index.get, (link.source, link.destination))
            if source is not None and destination is not None:
                self._set(source, destination, link.bandwidth_bytes_per_s, link.latency_s)

    def observe(self, copy: TransferEnded) -> None:
        """Measure a link by a copy; `LinkSamples` has the formula. A resumed copy counts with the
        bytes that it sent. If it sent less than half of the file, it is ignored: it spent most of
        its time on checking the part that was at the destination already. Cost: constant."""
        sent_bytes = copy.size_bytes if copy.sent_bytes is None else copy.sent_bytes
        if 2 * sent_bytes < copy.size_bytes:
            return
        source, destination = copy.source, copy.destination
        samples = self.samples.get((source, destination))
        if samples is None:
            samples = self.samples[source, destination] = LinkSamples()
        samples.add(copy.at_s, copy.elapsed_s, sent_bytes, copy.method)
        if self.learns:
            self._learn(source, destination)

    def _learn(self, source: int, destination: int) -> None:
        samples = self.samples[source, destination]
        bandwidth, latency_s = bandwidth_of(samples.bandwidths()), latency_of(samples.latencies())
        self._set(source, destination, bandwidth, latency_s)

    def _set(
        self, source: int, destination: int, bandwidth: float | None, latency_s: float | None
    ) -> None:
        """Change bandwidth and latency of a link; None: unchanged."""
        if bandwidth is not None:
            self._known.add((source, destination))
            least = self._least.get((source, destination), 0.0)
            self._seconds_per_byte[source][destination] = max(1 / bandwidth, least)
        if latency_s is not None:
            self._latency_s[source][destination] = latency_s
        self.best[destination].clear()
        self.links.clear()

    def expected_s(self, source: int, destination: int, size_bytes: int) -> float | None:
        """Return the expected seconds of a copy that is alone on its link, or None if the bandwidth
        of the link is unknown. Bandwidth measured in this run has precedence. Cost: constant."""
        samples = None if self.learns else self.samples.get((source, destination))
        bandwidth = None if samples is None else bandwidth_of(samples.bandwidths())
        if bandwidth is None and (source, destination) not in self._known:
            return None
        seconds_per_byte = self._seconds_per_byte[source][destination]
        if bandwidth is not None:
            seconds_per_byte = 1 / bandwidth
        return self._latency_s[source][destination] + size_bytes * seconds_per_byte

    def bit(self, site: int) -> int:
        """The bit of a site, or of ORIGIN, in a mask of places."""
        return self.bits[site]

    def best_source(self, present: int, destination: int) -> tuple[int, float, float]:
        """Return the place in the mask ``present`` (not 0) with the fastest link to
        ``destination``. Among equal links, that from the place with the lowest index wins, and that
        from ORIGIN comes last.

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

    def best_links(self, present: int) -> list[tuple[float, float]]:
        """Return the fastest link to each site from the places in the mask ``present`` (not 0) as
        (seconds per byte, latency in seconds). Both are 0 for a site in the mask."""
        found = self.links[present] = [
            (0.0, 0.0) if present >> site & 1 else self.best_source(present, site)[1:]
            for site in range(self.sites)
        ]
        return found

    def reference_seconds_per_byte(self) -> float:
        """Mean seconds per byte over all pairs of different sites: the reference bandwidth of
        HEFT."""
        pairs = [(s, d) for s in range(self.sites) for d in range(self.sites) if s != d]
        if not pairs:
            return 0.0
        return sum(self._seconds_per_byte[s][d] for s, d in pairs) / len(pairs)
