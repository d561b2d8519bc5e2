"""``wfrun results --owners``: a row for each owner of bags with optional tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wfrun.engine.errors import InvalidError
from wfrun.runners.inspect.tables.followed_run import FollowedRun
from wfrun.runners.inspect.tables.results import owner_of
from wfrun.runners.metrics.optional_bags import optional_shares
from wfrun.runners.run.directory.run_directory import RunDir

COLUMNS: dict[str, type] = {
    "owner": str, "completed": int, "unhappy": int, "allocated_core_s": float,
    "deserved_core_s": float, "satisfaction": float,
}  # fmt: skip
"""Names and types of the columns. ``unhappy`` is 1 for an owner without the mandatory results at a
deadline, otherwise 0."""


class OwnerResults:
    """The table of the owners of a run, also of a run that has not ended."""

    def __init__(self, run: RunDir) -> None:
        """Raises what ``FollowedRun`` raises; InvalidError for a run without bags with optional
        tasks."""
        with FollowedRun(run) as followed:
            shares = optional_shares(followed.state)
        if shares is None:
            raise InvalidError(
                f"the run {run.name} has no bags with optional tasks",
                hint="without --owners there is a row for each task",
            )
        self._shares = shares
        self._user = owner_of(run)

    def columns(self) -> dict[str, type]:
        """Names and types of the columns."""
        return COLUMNS

    def typed_columns(self) -> dict[str, type]:
        """The same as ``columns``, where all numbers have types already."""
        return COLUMNS

    def rows(self) -> Iterator[list[Any]]:
        """A row for each owner, in the order of their first bags."""
        for share in self._shares.owners:
            yield [
                share.owner or self._user,
                share.completed,
                int(share.unhappy),
                round(share.allocated_core_s, 6),
                round(share.deserved_core_s, 6),
                None if share.satisfaction is None else round(share.satisfaction, 6),
            ]
