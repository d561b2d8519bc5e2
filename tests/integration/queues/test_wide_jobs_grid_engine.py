"""A real Grid Engine refuses parallel jobs that are wider than any node, and no others."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from tests.testbed import faults, grid_engine, processes
from tests.testbed.testbed import Testbed
from wfrun.engine import events as ev
from wfrun.engine.errors import InfeasibleError
from wfrun.runners.cli.main import cli
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.batch.grid_engine.system import GridEngine
from wfrun.sites.batch.system import BatchJob

JOB = BatchJob(
    name="wfrun-w1-1", count=1, nodes=1, cores=8, memory_bytes=0, gpus=0, walltime_s=60.0,
    queue=None, account=None, options=("-h",), avoid_nodes=(), log="/dev/null",
    output="/dev/null", command=(), parallel=True,
)  # fmt: skip
"""As wide as the only node. Held, so that it does not run."""


class User:
    """The user of the testbed's Grid Engine."""

    def __init__(self, testbed: Testbed, script: Path) -> None:
        site = testbed.layout.site("gamma")
        self._environment = testbed.layout.environment(site)
        self._as_user = ["setpriv", f"--reuid={site.user}", f"--regid={site.user}"]
        self._script = str(script)

    def submit(self, system: GridEngine, **changes: object) -> None:
        """Submit a job. Raises the errors of `GridEngine.submitted`."""
        job = msgspec.structs.replace(JOB, **changes)
        argv = [*self._as_user, "--clear-groups", *system.submit(job, self._script)]
        done = processes.run(argv, self._environment, check=False)
        system.submitted(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def user(testbed: Testbed) -> User:
    script = testbed.layout.directory / "wide.sh"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    return User(testbed, script)


def test_jobs_wider_than_a_node_are_refused(user: User) -> None:
    smp = GridEngine()
    user.submit(smp)
    with pytest.raises(InfeasibleError, match=r"has 9 slots of the parallel environment smp for"):
        user.submit(smp, cores=9, count=3)
    with pytest.raises(InfeasibleError, match=r"8 slots with h_vmem=2048M each of the"):
        user.submit(smp, memory_bytes=16 << 30)
    with pytest.raises(InfeasibleError, match=r"has 4 slots of"):
        user.submit(smp, cores=4, queue="slots3.q")
    with pytest.raises(InfeasibleError, match='unknown resource "gpu"'):
        user.submit(smp, gpus=1)
    # Of a load value qsub knows nothing: the job may run, however much it requests.
    load = GridEngine(memory_resource="mem_free")
    user.submit(load, memory_bytes=1 << 30)
    with pytest.raises(InfeasibleError, match=r"has 9 slots of"):
        user.submit(load, memory_bytes=1 << 30, cores=9)
    user.submit(smp, avoid_nodes=("localhost",))
    user.submit(smp, cores=9, options=("-h", "-w", "n"))


def test_jobs_that_may_run_later_are_not_refused(testbed: Testbed, user: User) -> None:
    smp = GridEngine()
    grid_engine.hold_queues(testbed.layout)
    user.submit(smp, count=20)
    grid_engine.reopen_queues(testbed.layout)
    user.submit(smp, options=())  # fills the node
    user.submit(smp)
    faults.kill(testbed, "gamma.sge_execd")
    user.submit(smp)
    with pytest.raises(InfeasibleError, match="has 9 slots"):
        user.submit(smp, cores=9)


def test_a_moldable_job_takes_half_the_slots(testbed: Testbed, tmp_path: Path) -> None:
    """The catalog promises more slots than there are. The rigid job ends, the other one runs."""
    gamma = yaml.safe_load(testbed.layout.catalog.read_text())["sites"]["gamma"]
    # A catalog that does not tell the width of the nodes: the refusal comes from the site.
    del gamma["node_cores"]
    catalog = {"sites": {"gamma": {**gamma, "slots": 16, "poll_min": 0.5}}}
    tmp_path.joinpath("sites.yaml").write_text(yaml.safe_dump(catalog))
    document = tmp_path / "jobs.yaml"
    document.write_text(
        "command: sh -c 'echo {size}'\nstdout: out\njobs:\n  - {job: rigid, size: 16}\n"
        "  - {job: moldable, walltime: {4: 100, 8: 50, 16: 20}}\n"
    )
    run = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    try:
        words = ["--sites", str(tmp_path / "sites.yaml"), "--run-dir", str(run), "--quiet"]
        result = CliRunner().invoke(cli, ["jobs", str(document), *words, "--size", "exhaustive"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 1, result.output
    assert "Not even an empty queue has 16 slots" in result.output
    assert "'ppn' of the job spreads them over several" in result.output
    assert (run / "outputs/moldable/out").read_text() == "8\n"
    store = Store(run)
    ended = [e for e in store.load() if isinstance(e, ev.AttemptEnded)]
    store.close()
    assert sorted(e.outcome.cause for e in ended) == ["done", "refused", "refused"]
