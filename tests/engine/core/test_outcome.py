"""Exit records, and the names that causes had before."""

from __future__ import annotations

import msgspec
import pytest

from wfrun.engine.exchange import Outcome


def test_other_causes_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"cause": "tired"}', type=Outcome)
