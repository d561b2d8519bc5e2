"""Brings a testbed up and down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.testbed import grid_engine, gridftp, processes, slurm, ssh
from tests.testbed.layout import DEFAULT_BASE, PORTS, Layout, MissingError, Server, TestbedError

NEEDED = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "sge_qmaster": "gridengine-master",
    "sge_execd": "gridengine-exec",
    "qsub": "gridengine-client",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "useradd": "passwd",
    "setpriv": "util-linux",
}
"""Program → Debian package."""

REGISTER = Path("/run/wfrun-testbed")
"""Who is up on this machine: a file for each base port, with its directory in it, and the process
that has claimed it, which holds the lock of the file."""

_claims: dict[int, int] = {}
"""The locked files of this process, by base port. Its end releases them, also by SIGKILL."""

SSHD_DIRECTORY = Path("/run/sshd")
"""What every sshd of the machine needs; Debian makes it when its own one starts."""

DEFAULT = Layout.of(DEFAULT_BASE)
HERE = Path(__file__).parent
BEHIND = HERE / ".run"
"""A link to the client's files of the testbed with the default base, for ``sites.yaml`` beside."""


def check_machine() -> None:
    """Raises MissingError that names all that is missing."""
    missing = []
    if os.geteuid() != 0:
        missing.append("root: the testbed makes users and starts servers")
    packages = [
        package
        for program, package in NEEDED.items()
        if shutil.which(program, path=processes.PATH) is None
    ]
    if packages:
        missing.append(f"Debian packages: apt-get install {' '.join(packages)}")
    elif not grid_engine.SHARE.exists():
        missing.append("Grid Engine as Debian packages it (gridengine-common)")
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        missing.append(f"an address of this machine's name: {socket.gethostname()} in /etc/hosts")
    if missing:
        raise MissingError("the testbed needs " + "; and ".join(missing))


class Testbed:
    """Four sites on loopback. ``up`` and ``down`` may each be called at any time, repeatedly."""

    __test__ = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def servers(self) -> list[Server]:
        """All that run when it is up, in the order of their start."""
        return [
            slurm.munged(self.layout),
            *slurm.controllers(self.layout),
            *slurm.nodes(self.layout),
            *grid_engine.servers(self.layout),
            *(ssh.server(self.layout, site) for site in self.layout.sites),
            *gridftp.servers(self.layout),
        ]

    def server(self, name: str) -> Server:
        """Raises TestbedError where there is none of this name."""
        for server in self.servers:
            if server.name == name:
                return server
        names = ", ".join(server.name for server in self.servers)
        raise TestbedError(f"there is no server {name!r}; there are: {names}")

    @property
    def has_gridftp(self) -> bool:
        """Whether it was brought up with GridFTP servers."""
        return gridftp.place(self.layout).exists()

    def up(self, *, with_gridftp: bool = False) -> None:
        """Bring up what is not; returns when jobs can start at every site. GridFTP servers, once
        brought up, are kept until it is down. Raises MissingError where this machine lacks
        something, TestbedError for what else goes wrong."""
        check_machine()
        if with_gridftp:
            gridftp.check_machine()
        _register(self.layout)
        if with_gridftp:
            gridftp.place(self.layout).mkdir(parents=True, exist_ok=True)
        self._check_ports()
        self._prepare()
        master, execution = grid_engine.servers(self.layout)
        if processes.pid_of(self.layout, master) is None:
            # Left alone, it would notice a new master after half a minute.
            processes.stop(self.layout, execution)
        for server in self.servers:
            if server != execution:
                processes.start(self.layout, server)
            if server.name == "munged":
                processes.wait_until(self._credentials, "the first credential of munged")
        for server in self.servers:
            if server != execution:
                processes.await_port(self.layout, server)
        grid_engine.configure(self.layout)
        processes.start(self.layout, execution)
        processes.await_port(self.layout, execution)
        grid_engine.configure_host(self.layout)
        slurm.await_nodes(self.layout)

    def down(self) -> None:
        """End every process and remove every file and user of this testbed."""
        self._remove()
        unregister(self.layout)

    def renew(self) -> None:
        """Bring it down and up again on the same ports, which nobody else can take meanwhile."""
        with_gridftp = self.has_gridftp
        self._remove()
        self.up(with_gridftp=with_gridftp)

    def _remove(self) -> None:
        if os.geteuid() != 0:
            raise MissingError("the testbed needs root: it removes users and ends servers")
        processes.end_all(self.layout)
        self.unmount()
        ssh.remove_users(self.layout)
        shutil.rmtree(self.layout.directory, ignore_errors=True)
        if self.layout.directory.exists():
            raise TestbedError(f"{self.layout.directory} cannot be removed")
        if BEHIND.is_symlink() and BEHIND.readlink() == self.layout.client:
            BEHIND.unlink()

    def status(self) -> list[tuple[Server, int | None]]:
        """Every server and its process; None where it does not run."""
        return [(server, processes.pid_of(self.layout, server)) for server in self.servers]

    def unmount(self) -> None:
        """Unmount what a test has mounted below the directory."""
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.layout.directory}/"):
                processes.run(["umount", "--lazy", place])

    def _prepare(self) -> None:
        layout = self.layout
        for path in (layout.directory, layout.logs, layout.pids, layout.directory / "home"):
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            path.chmod(0o755)
        _check_traversable(layout.directory)
        ssh.prepare(layout)
        slurm.prepare(layout)
        grid_engine.prepare(layout)
        if self.has_gridftp:
            gridftp.prepare(layout)
        catalog = (HERE / "sites.yaml").read_text().replace(".run/", f"{layout.client}/")
        layout.catalog.write_text(catalog)
        if layout == DEFAULT:
            BEHIND.unlink(missing_ok=True)
            BEHIND.symlink_to(layout.client)

    def _credentials(self) -> bool:
        argv = ["munge", "--no-input", f"--socket={self.layout.munge_socket}"]
        return processes.run(argv, check=False).returncode == 0

    def _check_ports(self) -> None:
        taken = self.taken()
        for patience_s in (0.2, 1, 3):
            if taken is None:
                return
            time.sleep(patience_s)  # a server that was killed may hold its port for a moment
            taken = self.taken()
        if taken is None:
            return
        raise TestbedError(
            f"port {taken.port}, which {taken.name} needs, is taken by another program; choose "
            f"another --base than {self.layout.base} ({PORTS} ports from there are used)"
        )

    def taken(self) -> Server | None:
        """A server whose port another program has."""
        for server, pid in self.status():
            if server.port is not None and pid is None and processes.listens(server.port):
                return server
        return None


def registered() -> dict[int, Path]:
    """The testbeds of this machine that are up, or were not brought down: base and directory."""
    found = {}
    with contextlib.suppress(FileNotFoundError):  # None is registered.
        for file in REGISTER.iterdir():
            if file.name.isdigit():
                with contextlib.suppress(FileNotFoundError):  # It was brought down meanwhile.
                    found[int(file.name)] = Path(file.read_text().partition("\n")[0])
    return found


@contextlib.contextmanager
def _register_locked() -> Iterator[None]:
    """Hold the register, which exists then, against other testbeds."""
    while True:
        REGISTER.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(REGISTER, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Unless the last one removed it while we waited.
            if REGISTER.exists() and os.fstat(lock).st_ino == REGISTER.stat().st_ino:
                yield
                return
        finally:
            os.close(lock)


def claim(layout: Layout) -> bool:
    """Register a testbed that is about to be brought up and that ends with this process; False:
    another has some of its ports."""
    with _register_locked():
        if any(abs(layout.base - base) < PORTS for base in registered()):
            return False
        _enter(layout, f"\n{os.getpid()}")
        return _lock(layout.base)


def abandoned() -> list[Testbed]:
    """Claim the testbeds whose process was killed before it could bring them down."""
    with _register_locked():
        return [
            Testbed(Layout(base, directory))
            for base, directory in registered().items()
            if "\n" in (REGISTER / str(base)).read_text() and _lock(base)
        ]


def _lock(base: int) -> bool:
    """Lock an entry until the end of this process; False: a process has."""
    file = os.open(REGISTER / str(base), os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return False
    _claims[base] = file
    return True


def _register(layout: Layout) -> None:
    with _register_locked():
        for base, directory in registered().items():
            if (base == layout.base) != (directory == layout.directory) or (
                base != layout.base and abs(base - layout.base) < PORTS
            ):
                raise TestbedError(
                    f"a testbed with base {base} in {directory} is there already; choose a base at "
                    f"least {PORTS} from it and another directory, or bring it down: "
                    f"python -m tests.testbed --base {base} --directory {directory} down"
                )
        if layout.base not in _claims:
            _enter(layout)


def _enter(layout: Layout, claim: str = "") -> None:
    """Write an entry, with the register locked."""
    (REGISTER / str(layout.base)).write_text(f"{layout.directory}{claim}")
    if not SSHD_DIRECTORY.exists():
        SSHD_DIRECTORY.mkdir(mode=0o755)
        (REGISTER / "made-sshd").touch()


def unregister(layout: Layout) -> None:
    """Remove a testbed's entry, and with the last one what testbeds share."""
    with _register_locked():
        (REGISTER / str(layout.base)).unlink(missing_ok=True)
        if layout.base in _claims:
            os.close(_claims.pop(layout.base))
        if registered():
            return
        made = REGISTER / "made-sshd"
        if made.exists() and not _any_sshd():
            SSHD_DIRECTORY.rmdir()
        made.unlink(missing_ok=True)
        REGISTER.rmdir()


def _any_sshd() -> bool:
    """Whether somebody else's sshd uses what the first testbed made."""
    return subprocess.run(["pgrep", "-x", "sshd"], capture_output=True, check=False).returncode == 0


def _check_traversable(directory: Path) -> None:
    for parent in [directory, *directory.parents]:
        if not parent.stat().st_mode & 0o001:
            raise TestbedError(
                f"the users of the sites cannot pass through {parent}, so they cannot reach "
                f"{directory}; choose another --directory"
            )
