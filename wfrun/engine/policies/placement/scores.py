"""The scores from which a placement policy chooses a site. Computed only to explain a decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Literal, NamedTuple, cast

from wfrun.engine.protocols import Placement


class ScoreColumn(NamedTuple):
    """A column of a table of scores: one number for each candidate."""

    name: str
    unit: Literal["s", "cores", "yes/no", ""]
    prefers: Literal["least", "most", ""]
    """Whether sites with the least or the most come first. Empty: the column does not rank sites,
    but explains another column."""


class Criterion(NamedTuple):
    """A column of a table of scores, with the function that gives its value for a site index."""

    column: ScoreColumn
    value: Callable[[int], float | None]
    """Value of the column for a site; None: unknown yet. Such a site comes before all others."""


class SiteScores(NamedTuple):
    """A row of a table of scores: the values of one candidate."""

    site: int
    values: tuple[float | None, ...]
    """A value for each column."""


class Scores(NamedTuple):
    """The table of scores by which a policy ranks the candidates of a task."""

    columns: tuple[ScoreColumn, ...]
    """Columns with a preference rank the sites; the first such column has precedence. Remaining
    ties go to the first site in the catalog."""
    rows: tuple[SiteScores, ...]
    """The candidates in the order of the catalog."""
    best: int | None
    """The site with the best scores; None: the policy leaves the task unplaced."""
    note: str = ""
    """Further text for the user, such as why the task waits."""


def score(sites: Sequence[int], *criteria: Criterion, note: str = "") -> Scores:
    """The table of scores of at least one site. The first criterion has precedence."""
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
    """A criterion by which sites with the least value go first."""
    return Criterion(ScoreColumn(name, unit, "least"), value)


def highest(name: str, value: Callable[[int], float | None]) -> Criterion:
    """A criterion by which sites with the largest value go first."""
    return Criterion(ScoreColumn(name, "", "most"), value)


def first_where(name: str, value: Callable[[int], bool]) -> Criterion:
    """A criterion by which sites whose ``value`` is true go first."""
    return Criterion(ScoreColumn(name, "yes/no", "most"), value)


def shown(
    name: str, unit: Literal["s", "cores"], value: Callable[[int], float | None]
) -> Criterion:
    """A criterion that does not rank sites, but explains another criterion."""
    return Criterion(ScoreColumn(name, unit, ""), value)


def turn(site: int, last: int, sites: int) -> int:
    """The position of a site, from 0, in the round-robin order of ``sites`` sites after site
    ``last``."""
    return (site - last - 1) % sites


def scores_of(policy: Placement, task: int) -> Scores | None:
    """The scores of a task; None for a policy without scores, such as a policy of a third party."""
    scores = getattr(policy, "scores", None)
    return None if scores is None else cast("Scores | None", scores(task))
