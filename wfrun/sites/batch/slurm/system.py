"""Slurm's commands. Source: sbatch(1), squeue(1), sacct(1) and scancel(1) of version 22.05; tested
with 22.05.8."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.sites.batch import common
from wfrun.sites.batch.elements import compress
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.sites.batch.slurm import queue as parser
from wfrun.sites.batch.slurm.refusals import refusal
from wfrun.sites.batch.system import BatchJob, BatchSystem, Ending, JobInQueue, QueueUnknownError

_NODE = NodeFacts(
    node="SLURMD_NODENAME",
    end_s="SLURM_JOB_END_TIME",
    left='squeue --noheader --format=%L --job "$SLURM_JOB_ID"',
    hosts='scontrol show hostnames "$SLURM_JOB_NODELIST"',
    starts=(
        Start(
            (
                "srun", "--nodes={count}", "--ntasks={count}", "--ntasks-per-node=1",
                "--nodelist={hosts}", "--cpus-per-task={cores}", "--mem=0", "--input=none",
                "--wait=0", "--kill-on-bad-exit=1",
            ),
            number="SLURM_PROCID",
            environment={"SLURM_OVERLAP": "1", "SLURM_CPU_BIND": "none"},
        ),
    ),
)  # fmt: skip
"""Facts for the programs on nodes. Source: squeue(1), scontrol(1), srun(1), and sbatch(1) for
SLURM_JOB_END_TIME, which is new in version 22.05."""


class Slurm(BatchSystem):
    """Slurm.

    Jobs get the environment of the login on the head node (``--export=ALL``), as if submitted by
    hand, so PATH and modules work. ``NONE`` would make each node log the user in, which is slow and
    fails under load. The task's own environment is set later, by ``job.py``.

    A site is one cluster. For several (``-M``, federations) write one site each, with
    ``SLURM_CLUSTERS`` in its login environment.
    """

    environment: ClassVar[Mapping[str, str]] = {"SLURM_TIME_FORMAT": "%s"}
    node: ClassVar[NodeFacts] = _NODE

    def __init__(self, max_array: int | None = None) -> None:
        # MaxArraySize is 1001 by default, and limits the largest element number plus one.
        self.max_array = max_array or 1000

    def script(self, job: BatchJob) -> str:
        before = ""
        if job.walltime_s is not None:
            seconds = 60 * common.whole_minutes(job.walltime_s)
            before = common.tell_walltime(job, seconds, "-t|--time")
        return common.script(job, "SLURM_ARRAY_TASK_ID", before)

    def submit(self, job: BatchJob, script: str) -> list[str]:
        command = [
            "sbatch",
            "--parsable",
            f"--job-name={job.name}",
            "--no-requeue",
            "--export=ALL",
            "--chdir=/",
            # "%" begins a replacement; "\" would disable all replacements.
            f"--output={job.log.replace('%', '%%')}",
            "--open-mode=append",
            f"--nodes={job.nodes}",
            *_cores(job),
        ]
        if job.count > 1:
            command.append(f"--array=1-{job.count}")
        if job.memory_bytes:
            command.append(f"--mem={math.ceil(job.memory_bytes / common.MIB)}M")
        if job.gpus:
            command.append(f"--gres=gpu:{job.gpus}")
        if job.walltime_s is not None:
            command.append(f"--time={common.whole_minutes(job.walltime_s)}")
        if job.queue is not None:
            command.append(f"--partition={job.queue}")
        if job.account is not None:
            command.append(f"--account={job.account}")
        if job.avoid_nodes:
            # A node may report its full name; Slurm knows the short one.
            names = dict.fromkeys(node.partition(".")[0] for node in job.avoid_nodes)
            command.append(f"--exclude={','.join(names)}")
        return [*command, *job.options, script]

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        # "7" or "7;cluster". A plug-in of the cluster may print lines before it.
        found = re.findall(r"^(\d+)(?:;\S*)?$", output, re.MULTILINE | re.ASCII)
        if exit_code == 0 and found:
            return str(found[-1])
        raise refusal(exit_code, output, errors)

    def rehearse(self, job: BatchJob) -> list[str]:
        # The job itself is never read: a script cannot stand beside --wrap.
        program, *arguments = self.submit(job, "--wrap=true")
        return [program, "--test-only", *arguments]

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        # While all nodes are down or drained, and for some seconds after a restart of slurmctld,
        # until they have registered, nothing is available to --test-only, while sbatch accepts the
        # same job.
        if exit_code != 0 and "not available" not in errors:
            raise refusal(exit_code, output, errors)

    def queue(self, user: str | None) -> list[str]:
        whose = [] if user is None else [f"--user={user}"]
        return ["squeue", "--array", *whose, f"--format={parser.SQUEUE_FORMAT}"]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        common.check_answer("squeue", exit_code, errors)
        # Some errors, such as an unknown user, have exit code 0 and an empty table.
        if "error:" in errors:
            raise QueueUnknownError(f"squeue: {errors.strip()}")
        return parser.read_queue(output)

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        named = [
            f"{job}_[{compress(elements)}]" if elements else job
            for job, elements in common.grouped(jobs)
        ]
        return [["scancel", *chunk] for chunk in common.chunks(named)]

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        commands = []
        for chunk in common.chunks(ids):
            jobs = f"--jobs={','.join(chunk)}"
            columns = f"--format={parser.SACCT_FORMAT}"
            commands.append(["sacct", "--allocations", "--parsable2", columns, jobs])
        for chunk in common.chunks(ids):
            jobs = f"--jobs={','.join(chunk)}"
            columns = f"--format={parser.SQUEUE_FORMAT}"
            commands.append(["squeue", "--array", "--states=all", columns, jobs])
        return commands

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        if output.startswith(parser.SACCT_FORMAT.partition(",")[0]):
            return parser.read_accounting(output)
        return parser.read_queue_endings(output)


def _cores(job: BatchJob) -> list[str]:
    """Arguments that request the cores of each node: for one process, or, for a parallel job, for
    one process per core, as MPI programs need."""
    if not job.has_process_per_core:
        return ["--ntasks=1", f"--cpus-per-task={job.cores}"]
    return [f"--ntasks-per-node={job.cores}", "--cpus-per-task=1"]
