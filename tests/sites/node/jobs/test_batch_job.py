"""What programs in a batch job find out about it from variables and commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sites.node.jobs.facts import put_facts
from wfrun.sites.node.jobs import batch_job

VARIABLES = ("SLURM_JOB_END_TIME", "PBS_WALLTIME", "WFRUN_NODEFILE")
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


def system(directory: Path, kind: str) -> batch_job.JobSystem:
    put_facts(directory, kind)
    return batch_job.JobSystem(str(directory))


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
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    told: str,
    granted_s: float,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    command("squeue", f'test "$4" = 17 || exit 9\n{told}')
    assert system(tmp_path, "slurm").time_granted_s(100000) == granted_s


def test_time_left_without_an_answer(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = system(tmp_path, "slurm")
    assert slurm.time_granted_s(None) is None  # there is no squeue on the node
    assert slurm.time_granted_s(60) == 60
    pbs = system(tmp_path, "pbs")
    assert pbs.time_granted_s(60) == 60
    monkeypatch.setenv("PBS_WALLTIME", "50")
    assert pbs.time_granted_s(60) == 50
    assert slurm.time_granted_s(60) == 60, "left over from another batch system"


def test_the_nodes_are_those_of_the_file(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert batch_job.hosts_here() == []
    (tmp_path / "nodes").write_text("n2\nn2\nn1\nn1\n")
    monkeypatch.setenv("WFRUN_NODEFILE", str(tmp_path / "nodes"))
    assert batch_job.hosts_here() == ["n2", "n1"]


def test_the_nodes_by_slurm(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    slurm = system(tmp_path, "slurm")
    assert slurm.hosts() == []
    command("scontrol", 'test "$*" = "show hostnames n[1-2]" && echo n1 && echo n2')
    assert slurm.hosts() == ["n1", "n2"]


@pytest.mark.parametrize(
    ("kind", "name", "starts"),
    [
        ("pbs", "pbs_tmrsh", [["pbs_tmrsh", "n2"], ["pbs_tmrsh", "n3"]]),
        ("torque", "pbsdsh", [["pbsdsh", "-h", "n2"], ["pbsdsh", "-h", "n3"]]),
        ("grid-engine", "qrsh", [["qrsh", "-inherit", "-nostdin", n] for n in ("n2", "n3")]),
    ],
)
def test_a_command_for_each_of_the_other_nodes(
    tmp_path: Path, command: Command, kind: str, name: str, starts: list[list[str]]
) -> None:
    program, hosts = ["sh", "x"], ["n1", "n2", "n3"]
    found = system(tmp_path, kind)
    assert found.starts(program, hosts, 4) == []
    command(name, "exit 0")
    assert found.starts(program, hosts[:1], 4) == []
    assert found.starts(program, hosts, 4) == [
        ([*start, *program, str(n)], {}) for n, start in enumerate(starts, 1)
    ]


def test_one_command_for_all_of_the_other_nodes(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("srun", "exit 0")
    ((one, variables),) = system(tmp_path, "slurm").starts(["sh", "x"], ["n1", "n2", "n3"], 4)
    assert one[0] == "srun"
    assert one[-3:] == ["sh", "x", "$SLURM_PROCID"]
    assert {"--nodes=2", "--ntasks=2", "--nodelist=n2,n3", "--cpus-per-task=4"} <= set(one)
    assert variables["SLURM_OVERLAP"] == "1"
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert [batch_job.number_of_node(word) for word in ("$SLURM_PROCID", "2", "0")] == [2, 2, 0]
