"""One short round of the soak test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.soak_round import Round
from tests.testbed.layout import MissingError
from tests.testbed.testbed import Testbed


@pytest.mark.slow
def test_a_round(testbed: Testbed, tmp_path: Path) -> None:
    one = Round(testbed, tmp_path, "quick", 6.0)
    try:
        one.play()
    except MissingError as error:
        pytest.skip(str(error))
    finally:
        one.close()
