"""The commands of ``wfrun sites``: they pass options to the functions of `wfrun.runners.admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import message_block
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.parsers.syntax.sections import nearest
from wfrun.runners.admin import init as site_init
from wfrun.runners.admin import show as site_show
from wfrun.runners.admin.checks import check as site_check
from wfrun.runners.admin.links import link_table
from wfrun.runners.admin.links.links import write_links
from wfrun.runners.run.history.history_file import HistoryFile, history_file
from wfrun.runners.run.sites.make_sites import terminal_prompter
from wfrun.sites.catalog import read_catalog


def init(host: str | None, name: str | None, path: Path, options: Mapping[str, Any]) -> None:
    """Look at a host and write its catalog entry."""
    access = site_init.access_of(host, **options)
    chosen = name or (site_init.name_of(access.hosts[0]) if access.hosts else "here")
    asyncio.run(site_init.init(chosen, access, path, terminal_prompter(), _say))


def _say(text: str) -> None:
    click.echo(message_block(text))


def check(
    catalog: Path, names: Sequence[str], wait_s: float, *, as_json: bool, write: bool, nodes: bool
) -> bool:
    """Check sites. With ``write``, write their measured links into the catalog. Returns whether a
    check failed."""
    sites = _sites(catalog, names)
    found = asyncio.run(
        site_check.check(
            sites, wait_s, terminal_prompter(), as_json=as_json,
            nodes_wait_s=wait_s if nodes else None,
        )
    )  # fmt: skip
    if write and found.links:
        write_links(catalog, found.links)
        if (history := history_file(None)) is not None:  # else earlier copies would be believed
            link_table.keep(history, sites, found.measured)
        measured = ", ".join(link.up.destination for link in found.links)
        click.echo(message_block(f"wrote the links of {measured} to {catalog}"), err=as_json)
    elif write:
        click.echo(message_block(f"no link was measured; {catalog} stays as it is"), err=True)
    return found.has_failures


def show(catalog: Path, names: Sequence[str], *, as_json: bool) -> bool:
    """Show the state of sites. Returns whether some site is not up."""
    sites = _sites(catalog, names)
    return asyncio.run(site_show.show(sites, terminal_prompter(), as_json=as_json))


def links(path: Path, history: HistoryFile | None, *, measures: bool, as_json: bool) -> bool:
    """Show the links of a catalog. Returns whether some link could not be measured."""
    catalog = _catalog(path)

    def say(text: str) -> None:
        click.echo(message_block(text), err=True)

    return asyncio.run(
        link_table.show_links(
            catalog, history, terminal_prompter(), measures=measures, as_json=as_json, say=say
        )
    )


def node_links(path: Path, *, write: bool) -> bool:
    """Measure the links between nodes and print them. With ``write``, write them into the catalog.
    Returns whether some link could not be measured."""
    from wfrun.runners.admin.links.node_links import measure_nodes, write_node_links

    links = measure_nodes(_catalog(path))
    for link in links:
        where = " and ".join(dict.fromkeys(link.ends))
        click.echo(message_block(f"{where}: {link.error}" if link.error else link.line))
    if write and not all(link.error for link in links):
        write_node_links(path, links)
        click.echo(message_block(f"wrote the links between nodes to {path}"))
    return any(link.error for link in links)


def _sites(path: Path, names: Sequence[str]) -> list[SiteSpec]:
    """The sites of a catalog with these names, in the order of the catalog; without names, all
    sites."""
    return choose(_catalog(path).sites, names, str(path))


def _catalog(path: Path) -> Catalog:
    if not path.exists():
        raise InvalidError(
            "the catalog does not exist",
            source=str(path),
            hint="`wfrun sites init HOST` creates one; --sites names another.",
        )
    return read_catalog(path)


def choose(sites: Sequence[SiteSpec], names: Sequence[str], source: str) -> list[SiteSpec]:
    """The sites with these names, in the order of ``sites``; without names, all. Raises
    InvalidError for an unknown name; ``source`` is the file that the error names."""
    known = [site.name for site in sites]
    for name in names:
        if name not in known:
            raise InvalidError(
                f"there is no site {name!r}", source=source, hint=nearest(name, known, "Sites")
            )
    return [site for site in sites if not names or site.name in names]
