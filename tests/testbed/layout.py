"""What a testbed consists of: its sites, users, ports and paths. All follow from a base port and
a directory, so that testbeds with different ones do not meet."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_BASE = 17000
PORTS = 40
"""A testbed uses the ports from its base up to base + PORTS - 1."""

FEW_SLOTS = (1, 2, 3)
"""alpha and gamma have a partition, or a queue, of so few slots each, to see tasks wait."""

LONGEST_DIRECTORY = 48
"""Characters. Slurm and munge make Unix sockets below it, and their paths end at 107."""


class TestbedError(Exception):
    """Something is wrong with the testbed; the message says what to do."""

    __test__ = False


class MissingError(TestbedError):
    """This machine lacks what the testbed needs."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """The nodes of a Slurm cluster, and what else differs between them."""

    nodes: int
    cpus: int
    memory_mib: int
    """Of each node."""
    controller: int
    """Its port; the nodes' follow."""
    settings: tuple[str, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """One site: an SSH server with a user of its own, and maybe a batch system behind it."""

    name: str
    kind: str
    user: str
    port: int
    home: Path
    slurm: Slurm | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """A process that the testbed keeps running."""

    name: str
    """``SITE.PROGRAM`` or, for a node of Slurm, ``SITE.NODE``; ``munged`` serves all."""
    argv: tuple[str, ...]
    """Runs it in the foreground."""
    environment: dict[str, str] = field(default_factory=dict)
    port: int | None = None
    """It is up when this port of 127.0.0.1 takes connections; None: a Unix socket."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is."""

    base: int
    directory: Path

    @classmethod
    def of(cls, base: int, directory: Path | None = None) -> Layout:
        """The layout for this base port; the default directory is beneath the system's temporary
        one. Raises TestbedError for what cannot work."""
        if not 1024 <= base <= 65535 - PORTS:
            raise TestbedError(f"the base port {base} is not between 1024 and {65535 - PORTS}")
        chosen = directory or Path(tempfile.gettempdir()) / f"wfrun-testbed-{base}"
        chosen = chosen.resolve()
        if len(str(chosen)) > LONGEST_DIRECTORY or " " in str(chosen):
            raise TestbedError(
                f"the directory {chosen} has spaces or more than {LONGEST_DIRECTORY} characters; "
                "choose a shorter one with --directory"
            )
        return cls(base, chosen)

    def user(self, site: str) -> str:
        return f"{site}-{self.base}"

    @property
    def sites(self) -> tuple[Site, ...]:
        def site(number: int, name: str, kind: str, slurm: Slurm | None = None) -> Site:
            home = self.directory / "home" / name
            return Site(name, kind, self.user(name), self.base + number, home, slurm)

        alpha = Slurm(
            nodes=4,
            cpus=4,
            memory_mib=4096,
            controller=self.base + 10,
            settings=("MaxArraySize=1001", "MinJobAge=300"),
            partitions=(
                "main Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 Nodes=ALL",
                "short MaxTime=00:10:00 Nodes=ALL",
                *(
                    f"slots{n} MaxTime=04:00:00 DefaultTime=30 Nodes=alpha1 MaxCPUsPerNode={n}"
                    for n in FEW_SLOTS
                ),
            ),
        )
        # Few jobs at once, ended ones among them until they are forgotten: a limit to run into.
        beta = Slurm(
            nodes=2,
            cpus=8,
            memory_mib=8192,
            controller=self.base + 20,
            settings=("MaxArraySize=1001", "MaxJobCount=200", "MinJobAge=20"),
            partitions=("batch Default=YES MaxTime=04:00:00 DefaultTime=00:30:00 Nodes=ALL",),
        )
        return (
            site(1, "alpha", "slurm", alpha),
            site(2, "beta", "slurm", beta),
            site(3, "gamma", "grid-engine"),
            site(4, "delta", "ssh"),
        )

    def site(self, name: str) -> Site:
        """Raises TestbedError where there is none."""
        for site in self.sites:
            if site.name == name:
                return site
        raise TestbedError(f"there is no site {name!r}; there are: alpha, beta, gamma, delta")

    @property
    def client(self) -> Path:
        """The directory of what a client needs: key, known hosts, configuration."""
        return self.directory / "client"

    @property
    def ssh_config(self) -> Path:
        return self.client / "ssh_config"

    @property
    def catalog(self) -> Path:
        return self.directory / "sites.yaml"

    @property
    def logs(self) -> Path:
        return self.directory / "log"

    @property
    def pids(self) -> Path:
        return self.directory / "pid"

    @property
    def munge_socket(self) -> Path:
        return self.directory / "munge" / "socket"

    @property
    def cell(self) -> Path:
        """What is $SGE_ROOT at gamma."""
        return self.directory / "sge"

    def slurm_conf(self, site: Site) -> Path:
        return self.directory / "slurm" / site.name / "slurm.conf"

    def environment(self, site: Site) -> dict[str, str]:
        """What users of this site have in their environment to reach its batch system."""
        if site.slurm is not None:
            return {"SLURM_CONF": str(self.slurm_conf(site))}
        if site.kind == "grid-engine":
            return {
                "SGE_ROOT": str(self.cell),
                "SGE_CELL": "default",
                "SGE_QMASTER_PORT": str(self.base + 30),
                "SGE_EXECD_PORT": str(self.base + 31),
            }
        return {}
