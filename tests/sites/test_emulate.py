"""Emulated tasks take their time and write files of their sizes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wfrun.engine.model import SiteSpec
from wfrun.sites.local.emulate import emulated
from wfrun.sites.local.site import LocalSite
from wfrun.testing.probe import Probe, request
from wfrun.testing.sites import ODD_NAMES


async def test_sizes_and_time_with_odd_names(tmp_path: Path) -> None:
    outputs = {name: f"out-{number}" for number, name in enumerate(ODD_NAMES)}
    sizes = [0, 5, 5, 10_000_000_000, -209, 1, 2, 3, 4]
    site, probe = LocalSite(SiteSpec("here", 1), 0, tmp_path / "site"), Probe()
    await site.open(probe.post)
    begun_s = time.monotonic()
    await site.submit(
        [
            emulated(
                request("emulated-1", "no-such", outputs=outputs), runtime_s=0.3, output_sizes=sizes
            )
        ]
    )
    outcome = await probe.ended("emulated-1")
    assert time.monotonic() - begun_s >= 0.3
    await site.close()
    assert outcome.cause == "done", outcome
    assert outcome.sizes == tuple(max(0, size) for size in sizes)
    assert site.store_path("out-3").stat().st_blocks < 100


async def test_a_standard_stream_has_its_size(tmp_path: Path) -> None:
    attempt = request("emulated-1", "x", outputs={"said": "s", "f": "f"}, stdout="said")
    site, probe = LocalSite(SiteSpec("here", 1), 0, tmp_path / "site"), Probe()
    await site.open(probe.post)
    await site.submit([emulated(attempt, runtime_s=0, output_sizes=[7, 8])])
    assert (await probe.ended("emulated-1")).sizes == (7, 8)
    await site.close()


def test_a_single_process_where_possible() -> None:
    outputs = {"a": "a", "b": "b"}
    plain = request("emulated-1", "x", outputs=outputs)
    assert emulated(plain, runtime_s=0, output_sizes=[3, 3]).argv[0] == "truncate"
    assert emulated(request("emulated-1", "x"), runtime_s=0, output_sizes=[]).argv == ("true",)
    assert emulated(request("emulated-1", "x"), runtime_s=1e-7, output_sizes=[]).argv[0] == "sleep"
    script = emulated(plain, runtime_s=1, output_sizes=[3, 4]).argv[2]
    assert script.count("exec ") == 1


def test_a_size_for_each_output() -> None:
    with pytest.raises(ValueError, match="1 sizes for 0 outputs"):
        emulated(request("emulated-1", "x"), runtime_s=0, output_sizes=[1])


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.floats(0, 1e9, allow_nan=False),
    st.lists(st.tuples(st.text("ab'\"$ -", min_size=1), st.integers(-5, 2**50)), max_size=30),
)
def test_names_never_become_part_of_the_script(
    runtime_s: float, files: list[tuple[str, int]]
) -> None:
    sizes = dict(files)
    attempt = request("emulated-1", "x", outputs=dict.fromkeys(sizes, "stored"))
    argv = emulated(attempt, runtime_s=runtime_s, output_sizes=list(sizes.values())).argv
    assert set(sizes) <= set(argv)
    if argv[0] == "sh":
        assert not set(argv[2].replace("exec", "")) - set('"${}0123456789 &')
