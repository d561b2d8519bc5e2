"""Measures file transfers to a cluster and back, relative to scp and rsync.

Files go to a host with SSH and come back as a run moves them, over one connection of either
transport, and by the user's own commands, which connect anew each time:

- large   one file, beside `scp`; and the growth of memory (VmHWM) of this process and of the agent
- small   many files of 10 kB, beside one `scp` each (a few of them, scaled) and `rsync -a`
- medium  files of 300 kB, beside `rsync -a`

Small and medium files are compared with `rsync -a --fsync`, too: like a run, it writes what comes
here to the disk before it counts. Copies are compared by checksum, as those of a run. All take
turns, and medians count. The host is an sshd of its own on loopback, or one of a catalog.

    python bench/remote_files.py [--sites CATALOG --site NAME] [--mib 1024] [--small 2000]
                                 [--medium 500] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from tests.sites.remote.conftest import Cluster  # noqa: E402
from wfrun import read_catalog  # noqa: E402
from wfrun.engine.model import ORIGIN, Access, SiteSpec  # noqa: E402
from wfrun.runners.admin.links.links import SiteDirectory  # noqa: E402
from wfrun.sites.remote.agent_client import AgentHost  # noqa: E402
from wfrun.sites.remote.connection import connection_of  # noqa: E402
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint  # noqa: E402
from wfrun.sites.transfers.relay.stream import Stream  # noqa: E402
from wfrun.sites.transfers.router import TransferRouter  # noqa: E402

TRANSPORTS = ("asyncssh", "openssh")
SMALL_BYTES, MEDIUM_BYTES = 10_000, 300_000
SCP_SAMPLE = 50
"""Maximum number of small files that one `scp` each is measured with."""
LARGE_GOAL, EACH_GOAL, RSYNC_GOAL = 0.9, 10.0, 1.0
"""Target rates relative to scp of one large file, to one scp for each small file, to rsync."""
MEMORY_GOAL_MIB = 64.0


class Kind(NamedTuple):
    """Files that are moved together."""

    name: str
    files: int
    size_bytes: int

    @property
    def names(self) -> list[str]:
        return [f"{self.name}/f{number:05}" for number in range(self.files)]


class Bench:
    """Files here in ``scratch/there``, those that came back in ``scratch/back``."""

    def __init__(self, spec: SiteSpec, scratch: Path, kinds: list[Kind]) -> None:
        assert spec.access is not None
        self.spec = spec
        self.access: Access = spec.access
        self.scratch = scratch
        self.kinds = kinds
        self.far: dict[str, SiteDirectory] = {}
        for kind in kinds:
            (scratch / "there" / kind.name).mkdir(parents=True)
            for name in kind.names:
                _make(scratch / "there" / name, kind.size_bytes)

    async def open(self) -> None:
        for transport in TRANSPORTS:
            connection = connection_of(msgspec.structs.replace(self.access, transport=transport))
            await connection.open(lambda reason: None)
            host = await connection.host()
            directory = f"{(await host.facts()).home}/wfrun-bench-{transport}"
            await host.remove([directory])
            await host.make_directories([f"{directory}/files/{kind.name}" for kind in self.kinds])
            self.far[transport] = SiteDirectory(self.spec, connection, directory)

    async def close(self) -> None:
        for far in self.far.values():
            await (await far.connection.host()).remove([far.directory])
            await far.connection.close()

    async def agent_pid(self, transport: str) -> int:
        host = await self.far[transport].connection.host()
        assert isinstance(host, AgentHost)
        return host.pid

    async def wfrun(self, transport: str, names: list[str], *, back: bool) -> None:
        here = self.here(back)
        far = RemoteEndpoint(0, self.far[transport])
        transfer = TransferRouter([far], {"stream": Stream()}, here, checksums=True)
        if back:
            copies = [transfer.copy(0, name, ORIGIN, str(here / name)) for name in names]
        else:
            copies = [transfer.copy(ORIGIN, str(here / name), 0, name) for name in names]
        try:
            await asyncio.gather(*copies)
        finally:
            transfer.close()

    async def scp(self, names: list[str], *, back: bool) -> None:
        """One command for each file."""
        argv = ["scp", "-q", "-B", *self.options("-P")]
        for name in names:
            ends = [str(self.here(back) / name), f"{self.address}/scp-{name.replace('/', '-')}"]
            await _run([*argv, *(ends[::-1] if back else ends)])

    async def rsync(self, kind: Kind, *, back: bool, synced: bool) -> None:
        ssh = " ".join(["ssh", *self.options("-p")])
        here, there = f"{self.here(back)}/{kind.name}/", f"{self.address}/rsync-{kind.name}/"
        more = ["--fsync"] if synced else []
        await _run(["rsync", "-a", *more, "-e", ssh, *((there, here) if back else (here, there))])

    async def forget_rsync(self, kind: Kind) -> None:
        """Remove what rsync has copied there: it copies nothing twice."""
        far = self.far["asyncssh"]
        await (await far.connection.host()).remove([f"{far.directory}/rsync-{kind.name}"])

    @property
    def address(self) -> str:
        user = f"{self.access.user}@" if self.access.user is not None else ""
        return f"{user}{self.access.hosts[0]}:{self.far['asyncssh'].directory}"

    def options(self, port: str) -> list[str]:
        config, number = self.access.ssh_config, self.access.port
        options = [] if config is None else ["-F", config]
        return options if number is None else [*options, port, str(number)]

    def here(self, back: bool) -> Path:
        return self.scratch / ("back" if back else "there")

    @contextmanager
    def coming_back(self, kind: Kind, count: int) -> Iterator[None]:
        """Check that what comes back is what went there, and remove it."""
        folder = self.scratch / "back" / kind.name
        folder.mkdir(parents=True)
        yield
        for name in kind.names[:count]:
            ends = [str(self.here(back) / name) for back in (False, True)]
            assert subprocess.run(["cmp", "-s", *ends], check=False).returncode == 0, name
        shutil.rmtree(folder)


def _make(path: Path, size_bytes: int) -> None:
    with open(path, "wb") as file:
        for start in range(0, size_bytes, 1 << 20):
            file.write(os.urandom(min(1 << 20, size_bytes - start)))


async def _run(argv: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0, argv


class Peak:
    """Growth of the peak memory of a process of this machine."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # sets VmHWM to VmRSS
        self._before = self._value("VmRSS")

    def _value(self, name: str) -> int:
        lines = self._status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))

    @property
    def grown_mib(self) -> float:
        return (self._value("VmHWM") - self._before) / 1024


class Seen:
    """Seconds for each file, by kind, candidate and direction; growth of memory by transport."""

    def __init__(self) -> None:
        self._each_s: dict[tuple[str, str, bool], list[float]] = {}
        self.grown_mib: dict[tuple[str, str], float] = {}
        """By transport and process."""

    def add(self, kind: Kind, candidate: str, back: bool, each_s: float) -> None:
        self._each_s.setdefault((kind.name, candidate, back), []).append(each_s)

    def each_s(self, kind: Kind, candidate: str, back: bool) -> float:
        return statistics.median(self._each_s[kind.name, candidate, back])


async def measure(bench: Bench, rounds: int, is_here: bool) -> Seen:
    seen = Seen()
    for _ in range(rounds):
        for kind in bench.kinds:
            for candidate in candidates(kind):
                await _take_turn(bench, kind, candidate, seen, is_here)
    return seen


def candidates(kind: Kind) -> tuple[str, ...]:
    by_rsync = ("rsync", "rsync --fsync")
    peers = {"large": ("scp",), "small": ("scp", *by_rsync), "medium": by_rsync}
    return (*peers[kind.name], *TRANSPORTS)


async def _take_turn(bench: Bench, kind: Kind, candidate: str, seen: Seen, is_here: bool) -> None:
    count = min(SCP_SAMPLE, kind.files) if candidate == "scp" else kind.files
    names = kind.names[:count]
    peaks = {}
    if kind.name == "large" and candidate in TRANSPORTS:
        peaks["engine"] = Peak(os.getpid())
        if is_here:
            peaks["agent"] = Peak(await bench.agent_pid(candidate))
    for back in (False, True):
        with bench.coming_back(kind, count if back else 0):
            begun_s = time.perf_counter()
            if candidate == "scp":
                await bench.scp(names, back=back)
            elif candidate.startswith("rsync"):
                await bench.rsync(kind, back=back, synced=candidate.endswith("--fsync"))
            else:
                await bench.wfrun(candidate, names, back=back)
            seen.add(kind, candidate, back, (time.perf_counter() - begun_s) / count)
    if candidate.startswith("rsync"):
        await bench.forget_rsync(kind)
    for process, peak in peaks.items():
        key = candidate, process
        seen.grown_mib[key] = max(peak.grown_mib, seen.grown_mib.get(key, 0.0))


def shown(bench: Bench, seen: Seen) -> Table:
    table = Table(title="Rates, and ratios to those of the other command in the same run")
    for heading in ("files", "beside", "its rate", *TRANSPORTS, "goal", ""):
        table.add_column(heading, justify="left" if heading in ("files", "beside") else "right")
    for kind in bench.kinds:
        for peer in candidates(kind)[: -len(TRANSPORTS)]:
            goal = RSYNC_GOAL if peer.startswith("rsync") else EACH_GOAL
            goal = LARGE_GOAL if kind.name == "large" else goal
            for back in (False, True):
                base_s = seen.each_s(kind, peer, back)
                rate = kind.size_bytes / base_s / 1e6
                ratios = [base_s / seen.each_s(kind, name, back) for name in TRANSPORTS]
                table.add_row(
                    f"{kind.files} of {kind.size_bytes:,} bytes {'back' if back else 'there'}",
                    "scp each" if (peer, kind.name) == ("scp", "small") else peer,
                    f"{rate:,.0f} MB/s" if kind.name == "large" else f"{1 / base_s:,.0f} files/s",
                    *(f"{ratio:.2f}" for ratio in ratios),
                    f"{goal:g}",
                    "met" if min(ratios) >= goal else "MISSED",
                )
    for process in sorted({process for _, process in seen.grown_mib}, reverse=True):
        grown = [seen.grown_mib[name, process] for name in TRANSPORTS]
        table.add_row(
            "memory more for the large file", process, "",
            *(f"{mib:.0f} MiB" for mib in grown), f"{MEMORY_GOAL_MIB:.0f} MiB",
            "met" if max(grown) < MEMORY_GOAL_MIB else "MISSED",
        )  # fmt: skip
    return table


@contextmanager
def site_of(catalog: Path | None, name: str, scratch: Path) -> Iterator[SiteSpec]:
    """The site of a catalog, or an sshd on loopback."""
    if catalog is not None:
        yield next(site for site in read_catalog(catalog).sites if site.name == name)
        return
    cluster = Cluster(scratch / "cluster", scratch)
    access = Access((cluster.host,), ssh_config=str(cluster.config))
    try:
        yield SiteSpec("loopback", 1, access=access)
    finally:
        cluster.sshd.stop()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=Path, metavar="CATALOG")
    parser.add_argument("--site", default="", metavar="NAME")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--small", type=int, default=2000)
    parser.add_argument("--medium", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = [
        Kind("large", 1, options.mib << 20),
        Kind("small", options.small, SMALL_BYTES),
        Kind("medium", options.medium, MEDIUM_BYTES),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="wfrun-bench-") as folder,
        site_of(options.sites, options.site, Path(folder)) as site,
    ):
        bench = Bench(
            site, Path(folder), [kind for kind in kinds if kind.size_bytes and kind.files]
        )
        await bench.open()
        try:
            seen = await measure(bench, options.rounds, options.sites is None)
            Console().print(shown(bench, seen))
        finally:
            await bench.close()


if __name__ == "__main__":
    asyncio.run(main())
