"""Overheads that past runs have measured at the sites of an experiment."""

from __future__ import annotations

from contextlib import closing, suppress
from itertools import islice

from msgspec.structs import replace

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import WfrunError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.experiments.subjects.subjects import Warn
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import load_links, missing_links
from wfrun.runners.run.history.overheads import Overheads, measure
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.transfers.relay.relayed_links import with_relayed_links

NONE, AUTO = "none", "auto"

_MAX_RUNS = 5
"""Maximum number of runs that are read for ``auto``, the latest first."""
_MAX_EVENTS = 200_000
"""Maximum number of events of a run that are read for its overheads."""


def overheads_for(catalog: Catalog, given: str, warn: Warn, *, local: bool = False) -> Overheads:
    """Return the overheads from the source ``given``: a run, ``none``, or ``auto`` for the user's
    latest runs at the clusters and hosts of the catalog. With ``local``, ``auto`` also considers
    the local sites of the catalog.

    A warning names the runs that ``auto`` uses. Raises InvalidError for a named run that cannot be
    read; ``auto`` skips such runs.
    """
    if given == NONE:
        return Overheads()
    if given != AUTO:
        run = rundir.find(given)
        return measured_by(run, read_state(run))
    found = Overheads()
    if not local and not any(site.access is not None for site in catalog.sites):
        return found
    for run in reversed(rundir.existing()[-_MAX_RUNS:]):
        with suppress(WfrunError):  # it is starting, or damaged
            state = read_state(run, 0.0)
            known = {site.spec.name for site in state.sites if _is_among(site.spec, catalog, local)}
            known -= {name for name, each in found.sites.items() if each.hold_s is not None}
            if known:
                added = _at(known, measured_by(run, state))
                new = ", ".join(sorted(added.sites.keys() - found.sites.keys()))
                if new:
                    warn(f"overheads of {new}: as run {run.name} measured them")
                found = completed(found, added)
    return found


def with_history(catalog: Catalog, warn: Warn, history: HistoryFile | None) -> Catalog:
    """Return the catalog with link speeds that copies of earlier runs have shown, for links whose
    speed the catalog does not state. A warning names the first of these links."""
    if history is None or not any(site.access is not None for site in catalog.sites):
        return catalog
    added = missing_links(load_links(history) or {}, catalog)
    if not added:
        return catalog
    first, more = added[0], f" and {len(added) - 1} more" if len(added) > 1 else ""
    warn(
        f"links that earlier runs have learned: {first.source} to {first.destination}{more}; "
        "`wfrun sites links` shows them"
    )
    links = {(link.source, link.destination): link for link in (*catalog.links, *added)}
    return with_relayed_links(replace(catalog, links=tuple(links.values())))


def completed(found: Overheads, older: Overheads) -> Overheads:
    """Add to ``found`` what it lacks of the overheads of an older run: sites, links, and the time
    for which tasks hold their cores, which not every run shows."""
    sites = {**older.sites, **found.sites}
    for name in found.sites.keys() & older.sites.keys():
        if sites[name].hold_s is None:
            sites[name] = replace(sites[name], hold_s=older.sites[name].hold_s)
    return Overheads(sites, (*older.links, *found.links))


def _is_among(site: SiteSpec, catalog: Catalog, local: bool) -> bool:
    """Whether the catalog has this site. A cluster or host must have the name, kind, hosts and
    dispatch of the site in the catalog. A local site needs only the name, and counts only with
    ``local``."""
    if site.access is None:
        return local and any(
            other.name == site.name and other.access is None for other in catalog.sites
        )
    return any(
        other.name == site.name
        and other.kind == site.kind
        and other.access is not None
        and other.access.hosts == site.access.hosts
        and other.access.dispatch == site.access.dispatch
        for other in catalog.sites
    )


def _at(names: set[str], overheads: Overheads) -> Overheads:
    """The overheads of the sites with these names, and of the links between these sites and between
    them and this machine."""
    ends = {*names, "origin"}
    return Overheads(
        {name: each for name, each in overheads.sites.items() if name in names},
        tuple(x for x in overheads.links if x.source in ends and x.destination in ends),
    )


def measured_by(run: rundir.RunDir, state: RunState) -> Overheads:
    """The overheads that a run has measured at its sites and links, from the first ``_MAX_EVENTS``
    events of its log. ``state`` is the state of the run after its log. Raises InvalidError for a
    damaged log."""
    with closing(Store(run.path)) as store:
        return measure(islice(store.load(), _MAX_EVENTS), state)
