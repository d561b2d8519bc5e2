"""``wfrun sites check --nodes``: whether the nodes of sites reach each other, as jobs over several
sites need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.runners.admin.lines import Finding, SiteFindings
from wfrun.runners.admin.links.pair_jobs import Pair, can_have_two_nodes, run_on_pairs

CHECK = "nodes"
Ports = Literal["daemons", "processes"]
_PORTS: dict[Ports, str] = {
    "daemons": "ports that the system gives, at which the daemons of Open MPI listen",
    "processes": "ports from 1024 on, at which the processes of Open MPI listen",
}
_HINT = (
    "A job over these sites (`wfrun jobs --place`) would hang. Let their nodes reach each other by "
    "TCP, or keep one of the sites out of the catalog of such jobs."
)
_BUSY = "Try again when nodes are idle, or with a longer --wait."


class _Result(msgspec.Struct):
    """The result that a test job has written."""

    reached: tuple[Ports, ...] | None = None
    error: str = ""


async def check_nodes(
    sites: Sequence[SiteSpec], wait_s: float, on_finding: Callable[[Finding], None]
) -> None:
    """Test whether the nodes of each site can connect to the nodes of each site, at both kinds of
    ports. There is one job for each ordered pair of sites. Jobs that have not ended after
    ``wait_s`` seconds are cancelled. Reports errors as findings, and raises none."""
    sites = [site for site in sites if site.access is not None and site.has_batch_system]
    catalog = Catalog(tuple(sites))
    reports = {site.name: SiteFindings(site.name, on_finding) for site in sites}
    try:
        wide = can_have_two_nodes(catalog)
        # The second node of a pair connects to the first one.
        pairs = [(one, other) for one, other in product(reports, reports)
                 if one != other or one in wide]  # fmt: skip
        found = (
            await run_on_pairs(catalog, pairs, "--try", one_by_one=False, wait_s=wait_s)
            if pairs
            else []
        )
    except WfrunError as error:
        for report in reports.values():
            report.fail(CHECK, error.message, error.hint)
        return
    results = dict(zip(pairs, map(_read, found), strict=True))
    for name, report in reports.items():
        _report(name, {pair: r for pair, r in results.items() if pair[0] == name}, report)


def _read(written: bytes | None) -> _Result:
    try:
        return msgspec.json.decode(written or b"", type=_Result)
    except msgspec.MsgspecError:
        return _Result()


def _report(name: str, results: dict[Pair, _Result], report: SiteFindings) -> None:
    """Report which sites have nodes that reach the nodes of site ``name``, and which do not."""
    reached = []
    for (_, other), result in results.items():
        whose = "its own nodes" if other == name else f"the nodes of {other}"
        if result.reached is None:
            why = result.error or "the job has not run"
            report.note(CHECK, f"not known whether {whose} reach its nodes: {why}", _BUSY)
            continue
        closed = [text for ports, text in _PORTS.items() if ports not in result.reached]
        if closed:
            report.fail(
                CHECK, f"{whose} do not reach its nodes at {'; nor at '.join(closed)}", _HINT
            )
        else:
            reached.append("its own" if other == name else other)
    if reached:
        report.ok(CHECK, f"reached from the nodes of {', '.join(reached)}")
