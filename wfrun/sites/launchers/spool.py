"""Launchers that call by files, which ``wfrun/sites/node/channels.py`` says how to name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from wfrun.engine.errors import WfrunError
from wfrun.sites.remote.callers import Answer, Answerer, Listener, receive
from wfrun.sites.remote.host import Host, NewFile

FILE_BYTES = 4 << 20
"""In one file, at most."""


class _Caller:
    """Implements ``Caller``: the connection of one launcher."""

    def __init__(self, host: Host, directory: str, name: str) -> None:
        source, session, connection = name.rsplit(".", 2)
        self.address = f"{directory}/{source}"
        self.connection = int(connection)
        self.answerer: Answerer | None = None
        self._host = host
        self._stem = f"{self.address}/{session}.{connection}"
        self._written = 0
        self._farewell: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        self._written += 1
        await self._host.write([NewFile(f"{self._stem}.{self._written}", data)])

    def hang_up(self) -> None:
        self.answerer = None
        self._farewell = asyncio.create_task(self._say_farewell())

    async def _say_farewell(self) -> None:
        with contextlib.suppress(WfrunError):  # Then it will notice the silence.
            await self.write(b"")


class Spool:
    """The launchers of one session of a run that call by files in ``launchers`` of its
    directory: each new connection is answered as a caller."""

    def __init__(self, host: Host, directory: str, session: int, answer: Answer) -> None:
        self._host = host
        self._in = f"{directory}/launchers/in"
        self._out = f"{directory}/launchers/out"
        self._session = session
        self._answer = answer
        self._callers: dict[str, _Caller] = {}
        """The latest of each launcher and node."""
        self._listener: Listener | None = None

    async def open(self) -> None:
        """Raises InfeasibleError where the head node can't watch for files."""
        self._listener = await self._host.spool(self._out, self._session, self._took)

    async def close(self) -> None:
        self._callers.clear()
        if self._listener is not None:
            await self._listener.close()

    def _took(self, name: str, data: bytes) -> None:
        """The next file of a connection."""
        source, _, connection = name.rsplit(".", 2)
        caller = self._callers.get(source)
        if caller is None or caller.connection < int(connection):
            if caller is not None and caller.answerer is not None:
                caller.answerer.ended("the launcher began anew")
            caller = _Caller(self._host, self._in, name)
            self._callers[source] = caller
            caller.answerer = self._answer(caller)
        answerer = caller.answerer
        if caller.connection != int(connection) or answerer is None:
            return
        if data:
            receive(answerer, data)
        else:
            caller.answerer = None
            answerer.ended("it was closed by the other side")


def leftovers(directory: str, launchers: Sequence[str], nodes: int) -> list[str]:
    """What these launchers leave for good; the rest goes with what it was for."""
    return [
        f"{directory}/launchers/in/{launcher}.{node}"
        for launcher in launchers
        for node in range(nodes)
    ]
