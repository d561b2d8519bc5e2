"""Helpers of the suites: short constructors of requests, and a probe that waits for events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from wfrun.engine.events import AttemptEnded, AttemptsSubmitted, AttemptStarted, Event
from wfrun.engine.exchange import AttemptRequest, InputLink, Outcome, OutputFile
from wfrun.engine.model import Resources

PATIENCE_S = 200.0
"""Timeout of all waits in seconds. The suites need far less, but machines may be slow, and a lost
connection is noticed only after 60 s."""


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
    max_log_bytes: int | None = None,
    checksums: bool = False,
) -> AttemptRequest:
    """A request of an attempt. ``inputs`` and ``outputs`` map names in the sandbox to names in the
    store."""
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
        max_log_bytes=max_log_bytes,
        checksums=checksums,
    )


def shell(key: str, script: str, *words: str, **options: object) -> AttemptRequest:
    """A request that runs a shell script with ``words`` as $1, $2, …"""
    return request(key, "sh", "-c", script, "sh", *words, **options)  # type: ignore[arg-type]


class Probe:
    """Records the events of a site, and waits for them. Pass its ``post`` to the site's
    ``open``."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def post(self, event: Event) -> None:
        """Callback of the site: record an event."""
        self.events.append(event)
        self._changed.set()

    def outcomes(self, key: str) -> list[Outcome]:
        """The outcomes of an attempt, in the order of their events."""
        ends = [event for event in self.events if isinstance(event, AttemptEnded)]
        return [event.outcome for event in ends if event.key == key]

    def was_started(self, key: str) -> bool:
        """Whether a start of this attempt was reported."""
        return any(isinstance(event, AttemptStarted) and event.key == key for event in self.events)

    def was_submitted(self, key: str) -> bool:
        """Whether the site reported that it queued this attempt."""
        batches = [event for event in self.events if isinstance(event, AttemptsSubmitted)]
        return any(key in event.keys for event in batches)

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait until ``what`` returns true. It is called again after every event. Raises
        AssertionError, with the events so far, if it is still false after ``PATIENCE_S``."""

        async def wait() -> None:
            while not what():
                self._changed.clear()
                await self._changed.wait()

        try:
            await asyncio.wait_for(wait(), PATIENCE_S)
        except asyncio.TimeoutError:
            seen = "\n".join(map(str, self.events))
            raise AssertionError(
                f"nothing more after {PATIENCE_S:.0f} s. Events:\n{seen}"
            ) from None

    async def let_pass(self, seconds: float) -> None:
        """Wait for ``seconds`` in the time of the site."""
        await asyncio.sleep(seconds)

    async def started(self, key: str) -> None:
        """Wait until this attempt has started."""
        await self.until(lambda: self.was_started(key))

    async def ended(self, key: str) -> Outcome:
        """Wait until this attempt has ended; returns its outcome."""
        await self.until(lambda: bool(self.outcomes(key)))
        return self.outcomes(key)[0]
