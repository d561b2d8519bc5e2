"""Files whose sizes do not fit 31 or 32 bits. They are sparse: what matters is their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from wfrun.engine.exchange import Content
from wfrun.engine.model import SiteSpec
from wfrun.sites.node.alone import clone
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.local.local_copy import LocalCopy
from wfrun.sites.transfers.router import TransferRouter

END = b"the end"
SIZES = ((1 << 31) - 1, 1 << 31, 1 << 32, 5 << 30)


def make(path: Path, size_bytes: int) -> None:
    with path.open("wb") as file:
        file.seek(size_bytes - len(END))
        file.write(END)


def check(path: Path, size_bytes: int) -> None:
    """It has its size, and its end is in place."""
    assert path.stat().st_size == size_bytes
    with path.open("rb") as file:
        file.seek(size_bytes - len(END))
        assert file.read() == END


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "one", tmp_path / "two"]
    for store in made:
        store.mkdir()
    return made


@pytest.mark.parametrize("size_bytes", SIZES)
async def test_on_this_machine(stores: list[Path], size_bytes: int) -> None:
    make(stores[0] / "f", size_bytes)
    sites = [LocalEndpoint(n, SiteSpec(f"s{n}", 1), store) for n, store in enumerate(stores)]
    router = TransferRouter(sites, {"copy": LocalCopy()}, stores[0].parent)
    receipt = await router.copy(0, "f", 1, "f", Content(size_bytes))
    router.close()
    assert receipt.size_bytes == size_bytes
    check(stores[1] / "f", size_bytes)


@pytest.mark.parametrize("size_bytes", SIZES)
def test_on_a_head_node(stores: list[Path], size_bytes: int) -> None:
    source, final = stores[0] / "f", stores[1] / "f"
    make(source, size_bytes)
    asked = [str(source), str(stores[1] / "part"), str(final), 0o444, None]
    assert clone.answer_to(asked) == (size_bytes, None)
    check(final, size_bytes)
