"""Collects the rows that tasks have written into the results of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, get_origin

import msgspec

from wfrun.engine import errors
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.policies.policy_error import PolicyError
from wfrun.runners.experiments.on_sites.bag_run import BagRun
from wfrun.runners.experiments.processes import Progress, SimulationError
from wfrun.runners.experiments.tables.results import CellT, Results, RowT


class RowCollector(Generic[CellT, RowT]):
    """Adds the rows of missing cells to the results."""

    def __init__(
        self, cells: Sequence[CellT], results: Results[CellT, RowT], progress: Progress
    ) -> None:
        self._results = results
        self._progress = progress
        self._count = len(cells)
        self.missing = set(results.missing(cells))
        self._shows = False
        self.error: Exception | None = None
        """The error of the first simulation that failed. Errors of policies are in
        ``Results.broken`` instead."""

    def show(self) -> None:
        """Begin to show progress. Until this call the terminal is free for logins to the sites."""
        self._shows = True
        self._report()

    def _report(self) -> None:
        if self._shows:
            self._progress(self._count - len(self.missing), self._count)

    def take(self, run: BagRun) -> None:
        """Add the rows and errors of tasks of the run that have ended since the last call. Raises
        InvalidError for damaged rows."""
        for result in run.new_results():
            for values in result["rows"]:
                self.add(self._row(values, run))
            if result["error"] is None:
                continue
            error = error_of(result["error"])
            if isinstance(error, PolicyError):
                self._results.leave_out(error)
            else:
                self.error = self.error or error

    def forget_error(self) -> bool:
        """Discard the errors found in the run of an earlier command, because their cells are
        simulated again. Returns whether there was an error other than a PolicyError."""
        failed, self.error = self.error is not None, None
        self._results.broken.clear()
        return failed

    def add(self, row: RowT) -> None:
        """Add the row of a cell; ignored if the cell has a row already or is not wanted."""
        cell = self._results.cell_of(row)
        if cell in self.missing:
            self.missing.discard(cell)
            self._results.add(row)
            self._report()

    def _row(self, values: Mapping[str, Any], run: BagRun) -> RowT:
        """Make a row with exactly the given values. A checked conversion would turn a 0 into 0.0.
        Raises InvalidError for values that are not those of a row."""
        kind = self._results.row_type
        try:
            msgspec.convert(values, kind)
        except msgspec.ValidationError as error:
            raise InvalidError(f"not a row of results: {error}", source=str(run.run.outputs)) from (
                error
            )
        tuples = {f.name for f in msgspec.structs.fields(kind) if get_origin(f.type) is tuple}
        return kind(**{n: tuple(v) if n in tuples else v for n, v in values.items()})


def error_of(described: Mapping[str, Any]) -> Exception:
    """The exception that a task has described, with the type that it would have on this machine;
    SimulationError for a type that is not an error of wfrun."""
    name = str(described["kind"])
    kind = PolicyError if name == PolicyError.__name__ else getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, WfrunError)):
        return SimulationError(described["trace"])
    error: Exception = kind(
        described["message"],
        source=described["source"],
        line=described["line"],
        hint=described["hint"],
    )
    error.__cause__ = SimulationError(described["trace"])
    return error
