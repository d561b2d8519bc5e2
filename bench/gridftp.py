"""Measures copies by GridFTP, relative to plain ``globus-url-copy`` with the same options.

One file goes from this machine to a site, between two sites, and back. The sites' servers are
anonymous ones of this machine, so the disk counts for all alike. It is copied

- plain     by the client alone
- verified  by the client alone, with ``-verify-checksum`` by SHA-256: the file is read once more at
            each end, before and after the copy
- size      by wfrun, which compares the size and renames the file
- checksum  by wfrun as runs do by default, which hash the file at both ends beside
- known     the same for a file whose checksum is known, as that of a task's output is

Of copies with checksums, the ratios to verified ones are shown, too: those have the same guarantee.
All take turns, and medians count. The growth of memory (VmHWM) of this process is measured, too.
It needs root, and the packages globus-gridftp-server-progs and globus-gass-copy-progs.

    python bench/gridftp.py [--mib 1024] [--rounds 3]
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

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from tests.sites.transfers.gridftp.gridftp_server import Server, endpoints  # noqa: E402
from wfrun.engine.exchange import Content  # noqa: E402
from wfrun.engine.model import ORIGIN, Access  # noqa: E402
from wfrun.sites.node.tasks.digests import digest_of_file  # noqa: E402
from wfrun.sites.remote.connection import connection_of  # noqa: E402
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint  # noqa: E402
from wfrun.sites.transfers.gridftp.gridftp import GridFtp, options  # noqa: E402
from wfrun.sites.transfers.router import TransferRouter  # noqa: E402

GOAL = 0.9
"""Target rate relative to the plain client, without checksums, and to the verifying one, with."""
MEMORY_GOAL_MIB = 64.0
PEERS = ("plain", "verified")
HOWS = ("size", "checksum", "known")
WAYS = {"here to a site": (ORIGIN, 0), "between two sites": (0, 1), "a site to here": (1, ORIGIN)}


class Bench:
    """A file in the folder of each site and in that of this machine."""

    def __init__(self, scratch: Path, server: Server, sites: list[RemoteEndpoint]) -> None:
        self._folders = {ORIGIN: scratch / "here", 0: scratch / "one", 1: scratch / "two"}
        self._server = server
        self._routers = {
            name: TransferRouter(
                sites, {"gridftp": GridFtp()}, self._folders[ORIGIN], checksums=name != "size"
            )
            for name in HOWS
        }
        self._known: str | None = None

    def make(self, size_bytes: int) -> None:
        """Write the file, with data that differ."""
        for folder in self._folders.values():
            folder.mkdir()
        with (self._folders[ORIGIN] / "f").open("wb") as file:
            for _ in range(size_bytes >> 20):
                file.write(os.urandom(1 << 20))
        self._known = digest_of_file(os.fsencode(self._folders[ORIGIN] / "f"))
        for site in (0, 1):
            os.link(self._folders[ORIGIN] / "f", self._folders[site] / "f")

    async def copy(self, how: str, source: int, destination: int) -> float:
        """Copy the file. Returns the time in seconds."""
        copied = self._folders[destination] / "copied"
        copied.unlink(missing_ok=True)
        os.sync()
        begun_s = time.perf_counter()
        if how in PEERS:
            verify = ["-verify-checksum", "-checksum-alg", "SHA256"] if how == "verified" else []
            await asyncio.to_thread(self._by_client, source, destination, verify)
        else:
            paths = [
                str(self._folders[end] / name) if end == ORIGIN else name
                for end, name in ((source, "f"), (destination, "copied"))
            ]
            expected = Content(None, self._known if how == "known" else None)
            await self._routers[how].copy(source, paths[0], destination, paths[1], expected)
        took_s = time.perf_counter() - begun_s
        assert copied.stat().st_size == (self._folders[source] / "f").stat().st_size
        return took_s

    def _by_client(self, source: int, destination: int, more: list[str]) -> None:
        urls = [
            f"{'file://' if end == ORIGIN else self._server.url}{self._folders[end] / name}"
            for end, name in ((source, "f"), (destination, "copied"))
        ]
        whole = Content((self._folders[source] / "f").stat().st_size)
        argv = ["globus-url-copy", *options(whole, is_here=destination == ORIGIN), *more, *urls]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def memory_mib() -> float:
    """The most memory that this process has had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def measure(scratch: Path, server: Server, mib: int, rounds: int) -> int:
    """Print the table. Returns the exit status."""
    connections = [connection_of(Access(transport="local")) for _ in range(2)]
    for connection in connections:
        await connection.open(lambda reason: None)
    sites = endpoints(connections, [scratch / "one", scratch / "two"], server.url)
    bench = Bench(scratch, server, sites)
    bench.make(mib << 20)
    columns = [*((how, "plain") for how in HOWS), *((how, "verified") for how in HOWS[1:])]
    rates = (f"{peer} MB/s" for peer in PEERS)
    table = Table("way", *rates, *(f"{how}, of {peer}" for how, peer in columns))
    failed = False
    before_mib = memory_mib()
    for way, (source, destination) in WAYS.items():
        times: dict[str, list[float]] = {how: [] for how in (*PEERS, *HOWS)}
        for _ in range(rounds):
            for how, taken in times.items():
                taken.append(await bench.copy(how, source, destination))
        rate = {how: (mib << 20) / 1e6 / statistics.median(taken) for how, taken in times.items()}
        relative = [rate[how] / rate[peer] for how, peer in columns]
        failed |= relative[0] < GOAL or min(relative[len(HOWS) :]) < GOAL
        table.add_row(
            way, *(f"{rate[peer]:.0f}" for peer in PEERS), *(f"{ratio:.2f}" for ratio in relative)
        )
    grown_mib = memory_mib() - before_mib
    for connection in connections:
        await connection.close()
    Console().print(table)
    print(f"{mib} MiB, {rounds} rounds; memory of wfrun grew by {grown_mib:.1f} MiB")
    print(
        f"goals: {GOAL} of plain by size, {GOAL} of verified with checksums, "
        f"under {MEMORY_GOAL_MIB:.0f} MiB"
    )
    return int(failed or grown_mib > MEMORY_GOAL_MIB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(Path(scratch) / "log")
        try:
            return asyncio.run(measure(Path(scratch), server, arguments.mib, arguments.rounds))
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
