"""Waits for what happens soon. The limit matters only when a test fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 100.0
"""Enough for what takes a second on an idle machine."""


async def until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds; fail when it does not in time."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False
