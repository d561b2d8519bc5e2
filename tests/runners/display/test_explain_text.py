"""Explanations as text."""

from __future__ import annotations

from rich.console import Console

from wfrun.runners.inspect.explain.explain import ColumnRecord, DecisionRecord, ScoreRecord
from wfrun.runners.inspect.explain.explain_text import decision_parts


class _Moment:
    started_s = 0.0
    now_s = 9.0


def shown(*rows: tuple[str, float, float]) -> str:
    """A decision for alpha, by transfers and then by load."""
    columns = ColumnRecord("transfers", "s", "least"), ColumnRecord("load", "", "least")
    scores = tuple(ScoreRecord(name, (first, then)) for name, first, then in rows)
    decision = DecisionRecord("p", 1, 1.0, "alpha", columns, scores, (), "", False, True)
    console = Console(width=100)
    with console.capture() as captured:
        console.print(*decision_parts(_Moment(), decision), sep="\n")
    return captured.get()


def test_values_that_decide_never_look_equal() -> None:
    text = shown(("alpha", 0.45579, 9.25), ("beta", 0.45624, 5.25), ("gamma", 30.0, 1.0))
    assert 'decided by "transfers"' in text
    assert "0.45579 s" in text
    assert "0.45624 s" in text
    assert " 30.0 s" in text


def test_values_that_do_not_decide_are_short() -> None:
    text = shown(("alpha", 0.5, 1.00001), ("beta", 0.5, 1.00002), ("gamma", 0.5, 2.0))
    assert 'decided by "load"' in text
    assert text.count(" 0.5 s") == 3
    assert "1.00002" in text
