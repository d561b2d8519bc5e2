"""Commands of Grid Engine and its descendants (Son of, Univa, Open). Source: qsub(1), qstat(1),
qacct(1) and qdel(1) of version 8.1.9; tested with 8.1.9."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from wfrun.engine.errors import InfeasibleError
from wfrun.sites.batch import common
from wfrun.sites.batch.elements import compress
from wfrun.sites.batch.grid_engine import queue as parser
from wfrun.sites.batch.grid_engine.refusals import REFUSALS
from wfrun.sites.batch.grid_engine.waits import read_waits
from wfrun.sites.batch.grid_engine.width import NO_QUEUE, Question, checked
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.sites.batch.system import BatchJob, BatchSystem, Ending, JobInQueue


class GridEngine(BatchSystem):
    """Grid Engine.

    Jobs get the environment of the login on the head node (``-V``); without it PATH is lost. Only
    the first line of a variable arrives, and no shell functions.

    Jobs with several cores request ``parallel_environment``, which must put them on one node
    (``allocation_rule $pe_slots``). Jobs on several nodes need a parallel environment whose
    allocation rule is the number of cores on each node: ``{cores}`` in its name stands for that
    number. Memory is requested as ``memory_resource``, per slot, as Grid Engine counts it. GPUs are
    requested as resource ``gpu``.
    """

    environment: ClassVar[Mapping[str, str]] = {}
    # Source: sge_pe(5), qrsh(1).
    node: ClassVar[NodeFacts] = NodeFacts(
        hosts='cat "$PE_HOSTFILE"',
        starts=(Start(("qrsh", "-inherit", "-nostdin", "{host}")),),
    )

    def __init__(
        self,
        max_array: int | None = None,
        parallel_environment: str | None = None,
        memory_resource: str | None = None,
    ) -> None:
        # max_aj_tasks is 75,000 by default, but no more than max_aj_instances, 2,000, run at once.
        self.max_array = max_array or 2000
        self.parallel_environment = parallel_environment or "smp"
        self.memory_resource = memory_resource or "h_vmem"

    def script(self, job: BatchJob) -> str:
        before = ""
        if job.walltime_s is not None:
            before = common.tell_walltime(job, common.whole_seconds(job.walltime_s), ".*h_rt")
        return common.script(job, "SGE_TASK_ID", before)

    def submit(self, job: BatchJob, script: str) -> list[str]:
        arguments = [*self._arguments(job), script]
        if job.nodes * job.cores == 1:
            return ["qsub", *arguments]
        anywhere = msgspec.structs.replace(job, avoid_nodes=())
        likes = [anywhere]
        if job.memory_bytes:  # possibly a load value
            likes.append(msgspec.structs.replace(anywhere, memory_bytes=0))
        return checked(arguments, [self._question(like, script) for like in likes])

    def _question(self, job: BatchJob, script: str) -> Question:
        wide, narrow = job.nodes * job.cores, job.cores if job.nodes > 1 else 1
        each = f" with {self._memory(job)} each" if job.memory_bytes else ""
        return Question(
            ["qsub", *self._arguments(job), "-w", "v", script],
            ["qsub", *self._arguments(job, slots=narrow), "-w", "v", script],
            f"Not even an empty queue has {wide} slots{each} of the parallel environment "
            f"{self._environment_for(job)} for one job ('qsub -w v').",
        )

    def _memory(self, job: BatchJob) -> str:
        mebibytes = math.ceil(job.memory_bytes / job.cores / common.MIB)
        return f"{self.memory_resource}={mebibytes}M"

    def _arguments(self, job: BatchJob, slots: int | None = None) -> list[str]:
        """The arguments of qsub without the script. ``slots`` replaces the number of slots of the
        job."""
        command = ["-terse", "-N", job.name, "-r", "n", "-V", "-S", "/bin/sh", "-b", "n"]
        command += ["-m", "n"]  # the default, unless an sge_request file has another one
        command += ["-wd", "/", "-j", "y", "-o", job.log]
        if job.count > 1:
            command += ["-t", f"1-{job.count}"]
        if job.cores > 1 or job.nodes > 1:
            slots = slots or job.nodes * job.cores
            command += ["-pe", self._environment_for(job), str(slots)]
        if job.memory_bytes:
            command += ["-l", self._memory(job)]
        if job.gpus:
            command += ["-l", f"gpu={job.gpus}"]
        if job.walltime_s is not None:
            command += ["-l", f"h_rt={common.whole_seconds(job.walltime_s)}"]
        if job.queue is not None:
            command += ["-q", job.queue]
        if job.account is not None:
            command += ["-P", job.account]
        if job.avoid_nodes:
            # A node may be known by its short name or by its full one.
            names = dict.fromkeys(node.partition(".")[0] for node in job.avoid_nodes)
            avoided = "|".join(f"{name}|{name}.*" for name in names)
            command += ["-l", f"h=!({avoided})"]
        return [*command, *job.options]

    def _environment_for(self, job: BatchJob) -> str:
        name = self.parallel_environment
        if job.nodes > 1 and "{cores}" not in name:
            raise InfeasibleError(
                f"a task needs {job.nodes} nodes, and the parallel environment {name} puts all "
                "cores of a job on one node",
                hint="Write 'parallel_environment: mpi-{cores}' or similar in the catalog if there "
                "are environments such as mpi-8 with allocation rule 8 ('qconf -spl' lists all).",
            )
        return name.replace("{cores}", str(job.cores))

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        # "7" or "7.1-20:1". A verifier of the cluster may print lines before it.
        found = re.findall(r"^(\d+)(?:\.\d+-\d+:\d+)?$", output, re.MULTILINE | re.ASCII)
        if exit_code == 0 and found:
            return str(found[-1])
        raise REFUSALS.error("qsub", exit_code, output, errors)

    def rehearse(self, job: BatchJob) -> list[str]:
        """``-w v`` verifies without submitting. The command names a program, since no script exists
        yet."""
        arguments = self._arguments(job)
        arguments[arguments.index("-b") + 1] = "y"
        # After the user's options, which may have -w, too.
        return ["qsub", *arguments, "-w", "v", "/bin/true"]

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        # -w v knows no load values, so a job that requests one, such as mem_free, fits no queue by
        # it, while qsub accepts the job and the scheduler starts it.
        if exit_code != 0 and NO_QUEUE not in errors:
            raise REFUSALS.error("qsub", exit_code, output, errors)

    def queue(self, user: str | None) -> list[str]:
        return ["qstat", "-xml", "-u", "*" if user is None else user]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        common.check_answer("qstat", exit_code, errors)
        return parser.read_queue(output)

    def why(self, job: str) -> list[str]:
        """The command that shows the scheduler's reasons, since `queue` shows none.
        ``schedd_job_info`` of sched_conf(5) may turn them off."""
        return ["qstat", "-j", job]

    def waits(self, exit_code: int | None, output: str, errors: str) -> tuple[str, bool]:
        common.check_answer("qstat", exit_code, errors)
        return read_waits(output)

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        named = [
            name
            for job, elements in common.grouped(jobs)
            for name in (
                [f"{job}.{run}" for run in compress(elements).split(",")] if elements else [job]
            )
        ]
        return [["qdel", *chunk] for chunk in common.chunks(named)]

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        """One command for each job. Each reads the whole accounting file, so ids should be few."""
        return [["qacct", "-j", job] for job in ids]

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        return parser.read_accounting(output)
