"""The order of the rows in a file of results, however they came."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from wfrun.engine.errors import InvalidError
from wfrun.runners.experiments.experiment import run_cells
from wfrun.runners.experiments.tables.results import Results


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Row(Cell, frozen=True, kw_only=True):
    square: float


def square(cell: Cell) -> Row:
    return Row(number=cell.number, square=cell.number**2)


def cells(*numbers: int) -> list[Cell]:
    return [Cell(number=number) for number in numbers]


def numbers(path: Path) -> list[int]:
    return [int(line.split(",")[0]) for line in path.read_text().splitlines()[1:]]


def test_rows_have_the_order_of_the_cells(tmp_path: Path) -> None:
    """Rows of other cells stay before them; the file stays locked and open for further rows."""
    path = tmp_path / "out.csv"
    results = Results(path, Cell, Row)
    for number in (3, 9, 1, 8, 2):
        results.add(Row(number=number, square=number**2))
    results.arrange(cells(1, 2, 3, 4))
    assert numbers(path) == [9, 8, 1, 2, 3]
    with pytest.raises(InvalidError, match="another simulation writes to this file"):
        Results(path, Cell, Row)
    results.add(Row(number=4, square=16))
    results.close()
    assert numbers(path) == [9, 8, 1, 2, 3, 4]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out.csv"]


def test_an_extended_experiment_is_arranged(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    for wanted in (cells(1, 3), cells(1, 2, 3, 4)):
        results = Results(path, Cell, Row)
        run_cells(wanted, results, square, processes=2)
        results.close()
    assert numbers(path) == [1, 2, 3, 4]


def test_a_continued_experiment_has_the_same_text(tmp_path: Path) -> None:
    """Whole numbers in fields of type float are written alike before and after they were read."""
    texts = []
    for name, parts in (("whole.csv", [cells(1, 2, 3)]), ("parts.csv", [cells(3), cells(1, 2, 3)])):
        for wanted in parts:
            results = Results(tmp_path / name, Cell, Row)
            run_cells(wanted, results, square, processes=1)
            results.close()
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] == "number,square\n1,1.0\n2,4.0\n3,9.0\n"
