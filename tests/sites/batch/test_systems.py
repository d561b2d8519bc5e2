"""What is run at the head node, and what its answers mean."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.sites.batch.recordings import GRID_ENGINE, OPENPBS, SLURM, recorded
from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError, WfrunError
from wfrun.engine.model import Access
from wfrun.sites.batch.slurm.queue import SQUEUE_FORMAT
from wfrun.sites.batch.system import (
    ArrayTooLargeError,
    BackPressureError,
    BatchJob,
    BatchSystem,
    Ending,
    QueueUnknownError,
)
from wfrun.sites.kinds import BATCH_KINDS, make_batch_system

JOB = BatchJob(
    name="wfrun-r1-1",
    count=1,
    nodes=1,
    cores=1,
    memory_bytes=0,
    gpus=0,
    walltime_s=None,
    queue=None,
    account=None,
    options=(),
    avoid_nodes=(),
    log="/scratch/wfrun-r1/log",
    output="/scratch/wfrun-r1/output/1",
    command=("true",),
)
LARGE = msgspec.structs.replace(
    JOB,
    count=20,
    cores=4,
    memory_bytes=(1 << 30) + 1,
    gpus=2,
    walltime_s=90.5,
    queue="long",
    account="physics",
    options=("--comment", "two words"),
    avoid_nodes=("node7.cluster.org", "node8"),
    log="/scratch/100% $USER/log",
)


def system(kind: str) -> BatchSystem:
    return make_batch_system(kind, Access())


def outcomes(
    system: BatchSystem, answer: tuple[int | None, str, str]
) -> Mapping[tuple[str, int], Ending]:
    """The outcomes in an answer; none in one that cannot be parsed."""
    try:
        return system.ended(*answer)
    except QueueUnknownError:
        return {}


@pytest.fixture(params=sorted(BATCH_KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def each(kind: str) -> BatchSystem:
    return system(kind)


def test_a_kind_without_a_batch_system() -> None:
    with pytest.raises(InvalidError, match="slurm, grid-engine, pbs, torque"):
        make_batch_system("ssh", Access())


def test_a_large_array_in_slurm() -> None:
    assert system("slurm").submit(LARGE, "/s/batch.sh") == [
        "sbatch", "--parsable", "--job-name=wfrun-r1-1", "--no-requeue", "--export=ALL",
        "--chdir=/", "--output=/scratch/100%% $USER/log", "--open-mode=append", "--nodes=1",
        "--ntasks=1", "--cpus-per-task=4", "--array=1-20", "--mem=1025M", "--gres=gpu:2",
        "--time=2", "--partition=long", "--account=physics", "--exclude=node7,node8", "--comment",
        "two words", "/s/batch.sh",
    ]  # fmt: skip


def test_a_large_array_in_grid_engine() -> None:
    access = Access(
        batch_settings={"parallel_environment": "threads", "memory_resource": "mem_free"}
    )
    shell, option, _, *command = make_batch_system("grid-engine", access).submit(LARGE, "/s/b.sh")
    assert [shell, option] == ["sh", "-c"]
    assert command == [
        "qsub", "-terse", "-N", "wfrun-r1-1", "-r", "n", "-V", "-S", "/bin/sh", "-b", "n",
        "-m", "n", "-wd", "/", "-j", "y", "-o", "/scratch/100% $USER/log",
        "-t", "1-20", "-pe", "threads", "4",
        "-l", "mem_free=257M", "-l", "gpu=2", "-l", "h_rt=91", "-q", "long", "-P", "physics",
        "-l", "h=!(node7|node7.*|node8|node8.*)", "--comment", "two words", "/s/b.sh",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "size", "output"),
    [
        (
            "pbs",
            ["-J", "1-20", "-l", "select=1:ncpus=4:mem=1048577kb:ngpus=2"],
            "/scratch/wfrun-r1/output/1.^array_index^",
        ),
        (
            "torque",
            ["-t", "1-20", "-l", "nodes=1:ppn=4:gpus=2", "-l", "mem=1048577kb"],
            "/scratch/wfrun-r1/output/1",
        ),
    ],
)
def test_a_large_array_in_pbs(kind: str, size: list[str], output: str) -> None:
    assert system(kind).submit(LARGE, "/s/batch.sh") == [
        "qsub", "-N", "wfrun-r1-1", "-r", "y" if kind == "pbs" else "n", "-V", "-S", "/bin/sh",
        "-m", "n", "-j", "oe", "-o", output, *size, "-l", "walltime=00:01:31", "-q", "long",
        "-A", "physics", "--comment", "two words", "/s/batch.sh",
    ]  # fmt: skip


ON_SEVERAL_NODES = {
    "slurm": "--nodes=3 --ntasks-per-node=4 --cpus-per-task=1 --mem=1024M --gres=gpu:2",
    "grid-engine": "-pe mpi-4 12 -l h_vmem=256M -l gpu=2",
    "pbs": "-l select=3:ncpus=4:mpiprocs=4:mem=1048576kb:ngpus=2 -l place=scatter",
    "torque": "-l nodes=3:ppn=4:gpus=2 -l mem=3145728kb",
}


@pytest.mark.parametrize("kind", ON_SEVERAL_NODES)
def test_a_job_on_several_nodes(kind: str) -> None:
    job = msgspec.structs.replace(JOB, nodes=3, cores=4, memory_bytes=1 << 30, gpus=2)
    settings = {"parallel_environment": "mpi-{cores}"} if kind == "grid-engine" else {}
    command = make_batch_system(kind, Access(batch_settings=settings)).submit(job, "/s/batch.sh")
    command = command[3:] if command[0] == "sh" else command
    assert f" {ON_SEVERAL_NODES[kind]} " in " ".join(command)


def test_a_parallel_environment_of_one_node_is_not_enough_for_several() -> None:
    grid_engine = system("grid-engine")
    assert "smp" in grid_engine.submit(msgspec.structs.replace(JOB, cores=4), "/s/batch.sh")
    with pytest.raises(InfeasibleError, match="parallel environment smp") as raised:
        grid_engine.submit(msgspec.structs.replace(JOB, nodes=2), "/s/batch.sh")
    assert "'parallel_environment: mpi-{cores}'" in str(raised.value.hint)


def test_one_job_is_no_array(each: BatchSystem) -> None:
    command = each.submit(JOB, "/s/batch.sh")
    assert not [argument for argument in command if "1-1" in argument.replace(JOB.name, "")]
    assert not [argument for argument in command if "mem" in argument]
    assert [argument for argument in command if argument.endswith("/s/batch.sh")]


def test_the_catalog_bounds_arrays() -> None:
    for kind in BATCH_KINDS:
        assert make_batch_system(kind, Access(max_array=7)).max_array == 7


@pytest.mark.parametrize("count", [1, 5])
def test_scripts_run_the_command_with_the_element(
    each: BatchSystem, count: int, tmp_path: Path
) -> None:
    folder = tmp_path / "a 'b' $(touch x) \n ü"
    folder.mkdir()
    odd = ("two words", "$HOME", "`id`", "it's", '"', "a\nb", "*", "", "-n", "ü")
    program = ("printf", r"<%s>\n", *odd)
    job = msgspec.structs.replace(JOB, count=count, command=program, log=str(folder / "log"))
    script = tmp_path / "batch.sh"
    script.write_text(each.script(job), encoding="utf-8")
    subprocess.run(["sh", "-n", script], check=True, timeout=100)
    array = each.script(msgspec.structs.replace(job, count=5))
    variables = re.findall(r'"\$([A-Z_]+)"$', array, re.MULTILINE)
    assert variables
    # Where there is no array: left over from an allocation that the submission was made in.
    environment = {**os.environ, **dict.fromkeys(variables, "3")}
    done = subprocess.run(
        ["sh", script], env=environment, check=True, capture_output=True, cwd=tmp_path, timeout=100
    )
    output = done.stdout
    if (folder / "log").exists():
        assert output == b""
        output = (folder / "log").read_bytes()
    element = "3" if count > 1 else "1"
    assert output.decode() == "".join(f"<{each}>\n" for each in (*odd, element))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("kind", "source", "name", "ident"),
    [
        ("slurm", SLURM, "submit-ok", "42"),
        ("slurm", SLURM, "submit-array", "43"),
        ("grid-engine", GRID_ENGINE, "submit-array", "55"),
        ("pbs", OPENPBS, "qsub-ok", "1.pbshost"),
        ("pbs", OPENPBS, "qsub-array", "3[].pbshost"),
        ("torque", OPENPBS, "qsub-array", "3[].pbshost"),
    ],
)
def test_taken(kind: str, source: str, name: str, ident: str) -> None:
    assert system(kind).submitted(*recorded(source, name)) == ident


def test_taken_among_the_words_of_a_site() -> None:
    output = "Welcome!\nCharging 3 hours to physics\n17;alpha\n"
    assert system("slurm").submitted(0, output, "sbatch: lua: hello\n") == "17"


REFUSALS: list[tuple[str, str, str, type[WfrunError]]] = [
    *(
        ("slurm", SLURM, f"refuse-{name}", InfeasibleError)
        for name in (
            "account", "badmem", "badnode", "exclude", "feature", "gpus", "gres",
            "license", "memory", "option", "partition", "qos", "reservation",
        )
    ),
    ("slurm", SLURM, "refuse-array", ArrayTooLargeError),
    ("grid-engine", GRID_ENGINE, "refuse-array", ArrayTooLargeError),
    ("slurm", SLURM, "limit-size", InfeasibleError),
    ("slurm", SLURM, "limit-assoc", BackPressureError),
    ("slurm", SLURM, "limit-qos", BackPressureError),
    ("slurm", SLURM, "limit-maxjobs", BackPressureError),
    ("slurm", SLURM, "down-submit", TransientError),
    ("slurm", SLURM, "refuse-script", TransientError),
    ("slurm", SLURM, "refuse-drained", TransientError),
    *(
        ("grid-engine", GRID_ENGINE, f"refuse-{name}", InfeasibleError)
        for name in (
            "name", "name2", "option", "pe", "project", "queue", "resource", "verify",
            "verify-q",
        )
    ),
    ("grid-engine", GRID_ENGINE, "limit-user", BackPressureError),
    ("grid-engine", GRID_ENGINE, "limit-all", BackPressureError),
    ("grid-engine", GRID_ENGINE, "down-qsub", TransientError),
    ("grid-engine", GRID_ENGINE, "submit-badscript", TransientError),
    *(
        ("pbs", OPENPBS, f"qsub-{name}", InfeasibleError)
        for name in ("bad-queue", "bad-resource", "bad-resource2", "name-too-long")
    ),
    ("pbs", OPENPBS, "qsub-unicode", TransientError),  # a usage text
    ("pbs", OPENPBS, "qsub-limit", BackPressureError),
    ("pbs", OPENPBS, "qstat-server-down", TransientError),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "source", "name", "error"), REFUSALS)
def test_not_taken(kind: str, source: str, name: str, error: type[WfrunError]) -> None:
    answer = recorded(source, name)
    with pytest.raises(WfrunError) as caught:
        system(kind).submitted(*answer)
    assert type(caught.value) is error
    words = answer.errors.strip() or answer.output.strip()
    assert words.splitlines()[0] in str(caught.value)
    assert "usage:" not in str(caught.value)


def test_unclear_answers_may_have_been_taken(each: BatchSystem) -> None:
    for exit_code, output, errors in [
        (0, "", ""),
        (0, "Submitted!\n", ""),
        (1, "", ""),
        (1, "17\n", "sbatch: error: Socket timed out on send/recv operation\n"),
        (None, "", ""),
        (None, "", "Invalid partition name specified"),
        (1, "", "Unable to run job: Error reading answer list from qmaster\nExiting.\n"),
    ]:
        with pytest.raises(TransientError):
            each.submitted(exit_code, output, errors)


def test_a_full_scheduler_that_lets_sbatch_wait_is_a_limit() -> None:
    errors = recorded(SLURM, "limit-maxjobs").errors
    with pytest.raises(BackPressureError, match="timed out"):
        system("slurm").submitted(None, "", errors)


def test_long_answers_are_cut() -> None:
    with pytest.raises(TransientError) as caught:
        system("slurm").submitted(1, "", "x" * 1_000_000)
    assert len(str(caught.value)) < 1000


def test_whose_queue() -> None:
    assert system("slurm").queue("ann") == [
        "squeue", "--array", "--user=ann", f"--format={SQUEUE_FORMAT}"
    ]  # fmt: skip
    assert "--user=ann" not in system("slurm").queue(None)
    assert system("grid-engine").queue("ann") == ["qstat", "-xml", "-u", "ann"]
    assert system("grid-engine").queue(None) == ["qstat", "-xml", "-u", "*"]
    # With -t PBS shows ended elements too, of 5,000 elements 7.3 MB.
    assert system("pbs").queue("ann") == ["qstat", "-f", "-F", "json"]
    assert system("pbs").queue(None) == ["qstat", "-t", "-f", "-F", "json"]
    assert system("pbs").elements(["7[].h"]) == [["qstat", "-t", "-f", "-F", "json", "7[].h"]]


@pytest.mark.parametrize(
    ("kind", "source", "name"),
    [
        ("slurm", SLURM, "down-queue"),
        ("slurm", SLURM, "queue-baduser"),
        ("grid-engine", GRID_ENGINE, "down-qstat"),
        ("pbs", OPENPBS, "qstat-server-down"),
        ("pbs", OPENPBS, "qstat-unknown"),
        ("torque", OPENPBS, "qstat-server-down"),
    ],
)
def test_a_failed_query_says_nothing(kind: str, source: str, name: str) -> None:
    with pytest.raises(QueueUnknownError):
        system(kind).jobs(*recorded(source, name))


def test_an_empty_answer_says_nothing(each: BatchSystem) -> None:
    for answer in [(0, "", ""), (None, "", ""), (0, "garbage\n", ""), (0, "\x00\udcff", "")]:
        with pytest.raises(QueueUnknownError):
            each.jobs(*answer)
        assert outcomes(each, answer) == {}


@pytest.mark.parametrize(
    ("kind", "source", "name", "count"),
    [
        ("slurm", SLURM, "queue", 18),
        ("slurm", SLURM, "queue-empty", 0),
        ("grid-engine", GRID_ENGINE, "queue-empty", 0),
        ("pbs", OPENPBS, "qstat-after", 2),
    ],
)
def test_queues(kind: str, source: str, name: str, count: int) -> None:
    answer = recorded(source, name)
    assert len(system(kind).jobs(*answer)) == count
    with pytest.raises(QueueUnknownError):
        system(kind).jobs(None, answer.output, "")


def test_cancelling() -> None:
    arrays = [("7", 3), ("7", 1), ("7", 2), ("7", 9), ("8", None), ("9", 1), ("9", None), ("7", 3)]
    assert system("slurm").cancel(arrays) == [["scancel", "7_[1-3,9]", "8", "9"]]
    assert system("grid-engine").cancel(arrays) == [["qdel", "7.1-3", "7.9", "8", "9"]]
    pbs = [("7[].h", 3), ("7[].h", 1), ("8.h", None), ("9[].h", None), ("10.h", 1)]
    assert system("pbs").cancel(pbs) == [["qdel", "7[1].h", "7[3].h", "8.h", "9[].h", "10.h"]]
    assert system("torque").cancel(pbs) == [
        ["qdel", "8.h", "9[].h", "10.h"],
        ["qdel", "-t", "1,3", "7[].h"],
    ]


def test_command_lines_stay_short(each: BatchSystem) -> None:
    many = [(str(number), None) for number in range(1000)]
    assert each.cancel([]) == []
    assert each.endings([]) == []
    assert len(each.cancel(many)) == 5
    named = [argument for command in each.cancel(many) for argument in command[1:]]
    named = [argument for argument in named if argument.isdigit()]
    assert named == [job for job, _ in many]
    assert max(len(" ".join(command)) for command in each.endings(named)) < 10_000


@pytest.mark.parametrize(
    ("kind", "source", "name", "count"),
    [
        ("slurm", SLURM, "ended-sacct", 22),
        ("slurm", SLURM, "ended-squeue", 20),
        ("slurm", SLURM, "ended-sacct-unknown", 0),
        ("slurm", SLURM, "ended-squeue-unknown", 0),
        ("slurm", SLURM, "disabled-sacct", 0),
        ("slurm", SLURM, "down-sacct", 0),
        ("grid-engine", GRID_ENGINE, "qacct-array", 9),
        ("grid-engine", GRID_ENGINE, "qacct-unknown", 0),
        ("pbs", OPENPBS, "qstat-finished-x", 1),
        ("pbs", OPENPBS, "qstat-finished-without-x", 0),
        ("torque", OPENPBS, "qstat-unknown", 0),
    ],
)
def test_endings(kind: str, source: str, name: str, count: int) -> None:
    assert len(outcomes(system(kind), recorded(source, name))) == count


@pytest.mark.parametrize("kind", ["pbs", "torque", "grid-engine"])
def test_no_mails_are_sent_unless_the_user_asks_for_them(kind: str) -> None:
    """PBS mails by default for each job that it ends, and a bag may have thousands."""
    words = system(kind).submit(msgspec.structs.replace(JOB, options=("-m", "a")), "script")
    values = [value for word, value in itertools.pairwise(words) if word == "-m"]
    assert values == ["n", "a"], "the last one counts"
