"""Helpers of the suites: requests in one line, and events that can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from wfrun.engine.events import AttemptEnded, AttemptsSubmitted, AttemptStarted, Event
from wfrun.engine.exchange import AttemptRequest, InputLink, Outcome, OutputFile
from wfrun.engine.model import Resources

PATIENCE_S = 60.0
"""Everything in the suites takes far less; a machine may be slow."""


def request(
    key: str,
    *argv: str,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    stdout: str | None = None,
    stderr: str | None = None,
    cores: int = 1,
    walltime_s: float | None = None,
) -> AttemptRequest:
    """``inputs`` and ``outputs`` map names in the sandbox to names in the store."""
    return AttemptRequest(
        key=key,
        argv=argv,
        env=dict(env or {}),
        inputs=tuple(InputLink(stored, name) for name, stored in (inputs or {}).items()),
        outputs=tuple(
            OutputFile(name, stored, name in optional) for name, stored in (outputs or {}).items()
        ),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        resources=Resources(cores=cores, walltime_s=walltime_s),
    )


def shell(key: str, script: str, *words: str, **options: object) -> AttemptRequest:
    """A request that runs a shell script with these words as $1, $2, …"""
    return request(key, "sh", "-c", script, "sh", *words, **options)  # type: ignore[arg-type]


class Probe:
    """Takes the events of a site. Pass its ``post`` to ``open``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()

    def outcomes(self, key: str) -> list[Outcome]:
        ends = [event for event in self.events if isinstance(event, AttemptEnded)]
        return [event.outcome for event in ends if event.key == key]

    def was_started(self, key: str) -> bool:
        return any(isinstance(event, AttemptStarted) and event.key == key for event in self.events)

    def was_submitted(self, key: str) -> bool:
        batches = [event for event in self.events if isinstance(event, AttemptsSubmitted)]
        return any(key in event.keys for event in batches)

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait for an event after which ``what`` is true."""

        async def wait() -> None:
            while not what():
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), PATIENCE_S)

    async def let_pass(self, seconds: float) -> None:
        """Wait this long, whatever happens."""
        await asyncio.sleep(seconds)

    async def started(self, key: str) -> None:
        await self.until(lambda: self.was_started(key))

    async def ended(self, key: str) -> Outcome:
        await self.until(lambda: bool(self.outcomes(key)))
        return self.outcomes(key)[0]
