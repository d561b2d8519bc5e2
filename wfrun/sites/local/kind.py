"""The kind ``local``: processes on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wfrun.engine.model import SiteSpec
from wfrun.sites.kind import SiteContext, SiteKind

if TYPE_CHECKING:
    from wfrun.sites.local.site import LocalSite


def _make(spec: SiteSpec, context: SiteContext) -> LocalSite:
    from wfrun.sites.local.site import LocalSite

    return LocalSite(
        spec,
        context.index,
        context.directory,
        pack_logs=context.pack_logs,
        dead_hosts=context.dead_hosts,
        clock=context.clock,
    )


LOCAL = SiteKind(name="local", is_remote=False, make=_make)
