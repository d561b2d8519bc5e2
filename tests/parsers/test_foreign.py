"""Numbers of others: bounded, of ASCII digits, and read at one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from wfrun.parsers.foreign import MAX_DIGITS, decimal_of, number_of

CHECKER = ROOT / "tools" / "check_foreign_numbers.py"
NO_NUMBERS = ("", "²", "٣", "1" * (MAX_DIGITS + 1), "9" * 5000, "1_0", " 1", "1\n", "+1", "0x1",
              "1e3", "--1", "-")  # fmt: skip


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_number(text: str) -> None:
    assert number_of(text) is None
    assert number_of(text.encode()) is None
    assert number_of(text, 7, signed=True) == 7
    assert decimal_of(text) is None


def test_numbers() -> None:
    assert number_of("9" * MAX_DIGITS) == 10**MAX_DIGITS - 1 < 2**63
    assert number_of(b"007") == 7
    assert number_of(None, 3) == 3
    assert (number_of("-1"), number_of("-1", signed=True)) == (None, -1)
    assert (decimal_of("2"), decimal_of("0.50"), decimal_of("nan")) == (2.0, 0.5, None)


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECKER), str(root)], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_nothing_else_reads_numbers_of_others() -> None:
    result = check(ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("path", "code", "fault"),
    [
        ("sites/batch/x.py", "\nn = int(said)\n", "x.py:2: a number is read by int or float"),
        ("sites/x.py", "n = float(match[1])\n", "x.py:1: a number is read"),
        ("sites/x.py", "a, b = map(int, groups)\n", "x.py:1: a number is read"),
        ("sites/transfers/x.py", "if length.isdigit(): pass\n", "x.py:1: isdigit takes"),
        ("runners/admin/survey.py", "n = int(said.get('kib', 0))\n", "survey.py:1: a number"),
        ("runners/run/x.py", "ok = name.isdecimal()\n", "x.py:1: isdecimal takes"),
        ("parsers/jobs/x.py", "ok = all(map(str.isnumeric, keys))\n", "x.py:1: isnumeric takes"),
    ],
)
def test_a_planted_reader_is_found(tmp_path: Path, path: str, code: str, fault: str) -> None:
    file = tmp_path / "wfrun" / path
    file.parent.mkdir(parents=True)
    file.write_text(code)
    result = check(tmp_path)
    assert result.returncode == 1
    assert fault in result.stdout
    assert "wfrun/parsers/foreign.py" in result.stdout


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("sites/x.py", "n = int(rate * 2)\nm = float('inf')\n"),
        ("sites/node/x.py", "n = int(said)\n"),
        ("parsers/foreign.py", "n = int(said)\n"),
        ("runners/run/x.py", "n = int(share * len(values))\n"),
    ],
)
def test_what_is_computed_may_be_converted(tmp_path: Path, path: str, code: str) -> None:
    file = tmp_path / "wfrun" / path
    file.parent.mkdir(parents=True)
    file.write_text(code)
    result = check(tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
