"""A part of the study: one experiment, its results, its claims and its section of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from wfrun.studies.common.claim import Claims
from wfrun.studies.predictions.workloads import Workload

Pictures = Mapping[str, str]
"""Names of files beside the page, by the number of the figure."""


class PartSetting(msgspec.Struct, frozen=True):
    """The setting of the study."""

    quick: bool
    workloads: tuple[Workload, ...]
    """Logs first, then generated workloads. Labels are unique."""


@dataclass(frozen=True)
class StudyPart:
    """An experiment. All its functions are at the top level of a module, so that they can be sent
    to other processes."""

    name: str
    """Its results are in NAME.csv."""
    cell: type[msgspec.Struct]
    """The record that identifies a run. Its fields are text, numbers or None."""
    row: type[msgspec.Struct]
    """The record of a cell with its measures. Measures may also be tuples of numbers."""
    cells: Callable[[PartSetting], Sequence[Any]]
    """Lists the cells in the order in which they run. The cells of one workload are adjacent."""
    run: Callable[[PartSetting, Any], Any]
    """Runs a cell and returns its row."""
    samples: Callable[[PartSetting, Sequence[Any], bool], Any]
    """Makes, from the rows of all cells, the samples for claims, page and figures. The last
    argument is True if a claim has to hold on every workload, False if on most."""
    claims: Claims[Any]
    page: Callable[[Any, Pictures], Iterator[str]]
    """Yields the section of the page, in Markdown, with its headings (``##``)."""
    draw: Callable[[Any, Path], dict[str, str]]
    """Writes the figures to a folder, and returns their file names by figure number. Raises
    OSError."""
