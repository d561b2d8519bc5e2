"""``wfrun sites`` and ``wfrun bench``: what there is to know of sites."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from wfrun.runners.cli.exit_statuses import DONE, FAILED


@click.group(short_help="Add clusters to a catalog, check them, and see how they are.")
def sites() -> None:
    """Add clusters to a catalog, check them, and see how they are.

    `wfrun sites init login.cluster.org` looks at a cluster and writes its catalog entry, `wfrun
    sites check` tries each site with a job, `wfrun sites show` shows how busy they are.
    """


_CATALOG = click.option(
    "--sites", "catalog", type=click.Path(path_type=Path), metavar="CATALOG",
    default="sites.yaml", show_default=True, help="Site catalog (YAML).",
)  # fmt: skip


@sites.command("init")
@click.argument("host", required=False)
@click.option("--name", metavar="NAME", help="Of the site; by default made from the host's.")
@click.option("--file", "path", type=click.Path(path_type=Path, dir_okay=False), metavar="CATALOG",
              default="sites.yaml", show_default=True,
              help="The catalog to add it to; it is made where it is absent.")  # fmt: skip
@click.option("--transport", type=click.Choice(["asyncssh", "openssh", "local"]),
              default="asyncssh", show_default=True,
              help="How to get there: built in; with the system's ssh; or not at all, where wfrun "
              "runs on the login host itself.")  # fmt: skip
@click.option("--user", metavar="USER", help="For the login; by default as ~/.ssh/config says.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The same.")
@click.option("--ssh-config", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help="Instead of ~/.ssh/config.")  # fmt: skip
@click.option("--known-hosts", type=click.Path(path_type=Path), metavar="FILE",
              help="Instead of ~/.ssh/known_hosts.")  # fmt: skip
def sites_init(host: str | None, name: str | None, path: Path, **options: Any) -> None:
    """Look at HOST, and add it to a catalog.

    HOST is a login host, as you would write it after `ssh`. What is found there (batch system,
    queues, limits, room for files) becomes an entry that works as it is; where something was
    chosen, a comment names the rest. Other entries stay as they are. A password is asked for at
    the terminal, and never stored.
    """
    from wfrun.runners.cli import sites_command

    sites_command.init(host, name, path, options)


@sites.command("check")
@click.argument("names", nargs=-1, metavar="[SITE]...")
@_CATALOG
@click.option("--wait", type=click.FloatRange(min=1), default=120.0, show_default=True,
              metavar="SECONDS", help="How long the test job may wait in the queue.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def sites_check(names: tuple[str, ...], catalog: Path, wait: float, as_json: bool) -> None:
    """Try each site, or the named ones, from login to a test job.

    Connection, agent, batch system, the catalog's limits against those of the cluster, directory,
    clock, and a job of one core, in the way that a run submits it. All sites at once; what fails
    says what to do.

    Exit status: 0 all sites can be used, 1 some can't.
    """
    from wfrun.runners.cli import sites_command

    sys.exit(FAILED if sites_command.check(catalog, names, wait, as_json=as_json) else DONE)


@sites.command("show")
@click.argument("names", nargs=-1, metavar="[SITE]...")
@_CATALOG
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sites_show(names: tuple[str, ...], catalog: Path, as_json: bool) -> None:
    """Show how each site, or the named ones, is now.

    Slots of the catalog, idle cores, our jobs and those of others (cores that run and cores that
    wait), latency and bandwidth from here, and whether it is up.

    Exit status: 0 all sites are up, 1 some are not.
    """
    from wfrun.runners.cli import sites_command

    sys.exit(FAILED if sites_command.show(catalog, names, as_json=as_json) else DONE)


@click.group()
def bench() -> None:
    """Measure what sites can do."""


@bench.command("dispatch")
@click.option("--sites", "catalog", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Site catalog (YAML). Without it there is one site: this machine.")  # fmt: skip
@click.option("--site", "names", multiple=True, metavar="NAME",
              help="This site alone; may be given more than once.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=1), metavar="N",
              help="Tasks without work at each site; by default 5000, and where each is a job of "
              "its own 2 for each slot, at most 100.")  # fmt: skip
@click.option("--limit", type=click.FloatRange(min=1), default=300.0, show_default=True,
              metavar="SECONDS", help="For each site; what is not done then is cancelled, also "
              "what waits in a queue.")  # fmt: skip
def bench_dispatch(
    catalog: Path | None, names: tuple[str, ...], tasks: int | None, limit: float
) -> None:
    """Measure how fast tasks are dispatched to each site, or to the named ones.

    Tasks without work give tasks per second; a chain of them the latency from the exit of one to
    the start of the next; tasks of 100 ms on all slots the overhead beside the ideal. They are
    ordinary runs, one site after the other, of which nothing is kept.

    Exit status: 0 all sites were measured, 3 some can't be used.
    """
    from wfrun.runners.cli import bench_command

    sys.exit(bench_command.dispatch(catalog, names, tasks, limit))
