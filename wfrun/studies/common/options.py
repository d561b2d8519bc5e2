"""The options that all studies share, and the steps of a study that depend on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.runners.experiments.command import refuse_broken, simulate_shown
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.tables.results import CellT, Results, RowT

QUICK_NOTICE = (
    "This is a quick study, with few repetitions: the page in the documentation is of the",
    "full one.",
    "",
)
"""The first lines of the page of a quick study."""


class StudyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``wfrun study``."""

    output: Path
    """Folder of results, page and figures."""
    quick: bool = False
    corpus: Path | None = None
    """Folder of published workflows and logs."""
    logs: tuple[Path, ...] = ()
    """Further logs. Only the study of predictions uses them."""
    days: float | None = None
    """Maximum length of the logs in days; None: the study's default. Only the study of reallocation
    uses it."""
    seeds: int | None = None
    """Number of repetitions; None: the study's default. Only the study of reallocation uses it."""
    processes: int | None = None
    """Number of processes; None: one for each core."""
    on: Path | None = None
    """Catalog of the sites that simulate; None: this machine."""
    emulate_at: Path | None = None
    """Catalog of the clusters on which the experiments are also emulated. Only the study of brokers
    uses it."""
    quiet: bool = False

    def announce(self, length: str) -> None:
        """Print how long the study takes, unless ``quiet`` is set. ``length`` is text such as "some
        5 min"."""
        if not self.quiet:
            click.echo(f"this takes {length} in all; what is simulated is kept", err=True)

    def make_folder(self) -> None:
        """Create the folder of results. Raises InfeasibleError if it cannot be created."""
        try:
            self.output.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.unwritable(error) from error

    def rows(
        self,
        cells: Sequence[CellT],
        results: Results[CellT, RowT],
        simulate: Callable[[CellT], RowT],
        files: Files | None = None,
    ) -> list[RowT]:
        """Return the rows of all cells. Cells that ``results`` lacks are simulated with ``files``
        as input, and their rows are added to ``results``; see `simulate_shown`. Raises PolicyError
        for a policy that raises."""
        rows = simulate_shown(
            cells, results, simulate,
            processes=self.processes, on=self.on, files=files, quiet=self.quiet,
        )  # fmt: skip
        refuse_broken(results)
        return rows

    def unwritable(self, error: OSError) -> InfeasibleError:
        """The error for a folder into which results, page or figures cannot be written."""
        return InfeasibleError(
            f"the study cannot be written: {error.strerror}",
            source=str(self.output),
            hint="name a folder that can be written with --output",
        )
