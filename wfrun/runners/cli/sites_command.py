"""What ``wfrun sites init``, ``check`` and ``show`` do with their options."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.sections import nearest
from wfrun.runners.admin import check as site_check
from wfrun.runners.admin import init as site_init
from wfrun.runners.admin import show as site_show
from wfrun.runners.run.sites import ask_at_terminal
from wfrun.sites.catalog import read_catalog
from wfrun.sites.remote.asyncssh_login import Prompter


def init(host: str | None, name: str | None, path: Path, options: Mapping[str, Any]) -> None:
    """Look at a host, and write its entry."""
    access = site_init.access_of(host, **options)
    chosen = name or (site_init.name_of(access.hosts[0]) if access.hosts else "here")
    asyncio.run(site_init.init(chosen, access, path, _prompter(), click.echo))


def check(catalog: Path, names: Sequence[str], wait_s: float, *, as_json: bool) -> bool:
    """Try sites; whether any failed."""
    sites = _sites(catalog, names)
    return asyncio.run(site_check.check(sites, wait_s, _prompter(), as_json=as_json))


def show(catalog: Path, names: Sequence[str], *, as_json: bool) -> bool:
    """Show sites; whether any is not up."""
    sites = _sites(catalog, names)
    return asyncio.run(site_show.show(sites, _prompter(), as_json=as_json))


def _sites(path: Path, names: Sequence[str]) -> list[SiteSpec]:
    """The sites of a catalog, or the named ones, in its order."""
    if not path.exists():
        raise InvalidError(
            "there is no such catalog",
            source=str(path),
            hint="`wfrun sites init HOST` begins one; --sites names another.",
        )
    return choose(read_catalog(path).sites, names, str(path))


def choose(sites: Sequence[SiteSpec], names: Sequence[str], source: str) -> list[SiteSpec]:
    """The named ones of these sites, or all, in their order. Raises InvalidError for a name that
    none has."""
    known = [site.name for site in sites]
    for name in names:
        if name not in known:
            raise InvalidError(
                f"there is no site {name!r}", source=source, hint=nearest(name, known, "Sites")
            )
    return [site for site in sites if not names or site.name in names]


def _prompter() -> Prompter | None:
    """Asks for one site at a time; None where there is no terminal to ask at."""
    if not sys.stdin.isatty():
        return None
    lock = asyncio.Lock()

    async def ask(about: str, questions: Sequence[tuple[str, bool]]) -> list[str] | None:
        async with lock:
            return await ask_at_terminal(about, questions)

    return ask
