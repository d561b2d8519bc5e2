"""The batch job as seen from inside: its end, its nodes, and how to start processes on them.

The differences between batch systems are in ``bin/batch_system.json`` of the run's directory at the
site, a NodeFacts of ``wfrun.sites.batch.node_facts``.

It is copied beside ``job.py`` into the run's directory and needs only the standard library of
Python >= 3.6.
"""

import collections
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from shlex import quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, List, Optional, Tuple

MAX_MARGIN_S = 10.0
MIN_MARGIN_S = 2.0
"""Limits of ``margin_of``, in seconds."""
ASK_S = 15.0
"""Timeout of the query for the time left, in seconds. Without an answer the requested walltime
counts."""
HOSTS_S = 60.0
"""Timeout of the command that lists the job's nodes, in seconds."""


class JobSystem:
    """The batch system of a job. ``directory`` is the run's directory at the site."""

    def __init__(self, directory: str) -> None:
        with open(directory + "/bin/batch_system.json") as file:
            self.facts: "Dict[str, Any]" = json.load(file)
        self.warnings: "FrozenSet[int]" = frozenset(
            int(getattr(signal, name)) for name in self.facts["warnings"]
        )
        """Numbers of the signals with which it warns that it will end the job."""

    def catch_warnings(self) -> None:
        """Catch the signals in ``warnings``, so that they do not end this process."""
        for number in self.warnings:
            signal.signal(number, lambda number, frame: None)

    def node(self) -> str:
        """The batch system's name of this node; empty if it is the host name."""
        return self._variable("node")

    def time_granted_s(self, walltime_s: "Optional[float]") -> "Optional[float]":
        """Time in seconds from the job's start to its end: the requested ``walltime_s``, or less if
        the batch system says so. None: unlimited or unknown. Call it soon after the job's start,
        since the batch system may give the time left."""
        known = [] if walltime_s is None else [float(walltime_s)]
        end_s, granted_s = self._number("end_s"), self._number("walltime_s")
        if end_s:
            known.append(end_s - time.time())
        elif granted_s:
            known.append(granted_s)
        elif self.facts["left"]:
            with contextlib.suppress(ValueError, OSError, subprocess.SubprocessError):
                known.append(seconds(self._answer("left", ASK_S).split("\n")[0].strip()))
        return max(1.0, min(known)) if known else None

    def walltime_s(self, age_s: float) -> "Optional[float]":
        """Walltime of this job in seconds, from our batch script and the batch system's variables;
        None: unlimited or unknown. ``age_s``: time since the job's start."""
        end_s = self._number("end_s")
        known = [number_in("WFRUN_JOB_WALLTIME_S"), self._number("walltime_s")]
        known.append(end_s and round(end_s - time.time() + age_s))
        # An end before our start is that of the job that submitted this one.
        return min((value for value in known if value > 0), default=None)

    def hosts(self) -> "List[str]":
        """The nodes of this job, in the batch system's order; empty if unknown."""
        try:
            text = self._answer("hosts", HOSTS_S) if self.facts["hosts"] else ""
        except (OSError, subprocess.SubprocessError) as error:
            os.write(2, b"wfrun: the job's nodes are not known: %s\n" % str(error).encode())
            return []
        names = [line.split()[0] for line in text.splitlines() if line.strip()]
        return list(collections.OrderedDict.fromkeys(names))

    def starts(
        self, program: "List[str]", hosts: "List[str]", cores: int
    ) -> "List[Tuple[List[str], Dict[str, str]]]":
        """Commands, each with its environment variables, that together run ``program`` with
        ``cores`` cores on each node but the first. Empty if there is no such command on this node.

        The program gets one more argument, from which `number_of_node` computes its node's number.
        """
        for start in self.facts["starts"] if len(hosts) > 1 else ():
            words: "List[str]" = start["words"]
            variables: "Dict[str, str]" = start["environment"]
            if not shutil.which(words[0]):
                continue
            if start["by_shell"]:
                program = [quote(word) for word in program]
            if start["number"]:
                others = {"hosts": ",".join(hosts[1:]), "count": len(hosts) - 1, "cores": cores}
                one = [word.format(**others) for word in words]
                last = "$" + start["number"]
                return [([*one, *program, last], variables)]
            return [
                (
                    [*(word.format(host=hosts[node]) for word in words), *program, str(node)],
                    variables,
                )
                for node in range(1, len(hosts))
            ]
        return []

    def _variable(self, fact: str) -> str:
        """The value of the environment variable that a fact names; empty if there is none."""
        return os.environ.get(self.facts[fact], "")

    def _number(self, fact: str) -> float:
        return number_in(self.facts[fact])

    def _answer(self, fact: str, timeout_s: float) -> str:
        command = ["/bin/sh", "-c", self.facts[fact]]
        return subprocess.check_output(
            command,
            universal_newlines=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if fact == "left" else None,
        )


def number_in(variable: str) -> float:
    """The number in an environment variable; 0.0 if there is none."""
    with contextlib.suppress(ValueError):
        return float(os.environ.get(variable) or 0)
    return 0.0


def number_of_node(argument: str) -> int:
    """The number of this node, from 0. ``argument`` is the one added by `JobSystem.starts`: either
    the number, or ``$`` and the name of the variable with this process's rank, 0 on node 1."""
    return int(os.environ[argument[1:]]) + 1 if argument.startswith("$") else int(argument)


def margin_of(walltime_s: float) -> float:
    """Time before the end of a walltime at which a launcher ends its tasks, in seconds: a tenth of
    the walltime, at most MAX_MARGIN_S, and at least MIN_MARGIN_S or half the walltime if that is
    less."""
    return min(MAX_MARGIN_S, max(walltime_s / 10, min(MIN_MARGIN_S, walltime_s / 2)))


def seconds(text: str) -> float:
    """Parse seconds, or ``[[days-]hours:]minutes:seconds``. Raises ValueError for ``UNLIMITED`` and
    other words."""
    days, _, clock = text.rpartition("-")
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return float(total + 86400 * int(days or 0))


def hosts_here() -> "List[str]":
    """The nodes of the job, this one first, from the node file that ``job.py`` has written. Empty
    if there is none."""
    with contextlib.suppress(OSError), open(os.environ.get("WFRUN_NODEFILE", "")) as file:
        return list(collections.OrderedDict.fromkeys(line.strip() for line in file if line.strip()))
    return []
