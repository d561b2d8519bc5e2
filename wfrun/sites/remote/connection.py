"""The one connection of a site: it is made, watched, and made again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.model import Access
from wfrun.sites.remote.agent_client import PYTHONS, AgentHost
from wfrun.sites.remote.host import Counts, Host
from wfrun.sites.remote.local_transport import LocalTransport
from wfrun.sites.remote.openssh_transport import OpensshTransport
from wfrun.sites.remote.transport import NeedsLoginError, Transport
from wfrun.sites.tasks import end_tasks

if TYPE_CHECKING:
    from wfrun.sites.remote.asyncssh_login import Prompter

_LOGGER = logging.getLogger(__name__)

DELAYS_S = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Between tries to connect; each is varied by a quarter, so that many users do not come at once."""
LOGIN_DELAY_S = 60.0
"""Between tries where only the user, or an administrator, can help."""
STEADY_S = 60.0
"""A connection that lasted so long was good: the delays begin anew."""
ASIDE_S = 300.0
"""A login host that failed is passed over for so long, while there is another."""
PATIENCE_S = 60.0
"""For a question while there is no connection."""

MakeTransport = Callable[[str, bool], Transport]
"""Makes the transport to a login host; the flag says whether the user may be asked."""


def connection_of(access: Access, prompter: Prompter | None = None) -> Connection:
    """The connection that a site's catalog entry describes. The user is asked by ``prompter``, and
    only for the first connection; the system's ssh asks for itself, beforehand."""
    config = Path(access.ssh_config) if access.ssh_config else None
    known_hosts = Path(access.known_hosts) if access.known_hosts else None

    def make(host: str, may_ask: bool) -> Transport:
        if access.transport == "local" or not access.hosts:
            return LocalTransport()
        if access.transport == "openssh":
            return OpensshTransport(
                host, access.user, access.port, config=config, known_hosts=known_hosts
            )
        # Half of what a run of local sites takes to start, and a third of its memory.
        from wfrun.sites.remote.asyncssh_transport import AsyncsshTransport

        return AsyncsshTransport(
            host,
            access.user,
            access.port,
            config=config,
            known_hosts=known_hosts,
            prompter=prompter if may_ask else None,
        )

    return Connection(access.hosts or ("localhost",), make)


class Connection:
    """Owns a site's connection: at most one is there at any time, to the first of ``hosts`` that
    can be reached and has a Python for the agent.

    When it ends it is made again, without ever asking the user; when only the agent ends, it is
    started again on the same connection. A site that wants a login that can't be repeated without
    the user is tried now and then, until the user has logged in anew.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        make: MakeTransport,
        *,
        delays_s: Sequence[float] = DELAYS_S,
        login_delay_s: float = LOGIN_DELAY_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.made = 0
        """Connections so far."""
        self.needs_login: str | None = None
        """What the user has to do; None: nothing."""
        self._hosts = tuple(hosts)
        self._make = make
        self._delays_s = tuple(delays_s)
        self._login_delay_s = login_delay_s
        self._patience_s = patience_s
        self._told: Callable[[str | None], None] = _ignore
        self._reason: str | None = "it is not open"
        """Why there is no living host; None: there is."""
        self._up = asyncio.Event()
        self._aside: dict[str, float] = {}
        """When a login host that failed is tried again."""
        self._transport: Transport | None = None
        self._lost: asyncio.Task[None] | None = None
        self._host: AgentHost | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._watches: dict[str, Callable[[list[bytes]], None]] = {}
        self._watching: set[str] = set()
        """Directories that the present agent watches."""
        self._counted = Counts(commands={}, cpu_s=0.0, agents=0)
        """Of the present agent, when it was last asked."""
        self._before = self._counted
        """Of the agents before it."""

    # -- for its users

    @property
    def host_name(self) -> str:
        """The login host that it leads to, or would be tried first."""
        return self._transport.host if self._transport is not None else self._hosts[0]

    async def open(self, told: Callable[[str | None], None]) -> None:
        """Connect; the user may be asked now. ``told`` is given why the site can't be used, or
        None when it can, whenever that changes. Raises InfeasibleError for what no waiting mends,
        an unknown host key for one, and TransientError when there is no connection yet: it is
        still tried, until ``close``. One that is open stays as it is, and tells another."""
        self._told = told
        if self._keeper is not None:
            if self._reason is not None:
                raise TransientError(self._reason, hint=self.needs_login)
            return
        try:
            await self._revive(may_ask=True)
        except InfeasibleError:
            await self.close()
            raise
        except WfrunError as error:
            self._say(error)
            self._keeper = asyncio.create_task(self._keep(failures=1))
            raise TransientError(error.message, hint=error.hint) from error
        self._keeper = asyncio.create_task(self._keep(failures=0))

    async def host(self) -> Host:
        """The head node, when it can be asked. Raises TransientError when that takes too long, or
        needs the user."""
        await self._wait()
        assert self._host is not None
        return self._host

    async def transport(self) -> Transport:
        """The way to the head node; errors as those of ``host``."""
        await self._wait()
        assert self._transport is not None
        return self._transport

    async def watch(self, directory: str, told: Callable[[list[bytes]], None]) -> None:
        """``Host.watch``, begun anew with every agent: then all records are told of again. When
        this raises TransientError, it begins with the next agent."""
        self._watches[directory] = told
        await self._wait()
        assert self._host is not None
        await self._begin_watch(self._host, directory)

    async def counts(self) -> Counts:
        """Of all agents so far. What one did between the last time that this was asked and its
        sudden end is not in it."""
        if self._host is not None and self._reason is None:
            host = self._host
            counted = await host.counts()
            if host is self._host:
                self._counted = counted
        return _sum(self._before, self._counted)

    async def close(self) -> None:
        """End the agent and the connection. What the user's own ssh shares stays."""
        self._told = _ignore
        if self._keeper is not None:
            await end_tasks([self._keeper])
        self._go_down("it is closed")
        await self._drop()

    async def _wait(self) -> None:
        trying = self._keeper is not None and not self._keeper.done()
        if trying and self.needs_login is None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._up.wait(), self._patience_s)
        if self._reason is not None:
            raise TransientError(
                f"{', '.join(self._hosts)}: no connection: {self._reason}", hint=self.needs_login
            )

    # -- its life

    async def _keep(self, failures: int) -> None:
        """Runs until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            if self._host is not None:
                began_s = loop.time()
                await self._until_lost()
                if loop.time() - began_s >= STEADY_S:
                    failures = 0
            await asyncio.sleep(self._delay_s(failures))
            failures += 1
            try:
                await self._revive(may_ask=False)
            except WfrunError as error:
                self._say(error)
            except Exception as error:  # A bug, which must not end the trying.
                _LOGGER.exception("connecting to %s", ", ".join(self._hosts))
                await self._drop()
                self._say(TransientError(repr(error)))

    def _delay_s(self, failures: int) -> float:
        if failures and self.needs_login is not None:
            return self._login_delay_s
        delay_s = self._delays_s[min(failures, len(self._delays_s) - 1)]
        return delay_s * random.uniform(0.75, 1.25)

    async def _until_lost(self) -> None:
        """Wait for the end of the agent or the connection, say so, and clear away what has
        ended."""
        assert self._transport is not None
        assert self._host is not None
        assert self._lost is not None
        ended = self._host.ended
        events: list[asyncio.Future[None] | asyncio.Future[str]] = [self._lost, ended]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            self._go_down(f"the connection to {self._transport.host} was lost")
            await self._drop()
        else:
            self._go_down(f"the agent on {self._transport.host} ended: {ended.result()}")
            await self._drop_host()

    async def _revive(self, may_ask: bool) -> None:
        """Start an agent on the connection that is there, or on a new one."""
        if self._transport is not None and self._lost is not None and not self._lost.done():
            try:
                await self._start_host(self._transport)
                return
            except WfrunError:
                await self._drop()  # Then it is not as good as it seemed.
                raise
        await self._drop()
        await self._connect(may_ask)

    async def _connect(self, may_ask: bool) -> None:
        """To one of the login hosts, or raise what all of them say."""
        now_s = asyncio.get_running_loop().time()
        good = [host for host in self._hosts if self._aside.get(host, 0.0) <= now_s]
        errors = []
        for host in good or self._hosts:
            try:
                await self._connect_to(host, may_ask)
                self._aside.pop(host, None)
                return
            except WfrunError as error:
                _LOGGER.info("%s", error)
                errors.append(error)
                self._aside[host] = now_s + ASIDE_S
                await self._drop()
        raise _worst(errors)

    async def _connect_to(self, host: str, may_ask: bool) -> None:
        transport = self._make(host, may_ask)
        await transport.connect()
        self.made += 1
        self._transport = transport
        self._lost = asyncio.create_task(transport.lost())
        await self._start_host(transport)

    async def _start_host(self, transport: Transport) -> None:
        # This machine has a Python even where its PATH has none: the one that runs wfrun.
        here = (sys.executable,) if isinstance(transport, LocalTransport) else ()
        host = AgentHost(transport, pythons=(*here, *PYTHONS))
        await host.start()
        self._host = host
        for directory in self._watches:
            await self._begin_watch(host, directory)
        self._reason = self.needs_login = None
        self._up.set()
        self._told(None)

    async def _begin_watch(self, host: AgentHost, directory: str) -> None:
        if host is self._host and directory not in self._watching:
            self._watching.add(directory)
            try:
                await host.watch(directory, self._watches[directory])
            except BaseException:
                self._watching.discard(directory)
                raise

    async def _drop_host(self) -> None:
        host, self._host = self._host, None
        self._watching.clear()
        self._before = _sum(self._before, self._counted)
        self._counted = Counts(commands={}, cpu_s=0.0, agents=0)
        if host is not None:
            await host.close()

    async def _drop(self) -> None:
        """Leave nothing of the present connection."""
        await self._drop_host()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
        if self._lost is not None:
            self._lost.cancel()
            await asyncio.wait([self._lost])
            self._lost = None

    def _say(self, error: WfrunError) -> None:
        if isinstance(error, TransientError):
            self.needs_login = None
        else:  # A new login, or a host key that changed: somebody has to do something.
            self.needs_login = error.hint or error.message
        self._go_down(str(error))

    def _go_down(self, reason: str) -> None:
        self._up.clear()
        if reason != self._reason:
            _LOGGER.info("%s", reason)
            self._reason = reason
            self._told(reason)


def _ignore(reason: str | None) -> None:
    """Nobody listens before ``open`` and after ``close``."""


def _worst(errors: Sequence[WfrunError]) -> WfrunError:
    """What to do about all of them: log in, wait, or give up."""
    if len(errors) == 1:
        return errors[0]
    message = "; ".join(error.message for error in errors)
    for kind in (NeedsLoginError, TransientError, InfeasibleError):
        hints = [error.hint for error in errors if isinstance(error, kind) and error.hint]
        if any(isinstance(error, kind) for error in errors):
            return kind(message, hint=hints[0] if hints else None)
    return TransientError(message)


def _sum(first: Counts, second: Counts) -> Counts:
    return Counts(
        commands=dict(Counter(first.commands) + Counter(second.commands)),
        cpu_s=first.cpu_s + second.cpu_s,
        agents=first.agents + second.agents,
    )
