"""Exit records, and the names that causes had before."""

from __future__ import annotations

import msgspec
import pytest

from wfrun.engine.events import AnyEvent, AttemptEnded, LauncherEnded
from wfrun.engine.exchange import Outcome


@pytest.mark.parametrize(
    ("recorded", "cause"),
    [("start", "launch-failed"), ("storage", "disk-full"), ("disk-full", "disk-full")],
)
def test_old_names_of_causes_are_read(recorded: str, cause: str) -> None:
    """As a log has them, and a launcher of an earlier version that still runs."""
    record = msgspec.json.decode(f'{{"cause": "{recorded}"}}', type=Outcome)
    assert record.cause == cause
    decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
    at, outcome = '"at_s": 0, "key": "k"', f'{{"cause": "{recorded}"}}'
    ended = decoder.decode(f'{{"event": "attempt-ended", {at}, "outcome": {outcome}}}')
    assert isinstance(ended, AttemptEnded)
    assert ended.outcome.cause == cause
    left = decoder.decode(f'{{"event": "launcher-ended", {at}, "site": 0, "cause": "{recorded}"}}')
    assert isinstance(left, LauncherEnded)
    assert left.cause == cause
    assert msgspec.json.decode(msgspec.json.encode(record), type=Outcome) == record


def test_other_causes_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"cause": "tired"}', type=Outcome)
