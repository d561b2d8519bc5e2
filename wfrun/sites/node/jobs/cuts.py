"""Signs that a batch system cuts a job, that is, ends it early.

A batch system signals each process of a job, in no certain order. If a command gets the signal
before its shell, the shell goes on and may exit with 0 before its own signal. So exit status 0
proves a success only if there is no sign that the job was cut.

It is copied beside ``job.py`` into the run's directory and needs only the standard library of
Python >= 3.6.
"""

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

SIGNALS_S = 0.2
"""Maximum time in seconds that a batch system needs to signal all processes of a job. A successful
end is handled only after this time, in which a signal to us would show that the job is cut."""
WARNING_S = 2.0
"""Time in seconds after a warning of the batch system, such as SIGUSR1 at Grid Engine's s_rt, in
which the end of a task counts as caused by the batch system."""
MIN_NEAR_S = 2.0
MAX_NEAR_S = 30.0
"""Limits of ``near_of``, in seconds. The batch system counts the walltime from before our first
process: from a prolog or the boot of a node. So it may end a job before our count is over."""
CGROUPS = "/sys/fs/cgroup"
MAX_EVENTS_BYTES = 4096


def near_of(walltime_s: float) -> float:
    """Time before the end of a walltime, in seconds, in which the batch system may have caused the
    end of a task: a tenth of the walltime, between MIN_NEAR_S and MAX_NEAR_S."""
    return min(MAX_NEAR_S, max(MIN_NEAR_S, walltime_s / 10))


class MemoryKills:
    """The kernel's counter of out-of-memory kills in our control group.

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
        """Number of kills since the last call, or since the start."""
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
