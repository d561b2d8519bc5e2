"""Brings hosts with links between them up and down."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.network.host import PORTS, UID, USER, Host, make_etc, make_key, public
from tests.testbed import gridftp, processes
from tests.testbed.layout import MissingError, TestbedError
from tests.waiting import is_running

SUBMIT = "submit"
"""The name of this machine, seen from the hosts: the one that runs the tests."""

NEEDED = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "pkill": "procps",
    "setpriv": "util-linux",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "unshare": "util-linux",
}
"""Program → Debian package."""

NETWORKS = 256
"""Number of networks, 198.18.N.0/24 each: addresses for tests of networks (RFC 2544)."""

SSH_CONFIG = """\
Host {name} {address}
    HostName {address}
    User {user}
    IdentityFile {directory}/id_ed25519
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known_hosts
    StrictHostKeyChecking yes
"""

EMPTY = f"""\
pkill -KILL -u {USER}
find /tmp /home/{USER} -mindepth 1 -delete
"""
"""Run by root at a host: what no test may leave."""


def check_machine() -> None:
    """Raises MissingError that names what is missing."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: hosts are namespaces of the kernel")
    if not Path("/dev/net/tun").exists():
        missing.append("TUN devices (/dev/net/tun)")
    packages = {
        package
        for program, package in NEEDED.items()
        if shutil.which(program, path=processes.PATH) is None
    }
    if packages:
        missing.append(f"Debian packages: apt-get install {' '.join(sorted(packages))}")
    if missing:
        raise MissingError("the test network needs " + "; and ".join(missing))


def claim() -> tuple[socket.socket, int]:
    """A network that is free on this machine, until the socket is closed by all who have it."""
    for number in range(NETWORKS):
        claimed = socket.socket(socket.AF_UNIX)
        try:
            claimed.bind(f"\0wfrun-network-{number}")
        except OSError:
            claimed.close()
        else:
            return claimed, number
    raise TestbedError(f"all {NETWORKS} networks of this machine are in use")


class Network:
    """Hosts and the links between all of them and this machine (``submit``), at full speed until
    ``shape`` or ``cut``. ``close`` ends all of it; so does the end of this process, however it
    ends, except for the files in ``directory``."""

    def __init__(self, names: Sequence[str], directory: Path) -> None:
        """Raises MissingError where this machine cannot have such hosts."""
        check_machine()
        self.directory = directory
        claimed, self.number = claim()
        with claimed:
            self.hosts = {
                name: Host(name, f"198.18.{self.number}.{last}", directory / name)
                for last, name in enumerate(names, 2)
            }
            self.has_gridftp = self._prepare(f"198.18.{self.number}.1")
            self._router = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("router.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PATH": processes.PATH, "LC_ALL": "C.UTF-8"},
                # Held for as long as it has the interface of that number.
                pass_fds=[claimed.fileno()],
            )
        self._lock = threading.Lock()
        self.pids: dict[str, int] = {}
        """The first process of each host."""
        try:
            starts = {
                name: ["sh", str(host.directory / "start")] for name, host in self.hosts.items()
            }
            answer = self._ask({"number": self.number, "hosts": starts})
            if "error" in answer:
                raise MissingError(f"this machine can have no test network: {answer['error']}")
            self.pids = answer["pids"]
            processes.wait_until(
                lambda: all(map(self._answers, self.hosts.values())), "the start of all servers"
            )
        except BaseException:
            self.close()
            raise

    def _prepare(self, submit: str) -> bool:
        """Write all files; returns whether there are GridFTP servers."""
        try:
            gridftp.check_machine()
        except MissingError:
            with_gridftp = False
        else:
            with_gridftp = True
        self.gridftp.mkdir(parents=True)
        addresses = [(host.address, name) for name, host in self.hosts.items()]
        addresses += [("127.0.0.1", "localhost"), (submit, SUBMIT)]
        names = "".join(f"{address} {name}\n" for address, name in addresses)
        make_etc(self.directory / "etc", names)
        make_key(self._key)
        for host in self.hosts.values():
            host.prepare(self.directory, with_gridftp)
            host.prepare_user(public(self._key), with_gridftp)
        known = "".join(host.known_hosts_line() for host in self.hosts.values())
        (self.directory / "known_hosts").write_text(known)
        self.ssh_config.write_text(
            "".join(
                SSH_CONFIG.format(
                    name=name, address=host.address, user=USER, directory=self.directory
                )
                for name, host in self.hosts.items()
            )
        )
        if with_gridftp:
            names = ",".join(f"IP:{host.address}" for host in self.hosts.values())
            gridftp.make_certificates(self.gridftp, names)
            gridftp.make_client(self.gridftp, self.ssh_config)
        return with_gridftp

    @property
    def _names(self) -> list[str]:
        return [SUBMIT, *self.hosts]

    @property
    def _key(self) -> Path:
        return self.directory / "id_ed25519"

    @property
    def gridftp(self) -> Path:
        """The directory of certificates and the client of GridFTP."""
        return self.directory / "gridftp"

    @property
    def ssh_config(self) -> Path:
        """Knows each host by name and address."""
        return self.directory / "ssh_config"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a client of GridFTP on this machine."""
        return gridftp.environment(self.gridftp)

    def shape(
        self, one: str, other: str, *, rate: float | None = None, latency_s: float = 0.0
    ) -> None:
        """Give the link between two hosts, in each direction, a rate in bytes per second (None: as
        fast as it can be) and a latency. Connections go on."""
        if rate is not None and rate <= 0:
            raise ValueError("a link without rate is one that is cut")
        self._change(one, other, {"rate": rate, "latency_s": latency_s, "up": True})

    def cut(self, one: str, other: str) -> None:
        """Let all packets between two hosts vanish, until ``shape``."""
        self._change(one, other, {"rate": None, "latency_s": 0.0, "up": False})

    def carried(self, source: str, target: str) -> int:
        """Number of bytes, headers included, that went from one host to another so far."""
        return int(self._ask(self._link(source, target))["carried"])

    def _change(self, one: str, other: str, change: dict[str, Any]) -> None:
        for source, target in ((one, other), (other, one)):
            self._ask({**self._link(source, target), **change})

    def _link(self, source: str, target: str) -> dict[str, Any]:
        if source == target or not {source, target} <= {*self._names}:
            names = ", ".join(self._names)
            raise ValueError(f"there is no link from {source!r} to {target!r}; hosts: {names}")
        return {"source": source, "target": target}

    def enter(self, name: str, *argv: str) -> list[str]:
        """A command line that runs a command as root at a host."""
        return ["nsenter", "--all", "--target", str(self.pids[name]), "--", *argv]

    def trust(self, source: str, target: str) -> None:
        """Give the user at one host a key with which another one lets them in."""
        keys = self.hosts[source].home / ".ssh"
        key = keys / "id_ed25519"
        if not key.exists():
            keys.mkdir(mode=0o700)
            make_key(key)
        with (keys / "known_hosts").open("a") as file:
            file.write(self.hosts[target].known_hosts_line())
        with (self.hosts[target].directory / "authorized_keys").open("a") as file:
            file.write(public(key))
        for path in (keys, *keys.iterdir()):
            shutil.chown(path, UID, UID)

    def _answers(self, host: Host) -> bool:
        """Whether all servers of a host take connections."""
        if not is_running(self.pids[host.name]):
            raise TestbedError(f"{host.name} has ended; its log: {host.log()}")
        ports = PORTS.values() if self.has_gridftp else [PORTS["sshftp"]]
        return all(connects(host.address, port) for port in ports)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._router.stdin, self._router.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            line = stdout.readline()
        if not line:
            raise TestbedError("the network's router has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def reset(self) -> None:
        """Undo what a test did: links are at full speed, homes and /tmp empty, keys those of the
        beginning, no process of a user runs. Raises TestbedError where servers do not answer."""
        for one in self._names:
            for other in self._names:
                if one < other:
                    self.shape(one, other)
        for name, host in self.hosts.items():
            processes.run(self.enter(name, "sh", "-c", EMPTY))
            host.prepare_user(public(self._key), self.has_gridftp)
            if not self._answers(host):
                raise TestbedError(f"a server at {name} has ended; its log: {host.log()}")

    def close(self) -> None:
        """End all hosts with all their processes; returns when they have ended."""
        for pipe in (self._router.stdin, self._router.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._router.wait(10)
        except subprocess.TimeoutExpired:
            self._router.kill()
            self._router.wait()
        pids = self.pids.values()
        processes.wait_until(lambda: not any(map(is_running, pids)), "the end of all hosts")


def connects(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex((address, port)) == 0
