"""What a launcher can find out about its batch job: the time left, the nodes, how to start
processes on them.

It stands beside ``batch_launcher.py`` in the run's directory at the site and needs the standard
library of Python >= 3.6 alone.
"""

import contextlib
import os
import shutil
import subprocess
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

MAX_MARGIN_S = 10.0
MIN_MARGIN_S = 2.0
"""Limits of the time before the end of the walltime at which a launcher ends its tasks."""
ASK_S = 15.0
"""Timeout of a question to the batch system; without an answer the launcher relies on its walltime.
"""


def time_granted_s(walltime_s: "Optional[float]") -> "Optional[float]":
    """Time until the end of the job, in seconds: the requested walltime, or less if the batch
    system says so; None: unlimited or unknown.

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


def margin_of(walltime_s: float) -> float:
    """Time before the end of this walltime at which running tasks are ended: a tenth of it, within
    the limits, and never more than half of it."""
    return min(MAX_MARGIN_S, max(walltime_s / 10, min(MIN_MARGIN_S, walltime_s / 2)))


def seconds(text: str) -> float:
    """Parse ``[[days-]hours:]minutes:seconds``. Raises ValueError for ``UNLIMITED`` and other
    words."""
    days, _, clock = text.rpartition("-")
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return float(total + 86400 * int(days or 0))


def hosts_here() -> "List[str]":
    """The nodes of the job, this one first, from the node file that ``job.py`` writes for a task on
    several nodes."""
    with contextlib.suppress(OSError), open(os.environ.get("WFRUN_NODEFILE", "")) as file:
        names: "List[str]" = []
        for line in file:
            name = line.strip()
            if name and name not in names:
                names.append(name)
        return names
    return []


def remote_commands(program: "List[str]", hosts: "List[str]", cores: int) -> "List[List[str]]":
    """Commands that run a program, with all ``cores``, on each node of the job but the first.

    The last argument of the program is the number of the node, or "srun" where SLURM_PROCID + 1 is
    that number. Empty if the batch system has no such command here.

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
