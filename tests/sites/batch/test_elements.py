from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.sites.batch.elements import compress, expand
from wfrun.sites.batch.jobs import QueueUnknownError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("7", [7]),
        ("1-4", [1, 2, 3, 4]),
        ("12-18:1,20", [12, 13, 14, 15, 16, 17, 18, 20]),
        ("1-7:3", [1, 4, 7]),
        ("3-5,9%2", [3, 4, 5, 9]),
        ("1,3,...", [1, 3]),
        ("5-4", []),
        ("1-3:0", [1, 2, 3]),
    ],
)
def test_ranges_are_expanded(text: str, numbers: list[int]) -> None:
    assert expand(text) == numbers


@pytest.mark.parametrize(
    "text", ["", "a", "1-", "-3", "1-2-3", "1;2", "1-999999999", "99999999999", "٣", "1,,2"]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(QueueUnknownError):
        expand(text)


def test_many_large_ranges_do_not_eat_the_memory() -> None:
    with pytest.raises(QueueUnknownError, match="more elements"):
        expand(",".join(["1-999999"] * 1000))


@given(st.sets(st.integers(1, 200)))
def test_compressing_is_undone_by_expanding(numbers: set[int]) -> None:
    if numbers:
        assert expand(compress(sorted(numbers))) == sorted(numbers)
