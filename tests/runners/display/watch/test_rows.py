"""Tables and bars of ``wfrun watch``, from the state of a run."""

from __future__ import annotations

import pytest

from wfrun.engine.events import TransferEnded
from wfrun.engine.fitting.sizes import size_text
from wfrun.runners.inspect.watch.bars import FAILED, PREFETCHED, USED, BarPart, bar
from wfrun.runners.inspect.watch.listing import (
    Listing,
    ListingColumn,
    ListingRow,
    Query,
    arranged,
    fitted,
)
from wfrun.runners.inspect.watch.observation import WINDOW_S, LinkRates

COLUMNS = (
    ListingColumn("task", least=6),
    ListingColumn("site", rank=1),
    ListingColumn("for", is_right=True),
    ListingColumn(""),
)
ROWS = [
    ListingRow(
        ("a-task-of-long-name", "alpha", "9.0 s", ""), ("a-task-of-long-name", "alpha", 9.0, "")
    ),
    ListingRow(("b", "beta", "1:10", ""), ("b", "beta", 70.0, "")),
]
LISTING = Listing(COLUMNS, ROWS, 7, "nothing")


def lines(width: int, query: Query = Query()) -> list[str]:  # noqa: B008 - immutable
    listing = arranged(LISTING, query)
    layout = fitted(listing, query, width)
    head = layout.head(listing, query)
    return [head.plain, *(layout.line(listing, row.cells).plain for row in listing.rows)]


def test_columns_are_aligned_and_empty_ones_left_out() -> None:
    assert lines(80) == [
        "task                 site     for",
        "a-task-of-long-name  alpha  9.0 s",
        "b                    beta    1:10",
    ]


def test_a_narrow_table_is_cut_and_then_loses_columns() -> None:
    assert lines(26)[1] == "a-task-of-l…  alpha  9.0 s"
    assert lines(16)[1] == "a-task-o…  9.0 s"
    assert all(len(line) <= 13 for line in lines(13))


def test_rows_are_sorted_by_what_cells_mean() -> None:
    found = lines(80, Query(column=2))
    assert found[0].endswith("for↑")
    assert [line[0] for line in found[1:]] == ["a", "b"]
    found = lines(80, Query(column=2, is_reversed=True))
    assert found[0].endswith("for↓")
    assert [line[0] for line in found[1:]] == ["b", "a"]


def test_rows_are_found_by_a_text_in_any_case() -> None:
    found = arranged(LISTING, Query(text="BET"))
    assert [row.cells[0] for row in found.rows] == ["b"]
    assert found.total == 1


def test_a_bar_is_full_only_if_the_whole_is() -> None:
    def plain(*parts: BarPart) -> str:
        return bar(10, 1000, parts).plain

    assert plain() == "··········"
    assert plain(BarPart(1000, *USED)) == "■■■■■■■■■■"
    assert plain(BarPart(999, *USED)) == "■■■■■■■■■·"
    assert plain(BarPart(1, *FAILED)) == "✗·········"
    assert plain(BarPart(500, *USED), BarPart(300, *PREFETCHED)) == "■■■■■□□□··"
    assert bar(4, 0, [BarPart(0, *USED)]).plain == "····"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (9949, "9.9 kB"), (10_400, "10.4 kB"),
     (999_600, "999.6 kB"), (999_960, "1 MB"), (2.5e18, "2500 PB")],
)  # fmt: skip
def test_sizes(size: float, text: str) -> None:
    assert size_text(size) == text


def test_a_long_copy_counts_for_its_part_in_the_window() -> None:
    rates = LinkRates()
    rates.observe([TransferEnded(1000.0, 0, 0, -1, 0, 6000, 1.0)])
    rates.observe([TransferEnded(1000.0, 0, 1, 0, 1, 1200, 4 * WINDOW_S, sent_bytes=600)])
    found = rates.at(1000.0)
    assert found[-1, 0] == (1, 6000 / WINDOW_S)
    assert found[0, 1] == (1, 600 / 4 / WINDOW_S)
    assert rates.at(1000.0 + WINDOW_S + 1) == {}
