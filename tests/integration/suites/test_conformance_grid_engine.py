"""Grid Engine passes the suite of all sites."""

from __future__ import annotations

import msgspec

from tests.integration.suites.conformance import ClusterOnTestbed, access_of
from wfrun.engine.model import Access


class TestGridEngine(ClusterOnTestbed):
    """Its scheduler makes no reservations for wide jobs by default: narrow jobs overtake them."""

    name = "gamma"
    keeps_order = False

    def login(self) -> Access:
        return msgspec.structs.replace(
            access_of("gamma", "openssh"),
            batch_settings={"parallel_environment": "smp", "memory_resource": "h_vmem"},
        )

    def queue(self, slots: int) -> str:
        return f"slots{slots}.q"
