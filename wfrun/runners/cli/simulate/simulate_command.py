"""Carries out ``wfrun simulate``."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import click

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import message_block
from wfrun.engine.model import Catalog
from wfrun.engine.settings import Settings
from wfrun.parsers.syntax.units import parse_bandwidth
from wfrun.runners.cli.exit_statuses import DONE, FAILED
from wfrun.runners.cli.line_options import line_template
from wfrun.runners.cli.simulate.simulate_queue import simulate_queue
from wfrun.runners.display.console import make_console
from wfrun.runners.experiments.cells import Throttle, makespan_of
from wfrun.runners.experiments.command import run_shown
from wfrun.runners.experiments.concerns import check_concerns
from wfrun.runners.experiments.describe import (
    Description,
    documents_experiment,
    workloads_experiment,
)
from wfrun.runners.experiments.experiment import Experiment
from wfrun.runners.experiments.subjects.documents import Documents
from wfrun.runners.experiments.subjects.loads import loads_of
from wfrun.runners.experiments.subjects.subjects import Kind, kind_of_all
from wfrun.runners.inspect.tables.report import summary
from wfrun.runners.run.prepare.plugins import load_policies
from wfrun.runners.simulate.background import HORIZON_S
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.model import SiteModel


def simulate(
    subjects: Sequence[str], settings: Settings, given: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Carry out the command. ``given`` are the names of the options on the command line."""
    load_policies()
    from_run = options["from_run"] is not None and not subjects
    kind: Kind = "documents" if from_run else kind_of_all(subjects)
    check_concerns(kind, given)
    if kind == "queue":
        simulate_queue(
            Path(subjects[0]),
            options["lrm"],
            options["processors"],
            kill_overruns=not options["no_kill_overruns"],
            skip_bad_lines=options["skip_bad_lines"],
            output=options["output"],
        )
        return
    if options["output"] is not None and "{" in str(options["output"]):
        raise InvalidError(
            f"--output {options['output']} is no name for the file of results",
            hint="here --output is not the template of what tasks write: leave that out, it does "
            "not change what is simulated",
        )
    described = _description(settings, options)
    if kind == "workloads":
        experiment = workloads_experiment(described, subjects, _warn)
    else:
        experiment = documents_experiment(described, subjects, _warn)
    if options["run_dir"] is not None:
        given_too = {"--output": "output", "--plot": "plot", "--on": "on_catalog"}
        for flag, name in given_too.items():
            if options[name] is not None:
                raise InvalidError(f"{flag} is for experiments; --run-dir keeps one simulated run")
        sys.exit(_keep_one(options["run_dir"], experiment))
    rows = run_shown(
        experiment,
        output=options["output"],
        plot=options["plot"],
        processes=options["jobs"],
        quiet=options["quiet"],
        on=options["on_catalog"],
    )
    longer = sum(1 for row in rows if HORIZON_S < makespan_of(row) < inf)
    if experiment.background is not None and longer:
        _warn(
            f"{longer} of {len(rows)} simulated runs took longer than the "
            f"{HORIZON_S / 86400:.0f} days of background; afterwards they had the sites to "
            "themselves"
        )
    sys.exit(FAILED if any(row.makespan_s is None for row in rows) else DONE)


def _warn(text: str) -> None:
    click.echo(message_block(f"warning: {text}"), err=True)


def _description(settings: Settings, options: Mapping[str, Any]) -> Description:
    """Return the experiment that the options describe. Raises InvalidError if an option's value is
    invalid."""
    head = options["head_bandwidth"]
    return Description(
        sites=options["sites"],
        policies=_names(options["policy"]),
        architectures=_names(options["architecture"]),
        selections=_names(options["selection"] or ""),
        throttles=_throttles(options["throttle"]),
        loads=loads_of(options["load"]) or (),
        seeds=options["seeds"],
        tasks=options["tasks"],
        separately=options["separately"],
        background=options["background"],
        skip_bad_lines=options["skip_bad_lines"],
        runtime_s=options["runtime"],
        runtimes=options["runtimes"],
        from_run=options["from_run"],
        overheads=options["overheads"],
        template=line_template(options),
        platform=Platform(
            Catalog(()),
            SiteModel(
                lrm=options["lrm"],
                kill_overruns=not options["no_kill_overruns"],
                submit_s=options["submit_cost"],
                overload_jobs=options["overload"],
                poll_s=options["poll"],
                failure_rate=options["failure_rate"],
            ),
            "serial" if options["serial_transfers"] else "max-min",
            _bandwidth(head) if head is not None else None,
        ),
        settings=settings,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _throttles(text: str | None) -> tuple[Throttle, ...]:
    if text is None:
        return ()
    found: list[Throttle] = []
    for word in text.split(","):
        if word.strip() in ("-", "none"):
            found.append(None)
        elif word.strip() == "auto":
            found.append("auto")
        elif re.fullmatch(r"\s*0*[1-9][0-9]{0,9}\s*", word):
            found.append(int(word))
        else:
            raise InvalidError(
                f"--throttle has {word!r}, which is no whole number above 0",
                hint="write numbers, auto, and - for no throttle, with commas between them",
            )
    return tuple(found)


def _bandwidth(text: str) -> float:
    try:
        return parse_bandwidth(text)
    except ValueError as error:
        raise InvalidError(f"--head-bandwidth: {error}") from None


def _keep_one(run_dir: Path, experiment: Experiment) -> int:
    """Simulate the only run of an experiment, and keep its log in a run directory. Returns the exit
    status. Raises InvalidError if the experiment has several runs, or if the directory is in
    use."""
    cells = experiment.cells()
    if len(cells) != 1:
        raise InvalidError(
            f"--run-dir keeps the log of one simulated run; these are {len(cells)}",
            hint="name one policy with --policy, and at most one selection policy, throttle, load "
            "and seed; with --separately, one document",
        )
    (cell,) = cells
    subject = experiment.subject
    assert isinstance(subject, Documents)
    settings = subject.settings_of(experiment, cell)
    state = simulate_into(run_dir, subject.of(cell), experiment.platform_of(cell), settings)
    console = make_console()
    console.print(f"run {run_dir} (simulated)")
    console.print(summary(state))
    return DONE if state.ended == "done" else FAILED
