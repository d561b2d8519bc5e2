"""Whole runs over two sites behind SSH servers that misbehave: the run ends right in spite of it,
or each task fails with one message that names the file, the site and the cause. Nothing is short
under its final name, and `wfrun clean` leaves nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from tests.runners.harness import MARK, Done, Engine, Job, User, wait_until
from tests.servers.faults import Kind, Operation
from tests.servers.ssh import FaultySSH
from wfrun import Resources

pytestmark = pytest.mark.slow

SIZE_BYTES = 8 << 20
MIDDLE = SIZE_BYTES // 2
QUICK = """
import re
import sys
from wfrun.engine.tasks import retry
from wfrun.runners.cli.main import main
from wfrun.sites.transfers.direct import direct_copy
from wfrun.sites.transfers.relay import stall
stall.STALL_S = direct_copy.STALL_S = 2.0
retry.MAX_SETBACKS = 1
sys.exit(main())
"""
"""The command with stalls of seconds, and two attempts for each task."""
SITE = """\
  {name}:
    kind: ssh
    host: {name}
    ssh_config: {server.ssh_config}
    slots: 1
    memory: {memory} GB
    directory: {server.home}/work
    direct: key
    direct_key: {other.key}
    direct_host: 127.0.0.1
    direct_port: {server.port}
"""


class Grid:
    """Two sites: tasks run at ``one``, except those that need the memory of ``two``."""

    def __init__(self, user: User, method: str) -> None:
        self.user = user
        self.run = user.folder / "run"
        self.one, self.two = (FaultySSH(user.folder / name, name) for name in ("one", "two"))
        sites = (self.one, self.two, 1), (self.two, self.one, 2)
        text = "".join(
            SITE.format(name=server.name, server=server, other=other, memory=memory)
            for server, other, memory in sites
        )
        self.sites = user.catalog(f"transfer: [{method}]\nsites:\n{text}")

    def launch(self) -> Engine:
        """Start a run that moves two files from one site to the other, and back here."""
        large = Resources(memory_bytes=1_500_000_000)
        script = f"head -c {SIZE_BYTES} /dev/urandom >m; head -c {SIZE_BYTES} /dev/urandom >n"
        jobs = [
            Job("make", script, (), ["m", "n"]),
            *(Job(f"use-{f}", f"cat {f} >{f}2", [f], [f"{f}2"], [f"{f}2"], large) for f in "mn"),
        ]
        words = ["run", self.user.write(jobs), "--sites", self.sites, "-p", "round-robin"]
        words += ["--run-dir", self.run, "--retries", "1", "--retry-delay", "0.01"]
        return self.user.launch([sys.executable, "-c", QUICK, *map(str, words)])

    def resume(self) -> Engine:
        return self.user.start("resume", self.run, "--retry-delay", "0.01")

    def stored(self, server: FaultySSH) -> dict[str, int]:
        """What is in the store of a site, with its sizes."""
        found = (server.home / "work").glob("*/files/*")
        return {path.name: path.stat().st_size for path in found}

    def clean(self) -> None:
        done = self.user.wfrun("clean", self.run, "--yes")
        assert done.status == 0, done.text
        assert not self.run.exists()
        for server in (self.one, self.two):
            assert [path.name for path in server.home.iterdir()] == ["work"]
            assert not list((server.home / "work").iterdir())

    def close(self) -> None:
        for server in (self.one, self.two):
            server.close()


@pytest.fixture
def grid(
    user: User, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Grid]:
    monkeypatch.setenv(MARK, user.environment[MARK])  # for the commands of the servers
    grid = Grid(user, request.param)
    yield grid
    grid.close()


def short(done: Done) -> str:
    """What a command has printed, on one line. It is short, and nothing of it is for developers."""
    assert len(done.text.splitlines()) < 25, done.text
    assert "Traceback" not in done.text
    assert "exception" not in done.text
    return " ".join(done.out.split())


Injection = tuple[Kind, Operation | None, str]
"""A fault of the destination in mid-file: kind, operation, pattern of the path."""
PARTS = "*part*"
ATTEMPTS = r"(?: \(\d failed attempts\))?"
FAULTS: list[tuple[str, Injection, str, Injection]] = [
    (
        "stream",
        ("denied", "open", PARTS),
        "two:/[^ ]*-[mn] cannot be written: Permission denied",
        ("reset", "write", PARTS),
    ),
    (
        "rsync",
        ("reset", "write", "*rsync*"),
        "rsync at one: .*(Broken pipe|[Cc]onnection|client_loop)",
        ("reset", "write", "*rsync*"),
    ),
]
"""The method; a fault that stays, and what the message says; and one that passes."""


@pytest.mark.parametrize(("grid", "stays", "cause", "passes"), FAULTS, indirect=["grid"])
def test_faults_and_a_crash_in_mid_copy(
    grid: Grid, stays: Injection, cause: str, passes: Injection
) -> None:
    """A fault that stays fails the tasks. A resume is killed in mid-copy, and the next one gets
    along with a fault that passes."""
    kind, operation, path = stays
    at_byte = 0 if operation == "open" else MIDDLE
    grid.two.faults.inject(kind, path, operation=operation, at_byte=at_byte)
    failed = grid.launch().done()
    assert failed.status == 1, failed.text
    said = short(failed)
    # The tasks are in one group if the messages of ssh are equal, else in two.
    groups = re.findall(rf"(\d) tasks?{ATTEMPTS} × staging: input '[mn…]' did not arrive", said)
    assert sum(map(int, groups)) == 2, said
    assert "4 failed attempts" in said
    assert re.search(f" input '[mn]' did not arrive at two: {cause}", said), said
    assert not grid.stored(grid.two)
    grid.two.faults.heal()
    grid.two.faults.inject("stall", passes[2], operation="write", at_byte=MIDDLE)
    engine = grid.resume()
    assert wait_until(lambda: engine.ended or grid.two.faults.stalled > 0)
    engine.kill()
    stored = grid.stored(grid.two)
    assert stored
    assert all(name.startswith(".wfrun-part-") for name in stored)
    grid.two.faults.heal()
    kind, operation, path = passes
    grid.two.faults.inject(kind, path, operation=operation, at_byte=MIDDLE, times=1)
    grid.one.faults.inject("vanish", "*-n", at_byte=MIDDLE, times=1)
    done = grid.resume().done()
    assert done.status == 0, done.text
    short(done)
    outputs = {path.name: path.stat().st_size for path in (grid.run / "outputs").iterdir()}
    assert outputs == {"m2": SIZE_BYTES, "n2": SIZE_BYTES}
    grid.clean()
