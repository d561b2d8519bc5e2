"""``wfrun predict --learn``: adds run times of earlier runs to the history."""

from __future__ import annotations

import sys
from typing import Any

import click

from wfrun.runners.cli.exit_statuses import FAILED
from wfrun.runners.cli.predict.predict_modes import Mode
from wfrun.runners.cli.sections import option, options_of

_SECTION = "Learning from runs"


def _run(subjects: tuple[str, ...], options: dict[str, Any]) -> None:
    from wfrun.engine.explain.visible import name_line
    from wfrun.runners.cli.history_options import chosen_history
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.history.learn import harvest_of_run, made_up
    from wfrun.runners.run.history.runtime_history import add_history
    from wfrun.runners.run.prepare.plugins import load_policies
    from wfrun.runners.simulate.simulated_run import is_simulated

    load_policies()
    is_named = options["history"] is not None
    file = chosen_history(options)
    if file is None:
        raise click.UsageError("--learn needs a history")
    runs = [find(subject) for subject in subjects]
    records = []
    for run in runs:
        if is_simulated(run) and not is_named:
            raise made_up(run, "simulated")
        harvest = harvest_of_run(run, emulated=is_named)
        found = sum(map(len, harvest.classes.values()))
        added = add_history(file, harvest)
        if file.has_failed:
            sys.exit(FAILED)
        records.append({"run": run.name, "classes": len(harvest.classes),
                        "run_times": found, "new": added})  # fmt: skip
        if not options["as_json"]:
            what = f"{len(harvest.classes):,} classes of tasks with {found:,} run times"
            click.echo(f"{name_line(run.name)}: {what}, {added:,} of them new")
    if options["as_json"]:
        print_json(records)


MODE = Mode(
    title="learning from runs",
    chosen_by="learn",
    arguments="runs",
    shares=("history",),
    options=options_of(
        option("--learn", is_flag=True, section=_SECTION,
               help="Add the run times of RUN... to the history. What it has already counts once.")
    ),
    run=_run,
)  # fmt: skip
