"""The testbed as a pytest fixture; tests/conftest.py gives it to all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.testbed import faults
from tests.testbed.layout import PORTS, Layout, MissingError, TestbedError
from tests.testbed.testbed import Testbed, check_machine, registered

FIRST_BASE = 20000
LAST_BASE = 32000


def bring_up_free() -> Testbed:
    """A testbed on the first ports that are free."""
    for base in range(FIRST_BASE, LAST_BASE, PORTS):
        if any(abs(base - other) < PORTS for other in registered()):
            continue
        testbed = Testbed(Layout.of(base))
        if testbed.taken() is not None:
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
    """Four real sites, which the tests of a session share: faults of a test are undone and its
    jobs cancelled when it ends. Skips where the machine has no packages for it or we are not
    root."""
    yield _testbed
    faults.heal(_testbed)
