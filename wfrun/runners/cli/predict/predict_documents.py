"""``wfrun predict DOCUMENT...``: run times, waits and the end of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from wfrun.runners.cli.exit_statuses import FAILED
from wfrun.runners.cli.history_options import chosen_history, history_options
from wfrun.runners.cli.line_options import line_options, line_template
from wfrun.runners.cli.options import settings_from, settings_options
from wfrun.runners.cli.predict.predict_modes import Mode
from wfrun.runners.cli.sections import option, options_of
from wfrun.runners.cli.sites.present_sites import ask_present

_SECTION = "A run of documents"
_SETTINGS = (
    "policy", "policy_options", "predictor", "selection", "throttle", "seed", "emulate",
    "time_scale", "size_scale", "input_catalog",
)  # fmt: skip


def _run(subjects: tuple[str, ...], options: dict[str, Any]) -> None:
    from wfrun.engine.explain.visible import message_block
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.forecast.forecast import forecast_of
    from wfrun.runners.forecast.forecast_table import print_forecast
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.run.prepare.prepare import prepare, this_machine
    from wfrun.sites.catalog import read_catalog

    def warn(text: str) -> None:
        click.echo(message_block(f"warning: {text}"), err=True)

    load_policies()
    settings = settings_from(options)
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    prepared = prepare(
        [Path(subject) for subject in subjects], catalog, settings, inputs=options["inputs"],
        template=line_template(options), needs_files=False,
    )  # fmt: skip
    for warning in prepared.warnings:
        warn(warning)
    found = forecast_of(
        prepared.workflows, prepared.catalog, prepared.settings, ask_present(prepared.catalog),
        history=chosen_history(options, emulate=settings.emulate), assumed_s=options["runtime"],
        limit_s=options["within"], warn=warn,
    )  # fmt: skip
    if options["as_json"]:
        print_json(found)
    else:
        print_forecast(make_console(), found)
    if found.end is not None and found.end.makespan_s is None:
        sys.exit(FAILED)


MODE = Mode(
    title="the prediction of a run",
    chosen_by="",
    arguments="documents",
    options=options_of(
        option("--sites", type=click.Path(path_type=Path), metavar="CATALOG", section=_SECTION,
               help="Site catalog (YAML). Default: one site, this machine."),
        option("--inputs", type=click.Path(path_type=Path, file_okay=False, exists=True),
               metavar="DIR", section=_SECTION, help="Folder of the initial input files."),
        line_options(_SECTION, outputs=True),
        option("--runtime", type=click.FloatRange(min=0), metavar="SECONDS", section=_SECTION,
               help="Run time, on the reference processor, of tasks whose document states none and "
               "whose class has not run before."),
        history_options(_SECTION, "has the run times of earlier runs"),
        option("--within", type=click.FloatRange(min=0), metavar="SECONDS", section=_SECTION,
               help="Maximum time for the simulations that give the interval of the end. Default: "
               "10, or the time of five simulations if that is longer."),
        settings_options("run", only=_SETTINGS),
    ),
    run=_run,
)  # fmt: skip
