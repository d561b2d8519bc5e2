"""What tasks, strangers and networks do to launchers costs nothing: every task succeeds once, and
nothing is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.clusters import Grid
from tests.integration.launchers.test_launchers_faults import launchers, live, pids, started
from tests.runners.harness import Job, kill, lines_of, wait_until
from tests.testbed import faults
from tests.testbed.layout import MissingError
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.capabilities.health import Health
from wfrun.sites.node.channels.channels import Channel


def peak_bytes(pid: int) -> int:
    """The most memory that a living process has had; 0: it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def directory_of(testbed: Testbed, grid: Grid, site: str) -> Path:
    """That of the run at this site."""
    return testbed.layout.site(site).home / "scratch" / grid.state().site_directory


# Tasks


def test_the_processes_of_tasks_are_killed(grid: Grid) -> None:
    """It is these tasks that fail, and nothing else."""
    grid.bag(30, 0.2)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers()}), held="all")
    grid.wait_begun(engine, 6)
    killed = 0
    for pid in pids(grid, "echo begin:"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpgid(pid), signal.SIGKILL)
            killed += 1
    assert killed
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) == {"signal"}
    assert grid.failures()["signal"] <= killed
    assert not any(isinstance(e, ev.LauncherEnded) and e.cause != "done" for e in grid.events())


def test_a_bag_of_tasks_that_one_site_can_not_run(testbed: Testbed, grid: Grid) -> None:
    """Where all fail at once no more are tried, and the others are done where they can be."""
    bad = testbed.layout.site("alpha").user
    script = f"[ $(id -un) != {bad} ] || exit 127; echo {{id}} >> {grid.record}"
    jobs = [Job(f"t{n}", script.format(id=f"t{n}")) for n in range(1000)]
    catalog = grid.catalog("alpha", "beta", changes=dict.fromkeys(("alpha", "beta"), launchers()))
    done = grid.user.start(
        grid.user.write(jobs), "--sites", catalog, "--run-dir", grid.run, "--policy", "round-robin"
    ).done()
    assert done.status == 0, done.text
    assert Counter(lines_of(grid.record)) == Counter(job.id for job in jobs)
    assert set(grid.failures()) <= {"exit", "cancelled"}
    assert 20 <= grid.failures()["exit"] <= 100
    state = grid.state()
    health = state.find(Health)
    assert health is not None
    breaker = health.sites[0].breaker
    assert breaker is not None
    assert "failures in a row, the last by exit" in breaker.reason
    grid.check_quiet()


@pytest.mark.parametrize("size_bytes", [10**8, 10**9], ids=["100 MB", "1 GB"])
@pytest.mark.parametrize(
    ("site", "way"), [("alpha", "kept"), ("alpha", "packed"), ("delta", "kept")]
)
def test_tasks_that_print_much_and_leave_daemons(
    testbed: Testbed, grid: Grid, size_bytes: int, site: str, way: str
) -> None:
    """Nobody needs memory for it, all of it is kept, and what is left behind ends at once."""
    if way == "packed" and size_bytes > 10**8:
        pytest.skip("what is long is not packed, whatever its length")
    loud = f"head -c {size_bytes} /dev/zero | tr '\\0' x; echo done:loud >> {grid.record}"
    daemon = "setsid sh -c 'sleep 901 & sleep 902' </dev/null >/dev/null 2>&1 & sleep 0.1"
    jobs = [Job("loud", loud)]
    jobs += [Job(f"d{n}", f"{daemon}; echo done:d{n} >> {grid.record}") for n in range(8)]
    waits = f"while ! [ -e {grid.record}.go ]; do sleep 0.1; done"
    jobs += [Job("last", f"echo begin:last >> {grid.record}; {waits}")]
    changes = {} if site == "delta" else {site: launchers(max=1)}
    catalog = grid.catalog(site, changes=changes)
    words = ["--pack-logs"] if way == "packed" else []
    engine = grid.user.start(
        grid.user.write(jobs), "--sites", catalog, "--run-dir", grid.run, *words
    )
    grid.wait_done(engine, 9)
    grid.wait_begun(engine, 1)  # Between fork and exec a task looks like its launcher.

    def found(*words: str) -> list[tuple[int, str]]:
        return [each for each in grid.processes_at(site) if any(w in each[1] for w in words)]

    assert wait_until(lambda: not found("sleep 90")), found("sleep 90")
    ((launcher, _),) = found("bin/batch_launcher.py", "bin/launcher.py")
    assert 0 < peak_bytes(launcher) < 40e6
    assert 0 < peak_bytes(engine.pid) < 200e6
    go = grid.record.with_name(f"{grid.record.name}.go")
    go.touch()
    done = grid.finish(engine)
    go.unlink()
    assert done.status == 0, done.text
    logs = directory_of(testbed, grid, site) / "attempts"
    (log,) = (path for path in logs.glob("*.out") if path.stat().st_size > 1000)
    assert log.stat().st_size == size_bytes
    if size_bytes == 10**8:
        printed = grid.user.wfrun("logs", grid.run, "loud").out.count("x")
        assert printed == size_bytes
    grid.check_quiet()


def test_tasks_that_do_not_end_when_they_are_cancelled(grid: Grid) -> None:
    script = (
        f"trap '' TERM INT HUP; echo begin:{{id}} >> {grid.record}; while :; do sleep 0.2; done"
    )
    jobs = [Job(f"t{n}", script.format(id=f"t{n}")) for n in range(8)]
    catalog = grid.catalog("alpha", changes={"alpha": launchers(max=2)})
    engine = grid.user.start(grid.user.write(jobs), "--sites", catalog, "--run-dir", grid.run)
    grid.wait_begun(engine, 4)
    engine.signal(signal.SIGINT)
    assert wait_until(lambda: "Ctrl-C again" in engine.told)
    engine.signal(signal.SIGINT)
    assert grid.finish(engine).status == 130
    assert len(grid.begun()) == 4
    grid.check_quiet()


def test_a_disk_fills_up(testbed: Testbed, grid: Grid) -> None:
    """Tasks and records wait for room, and then all goes on."""
    try:
        room = faults.shrink(testbed, "alpha", 1_500_000)
    except MissingError as error:
        pytest.skip(str(error))
    grid.bag(40, 0.3)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(max=2)}))
    grid.wait_begun(engine, 8)
    filler = room / "filler"
    with filler.open("wb", buffering=0) as output, contextlib.suppress(OSError):
        while True:
            output.write(bytes(4096))
    time.sleep(4)
    assert not engine.ended, engine.told
    filler.unlink()
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) <= {"disk-full", "staging"}


# Who may talk to the engine


def test_strangers_are_refused_and_named(testbed: Testbed, grid: Grid, tmp_path: Path) -> None:
    """Who knows an address and the name of a launcher, and not the secret, gets nothing."""
    grid.bag(40, 0.5)
    changes = {"alpha": launchers(channels="tcp", max=1)}
    engine = grid.start(grid.catalog("alpha", changes=changes))
    grid.wait_begun(engine, 4)
    (launcher,) = started(grid)
    true = directory_of(testbed, grid, "alpha") / "launchers"
    address = json.loads((true / "address.json").read_text())
    port = address["tcp"][0][1]
    assert (true / "secret").stat().st_mode & 0o777 == 0o600
    false = tmp_path / "launchers"
    false.mkdir()
    (false / "address.json").write_text(json.dumps({**address, "tcp": [["127.0.0.1", port]]}))
    (false / "secret").write_text("0" * 64)
    stranger = Channel(str(tmp_path), launcher, 0, ["tcp"], select.poll())
    said = f"as launcher '{launcher}', was refused"

    def is_refused() -> bool:
        stranger.turn()
        assert not stranger.is_open
        return said in engine.told

    # Here it is the stranger that finds out first, and hangs up: we are a worse one.
    stranger._authenticate = lambda connection, answer: connection.unsent.extend(  # type: ignore[method-assign]
        json.dumps({"proof": "0" * 64}).encode() + b"\n"
    )
    assert wait_until(is_refused), engine.told
    stranger.close()
    grid.check(grid.finish(engine))
    assert not grid.failures()
    assert live(grid) == 1


# Networks and engines


def test_files_that_are_late_and_out_of_order(testbed: Testbed, grid: Grid) -> None:
    """As a network file system shows them, both ways."""
    try:
        faults.delay_spool(testbed, "alpha", 1.5)
    except MissingError as error:
        pytest.skip(str(error))
    grid.layers(3, 12, 0.2)
    changes = {"alpha": launchers(channels="spool", max=2)}
    engine = grid.start(grid.catalog("alpha", changes=changes))
    grid.wait_done(engine, 4)
    engine.kill()
    grid.check(grid.finish(grid.resume()))
    assert not grid.failures()


def test_the_next_engine_waits_for_no_launcher(testbed: Testbed, grid: Grid) -> None:
    """While one is not back the others get work."""
    grid.bag(60, 0.5)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(max=2)}))
    grid.wait_begun(engine, 8)
    grid.wait(engine, lambda: live(grid) == 2)
    stopped = pids(grid, "batch_launcher.py")[-1:]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    engine.kill()
    before = len(grid.begun())
    engine = grid.resume()
    try:
        grid.wait_begun(engine, before + 16, 100.0)  # a silent launcher is given up after 120 s
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_a_launcher_dies_while_there_is_no_engine(testbed: Testbed, grid: Grid) -> None:
    """The next one asks the batch system what became of it, and waits for no record."""
    grid.bag(40, 0.5)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(max=2)}))
    grid.wait_begun(engine, 8)
    grid.wait(engine, lambda: live(grid) == 2)
    engine.kill()
    (job, *_) = pids(grid, "job.py")
    kill([job])
    assert wait_until(lambda: len(grid.queue("alpha")) == 1)
    engine = grid.resume()
    grid.wait(engine, lambda: any(isinstance(e, ev.LauncherEnded) for e in grid.events()))
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) <= {"lost", "node"}


def test_two_launchers_have_the_same_tasks(testbed: Testbed, grid: Grid) -> None:
    """The stock of one that cannot be reached is given to the other; when it goes on it finds that
    these are taken."""
    grid.bag(200, 0.3)
    engine = grid.start(grid.catalog("alpha", changes={"alpha": launchers(channels="tcp", max=2)}))
    grid.wait_done(engine, 40)
    grid.wait(engine, lambda: live(grid) == 2)
    stopped = pids(grid, "batch_launcher.py")[-1:]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    kill(grid.agents("alpha"))
    exits = directory_of(testbed, grid, "alpha") / "exits"

    def given() -> Counter[str]:
        """How many launchers have been given each task."""
        journals = [path.read_text() for path in exits.glob("*.L0.*.jsonl")]
        lines = [line for text in journals for line in text.split("\n")[:-1]]
        return Counter(key for line in lines for key in json.loads(line).get("queued", ()))

    grid.wait(engine, lambda: max(given().values()) == 2)
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    grid.check(grid.finish(engine))
    assert not grid.failures()
    assert max(given().values()) == 2


def test_channels_are_silent_for_a_minute(testbed: Testbed, grid: Grid) -> None:
    """The agents relay tcp and spool files; the forwarded port of ssh goes past them."""
    channels = {"alpha": "tcp", "beta": "ssh", "gamma": "spool"}
    grid.bag(400, 0.5)
    changes = {site: launchers(channels=channel) for site, channel in channels.items()}
    engine = grid.start(grid.catalog(*channels, changes=changes))
    grid.wait(engine, lambda: grid.logged() and live(grid) == 9)
    stopped = [pid for site in channels for pid in grid.agents(site)]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(60)
    assert not engine.ended, engine.told
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    grid.check(grid.finish(engine))
    assert set(grid.failures()) <= {"cancelled"}, "a site took over what waited at another"
    assert live(grid) >= 9
