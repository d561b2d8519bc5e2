"""``wfrun sites init``: look at a host and add it to a catalog."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError
from wfrun.engine.explain.visible import command_line
from wfrun.engine.model import Access, Catalog
from wfrun.parsers.catalog.add_site import with_site
from wfrun.parsers.catalog.read import ORIGIN_NAME
from wfrun.parsers.syntax.yaml_document import read_yaml
from wfrun.runners.admin import entry as site_entry
from wfrun.runners.admin.catalog_file import rewrite
from wfrun.runners.admin.survey import (
    System,
    ask_offer,
    find_places,
    find_systems,
    look_at_machine,
    ssh_command,
)
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import Offer
from wfrun.sites.catalog import parse_catalog, read_catalog
from wfrun.sites.kinds import LOGIN_VARIABLES
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import Host
from wfrun.sites.remote.transports.asyncssh_login import Prompter

SURVEY_S = 120.0
"""Timeout of all questions to the host together, after the connection is open, in seconds."""
MIN_CLOCK_OFFSET_S = 30.0
"""Minimum clock offset of a host that is reported to the user, in seconds."""
_COMMON_NAMES = re.compile(
    r"(login|head|front(end)?|submit|ssh|gateway|gw|access|hpc|cluster|master|fs|ui|user)[-\d]*"
)
"""Names of hosts by their role, which do not distinguish clusters."""


def name_of(host: str) -> str:
    """The default name of a site: the first part of its host name, or the second part if the first
    is a role such as ``login``."""
    parts = [re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-") for part in host.split(".")]
    parts = [part for part in parts if part]
    if not parts or re.fullmatch(r"[\d.:\[\]]+", host):
        return "cluster"
    if len(parts) > 2 and _COMMON_NAMES.fullmatch(parts[0].lower()):
        return parts[1]
    return parts[0] if parts[0] != ORIGIN_NAME else "cluster"


async def init(
    name: str, access: Access, path: Path, prompter: Prompter | None, say: Callable[[str], None]
) -> None:
    """Look at a host and add it as site ``name`` to the catalog at ``path``, which is created if
    absent.

    Raises InvalidError for a name that the catalog already has, a catalog with mistakes, and an
    unknown host key; TransientError if the host cannot be reached.
    """
    catalog = _existing(path, name)
    async with connected(access, prompter) as (connection, host):
        try:
            entry = await asyncio.wait_for(
                _look(name, access, path, catalog, connection, host, say), SURVEY_S
            )
        except asyncio.TimeoutError as error:
            raise TransientError(
                f"{connection.host_name} did not answer all questions in {SURVEY_S:.0f} s",
                hint="One of its commands or file systems hangs; try again later.",
            ) from error
    _add(path, entry, name)
    say(f"added site {name} to {path}:\n\n{entry}")
    others = () if path == Path("sites.yaml") else ("--sites", path)
    say(f"To try it: {command_line('wfrun', 'sites', 'check', name, *others)}")


def _existing(path: Path, name: str) -> Catalog | None:
    """Read the catalog at ``path``; None if it is absent or empty. Raises InvalidError if it has a
    site ``name`` already."""
    try:
        if not path.exists() or not path.read_text(encoding="utf-8", errors="replace").strip():
            return None
    except OSError as error:
        raise InvalidError(f"cannot be read: {error.strerror}", source=str(path)) from error
    catalog = read_catalog(path)
    if any(site.name == name for site in catalog.sites):
        raise InvalidError(
            f"the catalog already has a site {name}",
            source=str(path),
            line=read_yaml(path).line("sites", name),
            hint=f"Give the new one another name (--name {name}-2), or remove that entry first.",
        )
    return catalog


@contextlib.asynccontextmanager
async def connected(
    access: Access, prompter: Prompter | None
) -> AsyncIterator[tuple[Connection, Host]]:
    """Open a connection, and close it at the end of the block.

    Raises InvalidError for a problem that only the user can solve, such as an unknown host key, and
    TransientError if the host cannot be reached.
    """
    connection = connection_of(access, prompter, LOGIN_VARIABLES)
    try:
        try:
            await connection.open(ignore_status)
        except InfeasibleError as error:
            raise InvalidError(error.message, source=error.source, hint=error.hint) from error
        except TransientError as error:
            raise TransientError(error.message, hint=error.hint or not_reached(access)) from error
        yield connection, await connection.host()
    finally:
        await connection.close()


def not_reached(access: Access) -> str:
    """Hint for the error of a host that cannot be reached."""
    return (
        "Is its name right, is it up, and can this machine reach it? "
        f"`{ssh_command(access)}` shows more."
    )


def ignore_status(reason: str | None) -> None:
    """Callback for a lost connection. Does nothing, because the next question raises the error."""


async def _look(
    name: str,
    access: Access,
    path: Path,
    catalog: Catalog | None,
    connection: Connection,
    host: Host,
    say: Callable[[str], None],
) -> str:
    facts = await host.facts()
    say(f"connected to {connection.host_name} as {facts.user} (Python {facts.python})")
    if abs(facts.clock_offset_s) > MIN_CLOCK_OFFSET_S:
        say(f"its clock is off by {facts.clock_offset_s:.0f} s; wfrun corrects for it")
    base = path.absolute().parent
    taken = frozenset(
        site.directory
        for site in (catalog.sites if catalog else ())
        if site.directory and site.access and set(site.access.hosts) & set(access.hosts)
    )
    systems, places = await asyncio.gather(find_systems(host), find_places(host))
    if not systems:
        machine = await look_at_machine(host)
        say(f"no batch system; {machine.cores} cores")
        return site_entry.host_entry(name, access, machine, places, base=base, taken=taken)
    system, offer = await _first_offer(host, systems, connection.host_name)
    say(f"{system.version}:")
    for queue in offer.queues:
        say(f"  {queue.name}: {site_entry.describe(queue)}")
    for note in offer.notes:
        say(note)
    for other in systems:
        if other is not system:
            say(f"{other.version} is installed too; to use it, change 'kind' and 'queue'")
    return site_entry.cluster_entry(name, access, system, offer, places, base=base, taken=taken)


async def _first_offer(host: Host, systems: list[System], where: str) -> tuple[System, Offer]:
    """The first batch system that answers, and its offer. A system whose commands are installed but
    whose servers do not answer is skipped. Raises TransientError if none answers."""
    failures = []
    for system in systems:
        try:
            return system, await ask_offer(host, system.kind)
        except QueueUnknownError as error:
            failures.append(
                f"{system.version} is installed on {where}, but does not answer: {error.message}"
            )
    raise TransientError("; ".join(failures), hint="Try again when it is up.")


def _add(path: Path, entry: str, name: str) -> None:
    """Add the entry to the catalog. Raises InvalidError, and leaves the catalog unchanged, if that
    would change its other sites."""
    before = path.read_bytes() if path.exists() else b""
    after = with_site(before.decode("utf-8"), entry, str(path)).encode()
    sites = parse_catalog(after, path).sites
    old = parse_catalog(before, path).sites if before.strip() else ()
    if sites != (*old, sites[-1]) or sites[-1].name != name:
        raise InvalidError(
            "the new site cannot be added without changing others",
            source=str(path),
            hint=f"Add this by hand:\n{entry}",
        )
    rewrite(path, before, after)


def access_of(
    host: str | None,
    *,
    user: str | None,
    port: int | None,
    transport: str,
    ssh_config: Path | None,
    known_hosts: Path | None,
) -> Access:
    """The `Access` that the arguments of the command describe. ``host`` may be ``user@host``.
    Raises InvalidError if a host is needed and none is given."""
    if transport == "local":
        return Access(transport="local")
    if not host or host.startswith("-"):
        raise InvalidError(
            "no host is given", hint="Name the login host, as you would after 'ssh'; or, if you "
            "are logged in to it already, --transport local."
        )  # fmt: skip
    before, at, after = host.rpartition("@")
    absolute = [str(p.expanduser().absolute()) if p else None for p in (ssh_config, known_hosts)]
    return msgspec.convert(
        {
            "hosts": (after,),
            "user": user or (before if at else None),
            "port": port,
            "transport": transport,
            "ssh_config": absolute[0],
            "known_hosts": absolute[1],
        },
        Access,
    )
