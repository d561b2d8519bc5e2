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
"""Variables from which numerical libraries take their number of threads."""


class Slots:
    """The free cores, memory and GPUs of the site. Where attempts may use several nodes, of one
    node, since each node provides an equal part."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        """``config`` is the configuration of the launcher or job (see ``launcher.py``). GPUs have
        the names in CUDA_VISIBLE_DEVICES if the batch system sets it, else numbers."""
        self.cores = self.all_cores = int(config["slots"])
        self.memory = self.all_memory = int(config.get("memory_bytes", 0))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = [name for name in visible.split(",") if name]
        self.all_gpus = int(config.get("gpus", 0))
        names += [str(n) for n in range(self.all_gpus) if str(n) not in names]
        self.gpus = names[: self.all_gpus]
        self.pins: "List[int]" = []
        """Free cores to pin tasks to."""
        allowed = sorted(os.sched_getaffinity(0))
        self.pinned = bool(config.get("pin_cores")) and len(allowed) >= self.cores
        """Whether tasks are pinned to cores of their own."""
        if self.pinned:
            self.pins = allowed[: self.cores]
        self.allowed = allowed

    def refusal(self, asked: "Dict[str, Any]") -> "Optional[str]":
        """Why a request cannot be met even on an idle node; None: it can."""
        cores = asked["cores"] // asked.get("nodes", 1)
        if cores > self.all_cores:
            return "asks for %d cores of %d" % (cores, self.all_cores)
        if self.all_memory and asked["memory_bytes"] > self.all_memory:
            return "asks for %d bytes of memory of %d" % (asked["memory_bytes"], self.all_memory)
        if asked["gpus"] > self.all_gpus:
            return "asks for %d GPUs of %d" % (asked["gpus"], self.all_gpus)
        return None

    def take(self, asked: "Dict[str, Any]") -> "Optional[Grant]":
        """Reserve the resources of a request; None: they are not free now."""
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
        """Count resources as used: also those of an attempt that another launcher started."""
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
    """A running attempt."""

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
        """Distinguishes its timers from those of an earlier attempt with the same pid."""
        self.pid = 0
        """Negative, and no pid, while its start or its commit waits to be retried."""
        self.boot_s = 0.0
        """Start time on ``processes.boot_clock``, which identifies the process together with its
        pid."""
        self.started_s = 0.0
        self.out: "Optional[Log]" = None
        self.err: "Optional[Log]" = None
        self.sandbox = ""
        self.reason: "Optional[str]" = None
        """Cause with which we are ending it; None: it is not being ended."""
        self.setbacks = 0
        """Number of failed tries to start it, or to commit its outputs, since the last success."""
        self.end: "Optional[Tuple[int, Any, float]]" = None
        """Status, resource usage and time of its end, while its outputs wait to be committed."""
        self.committed: "Dict[str, int]" = {}
        """Sizes of the outputs that are in the store, by their names there."""
        self.setup: "Optional[Setup]" = None
        """Set if a script sets up its environment."""
