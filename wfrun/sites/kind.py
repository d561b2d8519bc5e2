"""The record of a kind of site. `wfrun.sites.kinds` has one for each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import Access, SiteSpec
from wfrun.parsers.catalog.kinds import CatalogKind
from wfrun.sites.batch.observation import OBSERVE_S

if TYPE_CHECKING:
    from wfrun.sites.batch.survey import Survey
    from wfrun.sites.batch.system import BatchSystem
    from wfrun.sites.cluster.site import ClusterSite
    from wfrun.sites.launchers.site import BatchLauncherSite
    from wfrun.sites.local.site import LocalSite
    from wfrun.sites.remote.transports.asyncssh_login import Prompter
    from wfrun.sites.ssh.site import SshSite

RemoteSite: TypeAlias = "SshSite | ClusterSite | BatchLauncherSite"
AnySite: TypeAlias = "LocalSite | RemoteSite"


class SiteContext(msgspec.Struct, frozen=True):
    """The facts of a run that its sites need."""

    index: int
    """The site's number in the run."""
    run_id: str
    """Id of the run, in the names of its batch jobs."""
    site_directory: str
    """Name of the run's directory at its sites."""
    directory: Path
    """Directory of the run's files at a local site whose catalog entry has no ``directory``."""
    clock: Callable[[], float]
    observed: Observed = "nothing"
    """Which facts of other users' jobs a cluster reports."""
    observe_s: float = OBSERVE_S
    """Interval in seconds between reports of other users' jobs."""
    pack_logs: bool = False
    """Whether a launcher writes the stdout and stderr of all its tasks into one file. A task that
    runs in a batch job of its own always has its own files."""
    dead_hosts: tuple[str, ...] = ()
    """Names of hosts that the user has declared down."""
    prompter: Prompter | None = None
    """Passes the questions of a login, such as a password, to the user; None: such logins fail."""


class BatchKind(msgspec.Struct, frozen=True, kw_only=True):
    """The batch system of a kind of site. Its functions import the system's modules when called."""

    title: str
    """Name in messages, such as ``Grid Engine``."""
    system: Callable[[Access], BatchSystem]
    """Returns the commands that submit, query and cancel jobs, and the parsers of their output."""
    survey: Callable[[], Survey]
    """Returns the commands that list queues and limits, and the parsers of their output."""
    login_variables: tuple[str, ...] = ()
    """Variables of wfrun's own environment that a login on this machine gets, so that the batch
    system's commands find their servers. A name that ends in ``*`` is a prefix."""


class SiteKind(CatalogKind, frozen=True, kw_only=True):
    """A kind of site. ``make`` imports the modules of the kind when called."""

    make: Callable[[SiteSpec, SiteContext], AnySite]
    """Makes the site of a catalog entry, without opening it."""
    batch: BatchKind | None = None
    """The batch system; None: wfrun starts the tasks itself, as processes."""
