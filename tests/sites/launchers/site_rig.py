"""A cluster whose launchers are simulated by the test, over links in memory. Their jobs are real
jobs of the simulated PBS, and only wait."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import pbs
from wfrun.engine import events as ev
from wfrun.engine.exchange import LauncherRequest
from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.sites.cluster.site import ClusterSite
from wfrun.sites.kinds import make_batch_system
from wfrun.sites.launchers.channels.link import LinkHandler
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.sites.node import BATCH_LAUNCHER_PROGRAMS
from wfrun.sites.remote.connection import connection_of
from wfrun.testing.probe import Probe

RUN = "r1"
WAIT_SCRIPT = (
    'while [ ! -e "$1/ends-$2" ]; do sleep 0.02; done; echo the test ended it >&2; exit 3\n'
)


class FakeLink:
    """Implements ``Link``: a launcher whose messages the test chooses."""

    channel = "tcp"
    latency_s = 0.0

    def __init__(self, handler: LinkHandler, launcher: str, node: int) -> None:
        self.node_number = node
        self.received: list[dict[str, Any]] = []
        self.answers: Mapping[str, Any] = {}
        """Answers to questions about attempts; other attempts are absent."""
        self._handler = handler
        self._launcher = launcher

    def send(self, line: bytes) -> None:
        message = json.loads(line)
        if "find" in message:
            found = {key: self.answers.get(key, {"state": "absent"}) for key in message["find"]}
            asyncio.get_running_loop().call_soon(
                lambda: self.say({"found": found, "id": message["id"]})
            )
        else:
            self.received.append(message)

    async def drained(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        self.received.append({"closed": True})

    def say(self, *messages: Mapping[str, Any]) -> None:
        self._handler.on_lines(self, [json.dumps(message).encode() for message in messages])

    def connect(self, slots: int = 2, **more: Any) -> None:
        self._handler.on_connected(self._launcher, self)
        self.say({"hello": 1, "host": "n1", "slots": slots, "left_s": 500.0, **more})

    def break_off(self) -> None:
        self._handler.on_disconnected(self, "the line is dead")

    def sent_attempts(self) -> list[str]:
        """Attempts that it was sent, with repetitions."""
        return [request["key"] for message in self.received for request in message.get("run", ())]

    def sent_keys(self, what: str) -> list[str]:
        """The keys in messages of one type that it was sent."""
        return [key for message in self.received for key in message.get(what, ())]


class FakeChannels:
    """Implements ``LauncherChannels``."""

    def __init__(self) -> None:
        self.handler: LinkHandler | None = None
        self.expected: set[str] = set()

    async def open(self, handler: LinkHandler) -> None:
        self.handler = handler

    async def expect(self, launchers: Sequence[str]) -> None:
        self.expected.update(launchers)

    async def forget(self, launchers: Sequence[str]) -> None:
        self.expected.difference_update(launchers)

    async def dismiss(self) -> None:
        """No launcher reads it."""

    async def close(self) -> None:
        """Nothing to close."""


class SiteRig:
    """A site with launchers, and its events."""

    def __init__(self, place: Path, patience_s: float) -> None:
        self.place = place
        self._patience_s = patience_s
        self.directory = place / "scratch" / f"wfrun-{RUN}"
        self.probe = Probe()
        self.links = FakeChannels()
        self.site = self._make()

    def _make(self) -> BatchLauncherSite:
        launchers = LauncherSpec(cores=2, max=3, walltime_s=600.0)
        access = Access(
            transport="local",
            poll_min_s=0.1,
            poll_max_s=0.5,
            patience_s=self._patience_s,
            dispatch="launchers",
            launchers=launchers,
        )
        scratch = str(self.place / "scratch")
        spec = SiteSpec("here", 6, kind="pbs", directory=scratch, access=access)
        system = make_batch_system("pbs", access)
        connection = connection_of(access)
        cluster = ClusterSite(
            spec, 0, RUN, f"wfrun-{RUN}", connection, system, programs=BATCH_LAUNCHER_PROGRAMS
        )
        return BatchLauncherSite(spec, 0, cluster, cluster.head, lambda directory: self.links)

    async def open(self, script: str = WAIT_SCRIPT) -> None:
        await self.site.open(self.probe.post)
        (self.directory / "bin" / "batch_launcher.sh").write_text(script)

    async def again(self) -> None:
        """Start another engine, after a crash of the first."""
        await self.site.close()
        self.probe, self.links = Probe(), FakeChannels()
        self.site = self._make()
        await self.open()

    async def start(self, *names: str) -> None:
        requests = [LauncherRequest(name, 1, 2, 0, 0, 600.0) for name in names]
        await self.site.start_launchers(requests)
        await self.until(lambda: all(self.is_claimed(name) for name in names))

    def play(self, launcher: str, node: int = 0) -> FakeLink:
        assert self.links.handler is not None
        return FakeLink(self.links.handler, launcher, node)

    async def launcher(self, name: str, slots: int = 2) -> FakeLink:
        """A launcher that has started and said hello."""
        await self.start(name)
        link = self.play(name)
        link.connect(slots)
        await self.until(lambda: any(e.key == name for e in self.events(ev.LauncherStarted)))
        return link

    def is_claimed(self, key: str) -> bool:
        return (self.directory / "attempts" / f"{key}.out").exists()

    def claim(self, key: str) -> None:
        (self.directory / "attempts" / f"{key}.out").touch()

    def is_revoked(self, key: str) -> bool:
        return (self.directory / "attempts" / f"{key}.revoked").exists()

    def journal(self, launcher: str, *messages: Mapping[str, Any]) -> None:
        with (self.directory / "exits" / f"{launcher}.jsonl").open("a") as file:
            for message in messages:
                file.write(json.dumps(message) + "\n")

    def end(self, launcher: str) -> None:
        """End the launcher's job with exit code 3."""
        (self.directory / f"ends-{launcher}").touch()

    def kill(self, name: str) -> None:
        """Kill all processes of the job of the launcher that was submitted by this number, as the
        failure of a node does: it leaves no record."""
        jobs = json.loads((self.place / "pbs" / "state.json").read_text())["jobs"]
        (element,) = jobs[name]["elements"].values()
        os.killpg(element["session"], signal.SIGKILL)

    def events(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.probe.events if isinstance(event, kind)]

    def cause(self, key: str) -> str | None:
        outcomes = self.probe.outcomes(key)
        assert len(outcomes) <= 1
        return outcomes[0].cause if outcomes else None

    async def until(self, happened: Callable[[], bool], patience_s: float = 100.0) -> None:
        end_s = time.monotonic() + patience_s
        while not happened():
            assert time.monotonic() < end_s, self.probe.events
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.site.close()
        pbs.end(self.place / "pbs")


@contextlib.asynccontextmanager
async def rig_at(
    place: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float = 2.0
) -> AsyncIterator[SiteRig]:
    """A rig with a simulated PBS in a directory."""
    (place / ".profile").write_text(f"PATH={place}/pbs/bin:$PATH; export PATH\n")
    monkeypatch.setenv("HOME", str(place))
    pbs.install(place / "pbs", slots=4)
    rig = SiteRig(place, patience_s)
    try:
        yield rig
    finally:
        await rig.close()


def ended(*keys: str, cause: str = "done") -> dict[str, Any]:
    outcome = {"cause": cause, "exit_code": 0, "started_s": 10.0, "ended_s": 70.0}
    return {"ended": [[key, outcome] for key in keys]}


def started(*keys: str) -> dict[str, Any]:
    """A line of a journal."""
    return {"started": [[key, 4000000, 1.0, 1, 0, [], []] for key in keys]}
