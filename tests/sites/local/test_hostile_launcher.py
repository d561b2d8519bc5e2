"""A launcher at a hostile host: what it sends ends in words, and nothing is taken from others."""

from __future__ import annotations

import asyncio
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.json import Decoder

from tests.waiting import until
from wfrun.engine import events as ev
from wfrun.engine.exchange import Content, Found, Outcome
from wfrun.engine.model import SiteSpec
from wfrun.sites.launchers.channels import messages
from wfrun.sites.launchers.reports import decode_report
from wfrun.sites.local.direct_launcher import DirectLauncherSite, DirectReport
from wfrun.sites.local.launcher_host import LauncherPipe
from wfrun.sites.local.lines import StreamLines
from wfrun.testing.probe import request


class HostileHost:
    """Implements ``LauncherHost``: the first launcher answers requests to run by these lines."""

    launcher_log = "launcher.log"

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.pipes: list[HostilePipe] = []
        self.outcome: dict[str, Any] | None = None
        """Of all attempts, by the answers of the launchers."""

    async def prepare(self) -> None: ...
    async def remove(self, names: Sequence[str]) -> None: ...

    async def close(self) -> None: ...

    async def is_removed(self) -> bool:
        return False

    async def launch(
        self,
        config: Mapping[str, Any],
        on_lines: Callable[[list[bytes]], None],
        on_end: Callable[[], None],
    ) -> LauncherPipe:
        self.pipes.append(HostilePipe(self, on_lines, [] if self.pipes else self.lines))
        return self.pipes[-1]

    async def stderr_tail(self) -> str:
        return ""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return b"", b""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        return []


class HostilePipe:
    def __init__(
        self, host: HostileHost, on_lines: Callable[[list[bytes]], None], lines: list[bytes]
    ) -> None:
        self._host = host
        self._on_lines = on_lines
        self._lines = lines
        self.closed = False
        self._say(b'{"hello": 1}')

    def _say(self, *lines: bytes) -> None:
        asyncio.get_running_loop().call_soon(self._on_lines, list(lines))

    def send(self, line: bytes) -> None:
        message = json.loads(line)
        if "run" in message:
            self._say(*self._lines)
        elif "find" in message:
            ended = {"state": "ended", "outcome": self._host.outcome}
            found = dict.fromkeys(message["find"], ended)
            self._say(json.dumps({"id": message["id"], "found": found}).encode())

    async def drained(self) -> None: ...

    async def close(self, *, patience_s: float) -> None:
        self.closed = True


class Opened:
    def __init__(self, lines: list[bytes]) -> None:
        self.host = HostileHost(lines)
        self.events: list[ev.Event] = []
        self.site = DirectLauncherSite(SiteSpec("alpha", 2), 0, self.host)

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., Any]]:
    made: list[Opened] = []

    async def open_site(*lines: bytes) -> Opened:
        made.append(Opened(list(lines)))
        await made[-1].site.open(made[-1].events.append)
        return made[-1]

    yield open_site
    for each in made:
        await each.site.close()


@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[]",
        b'{"started": 7}',
        b'{"ended": [["hostile-1", {"cause": "done", "started_s": NaN}]]}',
        b'{"ended": [["hostile-1"]]}',
        b'{"ended": [["hostile-1", {"cause": "none"}]], "started": 7}',
        b'{"x": ' + b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=range(8),
)
async def test_what_is_no_message_ends_the_launcher(
    opened: Callable[..., Any], line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    there = await opened(line, b'{"ended": [["hostile-1", {"cause": "done"}]]}')
    await there.site.submit([request("hostile-1", "true")])
    await until(lambda: there.of(ev.AttemptEnded))
    (ended,) = there.of(ev.AttemptEnded)  # by the next launcher: the line after is not believed
    assert ended.outcome.cause == "lost"
    (paused,) = there.of(ev.SitePaused)
    assert "sends what is no message" in paused.reason
    assert len(paused.reason) < 1000
    assert there.host.pipes[0].closed
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


INVALID = (
    b'{"cause": "none"}',
    b'{"cause": "done", "started_s": -1e17}',
    b'{"cause": "done", "sizes": [-1]}',
    b'{"cause": "done", "sizes": [99999999999999999999]}',
    b'{"cause": "done", "packed": ["../../x", 0, 1, 1]}',
    b'{"cause": "done", "packed": ["x", -1, 1, 1]}',
    b'{"cause": "exit", "exit_code": 1e9}',
    b"7",
)
"""Outcomes that no attempt has. A task can write them into a journal, which launchers pass on."""


@pytest.mark.parametrize("outcome", INVALID)
async def test_an_invalid_outcome_is_that_of_a_lost_attempt(
    opened: Callable[..., Any], outcome: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest of its message holds, and the launcher goes on."""
    there = await opened(
        b'{"ended": [["hostile-1", %s], ["hostile-2", {"cause": "done", "sizes": [5]}]]}' % outcome
    )
    await there.site.submit([request("hostile-1", "true"), request("hostile-2", "true")])
    await until(lambda: len(there.of(ev.AttemptEnded)) == 2)
    ends = {ended.key: ended.outcome for ended in there.of(ev.AttemptEnded)}
    assert ends["hostile-1"].cause == "lost"
    assert "its exit record is invalid" in ends["hostile-1"].message
    assert ends["hostile-2"] == Outcome("done", sizes=(5,))
    assert not there.of(ev.SitePaused)
    assert len(there.host.pipes) == 1


@pytest.mark.parametrize("outcome", INVALID)
def test_an_invalid_outcome_of_those_that_are_found(outcome: bytes) -> None:
    """For both kinds of launchers: the others are as they were found."""
    line = b'{"id": 3, "found": {"a": {"state": "active"}, "b": {"state": "ended", "outcome": %s}}}'
    decoders: tuple[Callable[[bytes], Any], ...] = (
        messages.decode,
        lambda line: decode_report(line, Decoder(DirectReport)),
    )
    for decode in decoders:
        report = decode(line % outcome)
        assert report.id == 3
        assert report.found is not None
        assert report.found["a"] == Found("active")
        lost = report.found["b"].outcome
        assert lost is not None
        assert (lost.cause, (lost.message or "")[:27]) == ("lost", "its exit record is invalid:")


async def test_an_end_that_the_next_launcher_finds_is_marked(opened: Callable[..., Any]) -> None:
    """Nobody has seen it, and its outputs may be lost: the dispatcher compares them."""
    there = await opened(b"garbage")
    there.host.outcome = {"cause": "done", "sizes": [5]}
    await there.site.submit([request("hostile-1", "true")])
    await until(lambda: there.of(ev.AttemptEnded))
    (ended,) = there.of(ev.RecordedEnd)
    assert (ended.key, ended.outcome.sizes) == ("hostile-1", (5,))


async def test_attempts_of_others_are_left_alone(opened: Callable[..., Any]) -> None:
    there = await opened(
        b'{"started": ["hostile-2", "r1.0.0.1"]}',
        b'{"ended": [["hostile-2", {"cause": "done"}], ["", {"cause": "done"}]]}',
        b'{"found": {"hostile-2": {"state": "active"}}, "id": 99}',
        b'{"cleaned": true}',
        b'{"cleaned": true}',
        b'{"hello": 1}',
        b'{"ended": [["hostile-1", {"cause": "exit", "exit_code": 3}]]}',
        b'{"ended": [["hostile-1", {"cause": "done"}]]}',
    )
    await there.site.submit([request("hostile-1", "true")])
    await until(lambda: there.of(ev.AttemptEnded))
    (ended,) = there.of(ev.AttemptEnded)
    assert (ended.key, ended.outcome.exit_code) == ("hostile-1", 3)
    assert not there.of(ev.AttemptStarted)
    assert not there.of(ev.SitePaused)


async def test_an_answer_names_what_was_asked_for(opened: Callable[..., Any]) -> None:
    there = await opened()
    found = await there.site.find(["hostile-7"])
    assert found["hostile-7"].outcome is not None
    assert found["hostile-7"].outcome.cause == "lost"


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_lines_are_split_whatever_the_pieces(step: int) -> None:
    text = b"a\n\nbc\n" + b"d" * 30 + b"\ne\n" + b"f" * 31
    splitter = StreamLines(max_bytes=10)
    lines = []
    for start in range(0, len(text), step):
        lines += splitter.feed(text[start : start + step])
    short = [line for line in lines if len(line) <= 10]
    assert short == [b"a", b"", b"bc", b"e"]


def test_a_line_without_end_takes_no_memory() -> None:
    splitter = StreamLines(max_bytes=1 << 20)
    data = b"x" * (1 << 16)
    tracemalloc.start()
    lines = [line for _ in range(1000) for line in splitter.feed(data)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert [len(line) < 300 for line in lines] == [True]
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(lines[0])
    assert splitter.feed(b"x\nnext\n") == [b"next"]
