"""Measures copies of a very large file and of very many files, each with a connection that is cut.

A file of several GiB, and then 100,000 small ones, go to a host with SSH and come back, with
checksums, as a run moves them. In the middle of each of the four ways all connections to the host
are killed; the copies that failed are made once more. All content is compared at the end. Printed
are the time, the bytes or files that were sent again, the growth of the memory (VmHWM) of this
process, and the memory of the agent that runs since the cut. The host is an sshd of its own on
loopback.

    python bench/copies_large.py [--mib 5120] [--files 100000] [--transport asyncssh]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from bench.remote_files import Peak  # noqa: E402
from tests.sites.remote.conftest import Cluster  # noqa: E402
from wfrun.engine.errors import WfrunError  # noqa: E402
from wfrun.engine.exchange import Content, Receipt  # noqa: E402
from wfrun.engine.model import ORIGIN, Access, SiteSpec  # noqa: E402
from wfrun.runners.admin.links.links import SiteDirectory  # noqa: E402
from wfrun.sites.remote.agent_client import AgentHost  # noqa: E402
from wfrun.sites.remote.connection import connection_of  # noqa: E402
from wfrun.sites.transfers.endpoints.remote_endpoint import RemoteEndpoint  # noqa: E402
from wfrun.sites.transfers.relay.stream import Stream  # noqa: E402
from wfrun.sites.transfers.router import TransferRouter  # noqa: E402

SMALL_BYTES = 1000
FILES_IN_FOLDER = 1000
LARGE_GOAL_MIB = 64.0
"""Target growth of the engine's memory for the large file, and target memory of the agent."""
EACH_GOAL_BYTES = 10_000
"""Target further growth for each of many copies that are asked for at once."""
TRIES = 5


class Bench:
    """Files here in ``scratch/there``, those that came back in ``scratch/back``."""

    def __init__(self, scratch: Path, transport: Literal["asyncssh", "openssh"]) -> None:
        self.scratch = scratch
        self.cluster = Cluster(scratch / "cluster", scratch)
        access = Access(
            (self.cluster.host,), transport=transport, ssh_config=str(self.cluster.config)
        )
        self.connection = connection_of(access)
        self.far = scratch / "far"
        (self.far / "files").mkdir(parents=True)
        site = SiteDirectory(SiteSpec("loopback", 1, access=access), self.connection, str(self.far))
        self.router = TransferRouter(
            [RemoteEndpoint(0, site)],
            {"stream": Stream()},
            scratch / "back",
            checksums=True,
            resuming=["stream"],
        )

    async def agent_pid(self) -> int:
        host = await self.connection.host()
        assert isinstance(host, AgentHost)
        return host.pid

    def cut(self) -> None:
        """Kill the connections, as a login host that restarts."""
        for pid in self.cluster.sshd.processes()[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def copy(self, name: str, size_bytes: int, *, back: bool) -> Receipt:
        here = str(self.scratch / ("back" if back else "there") / name)
        ends = (0, name, ORIGIN, here) if back else (ORIGIN, here, 0, name)
        return await self.router.copy(*ends, Content(size_bytes))


class Way:
    """One direction of one kind of files."""

    def __init__(self, bench: Bench, names: list[str], size_bytes: int, *, back: bool) -> None:
        self.bench = bench
        self.names, self.size_bytes, self.back = names, size_bytes, back
        self.again = 0
        """Number of copies that failed and were made once more."""
        self.resent_bytes = 0

    async def move(self, arrived: Callable[[], bool]) -> float:
        """Copy all, with a cut when ``arrived`` is true first. Returns the time in seconds."""
        begun_s = time.perf_counter()
        cutting = asyncio.create_task(self._cut(arrived))
        left = self.names
        for _ in range(TRIES):
            left = await self._try(left)
            if not left:
                break
            self.again += len(left)
        assert not left, f"{len(left)} copies failed {TRIES} times"
        await cutting
        return time.perf_counter() - begun_s

    async def _try(self, names: list[str]) -> list[str]:
        """Copy all at once; returns the names of those that failed."""
        found = await asyncio.gather(*map(self._copy, names))
        return [name for name, succeeded in zip(names, found, strict=True) if not succeeded]

    async def _copy(self, name: str) -> bool:
        try:
            receipt = await self.bench.copy(name, self.size_bytes, back=self.back)
        except WfrunError:
            return False
        if receipt.sent_bytes is not None:
            self.resent_bytes = receipt.sent_bytes
        return True

    async def _cut(self, arrived: Callable[[], bool]) -> None:
        while not arrived():
            await asyncio.sleep(0.05)
        self.bench.cut()


def most_mib(pid: int) -> float:
    """The most memory that a process of this machine has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def size_of(folder: Path) -> int:
    """Total size of the files in a folder in bytes, complete or not."""
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries)


async def measure(bench: Bench, mib: int, files: int) -> Table:
    large = ["large/f"]
    small = [f"small-{n // FILES_IN_FOLDER}/f{n:06}" for n in range(files)]
    middle = small[files // 2]
    for name in {os.path.dirname(name) for name in (*large, *small)}:
        for folder in (bench.scratch / "there", bench.far / "files"):
            (folder / name).mkdir(parents=True)
    with (bench.scratch / "there" / large[0]).open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(1 << 20))
    for name in small:
        (bench.scratch / "there" / name).write_bytes(os.urandom(SMALL_BYTES))
    table = Table(title="Copies that lose their connection in the middle")
    for heading in ("files", "seconds", "sent again", "engine", "agent", ""):
        table.add_column(heading, justify="left" if heading == "files" else "right")
    for names, size_bytes in ((large, mib << 20), (small, SMALL_BYTES)):
        for back in (False, True):
            target = bench.scratch / "back" if back else bench.far / "files"
            is_large = names is large

            def arrived(target: Path = target, is_large: bool = is_large) -> bool:
                if not is_large:
                    return (target / middle).exists()
                folder = target / "large"
                return folder.exists() and size_of(folder) > (mib << 20) / 2

            way = Way(bench, names, size_bytes, back=back)
            peak = Peak(os.getpid())
            seconds = await way.move(arrived)
            engine_mib, agent_mib = peak.grown_mib, most_mib(await bench.agent_pid())
            goal_mib = LARGE_GOAL_MIB + (0 if is_large else files * EACH_GOAL_BYTES / (1 << 20))
            is_met = engine_mib < goal_mib and agent_mib < LARGE_GOAL_MIB
            table.add_row(
                f"{len(names):,} of {size_bytes:,} bytes {'back' if back else 'there'}",
                f"{seconds:.1f}",
                f"{way.resent_bytes >> 20:,} MiB" if is_large else f"{way.again:,} files",
                f"{engine_mib:.0f} MiB",
                f"{agent_mib:.0f} MiB",
                "met" if is_met else "MISSED",
            )
    ends = [str(bench.scratch / name) for name in ("there", "back")]
    assert subprocess.run(["diff", "-rq", *ends], check=False).returncode == 0
    return table


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=5120)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--transport", choices=("asyncssh", "openssh"), default="asyncssh")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as folder:
        bench = Bench(Path(folder), options.transport)
        await bench.connection.open(lambda reason: None)
        try:
            Console().print(await measure(bench, options.mib, options.files))
        finally:
            bench.router.close()
            await bench.connection.close()
            bench.cluster.sshd.stop()


if __name__ == "__main__":
    asyncio.run(main())
