"""Links between nodes, as jobs at sites say that they have measured them."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.runners.admin.links import node_links
from wfrun.sites.catalog import read_catalog

CATALOG = """\
sites:
  a: {slots: 1}
  b: {slots: 1}
"""


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (b'{"latency_s": 1e-4, "bandwidth_bytes_per_s": 1e8}', "0.1 ms, bandwidth: 100 MB/s"),
        (b'{"latency_s": "1}\\n  c: {transport: local", "bandwidth_bytes_per_s": 1}', ""),
        (b'{"latency_s": 1e400, "bandwidth_bytes_per_s": 1}', ""),
        (b'{"latency_s": NaN, "bandwidth_bytes_per_s": 1}', ""),
        (b'{"latency_s": -1, "bandwidth_bytes_per_s": 1}', ""),
        (b'{"error": "}\\n  c: {transport: local"}', ""),
        (b"}\n  c: {transport: local", ""),
        (None, ""),
    ],
)
def test_a_site_cannot_write_lines_of_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes | None, line: str
) -> None:
    async def ran(_: object, pairs: list[object], **options: object) -> list[bytes | None]:
        return [None] * (len(pairs) - 1) + [written]

    monkeypatch.setattr(node_links, "run_on_pairs", ran)
    path = tmp_path / "sites.yaml"
    path.write_text(CATALOG)
    node_links.write_node_links(path, node_links.measure_nodes(read_catalog(path)))
    within = f"  - {{within: b, latency: {line}}}\n" if line else ""
    assert path.read_text() == f"{CATALOG}node_links:\n{within}"
