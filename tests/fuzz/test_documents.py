"""A quick part of the fuzzing of documents; ``make fuzz`` does the whole."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz.formats import FORMATS, SEEDS
from tests.fuzz.worker import document

COUNT = 100


@pytest.mark.cases
@pytest.mark.parametrize("name", FORMATS)
def test_mutated_documents_are_read_or_refused(name: str) -> None:
    defects = command.fuzz(name, seed=1, first=0, end=COUNT)
    assert not defects, "\n".join(map(str, defects))


@pytest.mark.parametrize("name", FORMATS)
def test_seeds_are_valid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise mutations would not get beyond the first check."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    (tmp_path / "values.txt").write_text("one\n")
    form = FORMATS[name]
    for path in sorted((SEEDS / name).iterdir()):
        assert path.suffix == form.suffix
        (tmp_path / path.name).write_bytes(path.read_bytes())
        form.examine(tmp_path / path.name)


def test_documents_of_a_seed_are_the_same() -> None:
    assert document("dax", 1, 7) == document("dax", 1, 7) != document("dax", 2, 7)


def _raise(path: Path) -> None:
    raise ZeroDivisionError


def _allocate(path: Path) -> None:
    bytearray(600_000_000)


def _loop(path: Path) -> None:
    while time.time():
        pass


def _write(path: Path) -> None:
    Path("/tmp/wfrun-fuzz-outside").write_text("x")


def _start(path: Path) -> None:
    os.system("true")


DEFECTS = {
    "_raise": "ZeroDivisionError",
    "_allocate": "MemoryError",
    "_loop": "over 1 s",
    "_write": "writes '/tmp/wfrun-fuzz-outside'",
    "_start": "os.system",
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", DEFECTS)
def test_defects_are_found(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With readers that have them; the second document is examined after the first."""
    monkeypatch.setenv("WFRUN_FUZZ_READER", f"{__name__}:{reader}")
    monkeypatch.setattr(command, "TIMEOUT_S", 1.0)  # of processor time, which other tests need
    defects = command.fuzz("commands", seed=1, first=0, end=2)
    assert [defect.number for defect in defects] == [0, 1]
    assert all(DEFECTS[reader] in defect.what for defect in defects)
    assert not Path("/tmp/wfrun-fuzz-outside").exists()
