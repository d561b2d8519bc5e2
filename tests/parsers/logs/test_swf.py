"""Logs in the Standard Workload Format: what is read, mended, refused and dropped; the writer."""

from __future__ import annotations

import contextlib
import gzip
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs import LoggedJob, LogHeader, WorkloadLog, read_swf, write_swf

HEADER = """\
; Version: 2.2
;      MaxProcs: 1664 (72, 1368, 224)
; MaxNodes: 70  (dual)
; UnixStartTime: 843480031
; TimeZone: -3600\t# DEPRECATED
; TimeZoneString: Europe/Stockholm
; Queue:  1  small
; Queue:  2  large
;
; free text, with: a colon
"""
FULL = "1 10 5 60 4 58.5 2048 8 120 4096 1 7 8 9 2 3 -1 -1\n"
ROW = "{} {} -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 1 -1 -1\n"


def rows(*submits: float) -> str:
    return "".join(ROW.format(number, submit) for number, submit in enumerate(submits, 1))


def read(tmp_path: Path, text: str | bytes, *, skip_bad_lines: bool = False) -> WorkloadLog:
    path = tmp_path / "log.swf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_swf(path, skip_bad_lines=skip_bad_lines)


def remarks(log: WorkloadLog) -> list[tuple[str, int, int]]:
    return [(item.fate, item.lines, item.first_line) for item in log.dropped]


def test_all_fields(tmp_path: Path) -> None:
    (job,) = read(tmp_path, FULL).jobs
    assert job == LoggedJob(
        id=1,
        submit_s=10,
        wait_s=5,
        runtime_s=60,
        processors=4,
        cpu_s=58.5,
        memory_kb=2048,
        requested_processors=8,
        requested_s=120,
        requested_memory_kb=4096,
        status=1,
        user=7,
        group=8,
        application=9,
        queue=2,
        partition=3,
        preceding=None,
        think_s=None,
    )
    assert job.size == 8


def test_minus_one_is_unknown(tmp_path: Path) -> None:
    (job,) = read(tmp_path, "3 0" + " -1" * 16).jobs
    assert job == LoggedJob(3, 0)
    assert job.size is None


def test_header(tmp_path: Path) -> None:
    header = read(tmp_path, HEADER + FULL).header
    assert (header.max_procs, header.max_nodes) == (1664, 70)
    assert header.unix_start_s == 843480031
    assert (header.zone, header.zone_offset_s) == ("Europe/Stockholm", -3600)
    assert header.values("Queue") == ("1  small", "2  large")
    assert header.text("Computer") is None
    assert header.comments[-2:] == ("", " free text, with: a colon")


def test_a_log_without_jobs(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER).jobs == ()


def test_layout_does_not_matter(tmp_path: Path) -> None:
    plain = read(tmp_path, rows(0, 5)).jobs
    for text in (
        rows(0, 5).replace(" ", "\t"),
        rows(0, 5).replace(" ", " \t  "),
        rows(0, 5).replace("\n", "\r\n"),
        "\n  \n" + rows(0, 5) + "\n\n",
        "\ufeff" + rows(0, 5),
        "# another sign for comments\n" + rows(0, 5),
        rows(0, 5).rstrip("\n"),
    ):
        log = read(tmp_path, text)
        assert (log.jobs, log.dropped) == (plain, ())


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "log"  # what it is is seen from its first bytes
    path.write_bytes(gzip.compress((HEADER + rows(0, 1)).encode()))
    assert read_swf(path).jobs == read(tmp_path, rows(0, 1)).jobs


def test_compressed_and_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(rows(*range(5000)).encode())[:-2000])
    with pytest.raises(InvalidError, match=r"log\.swf\.gz: .* are damaged or cut off: "):
        read_swf(path)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="No such file"):
        read_swf(tmp_path / "none.swf")


def test_comments_in_latin_1(tmp_path: Path) -> None:
    assert read(tmp_path, b"; Acknowledge: \xc5ke\n").header.text("Acknowledge") == "Åke"


# Mended


def test_decimals_in_whole_numbers(tmp_path: Path) -> None:
    text = rows(0, 1) + "3 2.5 -1.0 10.25 4.0 -1 -1.00 +4 20 -1 1.0 1 1 1 1 1 -1 -1\n"
    log = read(tmp_path, text)
    job = log.jobs[2]
    assert (job.submit_s, job.wait_s, job.runtime_s, job.processors) == (2.5, None, 10.25, 4)
    assert (job.memory_kb, job.requested_processors, job.status) == (None, 4, 1)
    assert type(job.processors) is int
    assert remarks(log) == [("mended", 1, 3)]


def test_a_negative_zero_is_zero(tmp_path: Path) -> None:
    (job,) = read(tmp_path, FULL.replace(" 5 ", " -0.0 ")).jobs
    assert str(job.wait_s) == "0.0"


def test_comment_behind_the_columns(tmp_path: Path) -> None:
    log = read(tmp_path, rows(0) + ROW.format(2, 1).rstrip() + " ; a\n" + ROW.format(3, 2))
    assert len(log.jobs) == 3
    assert remarks(log) == [("mended", 1, 2)]


def test_a_row_of_column_names(tmp_path: Path) -> None:
    names = "id submit wait run procs cpu mem req time rmem st u g app q p prev think\n"
    log = read(tmp_path, "; a comment\n" + names + rows(0))
    assert len(log.jobs) == 1
    assert remarks(log) == [("mended", 1, 2)]


def test_names_of_other_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"swf:1: the line has 6 columns; SWF has 18"):
        read(tmp_path, "Job_name Submit Runtime Nodes Comment Perc\n1 2 3 4 5 6\n")
    swapped = "id run wait submit procs cpu mem req time rmem st u g app q p prev think\n"
    with pytest.raises(InvalidError, match="swf:1: column 1, job number: 'id' is no number"):
        read(tmp_path, swapped + rows(0))


def test_columns_missing_in_all_lines(tmp_path: Path) -> None:
    log = read(tmp_path, HEADER + "1 0 -1 10 4 -1 -1 4 20\n2 5 -1 10 4 -1 -1 4 30\n")
    assert [(job.requested_s, job.status) for job in log.jobs] == [(20, None), (30, None)]
    assert remarks(log) == [("mended", 2, 11)]


def test_columns_missing_in_some_lines(tmp_path: Path) -> None:
    short = "9 3 -1 10 4 -1 -1 4 20 -1 1\n"
    for text, line in ((rows(0, 1) + short, 3), (short + rows(4, 5), 1)):
        with pytest.raises(InvalidError, match=f"swf:{line}: the line has 11 columns; SWF has 18"):
            read(tmp_path, text)
        log = read(tmp_path, text, skip_bad_lines=True)
        assert [job.id for job in log.jobs] == [1, 2]
        assert remarks(log) == [("dropped", 1, line)]


def test_unsorted_submits_are_sorted_stably(tmp_path: Path) -> None:
    log = read(tmp_path, rows(5, 9, 5, 7, 9))
    assert [job.id for job in log.jobs] == [1, 3, 4, 2, 5]
    assert remarks(log) == [("mended", 2, 3)]


# Kept, and reported


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        (4, "1665", "more processors than the machine has"),
        (7, "2000", "more processors than the machine has"),
        (10, "8", "status that the format does not define"),
        (1, "-3", "negative time"),
        (0, "1", "its job number is that of a job further up"),
    ],
)
def test_strange_jobs_are_kept_and_reported(
    tmp_path: Path, column: int, value: str, reason: str
) -> None:
    first, second = ROW.format(1, 0).split(), ROW.format(2, 0).split()
    second[column] = value
    if column == 1:
        first[column] = value
    log = read(tmp_path, f"{HEADER}{' '.join(first)}\n{' '.join(second)}\n")
    (found,) = log.dropped
    assert (found.fate, found.first_line) == ("kept", 11 if column == 1 else 12)
    assert reason in found.reason
    assert len(log.jobs) == 2


# Refused, or dropped


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1O", "'1O' is no number"),
        ("nan", "'nan' is no number"),
        ("inf", "'inf' is no number"),
        ("1_0", "'1_0' is no number"),
        ("0x10", "'0x10' is no number"),
        ("١", "'١' is no number"),
        ("1e400", "'1e400' is no number"),
        ("9" * 25, "is out of range"),
        ("1.5", "'1.5' is not whole"),
    ],
)
def test_what_is_no_number(tmp_path: Path, cell: str, message: str) -> None:
    line = FULL.replace(" 4 ", f" {cell} ")
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, rows(0, 1) + line)
    assert "log.swf:3: column 5, allocated processors: " in str(caught.value)
    assert message in str(caught.value)
    log = read(tmp_path, rows(0, 1) + line + rows(2), skip_bad_lines=True)
    assert len(log.jobs) == 3
    assert remarks(log)[0] == ("dropped", 1, 3)


@pytest.mark.parametrize("line", ["malformed line\n", FULL.strip() + " -1\n", "5\n"])
def test_wrong_count(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidError, match=r"swf:2: the line has \d+ columns?; SWF has 18"):
        read(tmp_path, rows(0) + line)
    log = read(tmp_path, rows(0) + line + line, skip_bad_lines=True)
    assert remarks(log) == [("dropped", 2, 2)]
    assert str(log.dropped[0]) == "2 lines dropped, first 2: wrong number of columns"


@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), (",", "commas")])
def test_other_separators(tmp_path: Path, sign: str, name: str) -> None:
    text = rows(0, 1).replace(" ", sign)
    with pytest.raises(InvalidError, match=f"swf:1: the columns are separated by {name}"):
        read(tmp_path, text)
    with pytest.raises(InvalidError, match="none of 2 lines could be read; the first: the columns"):
        read(tmp_path, text, skip_bad_lines=True)


def test_binary_data(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"swf:\d+: the line has"):
        read(tmp_path, bytes(range(256)) * 10)


# The writer

known = st.integers(0, 10**9)
times = st.one_of(known.map(float), st.floats(0, 1e9))
texts = st.text(st.characters(codec="latin-1", exclude_categories=["Cc", "Z"]), max_size=20)


def jobs() -> st.SearchStrategy[LoggedJob]:
    count, time = st.none() | known, st.none() | times
    return st.builds(
        LoggedJob,
        *(known, times, time, time, count, time, time, count, time, time, count),
        *(count,) * 6,
        time,
    )


@pytest.mark.slow
@given(st.lists(jobs(), max_size=8), st.lists(texts, max_size=3))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, written: list[LoggedJob], comments: list[str]
) -> None:
    ordered = tuple(sorted(written, key=lambda job: job.submit_s))
    log = WorkloadLog("x", LogHeader(tuple(comments)), ordered)
    path = tmp_path_factory.mktemp("swf") / "log.swf"
    write_swf(log, path)
    again = read_swf(path)
    assert again.jobs == log.jobs
    assert again.header == log.header
    assert not any(item.fate == "dropped" for item in again.dropped)


def test_numbers_are_written_as_in_logs(tmp_path: Path) -> None:
    log = read(tmp_path, FULL)
    write_swf(log, tmp_path / "out.swf")
    assert (tmp_path / "out.swf").read_text() == FULL


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (LoggedJob(4, 0, user="anna"), "the user 'anna', which is no number, of job 4"),
        (LoggedJob(4, 0, site="kth"), "the site 'kth' of job 4"),
        (LoggedJob(4, 0, wait_s=-1.0), "-1, which means unknown, as wait_s of job 4"),
        (LoggedJob(4, math.inf), "inf as submit_s of job 4"),
    ],
)
def test_what_swf_has_no_place_for(tmp_path: Path, job: LoggedJob, reason: str) -> None:
    with pytest.raises(InvalidError) as caught:
        write_swf(WorkloadLog("x", LogHeader(), (job,)), tmp_path / "out.swf")
    assert reason in str(caught.value)
    assert not (tmp_path / "out.swf").exists()


# Anything at all

cells = st.sampled_from(
    ["1", "-1", "0", "4.0", "1.5", "nan", "1e999", "x", ";", "#", ",", '"', "JobID", "SubmitTime"]
)
lines = st.one_of(
    st.lists(cells, max_size=31).map(" ".join),
    st.lists(cells, max_size=31).map(",".join),
    st.tuples(st.sampled_from(["1 ", "1,"]), st.integers(1, 31)).map(
        lambda pair: pair[0] * pair[1]
    ),
).map(str.encode) | st.binary(max_size=40)


@given(st.lists(lines, max_size=6).map(b"\n".join), st.booleans())
def test_no_file_is_a_crash(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, skip_bad_lines: bool
) -> None:
    path = tmp_path_factory.mktemp("any") / "log"
    path.write_bytes(content)
    with contextlib.suppress(InvalidError):
        log = read_swf(path, skip_bad_lines=skip_bad_lines)
        assert not any(item.fate == "dropped" for item in log.dropped) or skip_bad_lines
        taken = sum(item.lines for item in log.dropped if item.fate == "dropped") + len(log.jobs)
        assert taken <= content.count(b"\n") + 1
