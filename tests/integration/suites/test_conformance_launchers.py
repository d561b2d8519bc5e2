"""A cluster whose tasks are run by a launcher passes the suite of all sites, through each kind of
channel."""

from __future__ import annotations

from tests.integration.suites.conformance import LaunchersOnTestbed, access_of
from wfrun.engine.model import Access


class TestTcp(LaunchersOnTestbed):
    name = "alpha"
    channel = "tcp"

    def login(self) -> Access:
        return access_of("alpha", "asyncssh")


class TestForwarded(LaunchersOnTestbed):
    name = "alpha"
    channel = "ssh"

    def login(self) -> Access:
        return access_of("alpha", "openssh")


class TestSpool(LaunchersOnTestbed):
    name = "alpha"
    channel = "spool"

    def login(self) -> Access:
        return access_of("alpha", "asyncssh")


class TestGridEngine(LaunchersOnTestbed):
    name = "gamma"
    channel = "spool"

    def login(self) -> Access:
        return access_of("gamma", "asyncssh")
