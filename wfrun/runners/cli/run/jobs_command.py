"""``wfrun jobs``: parallel jobs for the queues of several clusters."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from wfrun.engine.explain.visible import message_block
from wfrun.engine.model import Catalog
from wfrun.engine.settings import FILES, SCHEDULING, Settings, all_settings
from wfrun.runners.cli.document_options import DOCUMENTS, document_options
from wfrun.runners.cli.exit_statuses import DONE, FAILED
from wfrun.runners.cli.options import settings_from, settings_options
from wfrun.runners.cli.sections import SectionedCommand, option

_SIMULATION = "Simulation"


def _complete_strategy(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from wfrun.engine.policies.placement import ALLOCATION_STRATEGIES

    return [each.name for each in ALLOCATION_STRATEGIES if each.name.startswith(incomplete)]


@click.command(cls=SectionedCommand)
@document_options
@option("--skip-bad-lines", is_flag=True, section=DOCUMENTS,
        help="Drop and count lines of workload logs that cannot be read, instead of "
        "stopping.")  # fmt: skip
@option("--arrivals", is_flag=True, section=DOCUMENTS,
        help="With --emulate: submit the jobs of workload logs at their times, scaled by "
        "--time-scale, to the clusters of the catalog themselves.")  # fmt: skip
@option("--allocate", metavar="NAME", section=SCHEDULING,
        shell_complete=_complete_strategy,
        help="Strategy that chooses the cluster of each job: random, mlp, mpl, lbal-s, … "
        "`wfrun policies` lists them with the information that each uses. Default: mst; with "
        "--size the cluster follows from that.")  # fmt: skip
@settings_options("jobs")
@option("--simulate", is_flag=True, section=_SIMULATION,
        help="Simulate the run in virtual time, and submit nothing: each job takes its run "
        "time, else its walltime.")  # fmt: skip
@option("--background", type=click.Path(path_type=Path, exists=True), metavar="LOG",
        section=_SIMULATION,
        help="With --simulate: other users' jobs at each site, from a workload log (SWF or "
        "GWF).")  # fmt: skip
@option("--lrm", metavar="NAME", section=_SIMULATION,
        help="With --simulate: scheduling of the sites' queues: fcfs, easy (default), "
        "conservative or replanned.")  # fmt: skip
@option("--run-dir", type=click.Path(path_type=Path), metavar="DIR", section=FILES,
        help="Directory of the run. Default: wfrun-runs/<name>-<number>.")  # fmt: skip
@option("--json", "as_json", is_flag=True, section=FILES,
        help="Print each event as a line of JSON on stdout; with --malleable and --simulate, the "
        "result as one document.")  # fmt: skip
@option("--quiet", "-q", is_flag=True, section=FILES,
        help="Print only errors and the summary.")  # fmt: skip
def jobs(documents: tuple[Path, ...], **options: Any) -> None:
    """Run parallel jobs on several clusters, each in its own batch job.

    A DOCUMENT lists jobs in YAML: command, number of processors, walltime, files. Each job is
    submitted to the queue of one cluster; `wfrun status`, `results`, `logs`, `cancel` and
    `resume` work as for other runs. With --simulate or --emulate a DOCUMENT may be a workload
    log (*.swf, *.gwf).
    """
    from wfrun.parsers.jobs.log_jobs import is_log
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.prepare.prepare import prepare, this_machine
    from wfrun.runners.run.prepare.prepare_jobs import (
        DEFAULT_STRATEGY,
        UNASKED_STRATEGY,
        claimable,
        direct,
        read_job_documents,
        spanning,
        strategy,
    )
    from wfrun.sites.catalog import read_catalog

    load_policies()
    default = UNASKED_STRATEGY if options["place"] else DEFAULT_STRATEGY
    settings = settings_from(options, policy=strategy(options["allocate"] or default))
    simulated = options["simulate"]
    if settings.pack:
        settings = replace(settings, policy=Settings().policy)
    reads_log = any(map(is_log, documents))
    _check_options(options, settings, reads_log=reads_log)
    if settings.malleable and simulated:
        from wfrun.runners.cli.run.growing import grow_and_shrink

        grow_and_shrink(documents, options, settings, _warn)
    if settings.malleable:  # The processors that jobs start with, and grow by, are claimed.
        settings = replace(settings, place="wf", policy=strategy(UNASKED_STRATEGY))
    if settings.pack:
        from wfrun.runners.cli.run.packing import pack

        pack(documents, options, settings, _warn)
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    if settings.place:
        catalog = claimable(catalog, settings, simulated=simulated)
    else:
        catalog = direct(catalog)
    if simulated and reads_log:
        catalog = spanning(catalog)
    found = read_job_documents(
        documents,
        synthetic=simulated or settings.emulate,
        skip_bad_lines=options["skip_bad_lines"],
    )
    if options["arrivals"]:
        found = found.in_order()
    plan = prepare(
        found.read, catalog, settings, inputs=options["inputs"],
        at_sites=settings.place is not None or options["arrivals"],
        needs_files=not simulated, as_jobs=True,
    )  # fmt: skip
    if not options["quiet"]:
        _warn([*found.remarks, *plan.warnings, *_without_choice(options, catalog)])
    if simulated:
        from wfrun.runners.display.console import make_console
        from wfrun.runners.inspect.tables.report import summary
        from wfrun.runners.simulate.jobs import simulate_jobs

        remarks, state = simulate_jobs(
            plan, found.arrivals_s, options["background"], options["lrm"], options["run_dir"],
            skip_bad_lines=options["skip_bad_lines"],
        )  # fmt: skip
        _warn(remarks)
        make_console().print(summary(state))
        sys.exit(DONE if state.ended == "done" else FAILED)
    from wfrun.runners.cli.run.driving import drive
    from wfrun.runners.run.session import Session

    session = Session()
    arrivals_s: list[float] = []
    if options["arrivals"]:
        arrivals_s = [after_s * settings.time_scale for after_s in found.arrivals_s]
    session.start(plan, options["run_dir"], documents[0].stem, arrivals_s=arrivals_s)
    sys.exit(drive(session, as_json=options["as_json"], quiet=options["quiet"]))


def _check_options(options: Mapping[str, Any], settings: Settings, *, reads_log: bool) -> None:
    """Raise UsageError for options that exclude each other, or have no effect."""
    if options["allocate"] and settings.sizing:
        raise click.UsageError("--size chooses the cluster with the size: give it or --allocate")
    for name, flag in (("place", "--place"), ("allocate", "--allocate"), ("sizing", "--size"),
                       ("reallocate", "--reallocate"), ("pack", "--pack")):  # fmt: skip
        if settings.malleable and options[name] and not options["simulate"]:
            raise click.UsageError(f"--malleable chooses sites and sizes of jobs: leave out {flag}")
    if settings.place != "ca" and settings.metric != "latency":
        raise click.UsageError("--metric has no effect without --place ca")
    for name in ("allocate", "sizing", "reallocate"):
        if settings.place and options[name]:
            flag = "--size" if name == "sizing" else f"--{name}"
            raise click.UsageError(f"--place chooses the clusters of jobs: give it or {flag}")
    if options["arrivals"] and not (reads_log and settings.emulate):
        raise click.UsageError("--arrivals has no effect without --emulate and a workload log")
    if options["skip_bad_lines"] and not (reads_log or options["background"] is not None):
        raise click.UsageError("--skip-bad-lines has no effect without a workload log")
    if not options["simulate"]:
        for name in ("background", "lrm"):
            if options[name] is not None:
                raise click.UsageError(f"--{name} has no effect without --simulate")
        return
    if settings.emulate:
        raise click.UsageError("give --simulate or --emulate")
    if options["as_json"] and not settings.malleable:
        raise click.UsageError("--json has no effect with --simulate")
    usual = Settings(policy=settings.policy)
    for name, setting in all_settings().items():
        is_real = not (setting.option.simulate or setting.option.only_jobs)
        if is_real and getattr(settings, name) != getattr(usual, name):
            raise click.UsageError(f"{setting.flag} is for real runs: give it or --simulate")


def _without_choice(options: Mapping[str, Any], catalog: Catalog) -> Iterator[str]:
    """Yield a warning for each option that has no effect if the catalog has only one site."""
    if len(catalog.sites) > 1:
        return
    resizes = options["sizing"] and str(options["reallocate"]).endswith("-can")
    for name in ("allocate", "reallocate"):
        if options[name] is not None and not (resizes and name == "reallocate"):
            yield f"--{name} has no effect with one site: name the clusters in a catalog (--sites)"


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(message_block(f"warning: {warning}"), err=True)
