"""Measures file transfers to a cluster and back, relative to scp.

One large file and many small ones go to a host with SSH and come back: as a run moves them, over
one connection of either transport, and with `scp` and `scp -r`, which connect anew each time. All
take turns, and medians count. The host is the testbed's by default (`make testbed-up`; without it
this says so and ends).

    python bench/remote_files.py [--sites CATALOG] [--site delta] [--mb 256] [--files 1000]
                                 [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from wfrun import read_catalog
from wfrun.engine.model import ORIGIN, Access, SiteSpec
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.transfers.remote_endpoint import RemoteEndpoint
from wfrun.sites.transfers.router import TransferRouter
from wfrun.sites.transfers.stream import Stream

ROOT = Path(__file__).parent.parent
TESTBED = ROOT / "tests" / "testbed" / "sites.yaml"
SMALL_BYTES = 4096
GOAL = 0.5
"""Target: share of the speed of scp with a large file."""
SMALL_GOAL = 1.0

Measure = Callable[[], Awaitable[None]]


class Far:
    """Implements ``ConnectedSite`` by a directory."""

    def __init__(self, spec: SiteSpec, connection: Connection, directory: str) -> None:
        self.spec = spec
        self.connection = connection
        self.directory = directory

    def store_path(self, name: str) -> str:
        return f"{self.directory}/{name}"


class Bench:
    """Files here in ``scratch/there``, those that came back in ``scratch/back``."""

    def __init__(self, site: SiteSpec, scratch: Path, mb: float, files: int) -> None:
        assert site.access is not None
        self.spec = site
        self.access: Access = site.access
        self.scratch = scratch
        self.large_mb = mb
        self.names = [f"f{number:05}" for number in range(files)]
        self.far: dict[str, Far] = {}
        (scratch / "there" / "many").mkdir(parents=True)
        with open(scratch / "there" / "large", "wb") as file:
            for _ in range(round(mb)):
                file.write(os.urandom(1_000_000))
        for name in self.names:
            (scratch / "there" / "many" / name).write_bytes(os.urandom(SMALL_BYTES))

    async def open(self) -> None:
        for transport in ("asyncssh", "openssh"):
            access = msgspec.structs.replace(self.access, transport=transport)
            connection = connection_of(access)
            await connection.open(lambda reason: None)
            host = await connection.host()
            directory = f"{(await host.facts()).home}/wfrun-bench-{transport}"
            await host.make_directories([f"{directory}/many"])
            self.far[transport] = Far(self.spec, connection, directory)

    async def close(self) -> None:
        for far in self.far.values():
            await (await far.connection.host()).remove([far.directory])
            await far.connection.close()

    async def wfrun(self, transport: str, names: list[str], *, back: bool) -> None:
        here = self.scratch / ("back" if back else "there")
        far = RemoteEndpoint(0, self.far[transport])
        transfer = TransferRouter([far], {"stream": Stream()}, here)
        (here / "many").mkdir(parents=True, exist_ok=True)
        if back:
            copies = [transfer.copy(0, name, ORIGIN, str(here / name)) for name in names]
        else:
            copies = [transfer.copy(ORIGIN, str(here / name), 0, name) for name in names]
        try:
            await asyncio.gather(*copies)
        finally:
            transfer.close()

    async def scp(self, name: str, *, back: bool) -> None:
        access = self.access
        argv = ["scp", "-q", "-B"]
        if access.ssh_config is not None:
            argv += ["-F", access.ssh_config]
        if access.port is not None:
            argv += ["-P", str(access.port)]
        user = f"{access.user}@" if access.user is not None else ""
        directory = self.far["asyncssh"].directory
        far = f"{user}{access.hosts[0]}:{directory}/scp-{name}"
        here = self.scratch / ("back" if back else "there") / name
        ends = [far, str(here)] if back else [str(here), far]
        if name == "many":
            argv.append("-r")
        if back:
            shutil.rmtree(here, ignore_errors=True)
            here.parent.mkdir(exist_ok=True)
        await asyncio.to_thread(subprocess.run, [*argv, *ends], check=True)

    def check(self) -> None:
        """What came back is what went there."""
        for name in ("large", *(f"many/{n}" for n in self.names)):
            there, back = self.scratch / "there" / name, self.scratch / "back" / name
            assert there.read_bytes() == back.read_bytes(), name
        shutil.rmtree(self.scratch / "back")


async def measure(bench: Bench, rounds: int) -> dict[tuple[str, str, bool], float]:
    """Median seconds, by candidate, what was moved, and whether it came back."""
    many = [f"many/{name}" for name in bench.names]
    taken_s: dict[tuple[str, str, bool], list[float]] = {}
    for _ in range(rounds):
        for candidate in ("scp", *bench.far):
            for what, names in (("large", ["large"]), ("many", many)):
                for back in (False, True):
                    begun_s = time.perf_counter()
                    if candidate == "scp":
                        await bench.scp(what, back=back)
                    else:
                        await bench.wfrun(candidate, names, back=back)
                    elapsed_s = time.perf_counter() - begun_s
                    taken_s.setdefault((candidate, what, back), []).append(elapsed_s)
            bench.check()
    return {key: statistics.median(values) for key, values in taken_s.items()}


def shown(bench: Bench, seconds: dict[tuple[str, str, bool], float]) -> Table:
    table = Table(title=f"{bench.large_mb:.0f} MB in one file, and {len(bench.names)} of 4 kB")
    for heading in ("what", "scp", "asyncssh", "ratio", "openssh", "ratio", "goal", ""):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for what, unit, amount, goal in (
        ("large", "MB/s", bench.large_mb, GOAL),
        ("many", "files/s", float(len(bench.names)), SMALL_GOAL),
    ):
        for back in (False, True):
            rate = {name: amount / seconds[name, what, back] for name in ("scp", *bench.far)}
            ratios = {name: rate[name] / rate["scp"] for name in bench.far}
            table.add_row(
                f"{'one file' if what == 'large' else 'many files'} {'back' if back else 'there'}",
                f"{rate['scp']:,.0f} {unit}",
                f"{rate['asyncssh']:,.0f}",
                f"{ratios['asyncssh']:.2f}",
                f"{rate['openssh']:,.0f}",
                f"{ratios['openssh']:.2f}",
                f"{goal:.1f}",
                "met" if min(ratios.values()) >= goal else "MISSED",
            )
    return table


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=Path, default=TESTBED, metavar="CATALOG")
    parser.add_argument("--site", default="delta", metavar="NAME")
    parser.add_argument("--mb", type=float, default=256)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.sites == TESTBED and not (TESTBED.parent / ".run").exists():
        print("remote_files.py needs the testbed, which is not up: make testbed-up")
        return
    (site,) = (s for s in read_catalog(options.sites).sites if s.name == options.site)
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as scratch:
        bench = Bench(site, Path(scratch), options.mb, options.files)
        await bench.open()
        try:
            Console().print(shown(bench, await measure(bench, options.rounds)))
        finally:
            await bench.close()


if __name__ == "__main__":
    asyncio.run(main())
