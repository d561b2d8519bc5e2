"""Journals and exit records that a loss of power cut or filled with NULs, at any byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wfrun.sites.cluster.attempts import ExitRecord
from wfrun.sites.launchers.journals import read_traces
from wfrun.sites.node.launchers.journals import AttemptTrace, Journal, JournalHistory
from wfrun.sites.node.tasks.processes import identity

DONE = {"cause": "done", "exit_code": 0, "sizes": [12, None], "host": "n1"}
FAILED = {"cause": "exit", "exit_code": 3, "message": 'said "no"\n\u00e4'}
LINES = [
    {"queued": ["k1", "k2", "k3"]},
    {"started": [["k1", 77, 1.5, 1, 0, [], []], ["k2", 78, 1.5, 1, 0, [], []]]},
    {"dropped": ["k3"]},
    {"ended": [["k1", DONE]]},
    {"ended": [["k2", FAILED]]},
]
KEYS = ("k1", "k2", "k3")


def content_of(messages: list[Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def damaged(whole: bytes) -> Iterator[bytes]:
    """The beginning of it, for each length; then with NULs from there on, up to the end, and up to
    the next line."""
    for size in range(len(whole)):
        yield whole[:size]
        yield whole[:size].ljust(len(whole), b"\0")
        line = whole.find(b"\n", size)
        if size < line:
            yield whole[:size] + b"\0" * (line - size) + whole[line:]


def assert_is_true(outcomes: dict[str, Any]) -> None:
    """What is believed to have ended has ended so."""
    for key, outcome in outcomes.items():
        assert outcome in (None, {"k1": DONE, "k2": FAILED}[key])


WRONG = (
    b"[" * 100_000,
    b'{"ended": [["k1", {"cause": "done", "started_s": NaN}]]}',
    b'{"ended": [["k1", {"cause": "done", "started_s": -1e17}]]}',
    b'{"ended": [["k1", {"cause": "done", "cpu_s": 1e999}]]}',
    b'{"ended": [["k1", {"cause": "done", "sizes": [%s]}]]}' % (b"9" * 5000),
    b'{"ended": [["k1", {"cause": ["done"]}]]}',
    b'{"ended": [["k1", "done"], ["k2"]]}',
    b'{"ended": [[["k1"], {"cause": "done"}]]}',
    b'{"ended": 7}',
    b'{"x": "ended", "ended": null}',
    b'{"started": [[]]}',
    b'{"started": [["k1"]]}',
    b'{"started": [["k1", "77", 1.5, 1, 0, [], []]]}',
    b'{"started": [["k1", 77, 1.5, -1, 0, [], []]]}',
    b'{"started": [["k1", 77, 1.5, 1, 0, [], ["x"]]]}',
    b'{"started": [[{}, 77, 1.5, 1, 0, [], []]]}',
    b'{"queued": [["k1"]]}',
    b'{"queued": "k1"}',
    b'{"dropped": [null]}',
    b'{"launcher": 7}',
    b'{"launcher": {"host": "n1"}}',
)
"""Lines that no launcher writes. A task can: it has the rights of the launcher."""


@pytest.mark.parametrize("line", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("is_first", [False, True])
def test_a_line_that_no_launcher_writes_is_skipped(
    tmp_path: Path, line: bytes, is_first: bool
) -> None:
    """And named; the lines before and after it hold."""
    own = Journal(str(tmp_path))
    history = JournalHistory(str(tmp_path), own)
    before = content_of([{"launcher": identity()}, *LINES[:2]])
    whole = line + b"\n" + before if is_first else before + line + b"\n"
    (tmp_path / "other.jsonl").write_bytes(whole + content_of(LINES[2:]))
    history.living()
    assert history.unfinished() == set()
    traces = {key: AttemptTrace() for key in KEYS}
    history.follow(traces, {})
    assert traces["k1"].outcome == DONE
    assert traces["k2"].outcome == FAILED
    assert history.refused == {"other.jsonl"}
    with open(tmp_path / own.name, "ab") as file:
        file.write(line + b"\n" + content_of(LINES[3:4]))
    assert own.ends({"k1"}) == {"k1": DONE}


@pytest.mark.slow
def test_what_launchers_read_in_a_damaged_journal_is_true(tmp_path: Path) -> None:
    own = Journal(str(tmp_path))
    history = JournalHistory(str(tmp_path), own)
    whole = content_of(LINES)
    for content in damaged(whole):
        (tmp_path / "other.jsonl").write_bytes(content)
        assert history.unfinished() <= {"k1", "k2"}
        traces = {key: AttemptTrace() for key in KEYS}
        history.follow(traces, {})
        assert_is_true({key: trace.outcome for key, trace in traces.items() if trace.outcome})
        intact = content.startswith(whole[: whole.index(b'{"ended": [["k2"')])
        assert not intact or traces["k1"].outcome == DONE


def test_what_the_engine_reads_in_a_damaged_journal_is_true() -> None:
    whole = content_of(LINES)
    for content in damaged(whole):
        for key, trace in read_traces([(("n", 0), content)], KEYS).items():
            if trace.outcome is not None:
                assert trace.outcome.cause == {"k1": "done", "k2": "exit"}[key]


def test_a_launcher_reads_its_own_damaged_journal(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    path = tmp_path / journal.name
    for content in damaged(content_of(LINES)):
        path.write_bytes(content)
        assert_is_true(journal.ends(set(KEYS)))


def test_a_damaged_exit_record_is_no_success() -> None:
    whole = json.dumps({"key": "k1", "outcome": DONE}).encode()
    assert msgspec.json.decode(whole, type=ExitRecord).outcome.cause == "done"
    for content in damaged(whole):
        with pytest.raises(msgspec.MsgspecError):
            msgspec.json.decode(content, type=ExitRecord)


def test_a_journal_without_a_first_line_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Its launcher starts, or died with its machine: then its attempts are lost."""
    own = Journal(str(tmp_path))
    whole = content_of([{"launcher": {**identity(), "pid": 1 << 22}}])
    for content in damaged(whole):
        (tmp_path / "other.jsonl").write_bytes(content)
        history = JournalHistory(str(tmp_path), own, patience_s=0.0)
        assert history.living() == set()
    (tmp_path / "other.jsonl").write_bytes(b"\0" * 200)
    assert JournalHistory(str(tmp_path), own).living() == {"other.jsonl"}
