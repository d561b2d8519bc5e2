"""Every published log of the corpus is read in full, or refused for the reason stated here.

Numbers of jobs and sums of columns are checked against a count that shares no code with the reader.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.places import CORPUS
from wfrun.engine.errors import InvalidError
from wfrun.parsers.logs import (
    WorkloadLog,
    align_to_monday,
    drop_jobs,
    load_of,
    read_gwf,
    read_swf,
    write_gwf,
    write_swf,
)
from wfrun.parsers.logs.checks import UNSORTED

LOGS = CORPUS / "swf"

pytestmark = pytest.mark.corpus


class Expected(NamedTuple):
    jobs: int
    max_procs: int
    max_nodes: int
    unix_start_s: int
    zone: str
    usable: int
    """Kept by the rules of the JGC paper."""
    monday_s: int
    """Unix time of the midnight from which on the log is kept: `TZ=zone date -d @monday_s`."""
    aligned: int
    """Jobs from then on."""


EXPECTED = {
    "CTC-SP2-1996-3.1-cln": Expected(
        77222, 338, 338, 835823160, "US/Eastern", 60548, 836193600, 77187
    ),
    "HPC2N-2002-2.2-cln": Expected(
        202871, 240, 240, 1027839845, "Europe/Stockholm", 202871, 1028498400, 202735
    ),
    "KTH-SP2-1996-2.1-cln": Expected(
        28476, 100, 100, 843480031, "Europe/Stockholm", 20523, 844639200, 27640
    ),
    "LANL-CM5-1994-4.1-cln": Expected(
        122060, 1024, 1024, 781275672, "US/Mountain", 90736, 781768800, 120526
    ),
    "LPC-EGEE-2004-1.2-cln": Expected(
        234889, 140, 70, 1091615532, "Europe/Paris", 202326, 1095631200, 233333
    ),
    "SDSC-BLUE-2000-4.2-cln": Expected(
        243306, 1152, 144, 956700003, "US/Pacific", 195582, 957164400, 243247
    ),
    "SDSC-DS-2004-2.1-cln": Expected(
        96069, 1664, 184, 1078605840, "US/Pacific", 66668, 1081148400, 94772
    ),
    "SDSC-SP2-1998-4.2-cln": Expected(
        59715, 128, 128, 893466664, "US/Pacific", 43087, 894265200, 59479
    ),
}


class Counted(NamedTuple):
    jobs: int
    submits_s: float
    runtimes_s: float
    """Those that are known."""
    processors: int
    overruns: int
    usable: int


def count(path: Path) -> Counted:
    """With the plain definitions, on the words of each line that is no comment."""
    opened = gzip.open if path.suffix == ".gz" else open
    jobs, submits_s, runtimes_s, processors, overruns, usable = 0, 0.0, 0.0, 0, 0, 0
    with opened(path, "rt", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            words = line.split()
            if not words or words[0].startswith(";"):
                continue
            run_s, asked_s = float(words[3]), float(words[8])
            jobs += 1
            submits_s += float(words[1])
            runtimes_s += max(run_s, 0)
            processors += max(int(words[4]), 0)
            overruns += 0 < asked_s < run_s
            positive = min(int(words[0]), run_s, int(words[4]), asked_s, int(words[11])) > 0
            usable += positive and float(words[1]) >= 0 and words[10] not in ("0", "4", "5")
    return Counted(jobs, submits_s, runtimes_s, processors, overruns, usable)


def counted(log: WorkloadLog) -> Counted:
    return Counted(
        len(log.jobs),
        sum(job.submit_s for job in log.jobs),
        sum(job.runtime_s or 0.0 for job in log.jobs),
        sum(job.processors or 0 for job in log.jobs),
        sum((job.runtime_s or 0.0) > job.requested_s for job in log.jobs if job.requested_s),
        len(drop_jobs(log.jobs).jobs),
    )


def test_no_log_is_left_out() -> None:
    assert {path.name for path in LOGS.glob("*.gz")} == {f"{name}.swf.gz" for name in EXPECTED}
    assert {path.name for path in (LOGS / "odd").iterdir()} == {
        *(f"{name}.swf" for name in ODD),
        *(f"{name}.swf" for name in REFUSED),
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_logs_of_the_parallel_workloads_archive(name: str) -> None:
    expected = EXPECTED[name]
    path = LOGS / f"{name}.swf.gz"
    log = read_swf(path)
    assert log.dropped == ()
    found = counted(log)
    assert found == count(path)
    assert (found.jobs, found.usable) == (expected.jobs, expected.usable)
    header = log.header
    assert (header.max_procs, header.max_nodes) == (expected.max_procs, expected.max_nodes)
    assert (header.unix_start_s, header.zone) == (expected.unix_start_s, expected.zone)
    aligned = align_to_monday(log)
    assert len(aligned) == expected.aligned
    first = log.jobs[-len(aligned)]
    assert expected.unix_start_s + first.submit_s - aligned[0].submit_s == expected.monday_s


def test_what_the_rules_of_the_jgc_paper_drop() -> None:
    log = read_swf(LOGS / "CTC-SP2-1996-3.1-cln.swf.gz")
    assert drop_jobs(log.jobs).dropped == {
        "failed": 16651,
        "requested time zero, negative or unknown": 6,
        "run time zero, negative or unknown": 17,
    }


def test_load_of_a_real_log() -> None:
    log = read_swf(LOGS / "KTH-SP2-1996-2.1-cln.swf.gz")
    # By awk: the sum of columns 4 x 8 over 100 processors x (last - first of column 2).
    assert load_of(log.jobs, 100) == pytest.approx(2011271356 / (100 * 28763768))


def test_a_real_log_survives_writing(tmp_path: Path) -> None:
    log = read_swf(LOGS / "KTH-SP2-1996-2.1-cln.swf.gz")
    write_swf(log, tmp_path / "out.swf")
    again = read_swf(tmp_path / "out.swf")
    assert (again.jobs, again.header) == (log.jobs, log.header)
    write_gwf(log, tmp_path / "out.gwf")
    assert read_gwf(tmp_path / "out.gwf").jobs == log.jobs


ODD = {
    "evalys-easy_mediumWL_smallPF": [("mended", 612, 5, UNSORTED)],
    "pyss-estimation_starvation": [],
}

REFUSED = {
    "hcp-sample_trace": ("6: the line has 2 columns; SWF has 18", 3),
    "mtech-theta": ("1: the line has 6 columns; SWF has 18", 0),
    "ubccr-jobs500": ("1: the columns are separated by semicolons", 0),
}
"""What is said, and how many jobs a reading that skips bad lines finds."""


@pytest.mark.parametrize("name", ODD)
def test_odd_logs_that_are_read(name: str) -> None:
    path = LOGS / "odd" / f"{name}.swf"
    log = read_swf(path)
    found, expected = counted(log), count(path)
    assert found.jobs == expected.jobs
    assert found.submits_s == pytest.approx(expected.submits_s)
    assert found[3:] == expected[3:]
    dropped = [(item.fate, item.lines, item.first_line, item.reason) for item in log.dropped]
    assert dropped == ODD[name]


@pytest.mark.parametrize("name", REFUSED)
def test_odd_logs_that_are_refused(name: str) -> None:
    message, jobs = REFUSED[name]
    path = LOGS / "odd" / f"{name}.swf"
    with pytest.raises(InvalidError) as caught:
        read_swf(path)
    assert f"{path.name}:{message}" in str(caught.value)
    if jobs:
        log = read_swf(path, skip_bad_lines=True)
        assert len(log.jobs) == jobs
        assert [(item.fate, item.lines, item.first_line) for item in log.dropped] == [
            ("dropped", 1, 6)
        ]
    else:
        with pytest.raises(InvalidError, match="lines could be read; the first"):
            read_swf(path, skip_bad_lines=True)
