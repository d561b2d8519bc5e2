"""A host that accepts a connection and then says nothing ends a new run before anything is
started."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, assert_refused
from tests.sites.remote.servers import Sshd, config_of, new_key, public
from wfrun.engine.errors import TransientError
from wfrun.engine.events import Event, SitePaused
from wfrun.engine.model import Access, SiteSpec
from wfrun.sites.local import direct_launcher
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.transports.asyncssh_login import Client, Target, unless_silent
from wfrun.sites.remote.transports.local_transport import LocalProcess, LocalTransport
from wfrun.sites.remote.transports.transport import Transport
from wfrun.sites.ssh.site import SshSite

IMPATIENT = """
import sys
from wfrun.runners.cli.main import main
from wfrun.sites.remote import agent_client
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
kind, sys.argv[1:] = sys.argv[1], sys.argv[2:]
agent_client.HELLO_S = 1.0
if kind == "mute":
    for transport in (AsyncsshTransport, OpensshTransport):
        transport.__init__.__kwdefaults__["limit_s"] = 1.0
sys.exit(main())
"""
"""The command with a connection timeout of a second, not of half a minute."""

CATALOG = """\
sites:
  here:
    slots: 1
  away:
    kind: ssh
    slots: 1
    host: {host}
    transport: {transport}
{more}
"""


def assert_fails(user: User, kind: str, message: str, **catalog: str) -> None:
    path = user.catalog(CATALOG.format(**{"more": "", **catalog}))
    begun, run = user.folder / "begun", user.folder / "run"
    document = user.write([Job("a", f"touch {begun}")])
    words = ["run", str(document), "--sites", str(path), "--run-dir", str(run)]
    done = user.launch([sys.executable, "-c", IMPATIENT, kind, *words]).done()
    assert_refused(done, 3, [f"{path}:4: site away: ", message, "--wait"])
    assert len(done.err.strip().splitlines()) <= 4, done.err  # two of progress, message, hint
    assert not begun.exists()
    assert not run.exists()


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        ("asyncssh", "127.0.0.1 cannot be reached: no answer in 1 s"),
        pytest.param("openssh", "127.0.0.1 cannot be reached: ", marks=pytest.mark.slow),
    ],
)
def test_a_host_without_a_banner(user: User, transport: str, message: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        port = mute.getsockname()[1]
        assert_fails(
            user, "mute", message, host="127.0.0.1", transport=transport, more=f"    port: {port}"
        )


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Path]:
    """The configuration of a host whose commands hang after the login."""
    key = new_key(tmp_path / "user_key")
    sshd = Sshd(tmp_path / "sshd", key, ["ForceCommand sleep 1000"])
    known = tmp_path / "known_hosts"
    known.write_text(f"[127.0.0.1]:{sshd.port} {public(sshd.host_key)}\n")
    config_of(tmp_path / "config", sshd.port, key, known, name="hanging")
    yield tmp_path / "config"
    sshd.stop()


@pytest.mark.slow
def test_a_host_whose_shell_hangs(user: User, hanging: Path) -> None:
    message = "the login works, but the agent did not start within 1 s (does `ssh hanging true`"
    more = f"    ssh_config: {hanging}"
    assert_fails(user, "hung", message, host="hanging", transport="asyncssh", more=more)


class _Dies(LocalTransport):
    """A connection that is lost while the launcher starts, which never answers."""

    async def start(self, command: str) -> LocalProcess:
        if "launch.sh" not in command:
            return await super().start(command)
        process = await LocalTransport().start("exec sleep 1000")
        await self.close()
        return process


async def test_a_connection_that_is_lost_while_the_launcher_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is the fault, which a run with ``--wait`` waits for, not the launcher."""
    made = 0

    def make(host: str, may_ask: bool) -> Transport:
        nonlocal made
        made += 1
        if made > 1:
            raise TransientError("the host is gone")
        return _Dies()

    monkeypatch.setattr(direct_launcher, "HELLO_S", 0.2)
    spec = SiteSpec("away", 1, kind="ssh", access=Access(("h",)), directory=str(tmp_path / "w"))
    site = SshSite(spec, 0, "run", Connection(("h",), make, patience_s=0.2))
    posted: list[Event] = []
    await site.open(posted.append)
    await site.close()
    assert [type(event) for event in posted] == [SitePaused]
    assert isinstance(posted[0], SitePaused)
    assert "no connection" in posted[0].reason


async def test_the_time_in_which_the_user_is_asked_does_not_count(tmp_path: Path) -> None:
    client = Client(Target("h", None, None, tmp_path / "config", tmp_path / "known"), None)

    async def log_in() -> str:
        client.is_asking = True
        await asyncio.sleep(0.6)
        return "logged in"

    assert await unless_silent(log_in(), client, 0.2) == "logged in"
    client.is_asking = False
    with pytest.raises(asyncio.TimeoutError):
        await unless_silent(asyncio.Event().wait(), client, 0.2)
