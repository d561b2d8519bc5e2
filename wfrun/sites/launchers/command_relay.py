"""Relays the commands that jobs start on other nodes of their claims, also at other sites. A claim
is the set of processors that are held for one job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from wfrun.engine.exchange import claim_of
from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.sites.launchers.channels.launcher_connection import LauncherConnection
from wfrun.sites.launchers.channels.messages import RemoteCommand, RemoteEnd

MAX_OPEN = 1024
"""Maximum number of open commands of all jobs of a run together. A job starts one command, the MPI
daemon, on each of its other nodes."""
NOT_STARTED = 255
"""Exit status of a command that could not be started: that of ssh(1) in this case."""

Node = tuple[str, int]
"""Key of a launcher, and number of one of its nodes."""


class ClaimedSite(Protocol):
    """A site at which placeholder launchers may hold processors for claims of the run."""

    @property
    def environment(self) -> SiteEnvironment | None:
        """The environment that the site sets up before it runs a command; None: none."""

    def connection_to(self, launcher: str, node: int) -> LauncherConnection | None:
        """The connection to a node of a launcher; None if the node is not connected now, or the
        launcher is not at this site."""


class _Relayed(NamedTuple):
    asker: Node
    command: RemoteCommand


class CommandRelay:
    """Passes a command from the asking node to the node that runs it, and reports its end to the
    asking node.

    The open commands need not be stored: launchers repeat their requests to a new engine, and start
    no command twice. A job can start commands only on nodes of its own claim.
    """

    def __init__(self, sites: Iterable[ClaimedSite]) -> None:
        self._sites = tuple(sites)
        self._open: dict[str, _Relayed] = {}
        """Commands whose end has not been reported yet, by id."""

    def ask(self, asker: LauncherConnection, command: RemoteCommand) -> None:
        """Start a command on its target node, now or as soon as the node connects again. Drops the
        command with a warning if the target is not of the asker's claim."""
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
        """End a command because the asking node does not wait for it any more."""
        found = self._open.get(id)
        if found is not None and found.asker == (asker.launcher, asker.link.node_number):
            target = self._connection(found.command.launcher, found.command.node)
            if target is not None:
                target.send({"end": id})

    def on_ended(self, target: LauncherConnection, end: RemoteEnd) -> None:
        """Report the end of a command to the node that asked for it, and drop the command."""
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
        """Called when a node has connected: send its open commands again, since its last connection
        may have lost them."""
        for found in self._open.values():
            node = found.command.launcher, found.command.node
            if node == (target.launcher, target.link.node_number):
                self._start(found.command)

    def forget(self, launcher: str) -> None:
        """Drop the commands that an ended launcher has asked for or has run."""
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
    """Whether a command's id begins with the asking node. A launcher must not use the ids of
    another launcher."""
    return id.startswith(f"{asker[0]}.{asker[1]}.")
