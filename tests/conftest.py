"""For all tests: property tests draw the same examples every time, so that a failure repeats.

``HYPOTHESIS_PROFILE=explore`` draws others at every run.
"""

from __future__ import annotations

import os
import secrets

import pytest
from hypothesis import settings

from tests.testbed.fixture import _testbed, testbed

__all__ = ["_testbed", "testbed"]

settings.register_profile("repeat", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


@pytest.fixture(autouse=True)
def _own_history(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test knows of another's runs, or of those of whoever tests."""
    folder = tmp_path_factory.getbasetemp() / "state" / secrets.token_hex(4)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the testbed."""
    for item in items:
        if "testbed" in getattr(item, "fixturenames", ()):
            item.add_marker("testbed")
