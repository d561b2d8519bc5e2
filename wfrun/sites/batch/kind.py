"""The record of a kind of site with a batch system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wfrun.engine.model import Access, SiteSpec
from wfrun.parsers.catalog.kinds import CONNECTION_KEYS, QUEUE_KEYS
from wfrun.sites.kind import BatchKind, SiteContext, SiteKind

if TYPE_CHECKING:
    from wfrun.sites.batch.survey import Survey
    from wfrun.sites.batch.system import BatchSystem
    from wfrun.sites.cluster.site import ClusterSite
    from wfrun.sites.launchers.channels.channels import SiteChannels
    from wfrun.sites.launchers.site import BatchLauncherSite


def batch_kind(
    name: str,
    title: str,
    system: Callable[[Access], BatchSystem],
    survey: Callable[[], Survey],
    own_keys: Mapping[str, Callable[[Any], str]] | None = None,
    login_variables: tuple[str, ...] = (),
) -> SiteKind:
    """The kind of site that has this batch system. ``own_keys`` are converters of the catalog keys
    that no other kind takes; see `CatalogKind`. ``login_variables``: see `BatchKind`."""
    batch = BatchKind(title=title, system=system, survey=survey, login_variables=login_variables)
    return SiteKind(
        name=name,
        is_remote=True,
        keys=(*CONNECTION_KEYS, *QUEUE_KEYS),
        own_keys=own_keys or {},
        make=lambda spec, context: _make(spec, context, batch),
        batch=batch,
    )


def _make(
    spec: SiteSpec, context: SiteContext, batch: BatchKind
) -> ClusterSite | BatchLauncherSite:
    from wfrun.sites.cluster.site import ClusterSite
    from wfrun.sites.launchers.channels.channels import SiteChannels
    from wfrun.sites.launchers.site import BatchLauncherSite
    from wfrun.sites.node import BATCH_LAUNCHER_PROGRAMS
    from wfrun.sites.remote.connection import connection_of

    assert spec.access is not None
    connection = connection_of(spec.access, context.prompter, batch.login_variables)
    launchers = spec.access.launchers if spec.access.dispatch == "launchers" else None
    cluster = ClusterSite(
        spec,
        context.index,
        context.run_id,
        context.site_directory,
        connection,
        batch.system(spec.access),
        observed=context.observed,
        observe_s=context.observe_s,
        programs=BATCH_LAUNCHER_PROGRAMS if launchers is not None else (),
        clock=context.clock,
    )
    if launchers is None:
        return cluster

    def channels(directory: str) -> SiteChannels:
        return SiteChannels(connection, directory, launchers, spec.name)

    return BatchLauncherSite(
        spec,
        context.index,
        cluster,
        cluster.head,
        channels,
        pack_logs=context.pack_logs,
        clock=context.clock,
    )
