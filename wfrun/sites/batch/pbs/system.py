"""Commands of PBS Professional and OpenPBS, and of Torque. Source: qsub(1B), qstat(1B) and qdel(1B)
of OpenPBS 23.06 and recordings of its server; for Torque 6.1 the manual alone."""

from __future__ import annotations

import math
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.sites.batch import common
from wfrun.sites.batch.elements import compress
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.sites.batch.pbs.absent_nodes import may_start
from wfrun.sites.batch.pbs.attributes import endings_of, jobs_of, killed
from wfrun.sites.batch.pbs.offer import read_json_objects
from wfrun.sites.batch.pbs.queue_json import read_json
from wfrun.sites.batch.pbs.queue_text import after_header, read_text
from wfrun.sites.batch.pbs.refusals import OPENPBS, TORQUE
from wfrun.sites.batch.refusals import Refusals
from wfrun.sites.batch.system import BatchJob, BatchSystem, Ending, JobInQueue

_NEWLINES = re.MULTILINE | re.ASCII


class _Family(BatchSystem, ABC):
    """The common part of PBS and Torque. Jobs get the environment of the login on the head node
    (``-V``); without it PATH is lost. PBS and Torque have no option to exclude nodes."""

    environment: ClassVar[Mapping[str, str]] = {}
    # Source: qsub(1B), PBS_NODEFILE; pbs_tmrsh(8) of OpenPBS; PBS_WALLTIME and pbsdsh(1) of Torque.
    node: ClassVar[NodeFacts] = NodeFacts(
        walltime_s="PBS_WALLTIME",
        hosts='cat "$PBS_NODEFILE"',
        starts=(Start(("pbs_tmrsh", "{host}")), Start(("pbsdsh", "-h", "{host}"))),
    )
    variable: ClassVar[str]
    refusals: ClassVar[Refusals]

    def script(self, job: BatchJob) -> str:
        """The script opens the log itself, so that the log can be read while the job runs. PBS
        copies the rest of the output when the job ends: what the login shell that starts the script
        printed, and PBS's own message if it killed the job."""
        before = f"exec >>{shlex.quote(job.log)} 2>&1\n"
        if job.walltime_s is not None:
            seconds = common.whole_seconds(job.walltime_s)
            before += common.tell_walltime(job, seconds, ".*walltime")
        return common.script(job, self.variable, before=before)

    def submit(self, job: BatchJob, script: str) -> list[str]:
        command = ["qsub", "-N", job.name, "-r", self._rerunnable(job), "-V", "-S", "/bin/sh"]
        # By default the user gets a mail for each job or element that PBS ends.
        command += ["-m", "n", "-j", "oe", "-o", self._output(job), *self._size(job)]
        if job.walltime_s is not None:
            command += ["-l", f"walltime={common.clock(job.walltime_s)}"]
        if job.queue is not None:
            command += ["-q", job.queue]
        if job.account is not None:
            command += ["-A", job.account]
        return [*command, *job.options, script]

    def _rerunnable(self, job: BatchJob) -> str:
        """Whether the job may be queued again after a failure of its node: ``y`` or ``n``."""
        return "n"

    @abstractmethod
    def _output(self, job: BatchJob) -> str:
        """The argument of ``-o``."""

    def explained(self, printed: str) -> Ending | None:
        return killed(printed)

    @abstractmethod
    def _size(self, job: BatchJob) -> list[str]:
        """The arguments that request elements, cores, memory and GPUs."""

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        found = re.findall(r"^(\d+(?:\[\])?(?:\.[\w.-]+)?)$", output, _NEWLINES)
        if exit_code == 0 and found:
            return str(found[-1])
        raise self.refusals.error("qsub", exit_code, output, errors)

    def rehearse(self, job: BatchJob) -> list[str] | None:
        """qsub cannot verify without submitting, but qstat shows whether the queue exists."""
        return None if job.queue is None else ["qstat", "-Q", job.queue]

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        if exit_code != 0:
            raise self.refusals.error("qstat", exit_code, output, errors)


class Pbs(_Family):
    """PBS Professional and OpenPBS. The server reports finished jobs only if it keeps a history
    (``job_history_enable``)."""

    variable: ClassVar[str] = "PBS_ARRAY_INDEX"
    refusals: ClassVar[Refusals] = OPENPBS

    def __init__(self, max_array: int | None = None) -> None:
        # max_array_size is 10,000 by default.
        self.max_array = max_array or 10_000

    def _rerunnable(self, job: BatchJob) -> str:
        """Whether the job is rerunnable: ``y`` for arrays, since PBS requires it; else ``n``, since
        some servers have another default. An element that PBS queues again does nothing, since its
        attempt is already claimed."""
        return "y" if job.count > 1 else "n"

    def _output(self, job: BatchJob) -> str:
        return job.output if job.count == 1 else f"{job.output}.^array_index^"

    def output_path(self, output: str, element: int | None) -> str:
        return output if element is None else f"{output}.{element}"

    def _size(self, job: BatchJob) -> list[str]:
        chunk = f"select={job.nodes}:ncpus={job.cores}"
        if job.has_process_per_core:
            chunk += f":mpiprocs={job.cores}"
        if job.memory_bytes:
            chunk += f":mem={math.ceil(job.memory_bytes / 1024)}kb"
        if job.gpus:
            chunk += f":ngpus={job.gpus}"
        array = ["-J", f"1-{job.count}"] if job.count > 1 else []
        return [*array, "-l", chunk, *(["-l", "place=scatter"] if job.nodes > 1 else [])]

    def queue(self, user: str | None) -> list[str]:
        """The command shows all users' jobs even for one ``user``, since ``-u`` excludes ``-f``. It
        has ``-t`` only if ``user`` is None, since ``-t`` also shows ended elements of arrays, at
        1.5 kB each."""
        return ["qstat", *(["-t"] if user is None else []), "-f", "-F", "json"]

    def elements(self, ids: Sequence[str]) -> list[list[str]]:
        return [["qstat", "-t", "-f", "-F", "json", *chunk] for chunk in common.chunks(ids)]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        common.check_answer("qstat", exit_code, errors)
        return jobs_of(read_json(output))

    def nodes(self) -> list[str]:
        return ["pbsnodes", "-a", "-F", "json"]

    def may_start(self, reason: str, output: str) -> bool:
        return may_start(reason, read_json_objects(output, "nodes"))

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        named = [
            name
            for job, elements in common.grouped(jobs)
            for name in (
                [job.replace("[]", f"[{element}]") for element in elements] if elements else [job]
            )
        ]
        # Element 1 of a job that is not an array is the job itself.
        return [["qdel", *chunk] for chunk in common.chunks(list(dict.fromkeys(named)))]

    def removal(self, jobs: Sequence[str]) -> list[str]:
        """The command that removes arrays by force. After a kill of the server an array can stay in
        state B for ever (seen with 23.06)."""
        return ["qdel", "-W", "force", "-x", *jobs]

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        return [["qstat", "-x", "-t", "-f", "-F", "json", *chunk] for chunk in common.chunks(ids)]

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        return endings_of(read_json(output), torque=False)


class Torque(_Family):
    """Torque. The server reports ended jobs for ``keep_completed`` seconds."""

    variable: ClassVar[str] = "PBS_ARRAYID"
    refusals: ClassVar[Refusals] = TORQUE

    def __init__(self, max_array: int | None = None) -> None:
        # max_job_array_size of the server has no default, so this limit is ours.
        self.max_array = max_array or 1000

    def _output(self, job: BatchJob) -> str:
        return job.output

    def output_path(self, output: str, element: int | None) -> str:
        """Path of the output, to which Torque appends the number of an element."""
        return output if element is None else f"{output}-{element}"

    def _size(self, job: BatchJob) -> list[str]:
        nodes = f"nodes={job.nodes}:ppn={job.cores}"
        if job.gpus:
            nodes += f":gpus={job.gpus}"
        array = ["-t", f"1-{job.count}"] if job.count > 1 else []
        memory = f"mem={math.ceil(job.memory_bytes * job.nodes / 1024)}kb"  # the whole job's
        return [*array, "-l", nodes, *(["-l", memory] if job.memory_bytes else [])]

    def queue(self, user: str | None) -> list[str]:
        """The command shows the server's own line, then all users' jobs. Without jobs ``qstat -f``
        prints nothing, which would not show that the server has answered."""
        return ["sh", "-c", "qstat -B && qstat -t -f"]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        common.check_answer("qstat", exit_code, errors)
        return jobs_of(read_text(after_header(output)))

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        groups = common.grouped(jobs)
        whole = [job for job, elements in groups if not elements or "[]" not in job]
        return [
            *(["qdel", *chunk] for chunk in common.chunks(whole)),
            *(
                ["qdel", "-t", compress(elements), job]
                for job, elements in groups
                if elements and "[]" in job
            ),
        ]

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        return [["qstat", "-t", "-f", *chunk] for chunk in common.chunks(ids)]

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        return endings_of(read_text(output), torque=True)
