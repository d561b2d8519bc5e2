"""Launchers inside real jobs of Slurm, on several nodes."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.sites.node.jobs.facts import put_facts
from tests.sites.node.launchers.batch_launcher_rig import Engine, Link, has_ended, kill, wait_for
from tests.testbed.testbed import Testbed
from wfrun.engine.model import Resources
from wfrun.testing.probe import shell


class Cluster:
    """Who submits jobs to alpha."""

    def __init__(self, testbed: Testbed, engine: Engine) -> None:
        site = testbed.layout.site("alpha")
        self.environment = {**os.environ, **testbed.layout.environment(site)}
        self.engine = engine
        put_facts(engine.directory, "slurm")
        self.jobs: list[str] = []

    def call(self, *argv: str) -> str:
        done = subprocess.run(
            argv, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def submit(self, **config: Any) -> str:
        words = shlex.join(self.engine.job(cores=2, walltime_s=600, **config))
        log = f"--output={self.engine.directory}/log"
        size = (f"--nodes={config['nodes']}", "--ntasks-per-node=1", "--cpus-per-task=2")
        command = ("sbatch", "--parsable", "--time=10", "--chdir=/", log, *size)
        self.jobs.append(self.call(*command, f"--wrap=exec {words}").strip())
        return self.jobs[-1]

    def close(self) -> None:
        self.engine.close()
        self.call("scancel", *self.jobs)
        wait_for(lambda: not self.call("squeue", "--noheader", f"--jobs={','.join(self.jobs)}"))


@pytest.fixture
def cluster(testbed: Testbed, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(testbed, Engine(tmp_path / "run"))
    yield cluster
    cluster.close()


def start(cluster: Cluster) -> tuple[str, dict[int, tuple[dict[str, Any], Link]]]:
    """A job on three nodes; its launchers, by node."""
    job = cluster.submit(nodes=3)
    hellos = [cluster.engine.accept() for _ in range(3)]
    pairs = zip(hellos, cluster.engine.links, strict=True)
    links = {hello["node"]: (hello, link) for hello, link in pairs}
    assert sorted(links) == [0, 1, 2]
    return job, links


def until_started(link: Link, key: str) -> None:
    while key not in link.receive().get("started", ()):
        pass


def outcome_of(link: Link, key: str) -> dict[str, Any]:
    while True:
        for ended, outcome in link.receive().get("ended", ()):
            if ended == key:
                found: dict[str, Any] = outcome
                return found


def has_line(path: Path) -> bool:
    return path.exists() and path.read_text().endswith("\n")


def run_on_all(links: dict[int, tuple[dict[str, Any], Link]], directory: Path) -> list[int]:
    """A task on each node, of which the pid is returned; its key is k-<node>."""
    pids = []
    for node, (_, link) in sorted(links.items()):
        path = directory / f"pid-{node}"
        link.say({"run": [shell(f"k-{node}", "echo $$ >$1; exec sleep 600", str(path))]})
        until_started(link, f"k-{node}")
        wait_for(partial(has_line, path))
        pids.append(int(path.read_text()))
    return pids


def test_tasks_run_on_all_nodes(cluster: Cluster) -> None:
    _, links = start(cluster)
    for node, (hello, link) in links.items():
        assert 500 < hello["left_s"] < 600
        script = "echo $SLURMD_NODENAME"
        link.say(
            {"run": [shell(f"k-{node}", script, stdout="said", outputs={"said": f"f-{node}"})]}
        )
        outcome = outcome_of(link, f"k-{node}")
        assert outcome["cause"] == "done"
        said = (cluster.engine.directory / "files" / f"f-{node}").read_text().strip()
        assert said == hello["host"] == outcome["host"]
    assert len({hello["host"] for hello, _ in links.values()}) == 3
    for _, link in links.values():
        link.say({"stop": True})
    assert cluster.engine.record()["cause"] == "done"


MPI = """
hosts=$(sort -u $WFRUN_NODEFILE | paste -sd,)
srun --nodes=2 --ntasks=4 --nodelist=$hosts sh -c 'echo $SLURMD_NODENAME'
"""


@pytest.mark.parametrize("first", [0, 1])
def test_a_task_of_several_nodes_starts_its_processes_there(cluster: Cluster, first: int) -> None:
    """As mpirun does it, with the batch system's own command."""
    _, links = start(cluster)
    hosts = sorted(links[node][0]["host"] for node in (first, first + 1))
    task = shell("k-1", MPI, stdout="said", outputs={"said": "said"})
    asked = msgspec.structs.replace(task, resources=Resources(cores=4, nodes=2))
    _, link = links[first]
    link.say({"run": [{**msgspec.to_builtins(asked), "hosts": hosts}]})
    assert outcome_of(link, "k-1")["cause"] == "done"
    said = (cluster.engine.directory / "files" / "said").read_text().split()
    assert sorted(said) == [hosts[0], hosts[0], hosts[1], hosts[1]]


def test_a_cancelled_job_ends_on_all_nodes(cluster: Cluster, tmp_path: Path) -> None:
    job, links = start(cluster)
    tasks = run_on_all(links, tmp_path)
    cluster.call("scancel", job)
    for node, (_, link) in links.items():
        assert outcome_of(link, f"k-{node}")["cause"] == "lost"
    wait_for(lambda: all(map(has_ended, tasks)))


def test_the_first_launcher_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    """Its record ends the job, and with it what runs on the other nodes."""
    _, links = start(cluster)
    tasks = run_on_all(links, tmp_path)
    kill(links[0][0]["pid"])
    wait_for((cluster.engine.directory / "exits" / "run-s.1.json").exists)
    assert has_ended(tasks[0])
    wait_for(lambda: all(map(has_ended, tasks)))
    for name in ("run-s.1.jsonl", "run-s.1.1.jsonl", "run-s.1.2.jsonl"):
        assert not any(end["cause"] == "done" for end in cluster.engine.ends(name).values())


def test_a_node_without_its_launcher_ends_the_job(cluster: Cluster) -> None:
    _, links = start(cluster)
    _, leader = links[0]
    go = cluster.engine.directory / "go"
    leader.say({"run": [shell("k-0", "until [ -e $1 ]; do sleep 0.1; done", str(go))]})
    until_started(leader, "k-0")
    kill(links[2][0]["pid"])
    message: dict[str, Any] = {}
    while "ending" not in message:
        message = leader.receive()
    assert message["ending"] == "the launchers on its other nodes have ended"
    go.touch()
    assert outcome_of(leader, "k-0")["cause"] == "done", "what runs here goes on"
    assert cluster.engine.record()["cause"] == "done"
