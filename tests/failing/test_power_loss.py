"""A run loses the power at some moments, and is resumed from what the disk may hold then."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.failing.power_loss import PowerLoss
from tests.testbed.layout import MissingError


@pytest.mark.slow
def test_no_event_is_lost_that_was_committed(tmp_path: Path) -> None:
    """Crashes at every third change of the disk, each with other unsynced changes lost; some runs
    are resumed, and have the right outputs."""
    try:
        loss = PowerLoss(tmp_path)
    except MissingError as error:
        pytest.skip(str(error))
    try:
        assert len(loss.changes) > 200
        for end in range(20, len(loss.changes), 3):
            loss.check_log(end, Random(end))
        for end in range(len(loss.changes) * 3 // 4, len(loss.changes), 20):
            loss.check(end, Random(end))
    finally:
        loss.close()
