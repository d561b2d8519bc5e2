"""``wfrun simulate`` and ``wfrun study``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wfrun.runners.cli.completion import complete_runs, complete_sources
from wfrun.runners.cli.line_options import line_options
from wfrun.runners.cli.options import settings_from, settings_options
from wfrun.runners.cli.sections import SectionedCommand, option

_SUBJECT = "What is simulated"
_VARIED = "What is varied (several values, with commas between them)"
_PLATFORM = "Simulated sites and network"
_OUTPUT = "Results"
ON_AND_JOBS = "--jobs has no effect with --on: each site runs as many simulations as it has slots"
_DIMENSIONS = ("policy", "selection", "throttle", "seed")
"""Settings that are dimensions of the experiment."""


@click.command(cls=SectionedCommand)
@click.argument("subjects", nargs=-1, metavar="SUBJECT...")
@option("--sites", type=click.Path(path_type=Path), metavar="CATALOG", section=_SUBJECT,
        help="Site catalog (YAML). Default: one site, this machine; for workloads of bags the "
        "DAS-3 and Grid'5000, 20 clusters.")  # fmt: skip
@line_options(_SUBJECT, outputs=False)
@option("--separately", is_flag=True, section=_SUBJECT, old_names=("--each",),
        help="Documents: simulate each in a run of its own, not all together.")  # fmt: skip
@option("--runtime", type=click.FloatRange(min=0), metavar="SECONDS", section=_SUBJECT,
        help="Documents: run time of tasks without one.")  # fmt: skip
@option("--runtimes", type=click.Path(path_type=Path), metavar="FILE", section=_SUBJECT,
        help="Documents: run times of tasks without one, by type of task: YAML lines such as "
        "`mProject: 12.5 s`.")  # fmt: skip
@option("--from-run", metavar="RUN", shell_complete=complete_runs, section=_SUBJECT,
        help="Take workflows, sites and measured run times from a past run.")  # fmt: skip
@option("--overheads", metavar="RUN|auto|none", shell_complete=complete_sources, section=_SUBJECT,
        help="Documents: add the times that a past run measured at the sites: start of a task, "
        "report of its end, copies of files. Default: those of --from-run; otherwise `auto`, "
        "those of your latest runs at the same clusters and hosts.")  # fmt: skip
@option("--background", type=click.Path(path_type=Path, exists=True), metavar="LOG",
        section=_SUBJECT,
        help="Documents: other users' jobs, from a workload log (SWF or GWF), of the processors "
        "that they requested (allocated ones where the log has no request).")  # fmt: skip
@option("--tasks", type=click.IntRange(min=2), metavar="N", section=_SUBJECT,
        help="Number of tasks of a workload of bags. Default: 60000, or all of a "
        "log.")  # fmt: skip
@option("--processors", type=click.IntRange(min=1), metavar="N", section=_SUBJECT,
        help="Queue of a log: size of the cluster. Default: that in the log.")  # fmt: skip
@option("--skip-bad-lines", is_flag=True, section=_SUBJECT, old_names=("--tolerant",),
        help="Drop and count lines of logs that cannot be read, instead of "
        "stopping.")  # fmt: skip
@option("--policy", "-p", default="all", show_default=True, metavar="NAMES", section=_VARIED,
        help="Placement policies. `all`: those for bags if only bags are simulated, otherwise "
        "those for workflows.")  # fmt: skip
@option("--policy-option", "-O", "policy_options", multiple=True, metavar="NAME=VALUE",
        section=_VARIED,
        help="Option of the placement policies that have it, such as `size=50` for coarsening. "
        "Repeatable.")  # fmt: skip
@option("--selection", metavar="NAMES", section=_VARIED,
        help="Selection policies, or `all`. Default: s-bot for documents with a bag, s-t for "
        "workloads of bags.")  # fmt: skip
@option("--architecture", default="csp", show_default=True, metavar="NAMES", section=_VARIED,
        help="Workloads of bags: one resource manager for all sites (csp), one for each (sep-c), "
        "one for each with users that go on to the next (fcondor; after whole bags: "
        "fcondor-bag), or `all`.")  # fmt: skip
@option("--throttle", metavar="N,...", section=_VARIED,
        help="Maximum numbers of dispatched tasks of each workflow, `auto`, or `-`: no limit. "
        "Default: auto for policies that order tasks.")  # fmt: skip
@option("--load", metavar="X,...", section=_VARIED,
        help="Loads, such as 0.6 for 60%: of the background at each site, or of workloads of bags "
        "at all sites together. Ranges: FROM:TO, in steps of 0.15, or FROM:TO:STEP.")  # fmt: skip
@option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
        section=_VARIED, help="Number of repetitions, with seeds 0 to N-1.")  # fmt: skip
@settings_options("simulate", without=(*_DIMENSIONS, "policy_options"))
@option("--lrm", default="fcfs", show_default=True, metavar="NAME", section=_PLATFORM,
        help="Scheduling of the sites' queues: fcfs, easy, conservative or replanned.")  # fmt: skip
@option("--no-kill-overruns", is_flag=True, section=_PLATFORM, old_names=("--run-overruns",),
        help="Let tasks and jobs run past their requested time instead of killing "
        "them.")  # fmt: skip
@option("--serial-transfers", is_flag=True, section=_PLATFORM,
        help="Move the files of a task one after another and share no links, as the thesis "
        "assumes, instead of sharing links max-min fairly.")  # fmt: skip
@option("--submit-cost", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
        section=_PLATFORM, help="Time that a head node takes for a submission.")  # fmt: skip
@option("--overload", type=click.IntRange(min=0), default=0, metavar="N", section=_PLATFORM,
        help="Number of attempts at a site at which a submission takes twice as long.")  # fmt: skip
@option("--head-bandwidth", metavar="B/S", section=_PLATFORM,
        help="Maximum bandwidth of each head node, such as `100 MB/s`.")  # fmt: skip
@option("--poll", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS",
        section=_PLATFORM, help="Interval at which the engine notices ends of tasks.")  # fmt: skip
@option("--failure-rate", type=click.FloatRange(0, 1), default=0.0, metavar="X",
        section=_PLATFORM, help="Share of attempts that fail.")  # fmt: skip
@option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", section=_OUTPUT,
        help="Write a CSV line for each simulated run. Runs that are in the file already are not "
        "simulated again. FILE.parquet: also as Parquet, at the end. Queue of a log: a line for "
        "each job.")  # fmt: skip
@option("--plot", type=click.Path(path_type=Path), metavar="FILE", section=_OUTPUT,
        help="Draw the makespans, as PNG, PDF or SVG.")  # fmt: skip
@option("--run-dir", type=click.Path(path_type=Path), metavar="DIR", section=_OUTPUT,
        help="Keep the log in DIR, if only one run is simulated; `wfrun status DIR` shows "
        "it.")  # fmt: skip
@option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", section=_OUTPUT,
        help="Number of processes. Default: the number of cores.")  # fmt: skip
@option("--on", "on_catalog", type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="CATALOG", section=_OUTPUT,
        help="Simulate at the sites of CATALOG, which have the same wfrun, instead of on this "
        "machine. With --output FILE, by which the same command continues after an interrupt.",
        )  # fmt: skip
@option("--quiet", "-q", is_flag=True, section=_OUTPUT,
        help="Print only errors, warnings and tables.")  # fmt: skip
@click.option("--workload", hidden=True)
@click.option("--log", "log_", hidden=True)
@click.pass_context
def simulate(ctx: click.Context, /, subjects: tuple[str, ...], **options: Any) -> None:
    """Simulate SUBJECTS in virtual time, and compare policies.

    Core, policies and loop are those of `wfrun run`; the sites are simulated. A SUBJECT is a
    document of workflows or bags; a workload of bags that users submit over time: average, das-2,
    grid5000, ngs, auvergrid, sharcnet, lcg, nordugrid, or bags:LOG; or a LOG (*.swf, *.gwf), the
    queue of one cluster.
    """
    from wfrun.runners.cli.simulate import simulate_command

    given = [
        param.opts[0]
        for param in ctx.command.params
        if isinstance(param, click.Option) and not param.hidden and _is_given(ctx, param)
    ]
    if options["on_catalog"] is not None and options["jobs"] is not None:
        raise click.UsageError(ON_AND_JOBS)
    subjects = (*subjects, *_old_subjects(options))
    settings = settings_from(options, **dict.fromkeys(_DIMENSIONS))
    simulate_command.simulate(subjects, settings, given, options)


def _is_given(ctx: click.Context, param: click.Option) -> bool:
    source = ctx.get_parameter_source(str(param.name))
    return source == click.core.ParameterSource.COMMANDLINE


def _old_subjects(options: dict[str, Any]) -> tuple[str, ...]:
    """Subjects given by options that arguments have replaced. These options stay, hidden, for one
    release."""
    workload, log = options.pop("workload"), options.pop("log_")
    bags = [f"bags:{name.strip()}" for name in workload.split(",")] if workload else []
    return (*bags, *([log] if log is not None else []))


@click.command()
@click.argument("name", metavar="STUDY")
@click.argument("logs", nargs=-1, metavar="[LOG]...", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True,
              help="Fewer and smaller simulations: minutes instead of a quarter hour (workflows) "
              "or hours (bags).")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Folder of the results, page and figures. Default: study-STUDY. Runs whose "
              "results are there are not simulated again.")  # fmt: skip
@click.option("--corpus", type=click.Path(path_type=Path, file_okay=False, exists=True),
              metavar="DIR", help="Take workflows from the documents in DIR (CyberShake_30.xml, …) "
              "and load from the log there (LPC-EGEE-2004…); for the other studies, all logs there "
              "that the papers name. Default: generate them.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0, min_open=True), metavar="N",
              help="For reallocation: simulate the first N days of each trace, at most. Default: "
              "all; 5 with --quick.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=2), metavar="N",
              help="For reallocation: number of repetitions. Default: 10; 3 with "
              "--quick.")  # fmt: skip
@click.option("--jobs", "-j", "processes", type=click.IntRange(min=1), metavar="N",
              help="Number of processes. Default: the number of cores.")  # fmt: skip
@click.option("--on", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              metavar="CATALOG",
              help="Simulate at the sites of CATALOG, which have the same wfrun, instead of on "
              "this machine.")  # fmt: skip
@click.option("--emulate", "emulate_at", metavar="CATALOG",
              type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="For brokers: also run the experiments for real, with emulated tasks, over the "
              "clusters of this site catalog.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def study(name: str, output: Path | None, logs: tuple[Path, ...], **options: Any) -> None:
    """Simulate the experiments of a paper.

    The tables and figures are shown beside the paper's own. STUDY is `workflows`: thesis
    chapter 6, the seven policies on the DAS-3; `brokers`: its section 6.4, policies and throttles
    on the real DAS-3; `bags`: thesis chapter 5, bags of tasks on the DAS-3 and Grid'5000;
    `predictions`: thesis chapter 7 and section 6.2 of the JGC paper, predictions of run times and
    waits, also on the workload logs LOG (SWF, GWF); `allocation`: section 6.1 of the JGC paper,
    ways to send parallel jobs to clusters, on the logs of --corpus; `reallocation`: RR-7365,
    moldable jobs that move between the queues of three clusters; `demt`: SPAA 2004, moldable
    jobs packed into one allocation for two criteria; `coallocation`: thesis chapter 2, parallel
    jobs over several clusters; `malleability`: thesis chapter 3, jobs that grow and shrink;
    `scavenging`: thesis chapter 4, owners who share idle nodes; or `optional`: RR-7959, bags with
    optional tasks of several owners.
    """
    from wfrun.studies import STUDIES
    from wfrun.studies.common.options import StudyOptions

    if name not in STUDIES:
        raise click.UsageError(f"There is no study {name!r}; available: {', '.join(STUDIES)}.")
    if options["on"] is not None and options["processes"] is not None:
        raise click.UsageError(ON_AND_JOBS)
    if logs and name != "predictions":
        raise click.UsageError(f"Study {name!r} takes no logs; see --corpus.")
    for name_of in ("days", "seeds"):
        if options[name_of] is not None and name != "reallocation":
            raise click.UsageError(f"Study {name!r} has no --{name_of}; see --quick.")
    if options["emulate_at"] is not None and name != "brokers":
        raise click.UsageError(f"Study {name!r} is not emulated; the study brokers is.")
    STUDIES[name](StudyOptions(output=output or Path(f"study-{name}"), logs=logs, **options))
