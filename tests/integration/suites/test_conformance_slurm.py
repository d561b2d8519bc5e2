"""Slurm passes the suite of all sites."""

from __future__ import annotations

from tests.integration.suites.conformance import ClusterOnTestbed, access_of
from wfrun.engine.model import Access


class TestSlurm(ClusterOnTestbed):
    name = "alpha"

    def login(self) -> Access:
        return access_of("alpha", "asyncssh")

    def queue(self, slots: int) -> str:
        return f"slots{slots}"
