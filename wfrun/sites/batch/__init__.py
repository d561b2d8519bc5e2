"""Batch systems: what to run at a head node, and what its answers mean."""

from __future__ import annotations

from collections.abc import Callable

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access
from wfrun.sites.batch.grid_engine.system import GridEngine
from wfrun.sites.batch.pbs.system import Pbs, Torque
from wfrun.sites.batch.slurm.system import Slurm
from wfrun.sites.batch.system import BatchSystem

AVAILABLE: dict[str, Callable[[Access], BatchSystem]] = {
    "slurm": lambda access: Slurm(access.max_array),
    "grid-engine": lambda access: GridEngine(
        access.max_array, access.parallel_environment, access.memory_resource
    ),
    "pbs": lambda access: Pbs(access.max_array),
    "torque": lambda access: Torque(access.max_array),
}
"""By the ``kind`` of a site."""


def make_batch_system(kind: str, access: Access) -> BatchSystem:
    """The batch system of a site of this kind. Raises InvalidError for a kind that has none."""
    make = AVAILABLE.get(kind)
    if make is None:
        raise InvalidError(f"no batch system of kind {kind!r}; there are {', '.join(AVAILABLE)}")
    return make(access)
