"""OAR's commands. Source: oarsub(1), oarstat(1), oardel(1) and oarsh(1) of version 2.5; tested with
2.5.9."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.engine.errors import InfeasibleError
from wfrun.sites.batch import common
from wfrun.sites.batch.node_facts import NodeFacts, Start
from wfrun.sites.batch.oar import queue as parser
from wfrun.sites.batch.oar.refusals import REFUSALS
from wfrun.sites.batch.system import BatchJob, BatchSystem, Ending, JobInQueue

_OARSTAT = ("sh", "-c", 'oarstat -J "$@" && exec oarstat -V', "oarstat")
"""The command that shows jobs, and then OAR's version. The version shows that the answer is
complete: without jobs oarstat prints nothing."""


class Oar(BatchSystem):
    """OAR 2.5.

    Each element of an array is a job of its own, with an id of its own. If a job cannot be started,
    OAR submits it again, with a new id. So jobs are named by the id of their array and their index
    in it; a single job is an array of one.

    Jobs get nothing of the environment of the submission. Cores are requested as the resource
    ``core_resource``, whose name administrators choose. Memory is not requested, since the property
    for memory has another name at each site, or is missing.
    """

    environment: ClassVar[Mapping[str, str]] = {}
    node: ClassVar[NodeFacts] = NodeFacts(
        walltime_s="OAR_JOB_WALLTIME_SECONDS",
        hosts='cat "$OAR_NODEFILE"',
        starts=(Start(("oarsh", "{host}"), by_shell=True),),
    )

    def __init__(self, max_array: int | None = None, core_resource: str | None = None) -> None:
        # OAR has no limit, but stores each element as a job of its own.
        self.max_array = max_array or 1000
        self.core_resource = core_resource or "core"

    def script(self, job: BatchJob) -> str:
        before = ""
        if job.walltime_s is not None:
            seconds = common.whole_seconds(job.walltime_s)
            before = common.tell_walltime(job, seconds, ".*walltime")
        return common.script(job, "OAR_ARRAY_INDEX", before)

    def submit(self, job: BatchJob, script: str) -> list[str]:
        if job.gpus:
            raise InfeasibleError(
                f"a task needs {job.gpus} GPUs, for which OAR has no common name",
                hint="Choose the nodes by 'options' in the catalog.",
            )
        wanted = f"/nodes={job.nodes}/{self.core_resource}={job.cores}"
        if job.walltime_s is not None:
            wanted += f",walltime={common.clock(job.walltime_s)}"
        command = ["oarsub", "-n", job.name, "-l", wanted, "-d", "/", "-O", job.log, "-E", job.log]
        if job.count > 1:
            command += ["--array", str(job.count)]
        if job.queue is not None:
            command += ["-q", job.queue]
        if job.account is not None:
            command += ["--project", job.account]
        avoided = [name for name in job.avoid_nodes if re.fullmatch(r"[\w.-]+", name)]
        if avoided:
            names = ",".join(f"'{name}'" for name in avoided)
            command += ["-p", f"network_address NOT IN ({names})"]
        # The user's shell reads the command.
        return [*command, *job.options, f"/bin/sh {shlex.quote(script)}"]

    def submitted(self, exit_code: int | None, output: str, errors: str) -> str:
        for name in ("ARRAY", "JOB"):
            found = re.findall(rf"^OAR_{name}_ID=(\d+)$", output, re.MULTILINE | re.ASCII)
            if exit_code == 0 and found:
                return str(found[-1])
        raise REFUSALS.error("oarsub", exit_code, output, errors)

    def rehearse(self, job: BatchJob) -> None:
        """None: oarsub cannot verify without submitting, and users cannot list the queues."""

    def rehearsed(self, exit_code: int | None, output: str, errors: str) -> None:
        """Does nothing: `rehearse` has no command."""

    def queue(self, user: str | None) -> list[str]:
        return [*_OARSTAT, *(() if user is None else ("-u", user))]

    def jobs(self, exit_code: int | None, output: str, errors: str) -> list[JobInQueue]:
        common.check_answer("oarstat", exit_code, errors)
        return parser.read_queue(output)

    def cancel(self, jobs: Sequence[tuple[str, int | None]]) -> list[list[str]]:
        groups = common.grouped(jobs)
        whole = [job for job, elements in groups if not elements]
        commands = [["oardel", "--array", *chunk] for chunk in common.chunks(whole)]
        for job, elements in groups:
            for some in common.chunks([str(element) for element in elements]):
                where = f"array_id = {job} AND array_index IN ({','.join(some)})"
                commands.append(["oardel", "--sql", where])
        return commands

    def endings(self, ids: Sequence[str]) -> list[list[str]]:
        return [
            [*_OARSTAT, "-f", "--sql", f"array_id IN ({','.join(chunk)})"]
            for chunk in common.chunks(ids)
        ]

    def ended(
        self, exit_code: int | None, output: str, errors: str
    ) -> Mapping[tuple[str, int], Ending]:
        common.check_answer("oarstat", exit_code, errors)
        return parser.read_endings(output)
