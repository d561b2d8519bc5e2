"""Makes the sites of a catalog and the transfer between them, and asks the user at logins."""

from __future__ import annotations

import asyncio
import getpass
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.explain.visible import message_block
from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import LinkSpec, SiteSpec, Workflow
from wfrun.sites.batch.observation import OBSERVE_S
from wfrun.sites.kind import AnySite, SiteContext
from wfrun.sites.kinds import kind_of
from wfrun.sites.local.site import LocalSite
from wfrun.sites.transfers import METHODS
from wfrun.sites.transfers.bandwidth_cap import BandwidthCaps
from wfrun.sites.transfers.endpoints.endpoint import Endpoint
from wfrun.sites.transfers.endpoints.local_endpoint import LocalEndpoint
from wfrun.sites.transfers.endpoints.remote_endpoint import ConnectedSite, RemoteEndpoint
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from wfrun.sites.remote.transports.asyncssh_login import Prompter
    from wfrun.sites.transfers.urls.url_inputs import UrlInputs

_TERMINAL = asyncio.Lock()
"""Held while one site asks the user, so that sites that are opened together ask one after
another."""


def make_site(
    spec: SiteSpec,
    index: int,
    run_id: str,
    site_directory: str,
    directory: Path,
    clock: Callable[[], float],
    *,
    observed: Observed = "nothing",
    observe_s: float = OBSERVE_S,
    pack_logs: bool = False,
    dead_hosts: tuple[str, ...] = (),
    prompter: Prompter | None = None,
) -> AnySite:
    """The site of a catalog entry, not yet open; `SiteContext` describes the arguments."""
    context = SiteContext(
        index=index,
        run_id=run_id,
        site_directory=site_directory,
        directory=directory,
        clock=clock,
        observed=observed,
        observe_s=observe_s,
        pack_logs=pack_logs,
        dead_hosts=dead_hosts,
        prompter=prompter,
    )
    return kind_of(spec.kind).make(spec, context)


def connect_claims(sites: Sequence[AnySite]) -> None:
    """Let each job reach all nodes of its claim, including nodes at other sites."""
    from wfrun.sites.launchers.command_relay import CommandRelay
    from wfrun.sites.launchers.site import BatchLauncherSite

    claimed = [site for site in sites if isinstance(site, BatchLauncherSite)]
    relay = CommandRelay(claimed)
    for site in claimed:
        site.relay = relay


def make_transfer(
    sites: Sequence[LocalSite | ConnectedSite],
    links: Sequence[LinkSpec],
    outputs: Path,
    checksums: bool,
) -> TransferRouter:
    """Make the transfer between these sites and this machine, with all registered methods. Copies
    to this machine can only be written below ``outputs``. ``checksums``: copies are verified by
    digest."""
    endpoints: list[Endpoint] = [
        LocalEndpoint(index, site.spec, site.store)
        if isinstance(site, LocalSite)
        else RemoteEndpoint(index, site)
        for index, site in enumerate(sites)
    ]
    caps = BandwidthCaps(links)
    return TransferRouter(
        endpoints,
        {name: record.make(caps) for name, record in METHODS.items()},
        outputs,
        links=links,
        large_only=[name for name, record in METHODS.items() if record.large_only],
        direct=[name for name, record in METHODS.items() if record.direct],
        relayed=[name for name, record in METHODS.items() if record.relayed],
        resuming=[name for name, record in METHODS.items() if record.resumes],
        checksums=checksums,
        caps=caps,
    )


def with_url_inputs(
    transfer: TransferRouter, folder: Path, allow_urls: str, workflows: Iterable[Workflow]
) -> TransferRouter | UrlInputs:
    """Extend the transfer so that it fetches inputs of ``workflows`` that are given by URL, into
    ``folder``. Returns it unchanged if ``allow_urls`` allows no host."""
    if not allow_urls:
        return transfer
    # Imported lazily: few runs fetch files, and the libraries of the schemes take long.
    from wfrun.sites.transfers.urls.source import allowed_hosts
    from wfrun.sites.transfers.urls.url_inputs import UrlInputs, further_urls

    return UrlInputs(transfer, folder, allowed_hosts(allow_urls), further_urls(workflows))


def terminal_prompter() -> Prompter | None:
    """Return a prompter, which asks the user the questions of a login; None unless standard input
    is a terminal.

    With a prompter a login waits minutes for answers (`asyncssh_login`). A run that no user can
    answer must have no prompter, because a host that hangs would delay the run by that time.
    """
    is_terminal = sys.stdin is not None and sys.stdin.isatty()  # None: it is closed
    return _ask_at_terminal if is_terminal else None


async def _ask_at_terminal(about: str, questions: Sequence[tuple[str, bool]]) -> list[str]:
    """The user's answers to the questions of a login."""

    def ask() -> list[str]:
        print(message_block(about), file=sys.stderr)
        # These two write to the terminal itself, past the streams that escape what is printed.
        return [
            (input if is_shown else getpass.getpass)(message_block(question))
            for question, is_shown in questions
        ]

    async with _TERMINAL:
        return await asyncio.to_thread(ask)
