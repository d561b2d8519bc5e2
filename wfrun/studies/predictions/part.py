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
    """What the study is made of."""

    quick: bool
    workloads: tuple[Workload, ...]
    """Logs first, then generated workloads. Labels are unique."""


@dataclass(frozen=True)
class StudyPart:
    """An experiment. All functions are at the top level of a module, since they are sent to other
    processes."""

    name: str
    """Its results are in NAME.csv."""
    cell: type[msgspec.Struct]
    """What identifies a run: text, numbers, None."""
    row: type[msgspec.Struct]
    """The cell and what was measured: also tuples of numbers."""
    cells: Callable[[PartSetting], Sequence[Any]]
    """The runs, in the order in which they are done; those of one workload together."""
    run: Callable[[PartSetting, Any], Any]
    """The row of a cell."""
    samples: Callable[[PartSetting, Sequence[Any], bool], Any]
    """What claims, page and figures read: from the rows of all cells, and whether a claim has to
    hold on every workload (False: on most)."""
    claims: Claims[Any]
    page: Callable[[Any, Pictures], Iterator[str]]
    """The section of the page, in Markdown, with its headings (``##``)."""
    draw: Callable[[Any, Path], dict[str, str]]
    """Write the figures to a folder: names of files by number of figure. Raises OSError."""
