"""Local sites pass the suite of all sites."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.model import SiteSpec
from wfrun.sites.local.site import LocalSite
from wfrun.testing.sites import SiteConformance


class TestLocalSite(SiteConformance):
    def make(self, directory: Path, slots: int) -> LocalSite:
        return LocalSite(SiteSpec("here", slots), 0, directory)

    def put(self, directory: Path, stored: str, content: bytes) -> None:
        (directory / "files" / stored).write_bytes(content)

    def get(self, directory: Path, stored: str) -> bytes | None:
        path = directory / "files" / stored
        return path.read_bytes() if path.exists() else None
