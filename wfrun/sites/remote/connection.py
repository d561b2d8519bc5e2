"""The one connection of a site. A lost connection is made again."""

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
from wfrun.sites.remote.host import AgentCounts, Host
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import NeedsLoginError, Transport
from wfrun.sites.tasks import end_tasks

if TYPE_CHECKING:
    from wfrun.sites.remote.transports.asyncssh_login import Prompter

_LOGGER = logging.getLogger(__name__)

DELAYS_S = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Delays between attempts to connect. Each is varied by up to a quarter, so that the clients of
many users do not return to a restarted host at the same moment."""
LOGIN_DELAY_S = 60.0
"""Interval between attempts to connect while the user or an administrator has to act."""
STEADY_S = 60.0
"""After a connection that lasted this long, the delays begin with the first one again."""
SKIP_S = 300.0
"""Time for which a login host that failed is skipped, if another one is left."""
PATIENCE_S = 60.0
"""Timeout of a request while there is no connection."""

LOGIN_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "LC_*",
)  # fmt: skip
"""Variables of wfrun's own environment that a login on this machine inherits: those of an SSH
session. `connection_of` adds the variables by which the commands of a batch system find its
servers. Jobs inherit the environment of the command that submits them. With other variables a task
would depend on the terminal in which wfrun was started."""

MakeTransport = Callable[[str, bool], Transport]
"""Makes the transport to a login host. The flag says whether the user may be prompted."""


def connection_of(
    access: Access, prompter: Prompter | None = None, variables: Sequence[str] = ()
) -> Connection:
    """Return the connection that a site's catalog entry describes, not yet open.

    ``prompter`` asks the user, for the first connection only: later the user may have left the
    terminal. The system's ssh does not use it: there the user logs in before the run. ``variables``
    are added to ``LOGIN_VARIABLES`` for a login on this machine.
    """
    config = Path(access.ssh_config) if access.ssh_config else None
    known_hosts = Path(access.known_hosts) if access.known_hosts else None

    def make(host: str, may_ask: bool) -> Transport:
        if access.transport == "local" or not access.hosts:
            return LocalTransport()
        if access.transport == "openssh":
            return OpensshTransport(
                host, access.user, access.port, config=config, known_hosts=known_hosts
            )
        # Imported lazily: it takes half the start-up time of a local run, and a third of its
        # memory.
        from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport

        return AsyncsshTransport(
            host,
            access.user,
            access.port,
            config=config,
            known_hosts=known_hosts,
            prompter=prompter if may_ask else None,
        )

    return Connection(access.hosts or ("localhost",), make, variables=variables)


class NoAgentError(TransientError):
    """The connection carries files, but no agent runs there now."""


class Connection:
    """Keeps one connection to the first of ``hosts`` that can be reached and has a Python for the
    agent.

    A lost connection is made again, without prompting the user. If only the agent ends, it is
    restarted, first on the same connection, which carries files meanwhile. If a host requires a
    login that only the user can give, it is tried every ``login_delay_s`` until the user has logged
    in.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        make: MakeTransport,
        *,
        delays_s: Sequence[float] = DELAYS_S,
        login_delay_s: float = LOGIN_DELAY_S,
        patience_s: float = PATIENCE_S,
        variables: Sequence[str] = (),
    ) -> None:
        self.made = 0
        """Number of connections made."""
        self.needs_login: str | None = None
        """What the user has to do before a connection is possible; None if nothing."""
        self._hosts = tuple(hosts)
        self._make = make
        self._delays_s = tuple(delays_s)
        self._login_delay_s = login_delay_s
        self._patience_s = patience_s
        self._variables = (*LOGIN_VARIABLES, *variables)
        self._on_status: Callable[[str | None], None] = _ignore
        self._reason: str | None = "it is not open"
        """Why no agent runs; None if one runs."""
        self._up = asyncio.Event()
        self._down_s = 0.0
        """Event loop time since which there is no agent."""
        self._skipped_until_s: dict[str, float] = {}
        """Event loop time until which a failed login host is skipped."""
        self._transport: Transport | None = None
        self._lost: asyncio.Task[None] | None = None
        self._host: AgentHost | None = None
        self._agent_failed = False
        """Whether no agent could be started on the present connection."""
        self._keeper: asyncio.Task[None] | None = None
        self._watches: dict[str, Callable[[list[bytes]], None]] = {}
        self._watching: set[str] = set()
        """Directories watched by the current agent."""
        self._counted = AgentCounts(commands={}, cpu_s=0.0, agents=0)
        """Counts of the current agent at the last request."""
        self._before = self._counted
        """Sum of the counts of all earlier agents."""

    @property
    def host_name(self) -> str:
        """The login host that is connected, or is tried first."""
        return self._transport.host if self._transport is not None else self._hosts[0]

    async def open(self, on_status: Callable[[str | None], None]) -> None:
        """Connect; the user may be prompted. ``on_status`` is called at each change, with the
        reason why the site is out of reach, or None when it is in reach.

        Raises InfeasibleError if waiting cannot help, as with an unknown host key. Raises
        TransientError if there is no connection yet; attempts to connect then go on until
        ``close``. If a connection is open already, it is kept, and reports to the new
        ``on_status``.
        """
        self._on_status = on_status
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
            self._report(error)
            self._keeper = asyncio.create_task(self._keep(failures=1))
            raise TransientError(error.message, hint=error.hint) from error
        self._keeper = asyncio.create_task(self._keep(failures=0))

    async def host(self) -> Host:
        """Wait for an agent on the head node. Raises TransientError after ``patience_s``, or at
        once if the user has to log in; its subclass NoAgentError if only the agent is missing."""
        await self._wait()
        assert self._host is not None
        return self._host

    async def transport(self) -> Transport:
        """Wait for the transport to the head node; raises the errors of ``host``."""
        await self._wait()
        assert self._transport is not None
        return self._transport

    @property
    def has_agent(self) -> bool:
        """Whether an agent runs now."""
        return self._reason is None

    async def plain_transport(self) -> Transport:
        """The transport, whether an agent runs or not. Waits like ``host`` while there is no
        connection."""
        if not self._is_connected():
            with contextlib.suppress(NoAgentError):
                await self._wait()
        assert self._transport is not None
        return self._transport

    async def watch(self, directory: str, on_records: Callable[[list[bytes]], None]) -> None:
        """Watch ``directory`` as ``Host.watch`` does, by this agent and every later one. Each agent
        reports all records. If TransientError is raised, the next agent begins the watch."""
        self._watches[directory] = on_records
        await self._wait()
        assert self._host is not None
        await self._begin_watch(self._host, directory)

    async def counts(self) -> AgentCounts:
        """Sum of the counts of all agents so far. If an agent died, its work after the last call is
        not counted."""
        if self._host is not None and self._reason is None:
            host = self._host
            counted = await host.counts()
            if host is self._host:
                self._counted = counted
        return _sum(self._before, self._counted)

    async def close(self) -> None:
        """End the agent and the connection. A master connection of the user's own ssh stays."""
        self._on_status = _ignore
        if self._keeper is not None:
            await end_tasks([self._keeper])
        self._go_down("it is closed")
        await self._drop()

    async def _wait(self) -> None:
        trying = self._keeper is not None and not self._keeper.done()
        if trying and self.needs_login is None:
            patience_s = self._patience_s
            if self._is_connected():  # Files can go without an agent that has failed for long.
                patience_s -= asyncio.get_running_loop().time() - self._down_s
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._up.wait(), max(0.0, patience_s))
        if self._reason is not None:
            where = ", ".join(self._hosts)
            if self._is_connected():
                raise NoAgentError(f"{where} has no agent: {self._reason}", hint=self.needs_login)
            raise TransientError(f"{where}: no connection: {self._reason}", hint=self.needs_login)

    def _is_connected(self) -> bool:
        return self._transport is not None and self._lost is not None and not self._lost.done()

    # -- keeping the connection

    async def _keep(self, failures: int) -> None:
        """Make the connection again whenever it is lost, until cancelled."""
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
                self._report(error)
            except Exception as error:  # a defect must not end the attempts to connect
                _LOGGER.exception("connecting to %s", ", ".join(self._hosts))
                await self._drop()
                self._report(TransientError(repr(error)))

    def _delay_s(self, failures: int) -> float:
        if failures and self.needs_login is not None:
            return self._login_delay_s
        delay_s = self._delays_s[min(failures, len(self._delays_s) - 1)]
        return delay_s * random.uniform(0.75, 1.25)

    async def _until_lost(self) -> None:
        """Wait for the end of the agent or the connection, report it, and release what ended."""
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
        """Start an agent on the present connection. If there is no connection, or no agent could be
        started on it before, make a new one: another login host may have what this one lacks."""
        if self._is_connected() and not self._agent_failed:
            self._agent_failed = True
            assert self._transport is not None
            await self._use(await self._started(self._transport))
            return
        if not self._is_connected():
            await self._drop()
        self._agent_failed = False
        await self._connect(may_ask)

    async def _connect(self, may_ask: bool) -> None:
        """Connect to one of the login hosts; raises the combined error of all."""
        now_s = asyncio.get_running_loop().time()
        eligible = [host for host in self._hosts if self._skipped_until_s.get(host, 0.0) <= now_s]
        errors = []
        for host in eligible or self._hosts:
            try:
                await self._connect_to(host, may_ask)
                self._skipped_until_s.pop(host, None)
                return
            except WfrunError as error:
                _LOGGER.info("%s", error)
                errors.append(error)
                self._skipped_until_s[host] = now_s + SKIP_S
        raise _worst(errors)

    async def _connect_to(self, host: str, may_ask: bool) -> None:
        transport = self._make(host, may_ask)
        await transport.connect()
        self.made += 1
        try:
            agent = await self._started(transport)
        except BaseException as error:
            # One connection without an agent is kept, for files. Copies may be under way over it.
            if isinstance(error, WfrunError) and not self._is_connected():
                await self._drop()
                self._adopt(transport)
                self._agent_failed = True
            else:
                await transport.close()
            raise
        await self._drop()
        self._adopt(transport)
        await self._use(agent)

    def _adopt(self, transport: Transport) -> None:
        self._transport = transport
        self._lost = asyncio.create_task(transport.lost())

    async def _started(self, transport: Transport) -> AgentHost:
        """Start an agent."""
        is_here = isinstance(transport, LocalTransport)
        # This machine has a Python even where its PATH has none: the one that runs wfrun.
        here = (sys.executable,) if is_here else ()
        variables = self._variables if is_here else None
        host = AgentHost(transport, pythons=(*here, *PYTHONS), variables=variables)
        await host.start()
        return host

    async def _use(self, host: AgentHost) -> None:
        """Let an agent that was started on the present connection answer requests."""
        self._host = host
        try:
            for directory in self._watches:
                await self._begin_watch(host, directory)
        except BaseException:
            self._agent_failed = True
            await self._drop_host()
            raise
        self._agent_failed = False
        self._reason = self.needs_login = None
        self._up.set()
        self._on_status(None)

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
        self._counted = AgentCounts(commands={}, cpu_s=0.0, agents=0)
        if host is not None:
            await host.close()

    async def _drop(self) -> None:
        """Release the agent and the connection."""
        await self._drop_host()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
        if self._lost is not None:
            self._lost.cancel()
            await asyncio.wait([self._lost])
            self._lost = None

    def _report(self, error: WfrunError) -> None:
        if isinstance(error, TransientError):
            self.needs_login = None
        else:  # a login is needed, a host key changed, or there is no Python: the user has to act
            self.needs_login = error.hint or error.message
        self._go_down(str(error))

    def _go_down(self, reason: str) -> None:
        if self._reason is None:
            self._down_s = asyncio.get_running_loop().time()
        self._up.clear()
        if reason != self._reason:
            _LOGGER.info("%s", reason)
            self._reason = reason
            self._on_status(reason)


def _ignore(reason: str | None) -> None:
    """Ignore the status: the callback before ``open`` and after ``close``."""


def _worst(errors: Sequence[WfrunError]) -> WfrunError:
    """Combine the errors of all login hosts into one: a NeedsLoginError if a host needs a login of
    the user, else a TransientError if any error is transient, else an InfeasibleError."""
    if len(errors) == 1:
        return errors[0]
    message = "; ".join(error.message for error in errors)
    for kind in (NeedsLoginError, TransientError, InfeasibleError):
        hints = [error.hint for error in errors if isinstance(error, kind) and error.hint]
        if any(isinstance(error, kind) for error in errors):
            return kind(message, hint=hints[0] if hints else None)
    return TransientError(message)


def _sum(first: AgentCounts, second: AgentCounts) -> AgentCounts:
    return AgentCounts(
        commands=dict(Counter(first.commands) + Counter(second.commands)),
        cpu_s=first.cpu_s + second.cpu_s,
        agents=first.agents + second.agents,
    )
