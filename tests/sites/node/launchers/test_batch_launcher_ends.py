"""How launchers inside batch jobs end: in time, by signals, without an engine, on all nodes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts
from tests.sites.node.launchers.batch_launcher_rig import Engine, has_ended, kill, wait_for
from wfrun.engine.model import Resources
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.testing.probe import request, shell

DEAF = "trap '' TERM; echo $$ >$1; while :; do sleep 0.1; done"
"""A task that ignores SIGTERM."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "run")
    yield engine
    engine.close()


def pid_in(path: Path) -> int:
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


@pytest.mark.slow
def test_at_the_end_of_its_time_it_ends_its_tasks(engine: Engine, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    engine.start(cores=2, walltime_s=9)
    engine.accept()
    engine.run(
        shell("end-1", "sleep 60"), shell("end-2", DEAF, str(pid)), shell("end-3", "sleep 60")
    )
    ends = engine.until_ended("end-1", "end-2")
    assert [end["cause"] for end in ends] == ["expired", "expired"]
    assert "time of its launcher was over" in ends[0]["message"]
    assert [ends[0]["signal"], ends[1]["signal"]] == [signal.SIGTERM, signal.SIGKILL]
    assert engine.all_of("returned") == ["end-3"]
    assert any("ending" in message for message in engine.received)
    with pytest.raises(EOFError):
        engine.receive()
    assert engine.record()["cause"] == "done", "not of the walltime that job.py enforces"


@pytest.mark.slow
def test_its_time_is_over_while_it_drains(engine: Engine) -> None:
    engine.start(cores=1, walltime_s=9)
    engine.accept()
    engine.run(shell("end-1", "sleep 60"))
    engine.until_started("end-1")
    engine.say({"stop": True})
    (end,) = engine.until_ended("end-1")
    assert end["cause"] == "expired"
    assert engine.record()["cause"] == "done", "not of the walltime that job.py enforces"


def test_its_processors_are_taken_back_with_what_runs_and_waits_there(
    engine: Engine, tmp_path: Path
) -> None:
    """A stop that waits for running tasks may come before."""
    pid = tmp_path / "pid"
    engine.start(cores=1)
    engine.accept()
    engine.run(shell("end-1", "echo $$ >$1; sleep 60", str(pid)), shell("end-2", "true"))
    task = pid_in(pid)
    engine.say({"stop": True})
    engine.say({"stop": True, "now": True})
    (end,) = engine.until_ended("end-1")
    assert end["cause"] == "reclaimed"
    assert engine.all_of("returned") == ["end-2"]
    with pytest.raises(EOFError):
        engine.receive()
    assert engine.record()["cause"] == "done"
    wait_for(lambda: has_ended(task))


def test_the_batch_system_says_when_its_time_ends(engine: Engine) -> None:
    put_facts(engine.directory, "slurm")
    engine.start(walltime_s=3600, env={"SLURM_JOB_END_TIME": str(int(time.time()) + 100)})
    assert engine.accept()["left_s"] < 91


def test_sigterm_near_the_end_of_its_time_means_expired(engine: Engine) -> None:
    job = engine.start(walltime_s=80)
    engine.accept()
    engine.run(shell("end-1", "sleep 60"))
    engine.until_started("end-1")
    job.terminate()
    assert engine.until_ended("end-1")[0]["cause"] == "expired"


def test_sigterm_ends_all_soon(engine: Engine, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    job = engine.start(cores=2, walltime_s=3600)
    engine.accept()
    engine.run(shell("end-1", "sleep 60"), shell("end-2", DEAF, str(pid)), request("end-3", "true"))
    engine.until_started("end-1", "end-2")
    deaf = pid_in(pid)
    begun = time.monotonic()
    job.terminate()
    ends = engine.until_ended("end-1", "end-2")
    assert [end["cause"] for end in ends] == ["lost", "lost"]
    assert engine.all_of("returned") == ["end-3"]
    assert engine.record()["cause"] == "lost"
    assert time.monotonic() - begun < 30  # when Slurm kills what is left
    assert has_ended(deaf)


def test_a_batch_system_that_signals_all_processes(engine: Engine, tmp_path: Path) -> None:
    """A task that gets the signal a moment before the launcher has not failed by itself."""
    paths = [tmp_path / "pid-1", tmp_path / "pid-2"]
    job = engine.start(cores=2, walltime_s=3600)
    engine.accept()
    engine.run(
        shell("end-1", "echo $$ >$1; exec sleep 60", str(paths[0])),
        shell("end-2", "trap 'exit 143' TERM; echo $$ >$1; sleep 60 & wait", str(paths[1])),
    )
    for path in paths:
        kill(pid_in(path), signal.SIGTERM)
    time.sleep(0.2)
    found = engine.ask("end-1", "end-2")
    assert found == {"end-1": {"state": "active"}, "end-2": {"state": "active"}}
    job.terminate()
    assert [end["cause"] for end in engine.until_ended("end-1", "end-2")] == ["lost", "lost"]


def test_a_task_that_is_terminated_alone(engine: Engine) -> None:
    engine.start()
    engine.accept()
    engine.run(shell("end-1", "kill $$"), shell("end-2", "kill -9 $$"))
    ends = engine.until_ended("end-1", "end-2")
    assert [(end["cause"], end["signal"]) for end in ends] == [("signal", 15), ("signal", 9)]


def test_daemons_end_with_their_task(engine: Engine, tmp_path: Path) -> None:
    """Their children end too."""
    paths = [tmp_path / "pid-1", tmp_path / "pid-2"]
    engine.start()
    engine.accept()
    start = "setsid sh -c 'sleep 60 & echo $! >$0; sleep 61' $1"
    daemon = f"{start} & while ! test -s $1; do sleep 0.02; done"
    engine.run(*[shell(f"end-{n}", daemon, str(path)) for n, path in enumerate(paths)])
    engine.until_ended("end-0", "end-1")
    for path in paths:
        wait_for(partial(has_ended, pid_in(path)))


def test_a_killed_launcher_leaves_nothing_running(engine: Engine, tmp_path: Path) -> None:
    """Once its record exists, its tasks and all their descendants have ended."""
    paths = [tmp_path / "pid-1", tmp_path / "pid-2"]
    engine.start(cores=2, walltime_s=3600)
    pid = engine.accept()["pid"]
    script = "setsid sh -c 'echo $$ >$0; sleep 60; :' $1 & wait"
    engine.run(
        request("end-0", "true"),
        *[shell(f"end-{n}", script, str(p)) for n, p in enumerate(paths, 1)],
    )
    engine.until_ended("end-0")
    engine.until_started("end-1", "end-2")
    pids = [pid_in(path) for path in paths]
    kill(pid)
    assert engine.record()["cause"] == "signal"
    assert all(map(has_ended, pids))
    wait_for(lambda: any("started" in line for line in engine.journal()))
    assert list(engine.ends()) == ["end-0"]
    assert set(engine.starts()) >= {"end-1", "end-2"}


def test_it_ends_with_job_py(engine: Engine) -> None:
    """No other process would record the launcher's end, or kill what it leaves."""
    job = engine.start(walltime_s=3600)
    engine.accept()
    engine.run(shell("end-1", "sleep 60"))
    engine.until_started("end-1")
    job.kill()
    assert engine.until_ended("end-1")[0]["cause"] == "lost"
    with pytest.raises(EOFError):
        engine.until(lambda: False)


def test_it_ends_if_job_py_died_before_it_watched(engine: Engine, tmp_path: Path) -> None:
    """The kernel sends no signal for a parent that died while the launcher's Python started."""
    pid, go = tmp_path / "pid", tmp_path / "go"
    script = engine.directory / "bin" / "batch_launcher.sh"
    wait = f"echo $$ >{pid}\nwhile ! test -e {go}; do sleep 0.02; done\n"
    script.write_text(wait + script.read_text())
    job = engine.start(walltime_s=3600)
    launcher = pid_in(pid)
    job.kill()
    job.wait()
    go.touch()
    wait_for(partial(has_ended, launcher))


@pytest.mark.slow
def test_without_an_engine_it_finishes_its_attempts(engine: Engine, tmp_path: Path) -> None:
    """The next engine gets answers; then the launcher is without an engine for too long."""
    go = tmp_path / "go"
    engine.start(cores=1, patience_s=1)
    engine.accept()
    last = shell("end-3", "while ! test -e $1; do sleep 0.05; done", str(go))
    engine.run(shell("end-1", "sleep 0.5"), request("end-2", "true"), last)
    engine.until_started("end-1")
    engine.disconnect()
    # The next attempt may start before the end of the one before is in the journal.
    wait_for(lambda: "end-2" in engine.ends() and "end-3" in engine.starts())
    engine.received.clear()
    engine.listen()
    assert engine.accept()["session"] == 2
    engine.until_started("end-3")
    assert engine.all_of("started") == ["end-3"]
    found = engine.ask("end-1", "end-2", "end-3")
    assert [found[key]["state"] for key in ("end-1", "end-2", "end-3")] == [
        "ended",
        "ended",
        "active",
    ]
    assert found["end-1"]["outcome"]["cause"] == "done"
    engine.disconnect()
    time.sleep(2)  # longer than its patience: it must not end while an attempt runs
    go.touch()
    assert engine.record()["cause"] == "done"
    assert "end-3" in str(engine.journal()[-1]["ended"])
    stderr = (engine.directory / "attempts" / "run-s.1.err").read_text()
    assert "no engine connected for 1 s" in stderr


REMOTE = """#!/bin/sh
# Simulates the batch system's command: the other node is this machine under another name.
export NODE=$1
shift
exec "$@"
"""


def start_on_three_nodes(engine: Engine, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "remotely").write_text(REMOTE)
    (programs / "remotely").chmod(0o755)
    facts = NodeFacts(
        node="NODE", hosts="printf '%s\\n' n1 n2 n3", starts=(Start(("remotely", "{host}")),)
    )
    (engine.directory / "bin" / "batch_system.json").write_bytes(msgspec.json.encode(facts))
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "NODE": "n1"}
    engine.start(cores=1, nodes=3, walltime_s=3600, env=env)


@pytest.mark.slow
def test_a_launcher_on_each_node(engine: Engine, tmp_path: Path) -> None:
    start_on_three_nodes(engine, tmp_path)
    hellos = [engine.accept() for _ in range(3)]
    assert {(hello["node"], hello["host"], hello["nodes"]) for hello in hellos} == {
        (0, "n1", 3), (1, "n2", 3), (2, "n3", 3),
    }  # fmt: skip
    script = "echo ${WFRUN_NODEFILE:-alone} >>said"
    for hello, link in zip(hellos, engine.links, strict=True):
        tasks = [
            shell(f"end-{hello['node']}-{n}", script, outputs={"said": "said"}) for n in (1, 2)
        ]
        link.say({"run": tasks})
    for link in engine.links:
        ended: list[str] = []
        while len(ended) < 2:
            ended += [end["cause"] for _, end in link.receive().get("ended", ())]
        assert ended == ["done", "done"]
    assert (engine.directory / "files" / "said").read_text() == "alone\n"
    for name, node in (("run-s.1.jsonl", 0), ("run-s.1.1.jsonl", 1), ("run-s.1.2.jsonl", 2)):
        assert list(engine.ends(name)) == [f"end-{node}-1", f"end-{node}-2"]
    # The job is over when all of them have ended.
    for link in engine.links:
        link.say({"stop": True})
    assert engine.record()["cause"] == "done"


@pytest.mark.slow
def test_the_launchers_of_a_job_end_together(engine: Engine, tmp_path: Path) -> None:
    start_on_three_nodes(engine, tmp_path)
    hellos = [engine.accept() for _ in range(3)]
    for hello in hellos:
        if hello["node"]:
            kill(hello["pid"])
    leader = next(n for n, hello in enumerate(hellos) if not hello["node"])
    message: dict[str, object] = {}
    while "ending" not in message:
        message = engine.links[leader].receive()
    assert message["ending"] == "the launchers on its other nodes have ended"
    assert engine.record()["cause"] == "done"


def test_nodes_that_can_not_be_reached(engine: Engine, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "sh", "sed", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "python3").symlink_to(os.path.realpath("/proc/self/exe"))
    hosts = tmp_path / "hosts"
    hosts.write_text("n1\nn2\n")
    engine.start(nodes=2, env={"PATH": str(programs), "PBS_NODEFILE": str(hosts)})
    assert engine.accept()["nodes"] == 1
    engine.until(lambda: "error" in engine.received[-1])
    assert "uses the first of its nodes alone" in engine.received[-1]["error"]


def test_a_task_on_several_nodes_uses_its_part_of_this_one(engine: Engine) -> None:
    engine.start(cores=2)
    engine.accept()
    task = shell("end-1", "cat $WFRUN_NODEFILE; sleep 0.5", stdout="said", outputs={"said": "said"})
    asked = msgspec.to_builtins(
        msgspec.structs.replace(task, resources=Resources(cores=4, nodes=2))
    )
    engine.say(
        {"run": [{**asked, "hosts": ["n1", "n2"]}, msgspec.to_builtins(request("end-2", "true"))]}
    )
    engine.until_started("end-1")
    wide, narrow = engine.until_ended("end-1", "end-2")
    assert wide["cause"] == "done"
    assert narrow["started_s"] >= wide["ended_s"]
    assert (engine.directory / "files" / "said").read_text() == "n1\nn1\nn2\nn2\n"
