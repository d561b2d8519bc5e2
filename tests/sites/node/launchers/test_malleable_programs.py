"""Malleable programs in a real launcher: what the engine asks them, and what they may do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.sites.node.launchers.batch_launcher_rig import Engine, wait_for
from wfrun.engine.exchange import AttemptRequest, ClaimedNode
from wfrun.engine.model import Resources
from wfrun.sites.node.launchers import malleable_programs

HEAD = ClaimedNode("n-0", 2, "run-s.1", 0)
KEY = "run-s.C1.0"
PROGRAM = f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
from wfrun.malleable import Malleable
job = Malleable()
print(*job.nodes, flush=True)
"""
TAKES = """
import os
while not os.path.exists("end"):
    message = job.poll(0.05)
    if message is not None and message.kind == "offer":
        job.take(message.processors - 1)
    elif message is not None:
        job.give_back(job.nodes[-message.processors:])
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = Engine(tmp_path / "site")
    yield found
    found.close()


def start(engine: Engine, program: str) -> str:
    """Start a malleable program in a launcher; returns its sandbox."""
    engine.start()
    engine.accept()
    argv = (sys.executable, "-c", PROGRAM + program)
    resources = Resources(cores=2, parallel=True)
    engine.run(
        AttemptRequest(
            "run-0.1", argv, {}, (), (), None, None, None, resources,
            claim="run-s", claimed=(HEAD,), malleable=True,
        )
    )  # fmt: skip
    return str(engine.directory / "attempts" / "run-0.1")


def reports(engine: Engine) -> list[dict[str, Any]]:
    return [message["resized"] for message in engine.received if "resized" in message]


def heard(engine: Engine, count: int) -> dict[str, Any]:
    """The report of this number."""
    engine.until(lambda: len(reports(engine)) >= count)
    return reports(engine)[count - 1]


def offer(engine: Engine, number: int, *launchers: str) -> None:
    nodes = [ClaimedNode(f"n-{name}", 1, name, 0) for name in launchers]
    engine.say({"resize": {"attempt": "run-0.1", "number": number, "nodes": nodes, "shrink": 0}})


def shrink(engine: Engine, number: int, count: int) -> None:
    engine.say({"resize": {"attempt": "run-0.1", "number": number, "nodes": [], "shrink": count}})


def test_a_program_grows_and_shrinks_in_a_launcher(engine: Engine) -> None:
    sandbox = start(engine, TAKES)
    joined = heard(engine, 1)
    assert joined == {
        "attempt": "run-0.1", "number": 0, "nodes": [], "gone": False, "failure": ""
    }  # fmt: skip
    offer(engine, 1, "a", "b", "c")
    assert heard(engine, 2)["nodes"] == ["a", "b"]
    offer(engine, 1, "a", "b", "c")  # asked again after a crash, and answered once
    assert heard(engine, 3) == {**joined, "number": 1, "nodes": ["a", "b"]}
    shrink(engine, 2, 1)
    assert heard(engine, 4)["nodes"] == ["a"]
    shrink(engine, 3, 9)  # no more than it has grown by
    assert heard(engine, 5) == {**joined, "number": 3}
    shrink(engine, 4, 1)
    assert heard(engine, 6) == {**joined, "number": 4}
    Path(sandbox, "end").touch()
    (outcome,) = engine.until_ended("run-0.1")
    assert outcome["cause"] == "done"
    assert not Path(sandbox, malleable_programs.SOCKET).exists()


def test_an_answer_that_no_engine_has_seen_is_reported_to_the_next(engine: Engine) -> None:
    sandbox = start(engine, TAKES)
    heard(engine, 1)
    offer(engine, 1, "a", "b")
    engine.disconnect()
    time.sleep(0.5)  # The answer comes meanwhile.
    engine.listen()
    engine.received.clear()
    engine.accept()
    assert heard(engine, 1)["nodes"] == ["a"]
    Path(sandbox, "end").touch()
    engine.until_ended("run-0.1")


@pytest.mark.parametrize(
    ("program", "failure"),
    [
        ("job._socket.sendall(b'nonsense\\n'); time.sleep(60)", "sends 'nonsense'"),
        ("job.poll(None); job._send('take 5'); time.sleep(60)", "takes 5 of 1 nodes"),
        ("job.poll(None); job._send('done 1 n-0'); time.sleep(60)", "answers 'done' instead"),
    ],
)
def test_a_program_that_breaks_the_protocol_is_ended(
    program: str, failure: str, engine: Engine
) -> None:
    start(engine, program)
    heard(engine, 1)
    offer(engine, 1, "a")
    assert failure in heard(engine, 2)["failure"]
    (outcome,) = engine.until_ended("run-0.1")
    assert outcome["cause"] == "reclaimed"


def test_a_program_keeps_its_first_nodes(engine: Engine) -> None:
    start(engine, "job.poll(None); job.take(1); job.poll(None); job.give_back(['n-0'])\n" + TAKES)
    heard(engine, 1)
    offer(engine, 1, "a")
    assert heard(engine, 2)["nodes"] == ["a"]
    shrink(engine, 2, 1)
    assert "its first node 'n-0'" in heard(engine, 3)["failure"]


def test_a_program_that_ends_while_it_is_offered_nodes_is_done(engine: Engine) -> None:
    start(engine, "job.poll(None)")
    heard(engine, 1)
    offer(engine, 1, "a")
    (outcome,) = engine.until_ended("run-0.1")
    assert outcome["cause"] == "done"
    offer(engine, 2, "b")  # nobody is there
    assert engine.ask("run-0.1")["run-0.1"]["state"] == "ended"


def test_a_program_that_closes_its_connection_is_left_alone(engine: Engine) -> None:
    sandbox = start(
        engine, "import os; job.close()\nwhile not os.path.exists('end'): time.sleep(0.05)"
    )
    heard(engine, 1)
    engine.until(lambda: reports(engine)[-1]["gone"])
    offer(engine, 1, "a")
    engine.until(lambda: reports(engine)[-1]["number"] == 1)
    assert reports(engine)[-1]["nodes"] == []
    Path(sandbox, "end").touch()
    (outcome,) = engine.until_ended("run-0.1")
    assert outcome["cause"] == "done"


@pytest.mark.slow
def test_a_program_that_does_not_answer_is_ended_after_30_s(engine: Engine) -> None:
    start(engine, "job.poll(None); job.take(1); time.sleep(100)")
    heard(engine, 1)
    offer(engine, 1, "a")
    assert heard(engine, 2)["nodes"] == ["a"]
    since_s = time.monotonic()
    shrink(engine, 2, 1)
    assert heard(engine, 3)["failure"] == "the program has not answered within 30 s"
    assert 29.0 < time.monotonic() - since_s < 40.0
    (outcome,) = engine.until_ended("run-0.1")
    assert outcome["cause"] == "reclaimed"


def test_nodes_are_released_unasked(engine: Engine) -> None:
    sandbox = start(
        engine, "job.poll(None); job.take(2); time.sleep(0.3); job.give_back(['n-a'])\n" + TAKES
    )
    heard(engine, 1)
    offer(engine, 1, "a", "b")
    assert heard(engine, 2)["nodes"] == ["a", "b"]
    assert heard(engine, 3)["nodes"] == ["b"]
    Path(sandbox, "end").touch()
    engine.until_ended("run-0.1")
    wait_for(lambda: not Path(sandbox, malleable_programs.SOCKET).exists())
