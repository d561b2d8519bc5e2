"""What a kind of site is: the record of which `wfrun.sites.kinds` has one for each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from wfrun.engine.information import Observed
from wfrun.engine.model import Access, SiteSpec
from wfrun.parsers.catalog.kinds import CatalogKind

if TYPE_CHECKING:
    from wfrun.sites.batch.survey import Survey
    from wfrun.sites.batch.system import BatchSystem
    from wfrun.sites.cluster.site import ClusterSite
    from wfrun.sites.launchers.site import BatchLauncherSite
    from wfrun.sites.local.site import LocalSite
    from wfrun.sites.remote.asyncssh_login import Prompter
    from wfrun.sites.ssh.site import SshSite

AnySite: TypeAlias = "LocalSite | SshSite | ClusterSite | BatchLauncherSite"


class SiteContext(msgspec.Struct, frozen=True):
    """What a site has to know of the run that uses it."""

    index: int
    """The site's number in the run."""
    run_id: str
    directory: Path
    """Where a local site keeps the run's files, unless the catalog names a directory."""
    clock: Callable[[], float]
    observed: Observed = "nothing"
    """What a cluster reports of other users' jobs."""
    pack_logs: bool = False
    """Launchers write the output of all their tasks into one file. A batch job of a single task
    has a file of its own."""
    prompter: Prompter | None = None
    """Asks the user what a login asks for."""


class BatchKind(msgspec.Struct, frozen=True, kw_only=True):
    """The batch system of a kind. Its modules are imported by the first call."""

    title: str
    """Its name for readers, as ``Grid Engine``."""
    system: Callable[[Access], BatchSystem]
    """Commands and parsers for jobs."""
    survey: Callable[[], Survey]
    """Commands and parsers for queues and limits."""


class SiteKind(CatalogKind, frozen=True, kw_only=True):
    """A kind of site. Its modules are imported by the first call."""

    make: Callable[[SiteSpec, SiteContext], AnySite]
    """The site of a catalog entry, not yet open."""
    batch: BatchKind | None = None
    """None: tasks are processes that wfrun starts itself."""
