"""Logins, and the messages of those that fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.sites.remote.conftest import Cluster
from tests.sites.remote.servers import Misbehaving, Sshd, new_key, public
from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.sites.remote.transports.asyncssh_transport import AsyncsshTransport
from wfrun.sites.remote.transports.openssh_transport import OpensshTransport
from wfrun.sites.remote.transports.transport import NeedsLoginError, Process, Transport

Question = tuple[str, bool]


def make(kind: str, cluster: Cluster, host: str | None = None) -> Transport:
    if kind == "asyncssh":
        return AsyncsshTransport(host or cluster.host, config=cluster.config)
    return OpensshTransport(host or cluster.host, config=cluster.config, sockets=cluster.sockets)


async def works(transport: Transport) -> None:
    """Connect, run something, close."""
    await transport.connect()
    try:
        process = await transport.start("echo hello")
        assert await process.read(100) == b"hello\n"
        assert await process.wait() == 0
        await process.close()
    finally:
        await transport.close()


def fingerprint(key: Path) -> str:
    command = ["ssh-keygen", "-l", "-f", str(key.with_suffix(".pub"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=100)
    return done.stdout.split()[1]


both = pytest.mark.parametrize("kind", ["asyncssh", "openssh"])


@both
async def test_an_unknown_host_key_is_refused(kind: str, cluster: Cluster) -> None:
    cluster.known_hosts.unlink()
    with pytest.raises(InfeasibleError) as caught:
        await make(kind, cluster).connect()
    text = str(caught.value)
    assert "is not known" in text
    assert f"port {cluster.sshd.port}" in text
    assert fingerprint(cluster.sshd.host_key) in text
    command = text.splitlines()[-1].strip()
    if kind == "asyncssh":  # the command of the message adds the key
        subprocess.run(["/bin/sh", "-c", command], check=True, timeout=100)
        await works(make(kind, cluster))
    else:
        assert command == f"ssh -F {cluster.config} -o StrictHostKeyChecking=ask cluster"


@both
async def test_a_changed_host_key_is_distinguished(kind: str, cluster: Cluster) -> None:
    cluster.sshd.stop()
    cluster.sshd.host_key.unlink()
    new_key(cluster.sshd.host_key)
    cluster.sshd.start()
    with pytest.raises(InfeasibleError) as caught:
        await make(kind, cluster).connect()
    text = str(caught.value)
    assert "HAS CHANGED" in text
    assert fingerprint(cluster.sshd.host_key) in text
    remove = text.splitlines()[-1].strip()
    subprocess.run(shlex.split(remove), check=True, capture_output=True, timeout=100)
    with pytest.raises(InfeasibleError, match="is not known"):
        await make(kind, cluster).connect()


@both
async def test_a_key_of_another_kind_than_the_known_one_is_a_change(
    kind: str, cluster: Cluster, tmp_path: Path
) -> None:
    other = tmp_path / "rsa"
    command = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(other)]
    subprocess.run(command, check=True, timeout=100)
    cluster.known_hosts.write_text(f"[127.0.0.1]:{cluster.sshd.port} {public(other)}\n")
    with pytest.raises(InfeasibleError) as caught:
        await make(kind, cluster).connect()
    assert fingerprint(cluster.sshd.host_key) in str(caught.value)


@both
async def test_hashed_known_hosts_and_the_global_file(kind: str, cluster: Cluster) -> None:
    command = ["ssh-keygen", "-q", "-H", "-f", str(cluster.known_hosts)]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    assert "127.0.0.1" not in cluster.known_hosts.read_text()
    await works(make(kind, cluster))
    moved = cluster.known_hosts.rename(cluster.directory / "global")
    text = cluster.config.read_text().replace("/dev/null", str(moved))
    cluster.config.write_text(text)
    await works(make(kind, cluster))


@both
async def test_no_checking_in_the_configuration_is_not_obeyed(kind: str, cluster: Cluster) -> None:
    cluster.known_hosts.unlink()
    text = cluster.config.read_text().replace(str(cluster.known_hosts), "none")
    cluster.config.write_text(f"{text}  StrictHostKeyChecking no\n")
    with pytest.raises(InfeasibleError, match="is not known"):
        await make(kind, cluster).connect()


async def test_a_revoked_host_key_is_refused(cluster: Cluster) -> None:
    line = cluster.known_hosts.read_text()
    cluster.known_hosts.write_text(f"{line}@revoked {line}")
    with pytest.raises(InfeasibleError, match="revoked"):
        await make("asyncssh", cluster).connect()


@both
async def test_a_certificate_of_a_known_authority_is_trusted(
    kind: str, cluster: Cluster, tmp_path: Path
) -> None:
    authority = new_key(tmp_path / "authority")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test"]
    host_key = cluster.sshd.host_key.with_suffix(".pub")
    subprocess.run([*sign, "-h", "-n", "127.0.0.1", str(host_key)], check=True, timeout=100)
    certificate = cluster.sshd.host_key.with_name("host_key-cert.pub")
    with open(cluster.sshd.directory / "sshd_config", "a") as file:
        file.write(f"HostCertificate {certificate}\n")
    cluster.sshd.stop()
    cluster.sshd.start()
    await works(make(kind, cluster))  # the key itself is known, too
    name = f"[127.0.0.1]:{cluster.sshd.port}"
    cluster.known_hosts.write_text(f"@cert-authority {name} {public(authority)}\n")
    await works(make(kind, cluster))
    cluster.known_hosts.unlink()
    with pytest.raises(InfeasibleError, match=re.escape(fingerprint(cluster.sshd.host_key))):
        await make("asyncssh", cluster).connect()


@both
async def test_a_certificate_of_the_user(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    authority = new_key(tmp_path / "authority")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", "-n"]
    user = cluster.config.read_text().partition("User ")[2].split()[0]
    subprocess.run([*sign, user, str(cluster.key.with_suffix(".pub"))], check=True, timeout=100)
    cluster.sshd.authorized.write_text(f"cert-authority {public(authority)}\n")
    await works(make(kind, cluster))


@both
async def test_a_wrong_key_needs_a_login(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    host = cluster.add("wrong", cluster.sshd.port, key=new_key(tmp_path / "wrong"))
    with pytest.raises(NeedsLoginError) as caught:
        await make(kind, cluster, host).connect()
    assert "wrong" in str(caught.value)
    assert "ssh" in (caught.value.hint or "")


async def test_a_key_with_a_passphrase_is_named(cluster: Cluster, tmp_path: Path) -> None:
    key = new_key(tmp_path / "my key", passphrase="secret phrase")
    quoted = Path(f'"{key}"')
    host = cluster.add("locked", cluster.sshd.port, key=quoted)
    with pytest.raises(NeedsLoginError) as caught:
        await make("asyncssh", cluster, host).connect()
    assert str(key) in caught.value.message
    assert caught.value.hint == f"Add the key to your SSH agent: ssh-add '{key}'"


@contextlib.asynccontextmanager
async def agent_for(cluster: Cluster) -> AsyncIterator[None]:
    """An agent that alone holds the key."""
    socket = cluster.sockets / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            await asyncio.sleep(0.01)
        environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        command = ["ssh-add", "-q", str(cluster.key)]
        subprocess.run(command, check=True, env=environment, timeout=100)
        text = cluster.config.read_text().replace("IdentityAgent none", f"IdentityAgent {socket}")
        # OpenSSH ignores an absent file, and so does wfrun.
        text = text.replace(f"IdentityFile {cluster.key}", "IdentityFile /nonexistent")
        cluster.config.write_text(text.replace("IdentitiesOnly yes", "IdentitiesOnly no"))
        yield
    finally:
        agent.terminate()
        agent.wait(100)
        socket.unlink(missing_ok=True)


@both
async def test_an_agent_holds_the_key(kind: str, cluster: Cluster) -> None:
    async with agent_for(cluster):
        await works(make(kind, cluster))


@both
async def test_an_agent_is_forwarded_over_a_connection_of_its_own(
    kind: str, cluster: Cluster
) -> None:
    """And only to its command: the connection that carries everything else has none."""
    script = 'echo "$SSH_CONNECTION"; ssh-add -l; exit 0'

    async def said(process: Process) -> tuple[bytes, bool]:
        text = b""
        while data := await process.read(1000):
            text += data
        await process.close()
        connection, _, keys = text.partition(b"\n")
        return connection, b"SHA256" in keys

    async with agent_for(cluster):
        transport = make(kind, cluster)
        await transport.connect()
        try:
            shared, has_agent = await said(await transport.start(script))
            assert not has_agent
            own, has_agent = await said(await transport.start_with_agent(script))
            assert has_agent
            assert own != shared
            assert await said(await transport.start(script)) == (shared, False)
        finally:
            await transport.close()


@both
async def test_a_jump_host(kind: str, cluster: Cluster, tmp_path: Path) -> None:
    inner = Sshd(tmp_path / "inner", cluster.key)
    try:
        with open(cluster.known_hosts, "a") as file:
            file.write(f"[127.0.0.1]:{inner.port} {public(inner.host_key)}\n")
        host = cluster.add("inner", inner.port, more="  ProxyJump cluster")
        if kind == "asyncssh":
            # Written for all hosts, it does not apply to the jump host itself.
            with open(cluster.config, "a") as everywhere:
                everywhere.write("Host *\n  ProxyJump cluster\n")
        await works(make(kind, cluster, host))
        assert (cluster.sshd.logins(), inner.logins()) == (1, 1)
    finally:
        inner.stop()


async def test_jump_hosts_in_a_circle(cluster: Cluster) -> None:
    cluster.add("one", cluster.sshd.port, more="  ProxyJump two")
    cluster.add("two", cluster.sshd.port + 1, more="  ProxyJump one")
    with pytest.raises(InfeasibleError, match="circle"):
        await make("asyncssh", cluster, "one").connect()


async def test_the_fast_cipher_comes_first_and_the_users_before_it(cluster: Cluster) -> None:
    users = cluster.add("users", cluster.sshd.port, "  Ciphers aes256-ctr,aes128-gcm@openssh.com")
    for host, cipher in ((cluster.host, "aes128-gcm@openssh.com"), (users, "aes256-ctr")):
        transport = AsyncsshTransport(host, config=cluster.config)
        await transport.connect()
        try:
            assert transport._connection().get_extra_info("send_cipher") == cipher
        finally:
            await transport.close()
        master = OpensshTransport(host, config=cluster.config, sockets=cluster.sockets)
        await master.connect()
        try:
            assert master._master is not None
            assert f"client->server cipher: {cipher} " in master._master.errors()
        finally:
            await master.close()


@both
async def test_nobody_listens(kind: str, cluster: Cluster) -> None:
    cluster.sshd.stop()
    with pytest.raises(TransientError, match="cannot be reached"):
        await make(kind, cluster).connect()


@both
async def test_a_server_that_never_answers(
    kind: str, cluster: Cluster, misbehaving: Misbehaving
) -> None:
    misbehaving.answers = False
    host = cluster.add("mute", misbehaving.port)
    transport: Transport
    if kind == "asyncssh":
        transport = AsyncsshTransport(host, config=cluster.config, limit_s=0.5)
    else:
        transport = OpensshTransport(
            host, config=cluster.config, sockets=cluster.sockets, limit_s=0.5
        )
    with pytest.raises(TransientError):
        await asyncio.wait_for(transport.connect(), 10)


async def test_a_configuration_that_is_not_understood(cluster: Cluster) -> None:
    cluster.config.write_text("Host *\n  Port many\n")
    with pytest.raises(InfeasibleError, match="line 2"):
        await make("asyncssh", cluster).connect()
    with pytest.raises(InfeasibleError, match="line 2"):
        await make("openssh", cluster).connect()


class Answers:
    """A user at a terminal."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, about: str, questions: Sequence[Question]) -> Sequence[str] | None:
        self.asked += [f"{about}: {text}" for text, shown in questions if not shown]
        return [self._answers.pop(0) for _ in questions]


def misbehaving_host(cluster: Cluster, server: Misbehaving) -> str:
    cluster.known_hosts.write_text(server.known_hosts_line())
    return cluster.add("asks", server.port)


async def test_a_password_is_asked_for_once(
    cluster: Cluster,
    misbehaving: Misbehaving,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("asyncssh").setLevel(logging.DEBUG)
    misbehaving.password = "open sesame"
    host = misbehaving_host(cluster, misbehaving)
    right = Answers("open sesame")
    await works(AsyncsshTransport(host, config=cluster.config, prompter=right))
    assert [question.endswith("Password: ") for question in right.asked] == [True]
    assert "open sesame" not in caplog.text
    wrong = Answers("shazam", "abracadabra")
    with pytest.raises(NeedsLoginError, match="password"):
        await AsyncsshTransport(host, config=cluster.config, prompter=wrong).connect()
    assert len(wrong.asked) == 1
    with pytest.raises(NeedsLoginError, match="password"):
        await AsyncsshTransport(host, config=cluster.config).connect()
    assert misbehaving.questions == 2


async def test_a_host_that_takes_no_sessions(cluster: Cluster, misbehaving: Misbehaving) -> None:
    misbehaving.accepts_sessions = False
    host = misbehaving_host(cluster, misbehaving)
    transport = AsyncsshTransport(host, config=cluster.config)
    await transport.connect()
    with pytest.raises(TransientError, match="cannot start a command now"):
        await transport.start("true")
    await transport.close()


async def test_a_host_that_hangs_up_in_the_middle_of_an_answer(
    cluster: Cluster, misbehaving: Misbehaving
) -> None:
    misbehaving.bytes_until_drop = 100_000
    host = misbehaving_host(cluster, misbehaving)
    transport = AsyncsshTransport(host, config=cluster.config)
    await transport.connect()
    process = await transport.start("exec cat /dev/zero")
    size = 0
    while data := await asyncio.wait_for(process.read(1 << 16), 10):
        size += len(data)
    assert size < 1_000_000
    assert await process.wait() is None
    await process.close()
    await asyncio.wait_for(transport.lost(), 10)
    with pytest.raises(TransientError, match="lost"):
        await transport.start("true")
    await transport.close()


async def test_two_steps_are_each_asked_for_once(
    cluster: Cluster, misbehaving: Misbehaving
) -> None:
    misbehaving.password, misbehaving.code = "open sesame", "123456"
    host = misbehaving_host(cluster, misbehaving)
    right = Answers("open sesame", "123456")
    await works(AsyncsshTransport(host, config=cluster.config, prompter=right))
    assert len(right.asked) == 2
    assert "as every morning" in right.asked[0]
    assert right.asked[1].endswith("One-time code: ")
    wrong = Answers("open sesame", "000000", "never", "asked")
    with pytest.raises(NeedsLoginError):
        await AsyncsshTransport(host, config=cluster.config, prompter=wrong).connect()
    assert len(wrong.asked) == 2
    with pytest.raises(NeedsLoginError, match="code"):
        await AsyncsshTransport(host, config=cluster.config).connect()


async def test_a_login_of_the_user_is_shared_and_outlives_us(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The command of the hint makes a master connection, which is used and not ended."""
    good = cluster.key.rename(cluster.key.with_name("later"))
    with pytest.raises(NeedsLoginError) as caught:
        await make("openssh", cluster).connect()
    assert caught.value.hint is not None
    command = shlex.split(caught.value.hint.splitlines()[-1])
    assert command[-1] == "cluster"
    good.rename(cluster.key)
    command[command.index("-fNM")] = "-NM"  # so that we know its process
    master = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        socket = Path(command[command.index("-S") + 1])
        while not socket.exists():
            await asyncio.sleep(0.02)
        cluster.key.rename(good)  # so that no new login is possible
        await works(make("openssh", cluster))
        transport = make("openssh", cluster)
        await transport.connect()
        assert cluster.sshd.logins() == 1
        assert master.poll() is None
        master.kill()
        master.wait(100)
        with pytest.raises(TransientError):  # ssh does not fall back to a connection per command
            async for _ in transport.read_file("/etc/passwd"):
                pass
        await asyncio.wait_for(transport.lost(), 10)
        await transport.close()
        assert cluster.sshd.logins() == 1
    finally:
        if master.poll() is None:
            master.kill()
            master.wait(100)


@both
async def test_no_connection_outlives_us(kind: str, cluster: Cluster) -> None:
    kinds = {
        "asyncssh": "asyncssh_transport import AsyncsshTransport as Made",
        "openssh": "openssh_transport import OpensshTransport as Made",
    }
    program = f"""
import asyncio, pathlib
from wfrun.sites.remote.transports.{kinds[kind]}
async def main():
    transport = Made("cluster", config=pathlib.Path({str(cluster.config)!r}))
    await transport.connect()
    await transport.start("exec cat")
    print("connected", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"connected\n"
        assert cluster.sshd.connections() == 1
        child.kill()
        child.wait(100)
    while cluster.sshd.connections():
        await asyncio.sleep(0.02)


async def test_sockets_in_a_directory_of_others_are_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    transport = OpensshTransport("cluster", config=cluster.config, sockets=tmp_path)
    with pytest.raises(InfeasibleError, match="nobody else"):
        await transport.connect()
