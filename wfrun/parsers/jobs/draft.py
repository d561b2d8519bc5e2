"""The records that the readers of job documents return: parallel jobs as their documents write
them."""

from __future__ import annotations

import msgspec

from wfrun.engine.jobs.components import Components
from wfrun.engine.model import BagFile

SIZE_NAMES = ("size", "nodes", "ppn", "job")
"""The parameters that commands of jobs may name."""
DIVIDED_NAMES = ("size", "job")
"""The parameters that commands of jobs with components may name. Nodes and processors per node are
missing, because they depend on the site."""


class JobDraft(msgspec.Struct, frozen=True):
    """A parallel job as its document describes it."""

    name: str
    """Unique in its document."""
    line: int
    command: tuple[str, ...]
    """Words of the command: templates with `SIZE_NAMES`."""
    sizes: tuple[int, ...]
    """Numbers of processors with which the job may start, ascending; a rigid job has one."""
    walltimes_s: tuple[float, ...]
    """Walltime with each size, in seconds; empty if none is stated."""
    ppn: int | None = None
    """Processors on each node; None: all processors on one node."""
    runtime_s: float | None = None
    """Run time with the smallest size, in seconds on the reference processor; None: equal to the
    walltime with that size."""
    memory_bytes: int = 0
    owner: str = ""
    priority: int = 0
    weight: float = 1.0
    """Weight of the job's completion time when jobs are packed (DEMT)."""
    inputs: tuple[BagFile, ...] = ()
    outputs: tuple[BagFile, ...] = ()
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: dict[str, str] | None = None
    components: Components | None = None
    """The ways to divide the job over sites; None: it runs at one site."""
    malleable: bool = False
    """Whether the job can change between its sizes while it runs."""
