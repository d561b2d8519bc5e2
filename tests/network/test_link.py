"""A link's arithmetic: when packets arrive, and which are dropped."""

from __future__ import annotations

import pytest

from tests.network.link import QUEUE_BYTES, Link


def test_packets_wait_for_those_before_them() -> None:
    link = Link()
    assert link.enter(9000, 1.0) == 1.0
    link.change(9000.0, 0.5, up=True)
    assert [link.enter(9000, 2.0) for _ in range(3)] == [3.5, 4.5, 5.5]
    assert link.enter(9000, 100.0) == 101.5
    assert link.carried == 5 * 9000


def test_a_full_queue_drops_packets() -> None:
    link = Link(rate=1e6)
    arrived = [link.enter(1000, 0.0) for _ in range(1000)]
    kept = [at_s for at_s in arrived if at_s is not None]
    assert len(kept) == QUEUE_BYTES // 1000 + 1
    assert kept[-1] == pytest.approx(len(kept) / 1000)
    link.change(None, 0.0, up=True)
    assert link.enter(1000, 0.001) == 0.001


def test_a_cut_link_drops_all() -> None:
    link = Link()
    link.change(None, 0.0, up=False)
    assert link.enter(1, 0.0) is None
    assert link.carried == 0
