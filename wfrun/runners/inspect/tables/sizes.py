"""The sizes of malleable jobs over time, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from wfrun.engine.capabilities.growing.grown import SizeChange
from wfrun.engine.capabilities.growing.malleability import Malleability
from wfrun.engine.core.state import RunState
from wfrun.runners.display.console import name_cell
from wfrun.runners.display.durations import duration

MAX_JOBS = 20
"""Maximum number of jobs shown, the latest started ones."""
MAX_SIZES = 8
"""Maximum number of sizes shown of each job, the latest ones."""


class JobSizes(NamedTuple):
    """The sizes of one attempt of a malleable job."""

    job: str
    sizes: list[SizeChange]
    """Sizes since its start. The last one is 0 if the job has ended."""

    @property
    def held(self) -> list[int]:
        """Sizes that the job has had, in order of time."""
        return [each.size for each in self.sizes if each.size]

    def mean(self, now_s: float) -> float:
        """Mean size over the job's execution so far, in processors."""
        ends = [*self.sizes, SizeChange(now_s, 0)]
        spans = [(b.at_s - a.at_s, a.size) for a, b in pairwise(ends) if a.size and b.at_s > a.at_s]
        total_s = sum(span_s for span_s, _ in spans)
        return sum(s * size for s, size in spans) / total_s if total_s else float(self.held[0])


def job_sizes(state: RunState) -> Iterator[JobSizes]:
    """The sizes of all attempts of malleable jobs that have started, in the order of their
    starts."""
    found = state.find(Malleability)
    for key, sizes in () if found is None else found.sizes.items():
        workflow, task = map(int, key.split(".")[-3:-1])
        yield JobSizes(state.workflows[workflow].workflow.tasks[task].id, sizes)


def size_table(state: RunState, now_s: float) -> Table | None:
    """A table with a row for each malleable job, the `MAX_JOBS` latest; None if no job has
    started."""
    found = list(job_sizes(state))
    if not found:
        return None
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("malleable job")
    for title in ("smallest", "mean", "largest", "grows", "shrinks"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("sizes")
    for one in found[-MAX_JOBS:]:
        held = one.held
        changes = [b - a for a, b in pairwise(held)]
        shown = " ".join(map(str, held[-MAX_SIZES:]))
        if len(held) > MAX_SIZES:
            shown = f"… {shown}"
        if one.sizes[-1].size:
            since = duration(max(0.0, now_s - one.sizes[-1].at_s))
            shown = f"{shown} for {since}"
        table.add_row(
            name_cell(one.job), str(min(held)), f"{one.mean(now_s):.1f}", str(max(held)),
            str(sum(change > 0 for change in changes)), str(sum(change < 0 for change in changes)),
            Text(shown),
        )  # fmt: skip
    if len(found) > MAX_JOBS:
        table.add_row(f"and {len(found) - MAX_JOBS} earlier")
    return table
