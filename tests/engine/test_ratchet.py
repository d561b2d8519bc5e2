"""A task costs the core no more than it did."""

from __future__ import annotations

import pytest

from tests.engine.ratchet import KEPT, MOST, PYTHON, WORKLOADS, counts_of, kept


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_task_costs_no_more_lines_and_calls_than_are_kept(name: str) -> None:
    """A line that any task pays for is an if in thousands of runs that do not need it."""
    before = kept().get(name)
    if before is None:
        pytest.skip(f"{KEPT.name} has no counts of Python {PYTHON}")
    now = counts_of(name)
    grown = [
        f"{what} a task {old} → {new}"
        for what, old, new in zip(now._fields, before, now, strict=True)
        if new > MOST * old
    ]
    assert not grown, (
        f"{name}: {', '.join(grown)}. Save elsewhere, or write a decision record that names what "
        f"is gained, and run python -m tests.engine.ratchet --write"
    )
