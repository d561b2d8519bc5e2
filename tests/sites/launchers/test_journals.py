"""Reading the journals of launchers."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from wfrun.engine.exchange import Outcome
from wfrun.sites.launchers.journals import NodeId, Trace, read_traces, state_of, writer_of

A: NodeId = ("r1.L1", 0)
B: NodeId = ("r1.L2", 0)
END = {"cause": "done", "exit_code": 0, "host": "n1"}


def journal(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_an_attempt_from_queue_to_end() -> None:
    content = journal(
        {"launcher": {"host": "n1", "pid": 7}},
        {"queued": ["k1", "k2", "k3", "k4"]},
        {"dropped": ["k4"]},
        {"ended": [["k1", END]]},
        {"started": [["k2", 77, 12.5, 3, 0, [], []]]},
    )
    traces = read_traces([(A, content)], {"k1", "k2", "k3", "k4", "k5"})
    assert traces["k1"].outcome == Outcome("done", exit_code=0, host="n1")
    assert (traces["k2"].owner, traces["k2"].cores) == (A, 3)
    assert traces["k3"].queued == {A}
    assert traces["k4"].queued == set()
    assert "k5" not in traces


def test_only_wanted_attempts_are_kept() -> None:
    content = journal({"queued": ["k1", "k2"]}, {"ended": [["k1", END], ["k2", END]]})
    assert set(read_traces([(A, content)], {"k2"})) == {"k2"}


def test_a_torn_line_is_skipped() -> None:
    content = journal({"queued": ["k1"]}) + b'{"ended": [["k1", {"cau' + b"\n"
    content += journal({"queued": ["k2"]}) + b'{"ended": [["k2"'
    traces = read_traces([(A, content)], {"k1", "k2"})
    assert [traces[key].outcome for key in ("k1", "k2")] == [None, None]
    assert traces["k2"].queued == {A}


def test_several_journals_are_merged() -> None:
    first = journal({"queued": ["k1"]}, {"dropped": ["k1"]})
    second = journal({"queued": ["k1"]}, {"started": [["k1", 7, 1.0, 1, 0, [], []]]})
    traces = read_traces([(A, first), (B, second)], {"k1"})
    assert (traces["k1"].queued, traces["k1"].owner) == ({B}, B)


def test_the_writer_of_a_journal() -> None:
    assert writer_of("r1.L1.jsonl", {"r1.L1"}) == ("r1.L1", 0)
    assert writer_of("r1.L1.2.jsonl", {"r1.L1"}) == ("r1.L1", 2)
    assert writer_of("r1.L.3.jsonl", {"r1.L.3"}) == ("r1.L.3", 0)


def _trace(
    outcome: bool = False, owner: NodeId | None = None, queued: set[NodeId] | None = None
) -> Trace:
    found = Trace()
    found.outcome = Outcome("done") if outcome else None
    found.owner = owner
    found.queued = queued or set()
    return found


@pytest.mark.parametrize(
    ("found", "is_claimed", "expected"),
    [
        (None, False, "absent"),
        (None, True, "lost"),
        (_trace(outcome=True, owner=B), True, "ended"),
        (_trace(owner=A), True, "active"),
        (_trace(owner=B), True, "lost"),
        (_trace(owner=A), False, "active"),  # its claim is not seen yet
        (_trace(queued={A}), False, "active"),
        (_trace(queued={A, B}), True, "active"),
        (_trace(queued={B}), True, "lost"),
        (_trace(queued={B}), False, "absent"),
        (_trace(), False, "absent"),
    ],
)
def test_states_where_a_is_alive_and_b_is_dead(
    found: Trace | None, is_claimed: bool, expected: str
) -> None:
    assert state_of(found, is_claimed, {A}) == expected


@pytest.mark.parametrize(
    "line",
    [
        b'{"started": [[]]}',
        b'{"started": [[["k1"], 1, 2, 3]]}',
        b'{"started": [[{"a": 1}]]}',
        b'{"started": 7}',
        b'{"ended": [["k1", {"cause": "none"}]]}',
        b'{"ended": [["k1", {"cause": "done", "sizes": [-1]}]]}',
        b'{"ended": [["k1"]]}',
        b'{"ended": [["k1", 7]]}',
        b'{"x": ' + b"[" * 100_000,
        b"\xff\0",
    ],
    ids=range(10),
)
def test_what_a_hostile_site_writes_is_skipped(line: bytes) -> None:
    content = journal({"queued": ["k1", "k2"]}) + line + b"\n" + journal({"ended": [["k2", END]]})
    traces = read_traces([(A, content)], {"k1", "k2"})
    assert traces["k1"].outcome is None
    assert traces["k2"].outcome is not None


@pytest.mark.parametrize("cores", ["many", -1, 1e300, 10**30, None, []])
def test_impossible_cores_are_one(cores: object) -> None:
    content = journal({"started": [["k1", 7, 1.0, cores]]})
    assert read_traces([(A, content)], {"k1"})["k1"].cores == 1


def test_a_journal_of_line_ends_takes_no_memory() -> None:
    content = b"\n" * (1 << 17)
    tracemalloc.start()
    assert read_traces([(A, content)], {"k1"}) == {}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 18


@pytest.mark.parametrize("name", ["r1.L1.².jsonl", f"r1.L1.{'9' * 5000}.jsonl", "r1.L1.-1.jsonl"])
def test_odd_names_of_journals_are_no_nodes(name: str) -> None:
    assert writer_of(name, {"r1.L1"}) == (name.removesuffix(".jsonl"), 0)
