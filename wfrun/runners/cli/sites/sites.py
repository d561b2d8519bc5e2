"""``wfrun sites`` and ``wfrun bench``: commands about sites."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from wfrun.runners.cli.completion import complete_entries
from wfrun.runners.cli.exit_statuses import DONE, FAILED
from wfrun.runners.cli.history_options import chosen_history, history_options
from wfrun.runners.cli.sections import option


@click.group(short_help="Add clusters to a catalog, check them, and show their state.")
def sites() -> None:
    """Add clusters to a catalog, check them, and show their state.

    `wfrun sites init login.cluster.org` looks at a cluster and writes its catalog entry, `wfrun
    sites check` tries each site with a test job, `wfrun sites show` shows how busy they are, `wfrun
    sites links` how fast the links between them are.
    """


_CATALOG = click.option(
    "--sites", "catalog", type=click.Path(path_type=Path), metavar="CATALOG",
    default="sites.yaml", show_default=True, help="Site catalog (YAML).",
)  # fmt: skip


@sites.command("init")
@click.argument("host", required=False)
@click.option("--name", metavar="NAME", help="Name of the site. Default: made from the host's.")
@option("--sites", "path", type=click.Path(path_type=Path, dir_okay=False), metavar="CATALOG",
        default="sites.yaml", show_default=True, old_names=("--file",),
        help="Site catalog (YAML) to add the site to; created if absent.")  # fmt: skip
@click.option("--transport", type=click.Choice(["asyncssh", "openssh", "local"]),
              default="asyncssh", show_default=True,
              help="How to connect: built in; with the system's ssh; or not at all, if wfrun runs "
              "on the login host itself.")  # fmt: skip
@click.option("--user", metavar="USER", help="User at the host. Default: that of ~/.ssh/config.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of the host. Default: that of ~/.ssh/config.",
)
@click.option("--ssh-config", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              metavar="FILE", help="SSH configuration instead of ~/.ssh/config.")  # fmt: skip
@click.option("--known-hosts", type=click.Path(path_type=Path), metavar="FILE",
              help="Host keys instead of ~/.ssh/known_hosts.")  # fmt: skip
def sites_init(host: str | None, name: str | None, path: Path, **options: Any) -> None:
    """Look at HOST, and add it to a catalog.

    HOST is a login host, as you would write it after `ssh`. wfrun finds its batch system, queues,
    limits and places for files, and writes an entry that works as it is; comments name the
    alternatives. Other entries stay as they are. wfrun asks for passwords at the terminal, and
    never stores them.
    """
    from wfrun.runners.cli.sites import sites_command

    sites_command.init(host, name, path, options)


@sites.command("check")
@click.argument("names", nargs=-1, metavar="[SITE]...", shell_complete=complete_entries)
@_CATALOG
@click.option("--wait", type=click.FloatRange(min=1), default=120, show_default=True,
              metavar="SECONDS", help="Maximum time of the test job in the queue.")  # fmt: skip
@click.option("--nodes", is_flag=True,
              help="Also try whether the nodes of the sites reach each other, by jobs over two "
              "nodes: for wfrun jobs --place.")  # fmt: skip
@click.option("--write", is_flag=True, help="Write the measured links into the catalog.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
def sites_check(
    names: tuple[str, ...], catalog: Path, wait: float, nodes: bool, write: bool, as_json: bool
) -> None:
    """Try each site, or the named ones, from the login to a test job.

    Checks connection, agent, clock, batch system and directory, and the limits of the catalog
    against those of the cluster. Measures the link for about 2 seconds; --write puts it into the
    catalog, where policies and simulations find it. Then submits a job of one core, as a run does.
    All sites are checked at once, but links one after another; each failure says what to do.

    --nodes is for jobs over several clusters. A job over two nodes for each pair of sites, in each
    direction, tries the ports at which Open MPI listens.

    Exit status: 0 all sites can be used, 1 some cannot, or nodes do not reach each other.
    """
    from wfrun.runners.cli.sites import sites_command

    has_failures = sites_command.check(
        catalog, names, wait, as_json=as_json, write=write, nodes=nodes
    )
    sys.exit(FAILED if has_failures else DONE)


@sites.command("show")
@click.argument("names", nargs=-1, metavar="[SITE]...", shell_complete=complete_entries)
@_CATALOG
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sites_show(names: tuple[str, ...], catalog: Path, as_json: bool) -> None:
    """Show the state of each site, or of the named ones.

    The table has the slots of the catalog, idle cores, cores of your jobs and of others' jobs
    (running and waiting), latency and bandwidth from here, and whether the site is up.

    Exit status: 0 all sites are up, 1 some are not.
    """
    from wfrun.runners.cli.sites import sites_command

    sys.exit(FAILED if sites_command.show(catalog, names, as_json=as_json) else DONE)


@sites.command("links")
@_CATALOG
@click.option("--measure", is_flag=True,
              help="Measure all links now, and replace what earlier runs have learned of them.",
              )  # fmt: skip
@click.option("--nodes", is_flag=True,
              help="Measure the links between nodes instead, within each cluster and between each "
              "pair, by jobs over two nodes: for wfrun jobs --place ca.")  # fmt: skip
@click.option("--write", is_flag=True,
              help="With --nodes: write them into the catalog, as node_links.")  # fmt: skip
@history_options("", "keeps links across runs")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sites_links(
    catalog: Path, measure: bool, nodes: bool, write: bool, as_json: bool, **options: Any
) -> None:
    """Show the links between all sites, and this machine (`origin`).

    The table has latency, bandwidth and transfer method as the next run assumes them, and where
    they are from: what copies of earlier runs have shown, else the catalog. --measure copies files
    over every link, by the methods that runs use.

    Exit status: 0 done, 1 some links could not be measured.
    """
    from wfrun.runners.cli.sites import sites_command

    if write and not nodes:
        raise click.UsageError("--write has no effect without --nodes")
    if nodes:
        if measure or as_json:
            raise click.UsageError("--nodes takes neither --measure nor --json")
        sys.exit(FAILED if sites_command.node_links(catalog, write=write) else DONE)
    has_failures = sites_command.links(
        catalog, chosen_history(options), measures=measure, as_json=as_json
    )
    sys.exit(FAILED if has_failures else DONE)


@click.group()
def bench() -> None:
    """Measure sites."""


@bench.command("dispatch")
@click.option("--sites", "catalog", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Site catalog (YAML). Default: one site, this machine.")  # fmt: skip
@click.option("--site", "names", multiple=True, metavar="NAME",
              shell_complete=complete_entries,
              help="Measure only this site. Repeatable.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=1), metavar="N",
              help="Number of tasks without work at each site. Default: 5000; where each task is a "
              "batch job, 2 for each slot, at most 100.")  # fmt: skip
@click.option("--limit", type=click.FloatRange(min=1), default=300, show_default=True,
              metavar="SECONDS", help="Maximum time for each site; tasks that are left then are "
              "cancelled.")  # fmt: skip
def bench_dispatch(
    catalog: Path | None, names: tuple[str, ...], tasks: int | None, limit: float
) -> None:
    """Measure how fast tasks are dispatched to each site, or to the named ones.

    Tasks without work measure the rate in tasks per second. A chain of such tasks measures the
    latency from a task's exit to the next task's start. Tasks of 100 ms on all slots measure the
    overhead over the ideal makespan. These are ordinary runs, one site after the other; their files
    are removed.

    Exit status: 0 all sites were measured, 3 some cannot be used.
    """
    from wfrun.runners.cli.sites import bench_command

    sys.exit(bench_command.dispatch(catalog, names, tasks, limit))
