"""Logs in the Grid Workload Format: 29 columns, the comma variant, and the writer of both."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs import GridFields, LoggedJob, LogHeader, WorkloadLog, read_gwf, write_gwf

ROW = (
    "7 1100 30 600 2 580.5 1024 4 900 2048 1 U12 G3 app.sh batch 1 "
    "C0 C1 BoT 33 1.5 20 gpu:2,disk:1 x86,Linux,2.6 -1 -1 -1 biomed -1"
)
WORKFLOWS = """\
WorkflowID, JobID, SubmitTime, RunTime, NProcs, ReqNProcs, Dependencies
0, 0, 10, 5, 1, 1,
0, 1, 10, 7, 1, 2, 0
0, 2, 10, 9, 1, 1, 0 1
1, 0, 12, 3, 4, -1, -1
"""


def unit(number: int, submit: float) -> str:
    return f"{number} {submit}" + " -1" * 27 + "\n"


def read(tmp_path: Path, text: str, *, skip_bad_lines: bool = False) -> WorkloadLog:
    path = tmp_path / "log.gwf"
    path.write_text(text)
    return read_gwf(path, skip_bad_lines=skip_bad_lines)


def remarks(log: WorkloadLog) -> list[tuple[str, int, int]]:
    return [(item.fate, item.lines, item.first_line) for item in log.dropped]


EXPECTED = LoggedJob(
    id=7,
    submit_s=1100,
    wait_s=30,
    runtime_s=600,
    processors=2,
    cpu_s=580.5,
    memory_kb=1024,
    requested_processors=4,
    requested_s=900,
    requested_memory_kb=2048,
    status=1,
    user="U12",
    group="G3",
    application="app.sh",
    queue="batch",
    partition=1,
    site="C0",
    grid=GridFields(
        run_site="C1",
        structure="BoT",
        structure_id="33",
        network_kb_per_s=1.5,
        disk_mb=20,
        resources="gpu:2,disk:1",
        requested_platform="x86,Linux,2.6",
        virtual_organization="biomed",
    ),
)


def test_29_columns(tmp_path: Path) -> None:
    log = read(tmp_path, f"# MaxProcs: 400\n# any text\n{ROW}\n")
    assert log.jobs == (EXPECTED,)
    assert log.header.max_procs == 400
    assert log.dropped == ()


def test_minus_one_is_unknown(tmp_path: Path) -> None:
    assert read(tmp_path, unit(3, 5)).jobs == (LoggedJob(3, 5),)


def test_layout_does_not_matter(tmp_path: Path) -> None:
    for text in (ROW.replace(" ", "\t"), ROW.replace(" ", " \t "), f"\n{ROW}\r\n\r\n"):
        assert read(tmp_path, text).jobs == (EXPECTED,)


def test_a_row_of_column_names(tmp_path: Path) -> None:
    path = tmp_path / "names.gwf"
    write_gwf(WorkloadLog("x", LogHeader(), (LoggedJob(1, 0, grid=GridFields(workflow=1)),)), path)
    names = path.read_text().splitlines()[0].split(",")[1:-1]
    assert len(names) == 29
    log = read(tmp_path, "\t".join(names) + f"\n{ROW}\n")
    assert log.jobs == (EXPECTED,)
    assert remarks(log) == [("mended", 1, 1)]


def test_30_columns(tmp_path: Path) -> None:
    cells = ROW.split()
    log = read(tmp_path, " ".join((*cells[:18], "-1", *cells[18:])))
    assert log.jobs == (EXPECTED,)
    assert remarks(log) == [("mended", 1, 1)]
    with pytest.raises(InvalidError, match="gwf:1: the line has 30 columns, not 29"):
        read(tmp_path, " ".join((*cells[:18], "7", *cells[18:])))


def test_numbers_with_decimals(tmp_path: Path) -> None:
    log = read(tmp_path, unit(1, 0) + unit(2, 1.5).replace("-1", "-1.0", 4))
    assert log.jobs[1] == LoggedJob(2, 1.5)
    assert remarks(log) == [("mended", 1, 2)]


def test_names_of_digits_are_numbers_when_nothing_is_lost(tmp_path: Path) -> None:
    cells = ROW.split()
    cells[11:16] = ["7", "007", "-3", "٣", "12345678901234567890"]
    (job,) = read(tmp_path, " ".join(cells)).jobs
    names = (job.user, job.group, job.application, job.queue, job.partition)
    assert names == (7, "007", -3, "٣", "12345678901234567890")


def test_sorted_and_reported(tmp_path: Path) -> None:
    log = read(tmp_path, unit(1, 9) + unit(2, 5) + unit(1, 9))
    assert [(job.id, job.submit_s) for job in log.jobs] == [(2, 5), (1, 9), (1, 9)]
    assert remarks(log) == [("mended", 1, 2), ("kept", 1, 3)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "gwf:2: the line has 3 columns, not 29"),
        (ROW.replace(" 600 ", " ten "), "gwf:2: column 4, RunTime: 'ten' is no number"),
        (ROW.replace(" 2 ", " 2.5 "), "gwf:2: column 5, NProcs: '2.5' is not whole"),
        ("x" + ROW, "gwf:2: column 1, JobID: 'x7' is no number"),
    ],
)
def test_refused_or_dropped(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, f"{ROW}\n{line}\n")
    assert message in str(caught.value)
    log = read(tmp_path, f"{ROW}\n{line}\n", skip_bad_lines=True)
    assert log.jobs == (EXPECTED,)
    assert remarks(log) == [("dropped", 1, 2)]


def test_another_format(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="none of 2 lines could be read"):
        read(tmp_path, "a b c\n1 2 3\n", skip_bad_lines=True)


# Commas


def test_workflows(tmp_path: Path) -> None:
    log = read(tmp_path, WORKFLOWS)
    assert log.dropped == ()
    grids = [job.grid for job in log.jobs]
    assert grids == [
        GridFields(workflow=0),
        GridFields(workflow=0, parents=(0,)),
        GridFields(workflow=0, parents=(0, 1)),
        GridFields(workflow=1),
    ]
    second = log.jobs[1]
    assert (second.id, second.submit_s, second.runtime_s) == (1, 10, 7)
    assert (second.processors, second.requested_processors) == (1, 2)


def test_columns_by_name(tmp_path: Path) -> None:
    log = read(tmp_path, 'SubmitTime,JobID,UsedResources,Colour,NProc\n5,1,"a,b",red,8\n')
    expected = LoggedJob(1, 5, processors=8, grid=GridFields(resources="a,b"))
    assert log.jobs == (expected,)
    (found,) = log.dropped
    assert (found.fate, found.first_line) == ("kept", 1)
    assert "Colour" in found.reason


def test_a_dependency_that_is_not_there(tmp_path: Path) -> None:
    log = read(tmp_path, WORKFLOWS + "1, 1, 12, 3, 1, 1, 2\n")  # job 2 is of workflow 0 alone
    assert remarks(log) == [("kept", 1, 6)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0, 0, 10, 5, 1, 1,\n", "gwf:1: columns separated by commas, and no row of column names"),
        (WORKFLOWS + "1, 1, 12, 3, 1\n", "gwf:6: the line has 5 columns, not 7"),
        (WORKFLOWS + "1, 1, 12, 3, 1, 1, 0;1\n", "gwf:6: column 7, Dependencies: '0;1' are no"),
        (WORKFLOWS + "1, 1, , 3, 1, 1, 0\n", "gwf:6: column 3, SubmitTime: '' is no number"),
        ("JobID,SubmitTime,JobID\n", "gwf:1: there are two columns JobID"),
    ],
)
def test_commas_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)


# The writer

known = st.integers(0, 10**9)
times = st.one_of(known.map(float), st.floats(0, 1e9))
words = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters='"'),
    min_size=1,
    max_size=8,
).filter(lambda word: word != "-1" and word.split() == [word] and not word.lstrip("-").isdigit())
identity = st.none() | known | words


def grids(*, workflows: bool) -> st.SearchStrategy[GridFields]:
    word, time = st.none() | words, st.none() | times
    more: dict[str, st.SearchStrategy[object]] = {}
    if workflows:
        more = {"workflow": known, "parents": st.lists(known, max_size=3).map(tuple)}
    kinds = (word, word, word, time, time, word, word, time, time, word, word, word)
    return st.builds(GridFields, *kinds, **more)


def jobs(*, workflows: bool) -> st.SearchStrategy[LoggedJob]:
    count, time = st.none() | known, st.none() | times
    empty = GridFields()
    return st.builds(
        LoggedJob,
        *(known, times, time, time, count, time, time, count, time, time, count),
        *(identity,) * 5,
        site=st.none() | words,
        grid=st.none() | grids(workflows=workflows).filter(lambda grid: grid != empty),
    )


@pytest.mark.slow
@given(st.booleans().flatmap(lambda which: st.lists(jobs(workflows=which), max_size=6)))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, written: list[LoggedJob]
) -> None:
    ordered = tuple(sorted(written, key=lambda job: job.submit_s))
    log = WorkloadLog("x", LogHeader((" MaxProcs: 7", "")), ordered)
    path = tmp_path_factory.mktemp("gwf") / "log.gwf"
    write_gwf(log, path)
    again = read_gwf(path)
    assert again.jobs == log.jobs
    assert again.header == log.header


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (LoggedJob(4, 0, preceding=3), "the preceding job or the think time of job 4"),
        (LoggedJob(4, 0, user="Anna B"), "the text 'Anna B' as UserID of job 4"),
        (LoggedJob(4, 0, user="12"), "the text '12' as UserID of job 4"),
        (LoggedJob(4, 0, grid=GridFields(disk_mb=-1.0)), "-1, which means unknown, as UsedLocal"),
    ],
)
def test_what_gwf_has_no_place_for(tmp_path: Path, job: LoggedJob, reason: str) -> None:
    with pytest.raises(InvalidError) as caught:
        write_gwf(WorkloadLog("x", LogHeader(), (job,)), tmp_path / "out.gwf")
    assert reason in str(caught.value)
    assert not (tmp_path / "out.gwf").exists()


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
        log = read_gwf(path, skip_bad_lines=skip_bad_lines)
        assert not any(item.fate == "dropped" for item in log.dropped) or skip_bad_lines
        taken = sum(item.lines for item in log.dropped if item.fate == "dropped") + len(log.jobs)
        assert taken <= content.count(b"\n") + 1
