"""The test network as a pytest fixture; tests/conftest.py gives it to all tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.network.network import Network
from tests.testbed.layout import MissingError, TestbedError

HOSTS = ("one", "two", "three")


@pytest.fixture(scope="session")
def _networks() -> Iterator[list[Network]]:
    """The network of this process, once a test has asked for it."""
    made: list[Network] = []
    yield made
    for network in made:
        network.close()
        shutil.rmtree(network.directory)


@pytest.fixture
def network(
    _networks: list[Network], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Network]:
    """Hosts ``one``, ``two`` and ``three``, with addresses of their own and links that the test
    shapes; shared by the tests of this process, and reset after each. Skips the test where the
    machine cannot have them."""
    if not _networks:
        try:
            _networks.append(Network(HOSTS, tmp_path_factory.mktemp("network") / "hosts"))
        except MissingError as error:
            pytest.skip(str(error))
    yield _networks[0]
    try:
        _networks[0].reset()
    except TestbedError as error:
        print(f"the network is brought up anew: {error}")
        _networks.pop().close()
