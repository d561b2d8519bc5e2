"""The kinds of site. Everything that depends on the kind of a site reads its record here.

Each record stands in the folder of its site or its batch system and imports the rest of that folder
when it is first used, so that reading a catalog stays fast.
"""

from __future__ import annotations

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access
from wfrun.sites.batch.grid_engine.kind import GRID_ENGINE
from wfrun.sites.batch.pbs.kind import PBS, TORQUE
from wfrun.sites.batch.slurm.kind import SLURM
from wfrun.sites.batch.system import BatchSystem
from wfrun.sites.kind import BatchKind, SiteKind
from wfrun.sites.local.kind import LOCAL
from wfrun.sites.ssh.kind import SSH

KINDS: dict[str, SiteKind] = {
    kind.name: kind for kind in (LOCAL, SSH, SLURM, GRID_ENGINE, PBS, TORQUE)
}
"""By the ``kind`` of a catalog entry. The first is that of an entry without ``kind``; batch systems
are probed in this order."""

BATCH_KINDS: dict[str, BatchKind] = {
    kind.name: kind.batch for kind in KINDS.values() if kind.batch is not None
}


def kind_of(name: str) -> SiteKind:
    """The kind of this name. Raises InvalidError where there is none."""
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidError(f"no kind of site {name!r}; the kinds are: {', '.join(KINDS)}")
    return kind


def make_batch_system(name: str, access: Access) -> BatchSystem:
    """The batch system of a site of this kind. Raises InvalidError for a kind without one."""
    batch = BATCH_KINDS.get(name)
    if batch is None:
        raise InvalidError(f"no batch system {name!r}; there are: {', '.join(BATCH_KINDS)}")
    return batch.system(access)
