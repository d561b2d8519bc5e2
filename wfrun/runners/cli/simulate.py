"""``wfrun simulate`` and ``wfrun study``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("subjects", nargs=-1, metavar="SUBJECT...")
@click.option("--sites", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Site catalog (YAML). Without it there is one site: this machine; for "
              "workloads of bags, the DAS-3 and Grid'5000, 20 clusters.")  # fmt: skip
@click.option("--separately", is_flag=True,
              help="Documents: simulate each in a run of its own, not all together.")  # fmt: skip
@click.option("--architecture", default="csp", show_default=True, metavar="NAMES",
              help="Workloads of bags: csp, sep-c, fcondor, or `all`.")  # fmt: skip
@click.option("--selection", metavar="NAMES",
              help="Selection policies, or `all`. By default s-bot for documents with a bag, s-t "
              "for workloads of bags.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=2), metavar="N",
              help="Size of a workload of bags; by default 60000, or all of a log.")  # fmt: skip
@click.option("--replicas", type=click.IntRange(min=0), metavar="N",
              help="Most replicas of a task, for all policies; by default each policy's "
              "own.")  # fmt: skip
@click.option("--policy", "-p", default="all", show_default=True, metavar="NAMES",
              help="Placement policies, with commas between them, or `all`: those for bags where "
              "only bags are simulated, else those for workflows.")  # fmt: skip
@click.option("--throttle", metavar="N,...", help="Throttles to compare, with commas; - is none.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
              help="Repetitions; they differ in all that is random.")  # fmt: skip
@click.option("--runtime", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Of tasks for which the document gives none.")  # fmt: skip
@click.option("--runtimes", type=click.Path(path_type=Path), metavar="FILE",
              help="The same by type of task: YAML lines such as `mProject: 12.5 s`.")  # fmt: skip
@click.option("--from-run", metavar="RUN",
              help="Take workflows, sites and measured run times from a past run.")  # fmt: skip
@click.option("--background", type=click.Path(path_type=Path, exists=True), metavar="LOG",
              help="Other users' jobs, from a workload log (SWF or GWF).")  # fmt: skip
@click.option("--load", metavar="X,...",
              help="Load of the background at each site, or of workloads of bags at all sites. "
              "0.2:0.95 is 0.2, 0.35, … 0.95; 0.2:0.6:0.1 has a step of its own.")  # fmt: skip
@click.option("--skip-bad-lines", is_flag=True,
              help="Drop and count lines of logs that cannot be read, which are errors "
              "otherwise.")  # fmt: skip
@click.option("--processors", type=click.IntRange(min=1), metavar="N",
              help="Queue of a log: size of the cluster, where the log does not give "
              "it.")  # fmt: skip
@click.option("--lrm", default="fcfs", show_default=True, metavar="NAME",
              help="Queues of the sites: fcfs, easy or conservative.")  # fmt: skip
@click.option("--no-kill-overruns", is_flag=True,
              help="Let tasks and jobs run past their requested time; else they are killed "
              "then.")  # fmt: skip
@click.option("--serial-transfers", is_flag=True,
              help="The files of a task move one after another and do not share links, as in the "
              "thesis; else transfers share them max-min fairly.")  # fmt: skip
@click.option("--submit-cost", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
              help="Of the head node for one submission.")  # fmt: skip
@click.option("--overload", type=click.IntRange(min=0), default=0, metavar="N",
              help="Attempts at a site with which a submission takes twice as long.")  # fmt: skip
@click.option("--head-bandwidth", metavar="B/S",
              help="What passes each head node at most, as `100 MB/s`.")  # fmt: skip
@click.option("--poll", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
              help="Ends of tasks become known at multiples of this.")  # fmt: skip
@click.option("--failure-rate", type=click.FloatRange(0, 1), default=0.0, metavar="X",
              help="Share of attempts that fail.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a CSV line per simulated run; lines that are there are not simulated "
              "again. FILE.parquet: as Parquet too, at the end.")  # fmt: skip
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the makespans, as PNG, PDF or SVG.")  # fmt: skip
@click.option("--run-dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Keep the log of the one simulated run there; `wfrun status DIR` "
              "shows it.")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N",
              help="Processes; by default as many as there are cores.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print errors and the tables alone.")
@click.option("--workload", hidden=True)
@click.option("--log", "log_", hidden=True)
@click.option("--each", is_flag=True, hidden=True)
@click.option("--tolerant", is_flag=True, hidden=True)
@click.option("--run-overruns", is_flag=True, hidden=True)
@click.pass_context
def simulate(ctx: click.Context, /, subjects: tuple[str, ...], **options: Any) -> None:
    """Simulate SUBJECTS in virtual time, and compare policies.

    Core, policies and loop are those of `wfrun run`; the sites are simulated. A SUBJECT is a
    document of workflows or bags; a workload of bags that users submit over time: average, das-2,
    grid5000, ngs, auvergrid, sharcnet, lcg, nordugrid, or bags:LOG; or a LOG (*.swf, *.gwf), the
    queue of one cluster.
    """
    from wfrun.runners.cli import simulate_command

    given = [
        name
        for name in options
        if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE
    ]
    subjects, given = _take_old_names(subjects, given, options)
    simulate_command.simulate(subjects, [name.replace("_", "-") for name in given], options)


_OLD_NAMES = {"each": "separately", "tolerant": "skip_bad_lines",
              "run_overruns": "no_kill_overruns"}  # fmt: skip
"""Options that are kept under their old names, hidden, for one release."""


def _take_old_names(
    subjects: tuple[str, ...], given: list[str], options: dict[str, Any]
) -> tuple[tuple[str, ...], list[str]]:
    """The subjects and options given, with old names replaced by the present ones."""
    for old, new in _OLD_NAMES.items():
        options[new] = options.pop(old) or options[new]
    workload, log = options.pop("workload"), options.pop("log_")
    if workload is not None:
        subjects += tuple(f"bags:{name.strip()}" for name in workload.split(","))
    if log is not None:
        subjects += (log,)
    named = [_OLD_NAMES.get(name, name) for name in given if name not in ("workload", "log_")]
    return subjects, named


@click.command()
@click.argument("name", metavar="STUDY")
@click.option("--quick", is_flag=True,
              help="Fewer and smaller simulations: minutes instead of a quarter hour (workflows) "
              "or hours (bags).")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder of the results, page and figures; by default study-STUDY. Runs that are "
              "there are not simulated again.")  # fmt: skip
@click.option("--corpus", type=click.Path(path_type=Path, file_okay=False, exists=True),
              metavar="DIR", help="Take workflows from the documents there (CyberShake_30.xml, …) "
              "and real load from the log there (LPC-EGEE-2004…); else these are "
              "generated.")  # fmt: skip
@click.option("--jobs", "-j", "processes", type=click.IntRange(min=1), metavar="N",
              help="Processes; by default as many as there are cores.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def study(name: str, output: Path | None, **options: Any) -> None:
    """Simulate the experiments of a paper.

    The tables and figures are shown beside the paper's own. STUDY is `workflows`: thesis
    chapter 6, the seven policies on the DAS-3; or `bags`: thesis chapter 5, bags of tasks on the
    DAS-3 and Grid'5000.
    """
    from wfrun.runners.studies import STUDIES

    if name not in STUDIES:
        raise click.UsageError(f"There is no study {name!r}; there is: {', '.join(STUDIES)}.")
    STUDIES[name](output or Path(f"study-{name}"), **options)
