"""Signs that a batch system cuts a job.

A batch system ends a job by signals to each of its processes, in no certain order. A shell whose
command got the signal first goes on, and may exit with 0 before it gets its own. The exit status of
a task proves a success only if nothing else says that its job was cut.

It stands beside ``job.py`` in the run's directory at the site and needs the standard library of
Python >= 3.6 alone.
"""

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

SIGNALS_S = 0.2
"""Maximum time that a batch system needs to signal all processes of a job. A successful end is
handled after this time: until then a signal to us may show that the job is being cut."""
WARNING_S = 2.0
"""Time after a warning of the batch system, such as SIGUSR1 at Grid Engine's s_rt, within which the
end of a task counts as caused by the batch system."""
MIN_NEAR_S = 2.0
MAX_NEAR_S = 30.0
"""Limits of the time before the end of a job's walltime in which the batch system may kill it: its
clock starts before our first process, with a prolog or the boot of a node."""
CGROUPS = "/sys/fs/cgroup"
MAX_EVENTS_BYTES = 4096


def near_of(walltime_s: float) -> float:
    """Time before the end of this walltime within which the batch system may have caused an end: a
    tenth of it, between MIN_NEAR_S and MAX_NEAR_S."""
    return min(MAX_NEAR_S, max(MIN_NEAR_S, walltime_s / 10))


class MemoryKills:
    """The kernel's count of processes of our control group that it killed for lack of memory.

    Source: the kernel's cgroup-v2.rst, memory.events; cgroup-v1/memory.rst, memory.oom_control.
    """

    def __init__(self) -> None:
        self.fd = -1
        for path in _counters():
            with contextlib.suppress(OSError):
                self.fd = os.open(path, os.O_RDONLY)
                break
        self.seen = self._count()

    def news(self) -> int:
        """Number of kills since the last look."""
        last, self.seen = self.seen, self._count()
        return self.seen - last

    def _count(self) -> int:
        if self.fd < 0:
            return 0
        with contextlib.suppress(OSError, ValueError):  # the group may be gone
            for line in os.pread(self.fd, MAX_EVENTS_BYTES, 0).splitlines():
                name, _, number = line.partition(b" ")
                if name == b"oom_kill":
                    return int(number)
        return getattr(self, "seen", 0)


def _counters() -> "List[str]":
    """Paths of the files that may have the count, the best first."""
    paths: "List[str]" = []
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, group = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                paths.insert(0, "%s/memory%s/memory.oom_control" % (CGROUPS, group))
            elif not controllers:
                paths.append("%s%s/memory.events" % (CGROUPS, group))
    return paths
