"""Commands that jobs start on other nodes of their claims, which may be those of other sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from wfrun.engine.exchange import claim_of
from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.sites.launchers.channels.launcher_connection import LauncherConnection
from wfrun.sites.launchers.channels.messages import RemoteCommand, RemoteEnd

MAX_OPEN = 1024
"""Maximum number of commands that all jobs of a run have on other nodes. A job asks for one daemon
on each node."""
NOT_STARTED = 255
"""Status of a command that was not started, as of ssh(1)."""

Node = tuple[str, int]
"""Key of a launcher, and number of the node in it."""


class ClaimedSite(Protocol):
    """A site with placeholders of claims."""

    @property
    def environment(self) -> SiteEnvironment | None:
        """What the site sets up for the command."""

    def connection_to(self, launcher: str, node: int) -> LauncherConnection | None:
        """The connection to a node of a launcher; None: there is none now, or not here."""


class _Relayed(NamedTuple):
    asker: Node
    command: RemoteCommand


class CommandRelay:
    """Passes commands on to the nodes that run them, and reports their ends to the nodes that asked
    for them.

    Its state need not outlive the engine: launchers repeat their requests to a new engine, and
    start no command twice. A job reaches only the nodes of its own claim.
    """

    def __init__(self, sites: Iterable[ClaimedSite]) -> None:
        self._sites = tuple(sites)
        self._open: dict[str, _Relayed] = {}
        """Commands whose end has not been passed on, by id."""

    def ask(self, asker: LauncherConnection, command: RemoteCommand) -> None:
        """Start a command at the node that it names; now, or when that has connected again."""
        node = asker.launcher, asker.link.node_number
        claim = claim_of(asker.launcher)
        if not claim or claim != claim_of(command.launcher) or not _is_of(command.id, node):
            asker.warn(f"it asks for a command at {command.launcher}, which is not of its claim")
            return
        if command.id not in self._open and len(self._open) >= MAX_OPEN:
            end = RemoteEnd(command.id, NOT_STARTED, f"wfrun: {MAX_OPEN} commands are open\n")
            asker.send({"remote_ended": msgspec.to_builtins(end)})
            return
        self._open[command.id] = _Relayed(node, command)
        self._start(command)

    def hang_up(self, asker: LauncherConnection, id: str) -> None:
        """End a command whose asker does not wait for it any more."""
        found = self._open.get(id)
        if found is not None and found.asker == (asker.launcher, asker.link.node_number):
            target = self._connection(found.command.launcher, found.command.node)
            if target is not None:
                target.send({"end": id})

    def on_ended(self, target: LauncherConnection, end: RemoteEnd) -> None:
        """Tell who has asked for a command that it has ended."""
        found = self._open.get(end.id)
        if found is None:
            return
        if (target.launcher, target.link.node_number) != (found.command.launcher,
                                                          found.command.node):  # fmt: skip
            target.warn(f"it reports the end of the command {end.id}, which it does not have")
            return
        asker = self._connection(*found.asker)
        if asker is not None:  # Else it asks again when it connects.
            asker.send({"remote_ended": msgspec.to_builtins(end)})
        del self._open[end.id]

    def on_connected(self, target: LauncherConnection) -> None:
        """Repeat what the last connection to a node may have lost."""
        for found in self._open.values():
            node = found.command.launcher, found.command.node
            if node == (target.launcher, target.link.node_number):
                self._start(found.command)

    def forget(self, launcher: str) -> None:
        """Drop the commands of a launcher that has ended."""
        for id, found in list(self._open.items()):
            if launcher in (found.asker[0], found.command.launcher):
                del self._open[id]

    def _start(self, command: RemoteCommand) -> None:
        for site in self._sites:
            target = site.connection_to(command.launcher, command.node)
            if target is not None:
                environment = msgspec.to_builtins(site.environment)
                message = msgspec.to_builtins(command) | {"environment": environment}
                target.send({"start": message})

    def _connection(self, launcher: str, node: int) -> LauncherConnection | None:
        for site in self._sites:
            if (found := site.connection_to(launcher, node)) is not None:
                return found
        return None


def _is_of(id: str, asker: Node) -> bool:
    """Whether an id is of a launcher's own form, so that no launcher takes an id of another one."""
    return id.startswith(f"{asker[0]}.{asker[1]}.")
