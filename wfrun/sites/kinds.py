"""The registry of kinds of site. All code that depends on the kind of a site reads its record here.

A record is defined in the folder of its site or its batch system. Its functions import the rest of
that folder when called, so that reading a catalog imports no site.
"""

from __future__ import annotations

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Access
from wfrun.sites.batch.grid_engine.kind import GRID_ENGINE
from wfrun.sites.batch.lsf.kind import LSF
from wfrun.sites.batch.oar.kind import OAR
from wfrun.sites.batch.pbs.kind import PBS, TORQUE
from wfrun.sites.batch.slurm.kind import SLURM
from wfrun.sites.batch.system import BatchSystem
from wfrun.sites.kind import BatchKind, SiteKind
from wfrun.sites.local.kind import LOCAL
from wfrun.sites.ssh.kind import SSH

KINDS: dict[str, SiteKind] = {
    kind.name: kind for kind in (LOCAL, SSH, SLURM, GRID_ENGINE, PBS, TORQUE, LSF, OAR)
}
"""Kinds by name. A catalog entry without ``kind`` is of the first kind. `wfrun sites init` probes
for batch systems in this order."""

BATCH_KINDS: dict[str, BatchKind] = {
    kind.name: kind.batch for kind in KINDS.values() if kind.batch is not None
}

LOGIN_VARIABLES = tuple(name for batch in BATCH_KINDS.values() for name in batch.login_variables)
"""Login variables of all batch systems, for a host whose batch system is not known yet."""


def kind_of(name: str) -> SiteKind:
    """The kind named ``name``. Raises InvalidError if there is none."""
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidError(f"there is no kind of site {name!r}; kinds are: {', '.join(KINDS)}")
    return kind


def make_batch_system(name: str, access: Access) -> BatchSystem:
    """Make the batch system of a site of the kind ``name``. Raises InvalidError if the kind has
    none."""
    batch = BATCH_KINDS.get(name)
    if batch is None:
        raise InvalidError(
            f"sites of kind {name!r} have no batch system; kinds with one: {', '.join(BATCH_KINDS)}"
        )
    return batch.system(access)
