"""What a launcher finds out about its batch job from variables and commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wfrun.sites.node import batch_job

VARIABLES = (
    "SLURM_JOB_END_TIME", "SLURM_JOB_ID", "PBS_WALLTIME", "PBS_NODEFILE", "PE_HOSTFILE",
    "WFRUN_NODEFILE",
)  # fmt: skip
Command = Callable[[str, str], None]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Makes a command that does this; there are no others."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name: str, script: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    return make


@pytest.mark.parametrize(
    ("told", "granted_s"),
    [
        ("echo 10:30", 630),
        ("echo 1-02:00:30", 93630),
        ("echo 2-00:00:00", 100000),
        ("echo UNLIMITED", 100000),
        ("echo", 100000),
        ("echo slurm_load_jobs error: Invalid job id >&2; exit 1", 100000),
    ],
)
def test_time_left_by_slurm(
    command: Command, monkeypatch: pytest.MonkeyPatch, told: str, granted_s: float
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    command("squeue", f'test "$4" = 17 || exit 9\n{told}')
    assert batch_job.time_granted_s(100000) == granted_s


def test_time_left_without_an_answer(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_job.time_granted_s(None) is None
    assert batch_job.time_granted_s(60) == 60
    monkeypatch.setenv("SLURM_JOB_ID", "17")  # and no squeue on the node
    assert batch_job.time_granted_s(60) == 60
    monkeypatch.delenv("SLURM_JOB_ID")
    monkeypatch.setenv("PBS_WALLTIME", "50")
    assert batch_job.time_granted_s(60) == 50


def test_the_nodes_are_those_of_the_file(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert batch_job.hosts_here() == []
    (tmp_path / "nodes").write_text("n2\nn2\nn1\nn1\n")
    monkeypatch.setenv("WFRUN_NODEFILE", str(tmp_path / "nodes"))
    assert batch_job.hosts_here() == ["n2", "n1"]


@pytest.mark.parametrize(
    ("variable", "name", "starts"),
    [
        ("SLURM_JOB_ID", "srun", []),
        ("PBS_NODEFILE", "pbs_tmrsh", [["pbs_tmrsh", "n2"], ["pbs_tmrsh", "n3"]]),
        ("PBS_NODEFILE", "pbsdsh", [["pbsdsh", "-h", "n2"], ["pbsdsh", "-h", "n3"]]),
        ("PE_HOSTFILE", "qrsh", [["qrsh", "-inherit", "-nostdin", n] for n in ("n2", "n3")]),
    ],
)
def test_the_batch_systems_own_means_reach_the_other_nodes(
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    name: str,
    starts: list[list[str]],
) -> None:
    program, hosts = ["sh", "x"], ["n1", "n2", "n3"]
    monkeypatch.setenv(variable, "17")
    assert batch_job.remote_commands(program, hosts, 4) == []
    command(name, "exit 0")
    assert batch_job.remote_commands(program, hosts[:1], 4) == []
    found = batch_job.remote_commands(program, hosts, 4)
    if starts:
        assert found == [[*start, *program, str(n)] for n, start in enumerate(starts, 1)]
        return
    (one,) = found
    assert one[0] == name
    assert one[-3:] == [*program, "srun"]
    assert {"--nodes=2", "--ntasks=2", "--nodelist=n2,n3", "--cpus-per-task=4"} <= set(one)
