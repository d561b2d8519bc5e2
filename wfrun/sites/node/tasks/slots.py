"""The capacity of a node, and the attempts that use it."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Tuple

    from wfrun.sites.node.tasks.environment import Setup
    from wfrun.sites.node.tasks.logs import Log

    Request = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Environment variables from which numerical libraries take their number of threads."""


class Slots:
    """The free and the total cores, memory and GPUs of this node. For an attempt on several nodes,
    an equal part of its cores is counted on each node."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        """``config`` is the configuration of the launcher or job (see ``launcher.py``). The names
        of GPUs are those in CUDA_VISIBLE_DEVICES, if set, then numbers from 0."""
        self.cores = self.all_cores = int(config["slots"])
        self.memory = self.all_memory = int(config.get("memory_bytes", 0))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = [name for name in visible.split(",") if name]
        self.all_gpus = int(config.get("gpus", 0))
        names += [str(n) for n in range(self.all_gpus) if str(n) not in names]
        self.gpus = names[: self.all_gpus]
        self.pins: "List[int]" = []
        """Numbers of free cores to pin tasks to."""
        allowed = sorted(os.sched_getaffinity(0))
        self.pinned = bool(config.get("pin_cores")) and len(allowed) >= self.cores
        """Whether each task is pinned to its own cores."""
        if self.pinned:
            self.pins = allowed[: self.cores]
        self.allowed = allowed

    def refusal(self, asked: "Dict[str, Any]") -> "Optional[str]":
        """Reason why even an idle node cannot meet a request; None: it can."""
        cores = asked["cores"] // asked.get("nodes", 1)
        if cores > self.all_cores:
            return "asks for %d cores of %d" % (cores, self.all_cores)
        if self.all_memory and asked["memory_bytes"] > self.all_memory:
            return "asks for %d bytes of memory of %d" % (asked["memory_bytes"], self.all_memory)
        if asked["gpus"] > self.all_gpus:
            return "asks for %d GPUs of %d" % (asked["gpus"], self.all_gpus)
        return None

    def take(self, asked: "Dict[str, Any]") -> "Optional[Grant]":
        """Reserve the resources of a request; None if they are not free now. A grant is: number of
        cores, bytes of memory, names of GPUs, numbers of pinned cores."""
        cores = asked["cores"] // asked.get("nodes", 1)
        memory, gpus = asked["memory_bytes"], asked["gpus"]
        if cores > self.cores or (self.all_memory and memory > self.memory):
            return None
        if gpus > len(self.gpus) or (self.pinned and cores > len(self.pins)):
            return None
        grant = (cores, memory, self.gpus[:gpus], self.pins[:cores] if self.pinned else [])
        self.charge(grant)
        return grant

    def charge(self, grant: "Grant") -> None:
        """Count resources as used, also for an attempt of another launcher."""
        self.cores -= grant[0]
        self.memory -= grant[1]
        if grant[2]:
            self.gpus = [gpu for gpu in self.gpus if gpu not in grant[2]]
        if grant[3]:
            self.pins = [pin for pin in self.pins if pin not in grant[3]]

    def give_back(self, grant: "Grant") -> None:
        """Count resources as free again."""
        self.cores += grant[0]
        self.memory += grant[1]
        self.gpus += grant[2]
        if grant[3]:
            self.pins = sorted(self.pins + grant[3])


class RunningAttempt:
    """An attempt from its claim to its outcome."""

    __slots__ = (
        "key",
        "request",
        "grant",
        "serial",
        "pid",
        "boot_s",
        "started_s",
        "out",
        "err",
        "sandbox",
        "reason",
        "setbacks",
        "end",
        "committed",
        "setup",
    )

    def __init__(self, request: "Request", grant: "Grant", serial: int) -> None:
        self.key: "str" = request["key"]
        self.request = request
        self.grant = grant
        self.serial = serial
        """Number that distinguishes its timers from those of an earlier attempt with its pid."""
        self.pid = 0
        """Pid of its process; a negative number while its start or commit waits for a retry."""
        self.boot_s = 0.0
        """Start time on ``processes.boot_clock``; with the pid it identifies the process."""
        self.started_s = 0.0
        self.out: "Optional[Log]" = None
        self.err: "Optional[Log]" = None
        self.sandbox = ""
        self.reason: "Optional[str]" = None
        """Cause with which the launcher is ending it; None: it is not being ended."""
        self.setbacks = 0
        """Number of consecutive setbacks of its start or of its commit."""
        self.end: "Optional[Tuple[int, Any, float]]" = None
        """Wait status, resource usage and time of its end, while its commit waits for a retry."""
        self.committed: "Dict[str, int]" = {}
        """Sizes in bytes of the committed outputs, by name in the store."""
        self.setup: "Optional[Setup]" = None
        """Script that sets up its environment; None: the task is started directly."""
