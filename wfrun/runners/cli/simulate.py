"""``wfrun simulate`` and ``wfrun study``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("workflows", nargs=-1, type=click.Path(path_type=Path))
@click.option("--sites", type=click.Path(path_type=Path), metavar="CATALOG",
              help="Site catalog (YAML). Without it there is one site: this machine; with "
              "--workload, the DAS-3 and Grid'5000, 20 clusters.")  # fmt: skip
@click.option("--each", is_flag=True,
              help="Simulate each workflow on its own; else all are submitted "
              "at once.")  # fmt: skip
@click.option("--workload", metavar="NAMES",
              help="Bags of tasks instead of WORKFLOWS: rows of the workload model (average, "
              "das-2, grid5000, ngs, auvergrid, sharcnet, lcg, nordugrid) or logs (*.swf, "
              "*.gwf).")  # fmt: skip
@click.option("--architecture", metavar="NAMES",
              help="With --workload: csp (by default), sep-c, fcondor, or `all`.")  # fmt: skip
@click.option("--selection", metavar="NAMES",
              help="Which tasks are considered next: a selection policy; by default s-bot where "
              "there is a bag. With --workload, several or `all`, by default s-t.")  # fmt: skip
@click.option("--tasks", type=click.IntRange(min=2), metavar="N",
              help="Of a workload, by default 60000; of a log, by default all.")  # fmt: skip
@click.option("--replicas", type=click.IntRange(min=0), metavar="N",
              help="Most replicas of a task, for all policies; by default each policy's "
              "own.")  # fmt: skip
@click.option("--policy", "-p", default="all", show_default=True, metavar="NAMES",
              help="Policies, with commas between them, or `all`; these are those for bags with "
              "--workload and where all WORKFLOWS are bags.")  # fmt: skip
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
              help="Scale the background to these shares of each site; with --workload, the "
              "bags to these shares of all sites. 0.2:0.95 are 0.2, 0.35, … 0.95, 0.2:0.6:0.1 has "
              "its own step.")  # fmt: skip
@click.option("--log", "log_", type=click.Path(path_type=Path, exists=True), metavar="LOG",
              help="Simulate one cluster's queue of this workload log instead.")  # fmt: skip
@click.option("--tolerant", is_flag=True,
              help="Drop and count lines of logs that can't be read; else they are "
              "errors.")  # fmt: skip
@click.option("--processors", type=click.IntRange(min=1), metavar="N",
              help="With --log: size of the cluster, where the log does not say.")  # fmt: skip
@click.option("--lrm", default="fcfs", show_default=True, metavar="NAME",
              help="Queues of the sites: fcfs, easy or conservative.")  # fmt: skip
@click.option("--run-overruns", is_flag=True,
              help="Let jobs that run past their request go on; else they are killed.")  # fmt: skip
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
@click.option("--quiet", "-q", is_flag=True, help="Print errors and the table alone.")
def simulate(workflows: tuple[Path, ...], **options: Any) -> None:
    """Run WORKFLOWS in virtual time, and compare policies.

    The core, the policies and the loop are those of `wfrun run`; the sites of the catalog are
    simulated. With --workload, users submit bags of tasks to them as time goes on.
    """
    from wfrun.runners.cli import simulate_command

    simulate_command.simulate(workflows, options)


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
