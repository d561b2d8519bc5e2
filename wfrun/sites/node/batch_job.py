"""What a process in a batch job can know of the job: its end, its nodes, and how to start something
on these.

A file of the standard library for Python >= 3.6 that stands beside ``batch_launcher.py`` in
the run's directory at the site.
"""

import contextlib
import os
import shutil
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

ASK_S = 15.0
"""The batch system answers within this time, or does without."""


def time_granted_s(walltime_s: "Optional[float]") -> "Optional[float]":
    """How long we can run from now on: what was asked for, or less where the batch system says so.

    Source: squeue(1), SLURM_JOB_END_TIME (sbatch(1)); PBS_WALLTIME of Torque.
    """
    known = [] if walltime_s is None else [float(walltime_s)]
    environ = os.environ
    with contextlib.suppress(ValueError, OSError, subprocess.SubprocessError):
        if "SLURM_JOB_END_TIME" in environ:
            known.append(float(environ["SLURM_JOB_END_TIME"]) - time.time())
        elif "SLURM_JOB_ID" in environ:
            command = ["squeue", "--noheader", "--format=%L", "--job", environ["SLURM_JOB_ID"]]
            text = subprocess.check_output(
                command, universal_newlines=True, timeout=ASK_S, stderr=subprocess.DEVNULL
            )
            known.append(seconds(text.split("\n")[0].strip()))
        elif "PBS_WALLTIME" in environ:
            known.append(float(environ["PBS_WALLTIME"]))
    return max(1.0, min(known)) if known else None


def seconds(text: str) -> float:
    """``[[days-]hours:]minutes:seconds``. Raises ValueError for ``UNLIMITED`` and its like."""
    days, _, clock = text.rpartition("-")
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return float(total + 86400 * int(days or 0))


def hosts_here() -> "List[str]":
    """The nodes of the job, this one first, from the file that job.py made for us as for a task
    of several nodes."""
    with contextlib.suppress(OSError), open(os.environ.get("WFRUN_NODEFILE", "")) as file:
        names: "List[str]" = []
        for line in file:
            name = line.strip()
            if name and name not in names:
                names.append(name)
        return names
    return []


def remote_commands(program: "List[str]", hosts: "List[str]", cores: int) -> "List[List[str]]":
    """Commands that run a program, with all its cores, on each of the nodes but the first. Added as
    its last argument is the number of the node, or "srun", where srun tells it (SLURM_PROCID + 1).
    Empty where there is nothing to start it with.

    Source: srun(1); pbs_tmrsh(8) of OpenPBS, pbsdsh(1) of Torque; qrsh(1) of Grid Engine.
    """
    if len(hosts) < 2:
        return []
    others = range(1, len(hosts))
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        count = len(hosts) - 1
        step = ["srun", "--nodes=%d" % count, "--ntasks=%d" % count, "--ntasks-per-node=1"]
        step += ["--nodelist=" + ",".join(hosts[1:]), "--cpus-per-task=%d" % cores, "--mem=0"]
        return [[*step, "--input=none", "--wait=0", "--kill-on-bad-exit=1", *program, "srun"]]
    if "PBS_NODEFILE" in os.environ and shutil.which("pbs_tmrsh"):
        return [["pbs_tmrsh", hosts[node], *program, str(node)] for node in others]
    if "PBS_NODEFILE" in os.environ and shutil.which("pbsdsh"):
        return [["pbsdsh", "-h", hosts[node], *program, str(node)] for node in others]
    if "PE_HOSTFILE" in os.environ and shutil.which("qrsh"):
        start = ["qrsh", "-inherit", "-nostdin"]
        return [[*start, hosts[node], *program, str(node)] for node in others]
    return []
