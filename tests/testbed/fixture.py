"""The testbed as a pytest fixture; tests/conftest.py gives it to all tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.testbed import faults, gridftp
from tests.testbed.layout import PORTS, Layout, MissingError, TestbedError
from tests.testbed.testbed import Testbed, abandoned, check_machine, claim, unregister

FIRST_BASE = 20000
LAST_BASE = 32000


def bring_up_free() -> Testbed:
    """Bring up a testbed on the first ports that are free, and bring down those of processes that
    were killed. Safe to call from several processes at the same time."""
    for left in abandoned():
        left.down()
    for base in range(FIRST_BASE, LAST_BASE, PORTS):
        testbed = Testbed(Layout.of(base))
        if not claim(testbed.layout):
            continue
        if testbed.taken() is not None:
            unregister(testbed.layout)
            continue
        try:
            testbed.up()
        except BaseException:
            testbed.down()
            raise
        return testbed
    raise TestbedError(f"no {PORTS} ports from {FIRST_BASE} to {LAST_BASE} are free")


@pytest.fixture(scope="session")
def _testbed() -> Iterator[Testbed]:
    """The testbed of this process."""
    try:
        check_machine()
    except MissingError as error:
        pytest.skip(str(error))
    testbed = bring_up_free()
    try:
        yield testbed
    finally:
        testbed.down()


@pytest.fixture
def testbed(_testbed: Testbed) -> Iterator[Testbed]:
    """Four real sites, shared by the tests of this process. After each test its faults are undone
    and its jobs cancelled. Skips the test without root, or without the packages."""
    yield _testbed
    faults.heal(_testbed)


@dataclass(frozen=True, slots=True)
class GridFTP:
    """GridFTP servers at the four sites, as a client sees them."""

    layout: Layout
    environment: dict[str, str]
    """Of the client: PATH with a globus-url-copy that logs in to the sites, and certificates."""

    def url(self, site: str, path: str, scheme: gridftp.Scheme) -> str:
        """The URL of a file; a relative path begins at the home of the site's user."""
        return gridftp.url(self.layout, site, path, scheme)


@pytest.fixture(name="gridftp")
def _gridftp(testbed: Testbed) -> GridFTP:
    """GridFTP servers at the sites of ``testbed``: ``ftp`` (anonymous), ``gsiftp`` and ``sshftp``.
    They stay as long as the testbed. Skips the test without their packages."""
    try:
        if not testbed.has_gridftp:
            testbed.up(with_gridftp=True)
    except MissingError as error:
        pytest.skip(str(error))
    return GridFTP(testbed.layout, gridftp.environment(gridftp.place(testbed.layout)))
