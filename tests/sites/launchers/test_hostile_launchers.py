"""Launchers that say what they must not say: invalid messages, and ends of attempts of others."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.sites.launchers.site_rig import FakeLink, SiteRig, ended, rig_at
from wfrun.engine import events as ev
from wfrun.sites.launchers.channels.limited_log import MAX_WARNINGS
from wfrun.sites.launchers.journals import NodeId, read_traces
from wfrun.testing.probe import request

NODE: NodeId = ("r1.L1", 0)
END = {"cause": "done", "exit_code": 0, "host": "n1", "sizes": [5], "message": "x"}
MESSAGES: Sequence[dict[str, Any]] = (
    {"hello": 1, "host": "n1", "slots": 2, "memory_bytes": 5, "gpus": 0, "left_s": 9.5, "nodes": 1},
    {"started": ["k1"], "ended": [["k1", END]]},
    {"returned": ["k2"]},
    {"contested": ["k2"]},
    {"found": {"k1": {"state": "ended", "outcome": END}}, "id": 1},
    {"ending": "its time is over"},
    {"failing": "no room"},
    {"recovered": True},
    {"error": "what"},
)
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, 1 << 63, 10**30, 1e308, -1e308, "", "k1", "\0", "x" * 5000, [], {},
    [[]], [None], {"k1": {}}, [["k1", {"cause": "?"}]],
)  # fmt: skip
RAW = (
    b"", b"\0" * 100, b"\xff\xfe", b"{", b"[" * 100_000, b'{"hello":', b'{"error": "\xff"}', b"NaN",
    b'{"x": ' + b"[" * 100_000, b'{"left_s": 1e999}', b'{"started": ["\\ud800"]}', b'"hello"',
)  # fmt: skip


@pytest_asyncio.fixture
async def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SiteRig]:
    async with rig_at(tmp_path, monkeypatch) as rig:
        yield rig


def mutated(value: Any, rng: random.Random) -> Any:
    """The value, or with a part of it replaced by another value."""
    if rng.random() < 0.25:
        return rng.choice(VALUES)
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        return {**value, name: mutated(value[name], rng)}
    if isinstance(value, list) and value:
        index = rng.randrange(len(value))
        return [*value[:index], mutated(value[index], rng), *value[index + 1 :]]
    return value


@pytest.mark.slow
async def test_invalid_messages_harm_nobody(rig: SiteRig, caplog: pytest.LogCaptureFixture) -> None:
    await rig.open()
    hostile = await rig.launcher("L1")
    other = await rig.launcher("L2")
    await rig.site.submit([request(key, "true") for key in ("k1", "k2")])
    rng = random.Random(13)
    for raw in RAW:
        say(rig, hostile, raw)
    for _ in range(3000):
        text = json.dumps(mutated(rng.choice(MESSAGES), rng)).encode()
        if rng.random() < 0.1:
            text = text[: rng.randrange(len(text))]
        say(rig, hostile, text)
    rig.end("L1")
    await rig.until(lambda: any(e.key == "L1" for e in rig.events(ev.LauncherEnded)))
    await rig.site.submit([request("k9", "true")])
    await rig.until(lambda: "k9" in other.sent_attempts())
    other.say({"started": ["k9"]}, ended("k9"))
    assert rig.cause("k9") == "done"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert len([each for each in caplog.messages if "launcher L1:" in each]) <= MAX_WARNINGS


def say(rig: SiteRig, link: FakeLink, line: bytes) -> None:
    assert rig.links.handler is not None
    rig.links.handler.on_lines(link, [line])


@pytest.mark.slow
async def test_a_launcher_ends_no_attempt_that_it_does_not_have(
    rig: SiteRig, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.open()
    first = await rig.launcher("L1", slots=1)
    await rig.site.submit([request("k1", "true")])
    await rig.until(lambda: first.sent_attempts() == ["k1"])
    second = await rig.launcher("L2", slots=1)
    await rig.site.submit([request(key, "true") for key in ("k2", "k3", "k4")])
    await rig.until(lambda: second.sent_attempts()[:1] == ["k2"])
    waiting = {"k3", "k4"}.difference(first.sent_attempts(), second.sent_attempts())
    second.say(ended("k1", *waiting), ended("k2"))
    assert rig.cause("k2") == "done"
    assert [rig.cause(key) for key in ("k1", *waiting)] == [None] * (1 + len(waiting))
    assert "launcher L2: it reports the end of k1, which it does not have" in caplog.text
    first.say({"started": ["k1"]}, ended("k1"))
    assert rig.cause("k1") == "done"


@pytest.mark.slow
async def test_an_answer_speaks_of_what_was_asked_alone(rig: SiteRig) -> None:
    """A launcher that connects again is asked for its attempts, and answers for others too."""
    await rig.open()
    first = await rig.launcher("L1", slots=1)
    second = await rig.launcher("L2", slots=1)
    await rig.site.submit([request(key, "true") for key in ("k1", "k2")])
    await rig.until(lambda: len(first.sent_attempts() + second.sent_attempts()) == 2)
    theirs, ours = first.sent_attempts()[0], second.sent_attempts()[0]
    again = rig.play("L2")

    def send(line: bytes) -> None:
        message = json.loads(line)
        if "find" in message:
            found = {key: {"state": "ended", "outcome": END} for key in (theirs, ours)}
            again.say({"found": found, "id": message["id"]})

    again.send = send  # type: ignore[method-assign]
    again.connect(1)
    await rig.until(lambda: rig.cause(ours) == "done")
    assert rig.cause(theirs) is None


async def test_the_second_of_two_equal_launchers_replaces_the_first(rig: SiteRig) -> None:
    await rig.open()
    link = await rig.launcher("L1", slots=1)
    await rig.site.submit([request("k1", "true")])
    await rig.until(lambda: link.sent_attempts() == ["k1"])
    twin = rig.play("L1")
    twin.connect(1)
    await rig.until(lambda: twin.sent_attempts() == ["k1"])
    link.say({"started": ["k1"]}, ended("k1"))
    assert rig.cause("k1") is None
    twin.say({"started": ["k1"]}, ended("k1"))
    assert rig.cause("k1") == "done"
    assert len(rig.events(ev.AttemptStarted)) == 1


LINES: Sequence[dict[str, Any]] = (
    {"launcher": {"host": "n1", "pid": 7}},
    {"queued": ["k1", "k2", "k3"]},
    {"started": [["k1", 77, 12.5, 3, 0, [], []]]},
    {"dropped": ["k3"]},
    {"ended": [["k1", END]]},
    {"started": [["k2", 78, 13.5, 1, 0, [], []]]},
)
JOURNAL = b"".join(json.dumps(line).encode() + b"\n" for line in LINES)


@pytest.mark.parametrize("filler", [b"", b"\0"], ids=["cut", "zeroed"])
def test_a_journal_cut_at_every_byte(filler: bytes) -> None:
    """It says what its complete lines say, whatever the rest is."""
    wanted = {"k1", "k2", "k3"}
    for size in range(len(JOURNAL)):
        content = JOURNAL[:size] + filler * (len(JOURNAL) - size)
        complete = JOURNAL[:size].count(b"\n")
        if not filler and JOURNAL[size : size + 1] == b"\n":
            complete += 1  # all of the line but its end
        whole = b"".join(json.dumps(line).encode() + b"\n" for line in LINES[:complete])
        found, expected = (read_traces([(NODE, each)], wanted) for each in (content, whole))
        assert seen(found) == seen(expected)


def seen(traces: Any) -> Any:
    return {key: (t.outcome, t.owner, t.cores, t.queued) for key, t in traces.items()}


def test_invalid_lines_of_a_journal_are_skipped() -> None:
    rng = random.Random(13)
    for raw in RAW:
        read_traces([(NODE, raw)], {"k1"})
    for _ in range(3000):
        text = json.dumps(mutated(rng.choice(LINES), rng)).encode()
        for trace in read_traces([(NODE, text + b"\n")], {"k1", "k2", "k3"}).values():
            assert 1 <= trace.cores <= 1 << 20
