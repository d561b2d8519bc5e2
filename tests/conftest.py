"""For all tests: property tests draw the same examples every time, so that a failure repeats.

``HYPOTHESIS_PROFILE=explore`` draws others at every run.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.testbed.fixture import _testbed, testbed

__all__ = ["_testbed", "testbed"]

settings.register_profile("repeat", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the testbed."""
    for item in items:
        if "testbed" in getattr(item, "fixturenames", ()):
            item.add_marker("testbed")
