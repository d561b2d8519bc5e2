"""A host with SSH alone passes the suite of all sites."""

from __future__ import annotations

from tests.integration.suites.conformance import OnTestbed, access_of
from wfrun.engine.model import Access


class TestSshSite(OnTestbed):
    name = "delta"

    def access(self, slots: int) -> Access:
        return access_of("delta", "asyncssh")
