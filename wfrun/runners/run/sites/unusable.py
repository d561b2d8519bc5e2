"""The error of a run whose sites cannot be used, with the lines of the catalog."""

from __future__ import annotations

from collections.abc import Sequence

from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.events import Event, SitePaused, SiteReopened
from wfrun.engine.model import Catalog
from wfrun.engine.protocols import Site
from wfrun.sites.entry_error import EntryError

_WAIT = "Correct its entry in the catalog, or leave it out. With --wait the run waits for it."


def with_unreachable(
    results: Sequence[BaseException | None], events: Sequence[Event]
) -> list[BaseException | None]:
    """Return the results of opening the sites, with an InfeasibleError for each site that was
    opened but has reported since then that it is unreachable."""
    reasons: dict[int, str] = {}
    for event in events:
        if isinstance(event, SitePaused):
            reasons[event.site] = event.reason
        elif isinstance(event, SiteReopened):
            reasons.pop(event.site, None)
    return [
        InfeasibleError(reasons[number], hint=_WAIT)
        if error is None and number in reasons
        else error
        for number, error in enumerate(results)
    ]


def raise_unusable(
    results: Sequence[BaseException | None], sites: Sequence[Site], catalog: Catalog | None
) -> None:
    """Raise one InfeasibleError that names all sites that could not be opened. Any other error is
    raised as it is. ``results`` has the error of each site; None: it is open."""
    failed: list[WfrunError] = []
    for site, error in zip(sites, results, strict=True):
        if isinstance(error, InfeasibleError):
            failed.append(_located(error, site.spec.name, catalog))
        elif error is not None:
            raise error
    if len(failed) > 1:
        raise InfeasibleError("\n".join([f"{len(failed)} sites cannot be used", *map(str, failed)]))
    if failed:
        raise failed[0]


def _located(error: InfeasibleError, name: str, catalog: Catalog | None) -> InfeasibleError:
    """The error with the name of its site, and its line of the catalog."""
    message, source, line = error.message, error.source, error.line
    if not message.startswith("site "):
        message = f"site {name}: {message}"
    if source is None and catalog is not None and name in catalog.lines:
        lines = catalog.lines[name]
        source = catalog.source
        line = lines.get(error.key if isinstance(error, EntryError) else "", lines[""])
    return InfeasibleError(message, source=source, line=line, hint=error.hint)
