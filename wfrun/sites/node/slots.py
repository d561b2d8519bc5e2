"""What is free of a node, and what occupies it."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from typing import Any, Dict, List, Optional, Tuple

    from wfrun.sites.node.logs import Log

    Request = Dict[str, Any]
    Grant = Tuple[int, int, List[str], List[int]]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Slots:
    """What is free of the cores, memory and GPUs: of the site's, or, where attempts can have
    several nodes, of this one's, of which each takes its part."""

    def __init__(self, config: "Dict[str, Any]") -> None:
        self.cores = self.all_cores = int(config["slots"])
        self.memory = self.all_memory = int(config.get("memory_bytes", 0))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = [name for name in visible.split(",") if name]
        self.all_gpus = int(config.get("gpus", 0))
        names += [str(n) for n in range(self.all_gpus) if str(n) not in names]
        self.gpus = names[: self.all_gpus]
        self.pins: "List[int]" = []
        allowed = sorted(os.sched_getaffinity(0))
        self.pinned = bool(config.get("pin_cores")) and len(allowed) >= self.cores
        if self.pinned:
            self.pins = allowed[: self.cores]
        self.allowed = allowed

    def refusal(self, asked: "Dict[str, Any]") -> "Optional[str]":
        """Why a request can never be met here."""
        cores = asked["cores"] // asked.get("nodes", 1)
        if cores > self.all_cores:
            return "asks for %d cores of %d" % (cores, self.all_cores)
        if self.all_memory and asked["memory_bytes"] > self.all_memory:
            return "asks for %d bytes of memory of %d" % (asked["memory_bytes"], self.all_memory)
        if asked["gpus"] > self.all_gpus:
            return "asks for %d GPUs of %d" % (asked["gpus"], self.all_gpus)
        return None

    def take(self, asked: "Dict[str, Any]") -> "Optional[Grant]":
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
        self.cores -= grant[0]
        self.memory -= grant[1]
        if grant[2]:
            self.gpus = [gpu for gpu in self.gpus if gpu not in grant[2]]
        if grant[3]:
            self.pins = [pin for pin in self.pins if pin not in grant[3]]

    def give_back(self, grant: "Grant") -> None:
        self.cores += grant[0]
        self.memory += grant[1]
        self.gpus += grant[2]
        if grant[3]:
            self.pins = sorted(self.pins + grant[3])


class Attempt:
    """A task that runs."""

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
    )

    def __init__(self, request: "Request", grant: "Grant", serial: int) -> None:
        self.key: "str" = request["key"]
        self.request = request
        self.grant = grant
        self.serial = serial
        self.pid = 0
        self.boot_s = 0.0
        self.started_s = 0.0
        self.out: "Optional[Log]" = None
        self.err: "Optional[Log]" = None
        self.sandbox = ""
        self.reason: "Optional[str]" = None
        """Why it is being ended: a cause."""
