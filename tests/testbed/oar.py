"""An OAR server with three nodes, all this machine. Tried with 2.5.9 of Debian 12.

OAR reads ``/etc/oar`` and ``~oar`` alone, so it runs in namespaces of its own (``oar.sh``), where
these and the machine's accounts are copies. All of it ends with the first process of the
namespaces. There is no cpuset for a job, so ``oarsh``, which enters that of its job, does not work.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.testbed import processes

SCRIPT = Path(__file__).parent / "oar.sh"
USER = "oaruser"
UID = 61_234
NEEDED = {
    "oar-server": "oar-server oar-server-pgsql",
    "oarsub": "oar-user oar-user-pgsql oar-node",
    "psql": "postgresql",
    "sshd": "openssh-server",
    "unshare": "util-linux",
}
"""Program → Debian packages."""
START_S = 100.0
"""Timeout of a start: about 15 s on a machine with nothing else to do."""
CLIENT = """\
Host oar
    HostName 127.0.0.1
    Port {port}
    User {user}
    IdentityFile {directory}/id
    IdentitiesOnly yes
    UserKnownHostsFile {directory}/known_hosts
    StrictHostKeyChecking yes
"""


def missing() -> str:
    """What this machine lacks for it; empty: nothing."""
    if os.geteuid() != 0:
        return "OAR needs root: it runs jobs of a user"
    found = [
        package
        for program, package in NEEDED.items()
        if shutil.which(program, path=processes.PATH) is None
    ]
    return f"apt-get install {' '.join(found)}" if found else ""


@contextmanager
def running(directory: Path) -> Iterator[Path]:
    """An OAR whose files are in this directory, which its user must be able to reach. Yields the
    configuration of ssh, in which the host is ``oar``."""
    directory.mkdir(mode=0o755)
    for name in ("id", "host_key"):
        words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name))
        subprocess.run(words, check=True, timeout=100, stdin=subprocess.DEVNULL)
    shutil.copy(directory / "id.pub", directory / "authorized_keys")
    port = _free_ports(4)
    host_key = (directory / "host_key.pub").read_text()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port + 3} {host_key}")
    config = directory / "ssh_config"
    config.write_text(CLIENT.format(port=port + 3, user=USER, directory=directory))
    # It ends with this process, also if that is killed.
    unshared = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
    unshared += ["--kill-child", "--mount-proc"]
    with (directory / "out").open("wb") as out:
        process = subprocess.Popen(
            [*unshared, "sh", str(SCRIPT), str(directory), str(port), USER, str(UID)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={"PATH": processes.PATH, "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
    try:
        deadline_s = time.monotonic() + START_S
        while not (directory / "up").exists():
            said = (directory / "out").read_text(errors="replace")[-2000:]
            assert process.poll() is None, said
            assert time.monotonic() < deadline_s, said
            time.sleep(0.1)
        yield config
    finally:
        # The kernel ends what is in its namespaces with it.
        process.send_signal(signal.SIGKILL)
        process.wait(100)


def _free_ports(count: int) -> int:
    """The first of ``count`` consecutive free ports."""
    for first in range(19_000 + os.getpid() % 1000 * 10, 32_000, count):
        if not any(_is_taken(port) for port in range(first, first + count)):
            return first
    raise AssertionError("there are no free ports")


def _is_taken(port: int) -> bool:
    with closing(socket.socket()) as found:
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
