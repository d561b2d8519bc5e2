"""Faults of networks, head nodes, batch systems, nodes and disks cost nothing: every task succeeds
once, its output is right, and nothing is left behind.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.integration.clusters import Grid
from tests.runners.harness import kill, wait_until
from tests.testbed import faults, grid_engine, processes
from tests.testbed.layout import MissingError
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev

OUTAGE_S = 30.0


def fill(place: Path) -> Path:
    """A file that takes all the room there is."""
    file = place / "fill"
    with file.open("wb", buffering=0) as output:
        while True:
            try:
                output.write(bytes(4096))
            except OSError:
                return file


def waiting(grid: Grid) -> list[str]:
    """Lines of the queues with jobs that wait."""
    lines = [line for site in grid.sites for line in grid.queue(site)]
    return [line for line in lines if {"PD", "qw"}.intersection(line.split())]


def test_agents_connections_and_servers_end(testbed: Testbed, grid: Grid) -> None:
    """While tasks run and files move. A site that is cut off starts nothing twice."""
    grid.layers(2, 20, 1.0)
    engine = grid.start(grid.catalog("alpha", "beta", "gamma", "delta"))
    grid.wait_begun(engine, 5)
    names = ("alpha", "beta", "gamma")
    grid.wait(engine, lambda: all(map(grid.agents, names)))
    for site in names:
        kill(grid.agents(site))
    grid.wait(engine, lambda: all(map(grid.has_reopened, names)))
    for site in ("alpha", "gamma", "delta"):
        assert faults.cut(testbed, site)
    faults.kill(testbed, "beta.sshd")
    faults.cut(testbed, "beta")
    # The end of the agent may be seen before that of its connection.
    lost = re.compile(r"beta.*connection|connection.*beta", re.S)
    grid.wait(engine, lambda: any(map(lost.search, grid.pauses())))
    faults.start(testbed, "beta.sshd")
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_commands_misbehave_and_the_engine_is_killed(testbed: Testbed, grid: Grid) -> None:
    """Submissions that say they failed and did not, queues that are empty or garbage, and
    engines that die between any two of these."""
    faults.misbehave(testbed, "alpha", "sbatch", "fail-after", 3)
    faults.misbehave(testbed, "gamma", "qsub", "fail-after", 3)
    faults.misbehave(testbed, "alpha", "squeue", "garbage", 2)
    faults.misbehave(testbed, "gamma", "qstat", "garbage", 2)
    grid.layers(2, 20, 0.5)
    engine = grid.start(grid.catalog("alpha", "gamma"))
    grid.wait(engine, grid.logged)
    random = Random(5)
    for how in ("empty", "garbage", "refuse"):
        time.sleep(random.uniform(0.5, 2))
        engine.kill()
        faults.misbehave(testbed, "alpha", "squeue", how, 2)
        faults.misbehave(testbed, "gamma", "qstat", how, 2)
        engine = grid.resume()
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_submissions_in_series_fail_and_the_engine_is_killed(testbed: Testbed, grid: Grid) -> None:
    """Each task is a job of its own, as parallel jobs are. Their submissions go together, and one
    in the middle fails, with and without the job in the queue."""
    alone = {"max_array": 1}
    faults.misbehave(testbed, "alpha", "sbatch", "fail-after", 2)
    grid.bag(80, 0.2)
    engine = grid.start(grid.catalog("alpha", "gamma", changes={"alpha": alone, "gamma": alone}))
    steps: list[tuple[str, str, faults.Misbehaviour]] = [
        ("alpha", "sbatch", "refuse"),
        ("alpha", "sbatch", "garbage"),
        ("gamma", "qsub", "fail-after"),
    ]
    for site, program, how in steps:
        grid.wait_begun(engine, 1)
        engine.kill()
        faults.misbehave(testbed, site, program, how, 2)
        engine = grid.resume()
        time.sleep(1)
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_batch_systems_away_records_late_clocks_wrong(testbed: Testbed, grid: Grid) -> None:
    try:
        faults.delay_records(testbed, "alpha", OUTAGE_S)
        faults.shift_clock(testbed, "gamma", -3600)
        faults.shift_clock(testbed, "delta", 3600)
    except MissingError as error:
        pytest.skip(str(error))
    grid.layers(1, 48, 2.0)
    engine = grid.start(grid.catalog("alpha", "beta", "gamma", "delta"))
    grid.wait_begun(engine, 16)
    faults.pause(testbed, "beta.slurmctld")
    faults.stop(testbed, "gamma.sge_qmaster")
    time.sleep(OUTAGE_S)
    assert not engine.ended, engine.told
    faults.resume(testbed, "beta.slurmctld")
    faults.start(testbed, "gamma.sge_qmaster")
    grid.check(grid.finish(engine))
    assert not grid.failures()
    events = grid.events()
    begun_s = next(e.at_s for e in events if isinstance(e, ev.RunStarted))
    starts = [e.at_s for e in events if isinstance(e, ev.AttemptStarted)]
    assert min(starts) >= begun_s
    assert max(starts) <= events[-1].at_s


def test_nodes_die_and_jobs_are_cancelled_behind_our_back(testbed: Testbed, grid: Grid) -> None:
    """What was cancelled is done again; what only lost its daemon is not."""
    grid.bag(48, 0.2)
    engine = grid.start(grid.catalog("alpha", "gamma", "delta"), held="all")
    grid.wait_begun(engine, 26)  # all slots
    faults.kill(testbed, "alpha.alpha1")
    layout = testbed.layout
    alpha = layout.environment(layout.site("alpha"))
    asked = ["squeue", "--noheader", "--array", "--states=R", "--nodelist=alpha2", "--format=%i"]
    processes.run(["scancel", *processes.run(asked, alpha).stdout.split()[:2]], alpha)
    rows = [line.split() for line in grid.queue("gamma")]
    job = next(words[0] for words in rows if words[0].isdigit())
    processes.run(["qdel", f"{job}.2", f"{job}.15"], layout.environment(layout.site("gamma")))
    kill(pid for pid, line in grid.processes_at("delta") if "launcher.py" in line)
    grid.wait(engine, lambda: sum(grid.failures().values()) >= 4)
    faults.start(testbed, "alpha.alpha1")
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) == {"lost"}
    assert 4 <= sum(grid.failures().values()) <= 8


def test_full_disks(testbed: Testbed, grid: Grid) -> None:
    """Tasks fail that find no room, records wait for it, the site gets no more until there is."""
    try:
        rooms = [faults.shrink(testbed, site, 1_200_000) for site in ("alpha", "gamma", "delta")]
    except MissingError as error:
        pytest.skip(str(error))
    grid.layers(2, 16, 1.0)
    engine = grid.start(grid.catalog("alpha", "beta", "gamma", "delta"))
    grid.wait_begun(engine, 8)
    files = [fill(room) for room in rooms]
    time.sleep(6)
    assert not engine.ended, engine.told
    for file in files:
        file.unlink()
    grid.check(grid.finish(engine), once=False)
    assert set(grid.failures()) <= {"disk-full", "staging"}


def test_disks_that_are_full_at_first(testbed: Testbed, grid: Grid) -> None:
    """Work goes on elsewhere; the site joins when there is room."""
    try:
        rooms = [faults.shrink(testbed, site, 1_200_000) for site in ("alpha", "delta")]
    except MissingError as error:
        pytest.skip(str(error))
    files = [fill(room) for room in rooms]
    grid.bag(12, 0.5)
    engine = grid.start(grid.catalog("alpha", "beta", "delta"), "--wait")
    grid.wait_done(engine, 4)
    for file in files:
        file.unlink()
    grid.check(grid.finish(engine))
    assert any("No space left" in reason for reason in grid.pauses())


def test_interrupts_while_jobs_wait_and_run(grid: Grid) -> None:
    """Once: what waits is withdrawn, what runs ends. Twice: what runs is cancelled. The queues are
    empty when the command has ended."""
    grid.bag(40, 0.2)
    engine = grid.start(grid.catalog("alpha", "gamma"), held="all")
    grid.wait_begun(engine, 24)  # all slots
    engine.signal(signal.SIGINT)
    grid.wait(engine, lambda: not waiting(grid))
    assert grid.finish(engine).status == 130
    assert set(grid.done()) == set(grid.begun())
    assert len(grid.done()) == 24
    grid.check_quiet()
    grid.hold.touch()
    engine = grid.resume()
    grid.wait_begun(engine, 24 + 3)
    engine.signal(signal.SIGINT)
    assert wait_until(lambda: "Ctrl-C again" in engine.told)
    engine.signal(signal.SIGINT)
    assert engine.done().status == 130
    grid.check_quiet()
    assert len(grid.done()) == 24
    grid.check(grid.finish(grid.resume()), once=False)
    assert set(grid.failures()) == {"cancelled"}


def test_sites_that_can_not_be_reached_at_first(testbed: Testbed, grid: Grid) -> None:
    """Work goes on elsewhere; a site joins when it is there, also one whose login prints
    something; one that wants a login is named."""
    locked = grid.user.folder / "ssh_config"
    text = testbed.layout.ssh_config.read_text()
    lines = [line for line in text.splitlines() if "Identity" not in line]
    locked.write_text("\n".join([*lines, "Host *", "IdentityFile none", "IdentityAgent none"]))
    faults.stop(testbed, "alpha.sshd")
    faults.stop(testbed, "delta.sshd")
    greets = testbed.layout.site("delta").home / ".bashrc"
    greets.write_text("echo Welcome; echo '{}'\n")
    grid.bag(12, 1.0)
    changes = {"beta": {"ssh_config": str(locked)}}
    engine = grid.start(grid.catalog("alpha", "beta", "delta", changes=changes), "--wait")
    grid.wait(engine, grid.logged)
    time.sleep(2)
    assert not engine.ended, engine.told
    assert not grid.begun()
    faults.start(testbed, "alpha.sshd")
    grid.wait_done(engine, 6)
    locked_out = re.compile(r"beta.*ssh|ssh.*beta", re.S)
    grid.wait(engine, lambda: any(map(locked_out.search, grid.pauses())))
    faults.start(testbed, "delta.sshd")
    done = grid.finish(engine)
    greets.unlink()
    grid.check(done)
    assert any("alpha cannot be reached" in reason for reason in grid.pauses())


@pytest.mark.parametrize("site", ["alpha", "delta"])
def test_resumed_before_a_site_can_be_reached(testbed: Testbed, grid: Grid, site: str) -> None:
    """Its files are not taken for lost, and what runs there is not done again."""
    grid.layers(2, 6, 0.5)
    engine = grid.start(grid.catalog(site))
    grid.wait_done(engine, 3)
    engine.kill()
    faults.kill(testbed, f"{site}.sshd")
    faults.cut(testbed, site)
    engine = grid.resume()
    grid.wait(engine, lambda: bool(grid.pauses()))
    faults.start(testbed, f"{site}.sshd")
    grid.check(grid.finish(engine))
    assert not grid.failures()


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_random_moments(grid: Grid, seed: int) -> None:
    random = Random(seed)
    grid.layers(3, 16, 0.7)
    engine = grid.start(grid.catalog("alpha", "beta", "gamma", "delta"))
    grid.wait(engine, grid.logged)
    for _ in range(5):
        time.sleep(random.uniform(0.1, 4))
        if engine.ended:
            break
        engine.kill()
        engine = grid.resume()
    grid.check(grid.finish(engine))
    assert not grid.failures()


def test_commands_hang_and_an_execution_daemon_dies(testbed: Testbed, grid: Grid) -> None:
    grid.bag(60, 0.5)
    engine = grid.start(grid.catalog("alpha", "beta", "gamma"), held="all")
    grid.wait_begun(engine, 20)
    faults.misbehave(testbed, "alpha", "squeue", "hang", 2)
    faults.misbehave(testbed, "beta", "squeue", "hang", 1)
    grid.wait(engine, lambda: sum(" r " in line for line in grid.queue("gamma")) == 8)
    grid_engine.hold_queues(testbed.layout)
    faults.kill(testbed, "gamma.sge_execd")
    grid.release()
    time.sleep(5)
    faults.start(testbed, "gamma.sge_execd")
    grid_engine.reopen_queues(testbed.layout)
    grid.check_results(grid.finish(engine))
    grid.check_quiet()  # a new daemon sees a minute late what ended before it
    assert not grid.failures()


def test_servers_that_are_silent(testbed: Testbed, grid: Grid) -> None:
    """The connection is there, and nothing comes of it."""
    grid.layers(2, 12, 2.0)
    engine = grid.start(grid.catalog("alpha", "delta"))
    grid.wait_begun(engine, 6)
    stopped = []
    for site in ("alpha", "delta"):
        stopped += processes.sessions(testbed.layout.site(site).user)
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        grid.check_results(grid.finish(engine))
        assert not grid.failures()
    finally:
        kill(stopped)


def test_a_queue_that_takes_fewer_jobs_than_there_are_tasks(grid: Grid) -> None:
    """beta takes 200 at once; sbatch waits for two minutes before it says so."""
    grid.bag(400, 0.05)
    done = grid.finish(grid.start(grid.catalog("beta")))
    grid.check(done)
    assert not grid.failures()
