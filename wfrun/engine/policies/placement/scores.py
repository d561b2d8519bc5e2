"""The scores from which a placement policy chooses a site. Computed only to explain a decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal, NamedTuple, cast

from wfrun.engine.protocols import Placement


class ScoreColumn(NamedTuple):
    """A number that a policy has of each candidate."""

    name: str
    unit: Literal["s", "cores", "yes/no", ""]
    prefers: Literal["least", "most", ""]
    """Whether sites with the least or the most come first. Empty: the column does not rank sites,
    but explains another column."""


class Criterion(NamedTuple):
    """A column of a table of scores, with the function that gives its value for a site index."""

    column: ScoreColumn
    value: Callable[[int], float | None]
    """Value of the column for a site; None: nothing is known yet, and the site comes before all
    others."""


class SiteScores(NamedTuple):
    """The row of a candidate."""

    site: int
    values: tuple[float | None, ...]
    """A value for each column."""


class Scores(NamedTuple):
    """The candidates of a task as its policy sees them."""

    columns: tuple[ScoreColumn, ...]
    """Columns with a preference rank the sites; the first such column has precedence. Remaining
    ties go to the first site in the catalog."""
    rows: tuple[SiteScores, ...]
    """In the order of the catalog."""
    best: int | None
    """The site with the best scores; None: the policy leaves the task unplaced."""
    note: str = ""
    """What else the user has to know, such as why it waits."""


def score(sites: Sequence[int], *criteria: Criterion, note: str = "") -> Scores:
    """Score at least one site by these criteria."""
    columns = tuple(criterion.column for criterion in criteria)
    rows = tuple(
        SiteScores(site, tuple(criterion.value(site) for criterion in criteria)) for site in sites
    )
    return Scores(columns, rows, min(rows, key=lambda row: rank(columns, row)).site, note)


def rank(columns: Sequence[ScoreColumn], row: SiteScores) -> tuple[float, ...]:
    """The rank of a row; the smallest goes first."""
    return tuple(
        -inf if value is None else -value if column.prefers == "most" else value
        for column, value in zip(columns, row.values, strict=True)
        if column.prefers
    )


def lowest(name: str, unit: Literal["s", ""], value: Callable[[int], float | None]) -> Criterion:
    """Sites with the least value go first."""
    return Criterion(ScoreColumn(name, unit, "least"), value)


def highest(name: str, value: Callable[[int], float | None]) -> Criterion:
    """Sites with the largest value go first."""
    return Criterion(ScoreColumn(name, "", "most"), value)


def first_where(name: str, value: Callable[[int], bool]) -> Criterion:
    """Sites of which something is true go first."""
    return Criterion(ScoreColumn(name, "yes/no", "most"), value)


def shown(
    name: str, unit: Literal["s", "cores"], value: Callable[[int], float | None]
) -> Criterion:
    """A criterion that does not rank sites and explains others."""
    return Criterion(ScoreColumn(name, unit, ""), value)


def turn(site: int, last: int, sites: int) -> int:
    """The place of a site in round-robin order after site ``last`` of ``sites``."""
    return (site - last - 1) % sites


def scores_of(policy: Placement, task: int) -> Scores | None:
    """The scores of a task; None for a policy that has none, such as one of a third party."""
    scores = getattr(policy, "scores", None)
    return None if scores is None else cast("Scores | None", scores(task))
