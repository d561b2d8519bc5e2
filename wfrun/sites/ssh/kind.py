"""The kind ``ssh``: processes on a host behind SSH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.kinds import CONNECTION_KEYS
from wfrun.sites.kind import SiteContext, SiteKind

if TYPE_CHECKING:
    from wfrun.sites.ssh.site import SshSite


def _make(spec: SiteSpec, context: SiteContext) -> SshSite:
    from wfrun.sites.remote.connection import connection_of
    from wfrun.sites.ssh.site import SshSite

    assert spec.access is not None
    connection = connection_of(spec.access, context.prompter)
    return SshSite(
        spec,
        context.index,
        context.site_directory,
        connection,
        pack_logs=context.pack_logs,
        dead_hosts=context.dead_hosts,
        clock=context.clock,
    )


SSH = SiteKind(name="ssh", is_remote=True, keys=CONNECTION_KEYS, make=_make)
