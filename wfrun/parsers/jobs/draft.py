"""What the readers of job documents return: parallel jobs as they are written."""

from __future__ import annotations

import msgspec

from wfrun.engine.jobs.components import Components
from wfrun.engine.model import BagFile

SIZE_NAMES = ("size", "nodes", "ppn", "job")
"""The parameters that commands of jobs may name."""
DIVIDED_NAMES = ("size", "job")
"""Those of jobs with components: their nodes depend on where they run."""


class JobDraft(msgspec.Struct, frozen=True):
    """A parallel job as its document describes it."""

    name: str
    """Unique in its document."""
    line: int
    command: tuple[str, ...]
    """Templates, with `SIZE_NAMES`."""
    sizes: tuple[int, ...]
    """Numbers of processors that it may start with, ascending; one for a rigid job."""
    walltimes_s: tuple[float, ...]
    """Walltime with each size, in seconds; empty: none is stated."""
    ppn: int | None = None
    """Processors on each node; None: all on one."""
    runtime_s: float | None = None
    """Run time with its first size on the reference processor; None: its walltime."""
    memory_bytes: int = 0
    owner: str = ""
    priority: int = 0
    weight: float = 1.0
    """Of its completion, where jobs are packed."""
    inputs: tuple[BagFile, ...] = ()
    outputs: tuple[BagFile, ...] = ()
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: dict[str, str] | None = None
    components: Components | None = None
    """How it may be divided over sites; None: it runs at one."""
    malleable: bool = False
    """Whether it can change between its sizes while it runs."""
