"""The figures of a link that its measurement makes of the durations of copies."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from wfrun.engine.exchange import Receipt
from wfrun.engine.model import ORIGIN
from wfrun.runners.admin.links import links
from wfrun.runners.admin.links.links import LinkMeasurement


class Places(LinkMeasurement):
    """Copies that take ``start_s`` for the start of a client, of large files alone, and then go at
    ``bytes_per_s``."""

    def __init__(self, folder: Path, start_s: float, bytes_per_s: float) -> None:
        super().__init__([], (), folder)
        self._start_s, self._bytes_per_s = start_s, bytes_per_s
        self.now_s = 0.0

    async def make(self, place: int, name: str, size_bytes: int) -> None:
        """Nothing is needed."""

    async def copy(self, source: int, destination: int, name: str, size_bytes: int) -> Receipt:
        took_s = 0.01 + size_bytes / self._bytes_per_s
        took_s += self._start_s if size_bytes > 1 << 16 else 0.0
        self.now_s += took_s
        return Receipt(size_bytes, took_s)

    def name(self, place: int) -> str:
        return str(place)


@pytest.mark.parametrize("start_s", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bytes_per_s", [1e5, 1e7])
async def test_the_start_of_a_client_is_no_bandwidth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_s: float, bytes_per_s: float
) -> None:
    """A small file by GridFTP takes as long as the login of its client."""
    places = Places(tmp_path, start_s, bytes_per_s)
    monkeypatch.setattr(links, "time", SimpleNamespace(time=lambda: places.now_s))
    found = (await places.measure(ORIGIN, ORIGIN)).link
    assert found.latency_s == pytest.approx(0.01, abs=0.02)
    assert found.bandwidth_bytes_per_s is not None
    assert bytes_per_s / 2 < found.bandwidth_bytes_per_s < 1.05 * bytes_per_s
