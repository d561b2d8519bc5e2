"""What the engine passes on between launchers: commands within one claim alone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wfrun.engine.exchange import claim_of
from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.sites.launchers.channels.launcher_connection import LauncherConnection
from wfrun.sites.launchers.channels.messages import RemoteCommand, RemoteEnd, decode
from wfrun.sites.launchers.command_relay import MAX_OPEN, NOT_STARTED, CommandRelay

ONE, OTHER, STRANGER = "r.0.0.C1.0", "r.0.0.C1.1", "r.0.1.C1.0"


class Sent:
    """A connection to the first node of a launcher that keeps what is sent."""

    def __init__(self, launcher: str) -> None:
        self.launcher, self.link = launcher, SimpleNamespace(node_number=0)
        self.messages: list[dict[str, Any]] = []
        self.warnings: list[str] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


class Nodes:
    """A site with connections."""

    environment: SiteEnvironment | None = None

    def __init__(self, *launchers: str) -> None:
        self.of = {launcher: Sent(launcher) for launcher in launchers}

    def connection_to(self, launcher: str, node: int) -> LauncherConnection | None:
        found = self.of.get(launcher) if node == 0 else None
        return cast("LauncherConnection | None", found)

    def named(self, launcher: str) -> LauncherConnection:
        return cast(LauncherConnection, self.of[launcher])


def command(launcher: str, number: int = 1, *, asker: str = ONE) -> RemoteCommand:
    return RemoteCommand(f"{asker}.0.{number}", launcher, 0, "r.0.0.1", "orted", (), {})


@pytest.fixture
def nodes() -> Nodes:
    return Nodes(ONE, OTHER, STRANGER, "r.l1")


def test_a_command_and_its_end_are_passed_on_within_a_claim(nodes: Nodes) -> None:
    relay = CommandRelay([nodes])
    relay.ask(nodes.named(ONE), command(OTHER))
    [started] = nodes.of[OTHER].messages
    assert started["start"]["command"] == "orted"
    relay.on_ended(nodes.named(OTHER), RemoteEnd(f"{ONE}.0.1", 3, "text"))
    [ended] = nodes.of[ONE].messages
    assert ended["remote_ended"] == {"id": f"{ONE}.0.1", "status": 3, "text": "text"}


@pytest.mark.parametrize(
    ("asker", "target", "maker"),
    [
        (STRANGER, ONE, STRANGER),  # of another claim
        (ONE, STRANGER, ONE),
        ("r.l1", ONE, "r.l1"),  # of none
        (OTHER, ONE, ONE),  # with an id of another launcher
    ],
)
def test_others_get_no_command_started(nodes: Nodes, asker: str, target: str, maker: str) -> None:
    assert claim_of(ONE) == claim_of(OTHER) != claim_of(STRANGER)
    relay = CommandRelay([nodes])
    relay.ask(nodes.named(asker), command(target, asker=maker))
    assert not any(each.messages for each in nodes.of.values())
    assert "which is not of its claim" in nodes.of[asker].warnings[0]


def test_only_its_node_tells_the_end_of_a_command_and_only_its_asker_ends_it(
    nodes: Nodes,
) -> None:
    relay = CommandRelay([nodes])
    relay.ask(nodes.named(ONE), command(OTHER))
    relay.on_ended(nodes.named(STRANGER), RemoteEnd(f"{ONE}.0.1", 0, ""))
    assert "which it does not have" in nodes.of[STRANGER].warnings[0]
    assert not nodes.of[ONE].messages
    relay.hang_up(nodes.named(STRANGER), f"{ONE}.0.1")
    assert len(nodes.of[OTHER].messages) == 1
    relay.hang_up(nodes.named(ONE), f"{ONE}.0.1")
    assert nodes.of[OTHER].messages[1:] == [{"end": f"{ONE}.0.1"}]


def test_a_run_has_a_bounded_number_of_commands(nodes: Nodes) -> None:
    relay = CommandRelay([nodes])
    for number in range(MAX_OPEN + 1):
        relay.ask(nodes.named(ONE), command(OTHER, number))
    assert len(nodes.of[OTHER].messages) == MAX_OPEN
    [refused] = nodes.of[ONE].messages
    assert refused["remote_ended"]["status"] == NOT_STARTED


@pytest.mark.parametrize(
    "change",
    [{"id": "../x"}, {"launcher": "a/b"}, {"attempt": "\n"}, {"node": -1},
     {"command": "x" * (1 << 18)}, {"env": {"A": 1}}, {"inputs": [{"stored": "x"}]}],
)  # fmt: skip
def test_messages_that_are_none_are_refused(change: dict[str, Any]) -> None:
    good = {"id": "a", "launcher": "b", "node": 0, "attempt": "c", "command": "d", "inputs": [],
            "env": {}}  # fmt: skip
    assert decode(json.dumps({"remote": good}).encode()).remote is not None
    with pytest.raises(ValueError, match="remote"):
        decode(json.dumps({"remote": good | change}).encode())
