"""``wfrun shares``: the owners of a run, the cores that they hold, and the core time that they have
used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from wfrun.runners.display.console import name_cell
from wfrun.runners.display.durations import duration
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.inspect.tables.results import owner_of
from wfrun.runners.metrics.shares import OwnerUse, RunShares, TimeSlice, run_shares
from wfrun.runners.metrics.statistics import read_statistics
from wfrun.runners.run.directory.run_directory import RunDir

MAX_OWNERS = 12
"""Maximum number of owners with a column in the table over time."""


def read_shares(run: RunDir, slices: int) -> RunShares:
    """The shares of a run, also while it goes on. Raises what `read_statistics` raises."""
    read = read_statistics(run)
    return run_shares(
        str(run.path), read.state, read.timings, read.statistics.state,
        user=owner_of(run) or "-", slices=slices,
    )  # fmt: skip


def print_shares(console: Console, shares: RunShares) -> None:
    """Print a table with a row for each owner. For several owners, also print a table of the cores
    that they held over time, with a row for each time slice and a column for each owner."""
    console.print(f"run {shares.path}: {shares.state}", soft_wrap=True, markup=False)
    console.print(record_table(shares.owners, _OWNERS))
    if len(shares.owners) < 2 or not shares.slices:
        return
    console.print("\ncores held (tasks done), from each time on:")
    shown = shares.owners[:MAX_OWNERS]
    console.print(record_table(shares.slices, _columns(shown)))
    if len(shares.owners) > len(shown):
        console.print(f"and {len(shares.owners) - len(shown)} more owners: see --json")


def _sites_of(owner: OwnerUse) -> str:
    return ", ".join(f"{site} {cores}" for site, cores in sorted(owner.cores_at.items()))


_OWNERS = (
    RecordColumn("owner", "owner", name_cell),
    number_column("documents", "documents"),
    number_column("tasks", "tasks"),
    number_column("done", "done"),
    number_column("cores now", "cores"),
    number_column("core time", "core_s", duration),
    number_column("share", "share", "{:.1%}"),
    number_column("mean cores", "mean_cores", "{:.2f}"),
    RecordColumn("holds now", _sites_of),
)


def _columns(owners: Sequence[OwnerUse]) -> list[RecordColumn]:
    def cell(index: int, part: TimeSlice) -> str:
        return f"{part.mean_cores[index]:.2f} ({part.done[index]})"

    columns = [number_column("time", "begin_s", duration)]
    for index, owner in enumerate(owners):
        columns.append(number_column(name_cell(owner.owner).plain, partial(cell, index)))
    return columns
