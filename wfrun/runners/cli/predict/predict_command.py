"""The command ``predict``."""

from __future__ import annotations

from typing import Any

import click

from wfrun.runners.cli.predict import (
    predict_documents,
    predict_grid,
    predict_learn,
    predict_log,
    predict_waits,
)
from wfrun.runners.cli.predict.predict_modes import choose
from wfrun.runners.cli.sections import SectionedCommand, SectionedOption

_MODES = (
    predict_grid.MODE,
    predict_waits.MODE,
    predict_log.MODE,
    predict_learn.MODE,
    predict_documents.MODE,
)
"""The modes in the order in which they are tried. A mode chosen by two options comes before the
mode chosen by one of them."""
_OUTPUT = "Output"
_COMMON = (
    SectionedOption(
        ["--json", "as_json"], is_flag=True, section=_OUTPUT, help="Print one JSON document."
    ),
)


@click.command(
    cls=SectionedCommand,
    params=[
        click.Argument(["subjects"], nargs=-1, metavar="DOCUMENT|RUN..."),
        *(option for mode in reversed(_MODES) for option in mode.options),
        *_COMMON,
    ],
)
@click.pass_context
def predict(ctx: click.Context, /, subjects: tuple[str, ...], **options: Any) -> None:
    """Predict run times, waits and ends; measure how accurate predictions are.

    With DOCUMENT...: the run times of tasks at each site, the queue waits there, and the end of a
    run. With --log: the accuracy of run time predictions on a workload log; with --waits too, the
    accuracy of queue wait predictions. With --grid: schedulers of a grid with and without
    predictions. With --learn: add the run times of RUN... to the history on which all predictions
    are based.
    """
    given = [
        param
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and ctx.get_parameter_source(str(param.name)) == click.core.ParameterSource.COMMANDLINE
    ]
    choose(_MODES, subjects, given).run(subjects, options)
