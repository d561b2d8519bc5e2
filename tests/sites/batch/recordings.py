"""What real batch systems printed: ``tests/data/lrm``."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.places import DATA as TESTDATA

DATA = TESTDATA / "lrm"
SLURM = "slurm-22.05.8"
GRID_ENGINE = "grid-engine-8.1.9"
OPENPBS = "openpbs-23.06"


class Recording(NamedTuple):
    """In the order in which batch systems take them."""

    exit_code: int
    output: str
    errors: str


def recorded(system: str, name: str) -> Recording:
    """One recording; bytes that are no UTF-8 as sites hand them on."""
    text = (DATA / system / f"{name}.txt").read_bytes().decode(errors="surrogateescape")
    # The command may have line breaks in an argument, quoted as $'\n'.
    command, _, rest = text.partition("\n")
    match = re.fullmatch(r"(.*?)(?:\[stderr\]\n(.*))?\[exit (\d+)\]\n*", rest, re.DOTALL)
    assert command.startswith("$ ")
    assert match is not None
    exit_code, output, errors = int(match[3]), match[1], match[2] or ""
    if system == OPENPBS and exit_code:
        return Recording(exit_code, "", output)
    return Recording(exit_code, output, errors)
