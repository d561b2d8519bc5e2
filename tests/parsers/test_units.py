"""Units as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.parsers.syntax.units import parse_bandwidth, parse_duration, parse_size


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        (4096, 4096),
        ("4096", 4096),
        ("0", 0),
        ("12 B", 12),
        ("1.5 kB", 1500),
        ("2KB", 2000),
        ("8 GB", 8 * 10**9),
        ("8 GiB", 8 * 2**30),
        ("3MiB", 3 * 2**20),
        ("1 TB", 10**12),
        (" 1 TiB ", 2**40),
        ("1e3 MB", 10**9),
    ],
)
def test_sizes(written: object, size_bytes: int) -> None:
    assert parse_size(written) == size_bytes


@pytest.mark.parametrize(
    ("written", "bytes_per_s"),
    [
        ("185 MB/s", 185e6),
        ("1 Gb/s", 125e6),
        ("1 Gbit/s", 125e6),
        ("10 MiB/s", 10 * 2**20),
        ("12B/s", 12),
        (1000, 1000),
    ],
)
def test_bandwidths_in_bytes_and_bits(written: object, bytes_per_s: float) -> None:
    assert parse_bandwidth(written) == pytest.approx(bytes_per_s)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (90, 90),
        ("90", 90),
        ("0.4 ms", 0.0004),
        ("90 min", 5400),
        ("2 h", 7200),
        ("2h", 7200),
        ("1 d", 86400),
        ("24:00:00", 86400),
        ("1-12:00:00", 129600),
        ("00:00:01.5", 1.5),
    ],
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize("parse", [parse_size, parse_bandwidth, parse_duration])
@pytest.mark.parametrize(
    "written",
    ["", "fast", "8 G", "8 gb", "1 GB GB", "1,5 GB", True, None, [], "nan", "inf", 1e999, "1e999"],
)
def test_what_has_no_one_meaning_is_refused_with_the_forms_there_are(
    parse: object, written: object
) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match="write"):
        parse(written)


@pytest.mark.parametrize("written", ["1:30", "1:99:00", "3 weeks", "5 M"])
def test_ambiguous_or_unknown_durations_are_refused(written: str) -> None:
    with pytest.raises(ValueError, match="HH:MM:SS"):
        parse_duration(written)


def test_bits_are_no_size_and_a_size_is_no_bandwidth() -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size("8 Gb")
    with pytest.raises(ValueError, match="no bandwidth"):
        parse_bandwidth("8 GB")


@given(st.text(max_size=12))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_size, parse_bandwidth, parse_duration):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), (int, float))
