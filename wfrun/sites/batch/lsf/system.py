"""LSF's commands. Source: bsub(1), bjobs(1), bhist(1), bkill(1), blaunch(1) and "Environment
variables" of the IBM Spectrum LSF 10.1 command and configuration references. Written from the
manual alone: no LSF was at hand."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.sites.batch import common
from wfrun.sites.batch.elements import compress
from wfrun.sites.batch.lsf import history, queue
from wfrun.sites.batch.lsf.refusals import REFUSALS
from wfrun.sites.batch.lsf.termination import reason_of
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.sites.batch.system import BatchJob, BatchSystem, Ending, JobInQueue

_BSUB = 'unset BSUB_QUIET BSUB_QUIET2; exec bsub "$@" <"$0"'
"""The script is passed to bsub on its input, since bsub would pass the words of a command to the
user's shell. With BSUB_QUIET bsub would not print the id of the job."""
_LEFT = """\
[ "${LSB_JOBINDEX:-0}" = 0 ] || element="[$LSB_JOBINDEX]"
bjobs -noheader -hms -o time_left "$LSB_JOBID$element" | cut -d' ' -f1
"""


class Lsf(BatchSystem):
    """IBM Spectrum LSF 10.1 with Fix Pack 2 or later.

    Jobs get the environment of the login on the head node, as LSF passes it by default. Memory is
    requested for each host. A run limit is in minutes. Some sites scale it by the speed of the host
    (``ABS_RUNLIMIT``), so launchers ask LSF for the time left.
    """

    environment: ClassVar[Mapping[str, str]] = {}
    node: ClassVar[NodeFacts] = NodeFacts(
        left=_LEFT,
        # "hostA 4 hostB 2".
        hosts="printf '%s %s\\n' $LSB_MCPU_HOSTS",
        starts=(Start(("blaunch", "-n", "{host}")),),
        # At a run limit SIGUSR2 comes first, and then, as by bkill, SIGINT, SIGTERM and SIGKILL.
        warnings=("SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGINT"),
    )

    def __init__(self, max_array: int | None = None) -> None:
        # MAX_JOB_ARRAY_SIZE is 1000 by default.
        self.max_array = max_array or 1000

    def script(self, job: BatchJob) -> str:
        """The script opens the log itself: LSF writes the file of ``-oo`` only when the job has
        ended, and begins it with a report of the end."""
        before = f"exec >>{shlex.quote(job.log)} 2>&1\n"
        if job.walltime_s is not None:
            seconds = 60 * common.whole_minutes(job.walltime_s)
            before += common.tell_walltime(job, seconds, "-W")
        return common.script(job, "LSB_JOBINDEX", before)

    def submit(self, job: BatchJob, script: str) -> list[str]:
        name = job.name if job.count == 1 else f"{job.name}[1-{job.count}]"
        output = job.output if job.count == 1 else f"{job.output}.%I"
        command = ["-J", name, "-rn", "-cwd", "/", "-oo", output, "-n", str(job.nodes * job.cores)]
        command += ["-R", _requirement(job)]
        if job.memory_bytes:
            command += ["-M", _memory(job)]
        if job.gpus:
            command += ["-gpu", f"num={job.gpus}"]
        if job.walltime_s is not None:
            command += ["-W", str(common.whole_minutes(job.walltime_s))]
        if job.queue is not None:
            command += ["-q", job.queue]
        if job.account is not None:
            command += ["-P", job.account]
        return ["sh", "-c", _BSUB, script, *command, *job.options]

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        found = re.findall(r"^Job <(\d+)> is submitted to ", output, re.MULTILINE | re.ASCII)
        if exit_code == 0 and found:
            return str(found[-1])
        raise REFUSALS.error("bsub", exit_code, output, errors)

    def rehearse(self, job: BatchJob) -> list[str] | None:
        """bsub cannot verify without submitting, but bqueues shows whether the queue exists."""
        return None if job.queue is None else ["bqueues", "-w", job.queue]

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        if exit_code != 0:
            raise REFUSALS.error("bqueues", exit_code, output, errors)

    def output_path(self, output: str, element: int | None) -> str:
        return output if element is None else f"{output}.{element}"

    def explained(self, printed: str) -> Ending | None:
        """The reason in LSF's report, which precedes the output of the job."""
        return reason_of(printed.partition("The output (if any) follows")[0])

    def queue(self, user: str | None) -> list[str]:
        return [*queue.COMMAND, "-u", "all" if user is None else user]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        if queue.is_empty(output, errors):
            return []
        common.check_answer("bjobs", exit_code, errors)
        return queue.read_queue(output)

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        named = [
            f"{job}[{compress(elements)}]" if elements else job
            for job, elements in common.grouped(jobs)
        ]
        return [["bkill", *chunk] for chunk in common.chunks(named)]

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        """bjobs shows ended jobs for CLEAN_PERIOD, an hour by default; bhist shows them as long as
        its event file is kept."""
        return [
            *([*queue.COMMAND, "-a", *chunk] for chunk in common.chunks(ids)),
            *(["bhist", "-l", "-a", *chunk] for chunk in common.chunks(ids)),
        ]

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        if '"RECORDS"' in output:
            return queue.read_endings(output)
        return history.read_history(output)


def _requirement(job: BatchJob) -> str:
    """The resource requirement: hosts to avoid, distribution of the slots, memory of each host."""
    span = f"ptile={job.cores}" if job.nodes > 1 else "hosts=1"
    words = [f"span[{span}]"]
    if job.avoid_nodes:
        # A host may be known by its short name or by its full one.
        known = ((node.partition(".")[0], node) for node in job.avoid_nodes)
        others = dict.fromkeys(f"hname!='{name}'" for both in known for name in both)
        words.insert(0, f"select[{' && '.join(others)}]")
    if job.memory_bytes:
        words.append(f"rusage[mem={_memory(job)}]")
    return " ".join(words)


def _memory(job: BatchJob) -> str:
    return f"{math.ceil(job.memory_bytes / common.MIB)}MB"
