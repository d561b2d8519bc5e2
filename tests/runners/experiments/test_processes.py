"""Simulations in several processes: what is left of them after an interrupt and after errors."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from pathlib import Path

import msgspec
import pytest

from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.runners.experiments.processes import run_missing
from wfrun.runners.experiments.tables.results import Results


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Row(Cell, frozen=True, kw_only=True):
    square: int


def cells(count: int) -> list[Cell]:
    return [Cell(number=number) for number in range(count)]


def square(cell: Cell) -> Row:
    return Row(number=cell.number, square=cell.number**2)


def refuse_five(cell: Cell) -> Row:
    if cell.number == 5:
        raise InvalidError("five is too many", source="cells", hint="take four")
    return square(cell)


def die_at_five(cell: Cell) -> Row:
    if cell.number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(cell)


def test_all_cells_are_simulated() -> None:
    results: Results[Cell, Row] = Results(None, Cell, Row)
    seen: list[tuple[int, int]] = []
    run_missing(cells(20), results, square, 3, lambda done, count: seen.append((done, count)))
    assert results.of(cells(20)) == [square(cell) for cell in cells(20)]
    assert seen == [(done, 20) for done in range(21)]
    assert not multiprocessing.active_children()


def test_an_interrupt_leaves_neither_process_nor_thread(tmp_path: Path) -> None:
    """A thread that is left races with the exit of the interpreter."""
    before = threading.enumerate()

    def interrupt(done: int, count: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    results = Results(tmp_path / "out.csv", Cell, Row)
    with pytest.raises(KeyboardInterrupt):
        run_missing(cells(2000), results, square, 2, interrupt)
    assert not multiprocessing.active_children()
    assert threading.enumerate() == before
    assert len(results.rows) == 3
    results.close()


def test_an_error_in_a_cell_is_the_error_of_all() -> None:
    results: Results[Cell, Row] = Results(None, Cell, Row)
    with pytest.raises(InvalidError) as caught:
        run_missing(cells(2000), results, refuse_five, 2)
    assert str(caught.value) == "cells: five is too many\n  take four"
    assert "refuse_five" in str(caught.value.__cause__)  # where it was raised
    assert len({0, 1, 2, 3, 4} & {row.number for row in results.rows}) >= 4
    assert not multiprocessing.active_children()


def test_a_process_that_is_ended_from_outside_is_named() -> None:
    results: Results[Cell, Row] = Results(None, Cell, Row)
    with pytest.raises(InfeasibleError, match="ended from outside"):
        run_missing(cells(2000), results, die_at_five, 2)
    assert not multiprocessing.active_children()
