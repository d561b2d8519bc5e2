"""What a bag of simulations is made of: chunks, work with files, rows, the check of an
installation."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from wfrun.engine.errors import InvalidError
from wfrun.runners.experiments.on_sites import installation, work
from wfrun.runners.experiments.on_sites.bag_run import BagRun
from wfrun.runners.experiments.on_sites.collector import RowCollector
from wfrun.runners.experiments.on_sites.installation import differences
from wfrun.runners.experiments.on_sites.missing import chunk_size, chunks_of
from wfrun.runners.experiments.processes import SimulationError, no_progress
from wfrun.runners.experiments.tables.results import Results


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    number: int


class Row(Cell, frozen=True, kw_only=True):
    measure: float
    parts: tuple[float, ...] = ()


CELLS = [Cell(number=number) for number in range(4)]


@pytest.mark.parametrize(
    ("cells", "cell_s", "slots", "size"),
    [
        (1280, 10.0, 40, 3),  # half a minute
        (1280, 60.0, 40, 1),
        (1280, None, 40, 1),
        (200, 1.0, 10, 5),  # four tasks for each slot
        (200, 0.02, 10, 200),  # all in one task, which is short anyway
        (200, 0.5, 1000, 10),  # no shorter tasks for more slots
        (3, 1e-9, 1, 3),
    ],
)
def test_a_task_has_enough_cells(cells: int, cell_s: float | None, slots: int, size: int) -> None:
    assert chunk_size(cells, cell_s, slots) == size


def test_chunks_keep_the_order() -> None:
    assert chunks_of("abcdefg", 3) == ["abc", "def", "g"]


def first_lines(cell: Cell, log: str, folder: Path) -> list[str]:
    return [Path(log).read_text(), (folder / "a" / "two").read_text()]


def test_files_of_the_work_are_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their paths, texts or not, of files and of folders, become those of the copies."""
    log, folder = tmp_path / "one.swf", tmp_path / "corpus"
    (folder / "a").mkdir(parents=True)
    log.write_text("1")
    (folder / "a" / "two").write_text("2")
    (folder / "three").write_text("not read")
    files = {log: [log], folder: [folder / "a" / "two"]}
    simulate = partial(first_lines, log=str(log), folder=folder)
    work.write(work.Work(simulate, [CELLS]), files, tmp_path / work.NAME)
    site = tmp_path / "site"
    for name, path in work.staged(files).items():
        (site / name).parent.mkdir(parents=True)
        (site / name).write_text(path.read_text())
    assert work.staged(files).keys() == {"files/0/one.swf", "files/1/corpus/a/two"}
    log.unlink()
    monkeypatch.chdir(site)
    found = work.read(tmp_path / work.NAME)
    assert found.simulate(CELLS[0]) == ["1", "2"]
    assert list(found.chunks[0]) == CELLS


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="the file cannot be read"):
        work.check_readable({tmp_path: [tmp_path / "absent"]})


def test_the_same_installation() -> None:
    assert differences(installation.installation()) == []
    words = [sys.executable, "-m", installation.MODULE, *installation.installation()]
    subprocess.run(words, check=True, timeout=60)


@pytest.mark.parametrize("name", ["wfrun", "sources", "python", "arithmetic"])
def test_another_installation(name: str) -> None:
    parts = [
        f"{name}=other" if p.startswith(f"{name}=") else p for p in installation.installation()
    ]
    (line,) = differences(parts)
    assert line.startswith(f"{name}=")
    assert line.endswith(f" at the site, {name}=other where the command was given")


def test_policies_of_packages_are_compared() -> None:
    parts = [*installation.installation(), "policies=mine-1.0"]
    assert differences(parts) == [
        "nothing at the site, policies=mine-1.0 where the command was given"
    ]


def written(folder: Path, task: int, *rows: dict[str, object], error: object = None) -> None:
    outputs = folder / "run" / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    (outputs / f"rows-{task}.json").write_text(json.dumps({"rows": rows, "error": error}))


def test_rows_are_those_of_the_simulation(tmp_path: Path) -> None:
    """Numbers keep their bits and get the types of the row; a file is read once; rows of other
    cells are left out."""
    results = Results(tmp_path / "out.csv", Cell, Row)
    shown: list[tuple[int, int]] = []
    collector = RowCollector(CELLS, results, lambda done, count: shown.append((done, count)))
    bag = BagRun(tmp_path / "1")
    collector.show()
    written(tmp_path / "1", 0, {"number": 1, "measure": 0, "parts": [0.1, 3]})
    written(tmp_path / "1", 2, {"number": 0, "measure": 0.1 + 0.2, "parts": []})
    written(tmp_path / "1", 1, {"number": 9, "measure": 1.0, "parts": []})
    collector.take(bag)
    collector.take(bag)
    results.close()
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [
        "1,0.0,0.1 3.0",
        "0,0.30000000000000004,",
    ]
    assert shown == [(0, 4), (1, 4), (2, 4)]
    assert collector.missing == {CELLS[2], CELLS[3]}


def test_measures_that_are_no_numbers(tmp_path: Path) -> None:
    results: Results[Cell, Row] = Results(None, Cell, Row)
    written(tmp_path, 0, {"number": 1, "measure": math.nan}, {"number": 2, "measure": math.inf})
    RowCollector(CELLS, results, no_progress).take(BagRun(tmp_path))
    assert math.isnan(results.rows[0].measure)
    assert results.rows[1].measure == math.inf


@pytest.mark.parametrize("content", ["{", "[]", '{"rows": [{"number": "x"}], "error": null}'])
def test_damaged_rows_are_refused(content: str, tmp_path: Path) -> None:
    written(tmp_path, 0)
    (tmp_path / "run" / "outputs" / "rows-0.json").write_text(content)
    results: Results[Cell, Row] = Results(None, Cell, Row)
    with pytest.raises(InvalidError, match=r"not (the results of a task|a row of results)"):
        RowCollector(CELLS, results, no_progress).take(BagRun(tmp_path))


def test_the_error_of_a_simulation(tmp_path: Path) -> None:
    """It is the one of a simulation on this machine; rows before it count."""
    described = {"kind": "InvalidError", "message": "no run time", "source": "a.dax", "line": 3,
                 "hint": "add one", "trace": "Traceback …"}  # fmt: skip
    written(tmp_path, 0, {"number": 1, "measure": 1.0}, error=described)
    results: Results[Cell, Row] = Results(None, Cell, Row)
    collector = RowCollector(CELLS, results, no_progress)
    collector.take(BagRun(tmp_path))
    assert len(results.rows) == 1
    assert isinstance(collector.error, InvalidError)
    assert str(collector.error) == "a.dax:3: no run time\n  add one"
    assert isinstance(collector.error.__cause__, SimulationError)
    assert collector.forget_error()
    assert not collector.forget_error()
