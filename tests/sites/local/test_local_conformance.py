"""Local sites and local transfers pass the suites that every implementation passes."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.sites.local.site import LocalSite
from wfrun.sites.transfers.local import LocalTransfer
from wfrun.testing.sites import SiteConformance
from wfrun.testing.transfers import TransferConformance


class TestLocalSite(SiteConformance):
    def make(self, directory: Path, slots: int) -> LocalSite:
        return LocalSite(SiteSpec("here", slots), 0, directory)

    def put(self, directory: Path, stored: str, content: bytes) -> None:
        (directory / "files" / stored).write_bytes(content)

    def get(self, directory: Path, stored: str) -> bytes | None:
        path = directory / "files" / stored
        return path.read_bytes() if path.exists() else None


class TestLocalTransfer(TransferConformance):
    def make(self, stores: list[Path], links: list[LinkSpec]) -> LocalTransfer:
        names = [f"site{number}" for number in range(len(stores))]
        return LocalTransfer(stores, links, names)
