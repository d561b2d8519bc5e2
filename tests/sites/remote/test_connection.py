"""The connection of a site survives failures of the network, the host and the agent."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Line, Misbehaving, descendants, new_key, public
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.model import Access
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport
from wfrun.sites.remote.transports.local_transport import LocalTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import Transport

QUICK_S = (0.05, 0.1, 0.2)


class StatusLog:
    """The statuses that a connection reported."""

    def __init__(self) -> None:
        self.reasons: list[str | None] = []
        self._changed = asyncio.Event()

    def __call__(self, reason: str | None) -> None:
        self.reasons.append(reason)
        self._changed.set()

    async def until(self, condition: Callable[[list[str | None]], bool]) -> None:
        async def wait() -> None:
            while not condition(self.reasons):
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), 20)

    async def ups(self, count: int) -> None:
        await self.until(lambda reasons: reasons.count(None) >= count)


class Made:
    """Makes connections, and closes them after the test."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.transports: list[Transport] = []
        self.asked: list[bool] = []
        self._connections: list[Connection] = []

    def __call__(
        self, kind: str, *hosts: str, patience_s: float = 10.0, login_delay_s: float = 0.1
    ) -> Connection:
        def make(host: str, may_ask: bool) -> Transport:
            self.asked.append(may_ask)
            transport: Transport
            if kind == "asyncssh":
                transport = AsyncsshTransport(
                    host, config=self.cluster.config, keep_alive_s=0.3, limit_s=10
                )
            elif kind == "openssh":
                transport = OpensshTransport(
                    host, config=self.cluster.config, sockets=self.cluster.sockets, keep_alive_s=1
                )
            else:
                transport = LocalTransport()
            self.transports.append(transport)
            return transport

        connection = Connection(
            hosts or (self.cluster.host,),
            make,
            delays_s=QUICK_S,
            login_delay_s=login_delay_s,
            patience_s=patience_s,
        )
        self._connections.append(connection)
        return connection

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


@pytest.fixture
async def made(cluster: Cluster) -> AsyncIterator[Made]:
    maker = Made(cluster)
    yield maker
    await maker.close()


@pytest.fixture
async def line(cluster: Cluster) -> AsyncIterator[Line]:
    """A line to the cluster, which the configuration names ``line``."""
    made = Line(cluster.sshd.port)
    await made.open()
    with open(cluster.known_hosts, "a") as file:
        file.write(f"[127.0.0.1]:{made.port} {public(cluster.sshd.host_key)}\n")
    cluster.add("line", made.port)
    yield made
    await made.close()


async def answers(connection: Connection) -> None:
    host = await connection.host()
    result = await host.run(["echo", "hello"])
    assert (result.exit_code, result.output) == (0, b"hello\n")


both = pytest.mark.parametrize("kind", ["asyncssh", "openssh"])


@pytest.mark.parametrize("kind", ["asyncssh", "openssh", "local"])
async def test_it_opens_answers_and_leaves_nothing_behind(
    kind: str, made: Made, cluster: Cluster
) -> None:
    def ours() -> set[int]:
        return set(descendants(os.getpid())) - set(cluster.sshd.processes())

    before = ours()
    status = StatusLog()
    connection = made(kind)
    await connection.open(status)
    await answers(connection)
    assert status.reasons == [None]
    assert connection.made == 1
    assert (await connection.counts()).agents == 1
    await connection.close()
    while cluster.sshd.connections():
        await asyncio.sleep(0.02)
    assert ours() <= before
    with pytest.raises(TransientError, match="closed"):
        await connection.host()
    assert status.reasons == [None]


@both
async def test_sshd_is_killed_and_comes_back(kind: str, made: Made, cluster: Cluster) -> None:
    status = StatusLog()
    connection = made(kind)
    await connection.open(status)
    cluster.sshd.stop()
    await status.until(lambda reasons: reasons[-1] is not None)
    cluster.sshd.start()
    await status.ups(2)
    await answers(connection)
    assert connection.made == 2
    assert cluster.sshd.connections() == 1
    assert made.asked[0] is True
    assert not any(made.asked[1:])


@both
async def test_the_line_is_cut(kind: str, made: Made, line: Line, cluster: Cluster) -> None:
    status = StatusLog()
    connection = made(kind, "line")
    await connection.open(status)
    host = await connection.host()
    question = asyncio.create_task(host.run(["sleep", "100"], timeout_s=200))
    await host.run(["true"])
    line.cut()
    with pytest.raises(TransientError):
        await question
    await status.ups(2)
    await answers(connection)
    assert connection.made == 2
    while cluster.sshd.connections() > 1:  # until the server has noticed, too
        await asyncio.sleep(0.02)


async def test_a_line_that_falls_silent(made: Made, line: Line) -> None:
    status = StatusLog()
    connection = made("asyncssh", "line")
    await connection.open(status)
    line.go_silent()
    await status.until(lambda reasons: reasons[-1] is not None)
    line.cut()
    await status.ups(2)
    await answers(connection)


@both
async def test_only_the_agent_dies(kind: str, made: Made, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "exits").mkdir()
    records: list[bytes] = []
    came = asyncio.Event()

    def take(group: list[bytes]) -> None:
        records.extend(group)
        came.set()

    status = StatusLog()
    connection = made(kind)
    await connection.open(status)
    await connection.watch(str(tmp_path / "exits"), take)
    host = await connection.host()
    parent = await host.run(["sh", "-c", "echo $PPID"])
    os.kill(int(parent.output), signal.SIGKILL)
    await status.ups(2)
    assert status.reasons[1] is not None
    assert "agent" in status.reasons[1]
    (tmp_path / "exits" / "new.json").write_text('{"key": "new"}')
    await asyncio.wait_for(came.wait(), 10)
    assert records == [b'{"key": "new"}']
    assert connection.made == 1
    assert cluster.sshd.logins() == 1
    assert (await connection.counts()).agents == 1  # counts of the first were never requested


async def test_of_two_login_hosts_one_is_dead(made: Made, cluster: Cluster) -> None:
    cluster.add("dead", 1)
    status = StatusLog()
    connection = made("asyncssh", "dead", cluster.host)
    await connection.open(status)
    assert connection.host_name == cluster.host
    await answers(connection)
    cluster.sshd.stop()
    cluster.sshd.start()
    await status.ups(2)
    # The dead host is skipped for a while.
    assert [transport.host for transport in made.transports].count("dead") == 1
    assert connection.made == 2


async def test_all_login_hosts_are_dead_until_one_is_not(made: Made, cluster: Cluster) -> None:
    cluster.add("dead", 1)
    cluster.sshd.stop()
    status = StatusLog()
    connection = made("asyncssh", "dead", cluster.host, patience_s=0.1)
    with pytest.raises(TransientError, match=r"dead cannot be .*cluster cannot be"):
        await connection.open(status)
    with pytest.raises(TransientError, match="cannot be reached"):
        await connection.host()
    cluster.sshd.start()
    await status.ups(1)
    await answers(connection)
    assert connection.made == 1


async def test_an_unknown_host_key_ends_it(made: Made, cluster: Cluster) -> None:
    cluster.known_hosts.unlink()
    status = StatusLog()
    connection = made("asyncssh")
    with pytest.raises(InfeasibleError, match="is not known"):
        await connection.open(status)
    assert connection.made == 0


async def test_a_host_key_that_changes_later_waits_for_the_user(
    made: Made, cluster: Cluster
) -> None:
    status = StatusLog()
    connection = made("asyncssh")
    await connection.open(status)
    cluster.sshd.stop()
    cluster.sshd.host_key.rename(cluster.directory / "old")
    new_key(cluster.sshd.host_key)
    cluster.sshd.start()
    await status.until(lambda reasons: "HAS CHANGED" in (reasons[-1] or ""))
    assert "ssh-keygen -R" in (connection.needs_login or "")
    cluster.known_hosts.write_text(f"[127.0.0.1]:{cluster.sshd.port} "
                                   f"{public(cluster.sshd.host_key)}\n")  # fmt: skip
    await status.ups(2)
    await answers(connection)


@both
async def test_a_login_that_is_no_longer_taken(kind: str, made: Made, cluster: Cluster) -> None:
    status = StatusLog()
    connection = made(kind)
    await connection.open(status)
    authorized = cluster.sshd.authorized.read_text()
    cluster.sshd.authorized.write_text("")
    cluster.sshd.stop()
    cluster.sshd.start()
    await status.until(lambda reasons: connection.needs_login is not None)
    assert "ssh" in (connection.needs_login or "")
    with pytest.raises(TransientError, match="no connection"):  # without waiting
        await asyncio.wait_for(connection.host(), 1)
    cluster.sshd.authorized.write_text(authorized)  # as the user would
    await status.ups(2)
    assert connection.needs_login is None
    await answers(connection)


async def test_a_password_is_asked_for_by_the_first_connection_only(
    cluster: Cluster, misbehaving: Misbehaving
) -> None:
    misbehaving.password = "open sesame"
    cluster.known_hosts.write_text(misbehaving.known_hosts_line())
    asked: list[str] = []

    async def prompter(about: str, questions: object) -> list[str]:
        asked.append(about)
        return ["shazam"]

    access = Access(hosts=(cluster.add("asks", misbehaving.port),), ssh_config=str(cluster.config))
    connection = connection_of(access, prompter)
    connection._login_delay_s = 0.1
    status = StatusLog()
    with pytest.raises(TransientError, match="password"):
        await connection.open(status)
    assert connection.needs_login is not None
    while misbehaving.connections < 4:  # attempts go on, and the user is not prompted
        await asyncio.sleep(0.02)
    assert len(asked) == 1
    await connection.close()


async def test_the_agent_of_this_machine_runs_on_our_python(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wfrun.sites.remote.connection.PYTHONS", ("wfrun-no-python",))
    connection = made("local")
    await connection.open(StatusLog())
    facts = await (await connection.host()).facts()
    assert facts.python == platform.python_version()


async def test_a_login_host_without_python_is_an_error_that_says_what_to_do(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wfrun.sites.remote.connection.PYTHONS", ("wfrun-no-python",))
    connection = made("asyncssh")
    with pytest.raises(InfeasibleError, match=r"cluster has no Python 3\.6 or later") as failed:
        await connection.open(StatusLog())
    assert "~/.profile" in str(failed.value.hint)


@pytest.mark.slow
async def test_a_catalog_entry_makes_the_connection(cluster: Cluster) -> None:
    known = cluster.known_hosts.rename(cluster.directory / "elsewhere")
    for transport in ("asyncssh", "openssh"):
        connection = connection_of(
            Access(
                hosts=("127.0.0.1",),
                port=cluster.sshd.port,
                transport="asyncssh" if transport == "asyncssh" else "openssh",
                ssh_config=str(cluster.directory / "by_address"),
                known_hosts=str(known),
            )
        )
        text = cluster.config.read_text().replace("Host cluster", "Host *").replace("  Port", "#")
        (cluster.directory / "by_address").write_text(text)
        await connection.open(StatusLog())
        await answers(connection)
        await connection.close()
    local = connection_of(Access(transport="local"))
    await local.open(StatusLog())
    await answers(local)
    await local.close()


async def test_commands_here_get_the_environment_of_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs inherit it: not what the terminal happens to have, but what finds the batch system."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".profile").write_text("export OF_PROFILE=1\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/the/terminal")
    monkeypatch.setenv("SLURM_CONF", "/etc/of/the/site")
    monkeypatch.setenv("PBS_SERVER", "of.another.site")
    monkeypatch.setenv("LC_TIME", "C.UTF-8")
    connection = connection_of(Access(transport="local"), variables=("SLURM_CONF",))
    await connection.open(lambda reason: None)
    try:
        printed = (await (await connection.host()).run(["env"])).output.decode()
    finally:
        await connection.close()
    found = dict(line.partition("=")[::2] for line in printed.splitlines())
    assert "LD_LIBRARY_PATH" not in found
    assert "VIRTUAL_ENV" not in found
    assert "PBS_SERVER" not in found
    expected = {"SLURM_CONF": "/etc/of/the/site", "LC_TIME": "C.UTF-8", "OF_PROFILE": "1"}
    assert expected.items() <= found.items()
    assert found["PATH"]
