"""Measures the transfer method `relay` between two hosts, relative to scp.

One large file goes from a host with SSH to another one through this machine: by `relay` over either
transport, and by the user's own `scp -3`, which connects anew each time. It also goes from here to
a host, and back, beside plain `scp`. All take turns, and medians count. Printed as well is the
growth of the memory (VmHWM) of this process. Both hosts are sshds of their own on loopback.

    python bench/relay.py [--mib 1024] [--rounds 3] [--no-checksums]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.remote_files import Peak  # noqa: E402
from tests.sites.remote.conftest import Cluster  # noqa: E402
from wfrun.engine.exchange import Content  # noqa: E402
from wfrun.engine.model import ORIGIN, Access, SiteSpec  # noqa: E402
from wfrun.runners.admin.links.links import SiteDirectory  # noqa: E402
from wfrun.sites.remote.connection import connection_of  # noqa: E402
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint  # noqa: E402
from wfrun.sites.transfers.relay.relay import FileRelay  # noqa: E402
from wfrun.sites.transfers.router import TransferRouter  # noqa: E402

TRANSPORTS: tuple[Literal["asyncssh", "openssh"], ...] = ("asyncssh", "openssh")
WAYS = ("there", "between", "back")
GOAL = 0.9
"""Target rate relative to scp."""


class Bench:
    """The file is ``here/f``, ``one/files/f`` and ``two/files/f``."""

    def __init__(self, scratch: Path, size_bytes: int, checksums: bool) -> None:
        self.scratch = scratch
        self.whole = Content(size_bytes)
        self.clusters = [Cluster(scratch / name, scratch) for name in ("one", "two")]
        self.folders = [scratch / name / "files" for name in ("here", "one", "two")]
        for folder in self.folders:
            folder.mkdir(parents=True)
        subprocess.run(
            ["head", "-c", str(size_bytes), "/dev/urandom"],
            stdout=(self.folders[0] / "f").open("wb"),
            check=True,
        )
        self.config = scratch / "config"
        for name, cluster in zip(("one", "two"), self.clusters, strict=True):
            cluster.add(name, cluster.sshd.port)
        self.config.write_text("".join(cluster.config.read_text() for cluster in self.clusters))
        self.checksums = checksums
        self.routers: dict[str, TransferRouter] = {}
        self.sites: list[SiteDirectory] = []

    async def open(self) -> None:
        for transport in TRANSPORTS:
            endpoints = []
            for index, name in enumerate(("one", "two")):
                access = Access((name,), transport=transport, ssh_config=str(self.config))
                connection = connection_of(access)
                await connection.open(lambda reason: None)
                spec = SiteSpec(name, 1, access=access)
                site = SiteDirectory(spec, connection, str(self.scratch / name))
                self.sites.append(site)
                endpoints.append(RemoteEndpoint(index, site))
            self.routers[transport] = TransferRouter(
                endpoints, {"relay": FileRelay()}, self.folders[0], checksums=self.checksums
            )

    async def close(self) -> None:
        for site in self.sites:
            await site.connection.close()
        for cluster in self.clusters:
            cluster.sshd.stop()

    async def take(self, candidate: str, way: str) -> float:
        """Copy the file; returns the time in seconds."""
        begun_s = time.perf_counter()
        if candidate == "scp":
            there, between, back = (str(folder / "f") for folder in self.folders)
            ends = {
                "there": (there, f"one:{between}"),
                "between": (f"one:{between}", f"two:{back}"),
                "back": (f"two:{back}", there),
            }[way]
            argv = ["scp", "-3", "-q", "-B", "-F", str(self.config), *ends]
            process = await asyncio.create_subprocess_exec(*argv)
            assert await process.wait() == 0, argv
        else:
            here = str(self.folders[0] / "f")
            source, destination = {"there": (ORIGIN, 0), "between": (0, 1), "back": (1, ORIGIN)}[
                way
            ]
            names = [here if end == ORIGIN else "f" for end in (source, destination)]
            await self.routers[candidate].copy(source, names[0], destination, names[1], self.whole)
        return time.perf_counter() - begun_s


async def measure(bench: Bench, rounds: int) -> Table:
    seen: dict[tuple[str, str], list[float]] = {}
    grown_mib = dict.fromkeys(TRANSPORTS, 0.0)
    for _ in range(rounds):
        for candidate in ("scp", *TRANSPORTS):
            peak = Peak(os.getpid())
            for way in WAYS:
                seen.setdefault((candidate, way), []).append(await bench.take(candidate, way))
            for transport in TRANSPORTS:
                if transport == candidate:
                    grown_mib[transport] = max(grown_mib[transport], peak.grown_mib)
    table = Table(title="Rates of scp, and ratios of relay to them in the same run")
    for heading in ("way", "scp", *TRANSPORTS, "goal", ""):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way in WAYS:
        base_s = statistics.median(seen["scp", way])
        ratios = [base_s / statistics.median(seen[name, way]) for name in TRANSPORTS]
        rate = (bench.whole.size_bytes or 0) / base_s / 1e6
        verdict = "met" if min(ratios) >= GOAL else "MISSED"
        shown = (f"{ratio:.2f}" for ratio in ratios)
        table.add_row(way, f"{rate:,.0f} MB/s", *shown, f"{GOAL:g}", verdict)
    table.add_row("memory more", "", *(f"{mib:.0f} MiB" for mib in grown_mib.values()), "64 MiB")
    return table


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-checksums", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as folder:
        bench = Bench(Path(folder), options.mib << 20, not options.no_checksums)
        try:
            await bench.open()
            Console().print(await measure(bench, options.rounds))
        finally:
            await bench.close()


if __name__ == "__main__":
    asyncio.run(main())
