"""The command ``wfrun study predictions``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import Answer, answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_table, write_page, writing
from wfrun.studies.predictions.page import predictions_page
from wfrun.studies.predictions.part import PartSetting, StudyPart
from wfrun.studies.predictions.parts import PARTS
from wfrun.studies.predictions.workloads import workloads_of

_LENGTH = {True: "about seven minutes", False: "about two hours"}
"""Time that the quick and the full study take with all logs."""


def study_predictions(options: StudyOptions) -> None:
    """Measure the cells that the files of results lack, write page.md and the figures, and print
    which claims hold.

    Raises InvalidError for a corpus without logs, a log that cannot be read, and results that are
    not from this study. Raises InfeasibleError if the folder cannot be written.
    """
    setting = PartSetting(options.quick, workloads_of(options.corpus, options.logs))
    if all(workload.generated for workload in setting.workloads):
        click.echo("no logs were given (--corpus): all workloads are generated", err=True)
    if not options.quiet:
        click.echo(
            f"this takes {_LENGTH[options.quick]} of processor time in all; what is measured is "
            "kept",
            err=True,
        )
    options.make_folder()
    rows = [_measured(part, setting, options) for part in PARTS]
    every = [p.samples(setting, r, True) for p, r in zip(PARTS, rows, strict=True)]
    most = [p.samples(setting, r, False) for p, r in zip(PARTS, rows, strict=True)]
    found = _answers(rows, every, most)
    drawn: list[dict[str, str]] = [{} for _ in PARTS]
    with writing(options):
        if can_draw():
            drawn = [p.draw(s, options.output) for p, s in zip(PARTS, every, strict=True)]
        sections = [p.page(s, d) for p, s, d in zip(PARTS, every, drawn, strict=True)]
        write_page(options, predictions_page(setting, sections, found))
    counted = [one for one in found if not one.claim.always]
    print_table(
        options,
        _claim_table(found),
        f"{sum(a.holds for a in counted)} of {len(counted)} claims hold, "
        f"{sum(a.usually for a in counted)} on most workloads",
    )


def _measured(part: StudyPart, setting: PartSetting, options: StudyOptions) -> list[Any]:
    """The rows of the part. Rows that its file does not have are measured."""
    wanted = part.cells(setting)
    results = Results(options.output / f"{part.name}.csv", part.cell, part.row)
    return options.rows(wanted, results, partial(part.run, setting), _files(setting))


def _files(setting: PartSetting) -> Files:
    """The logs, which simulations read."""
    return {Path(w.path): [Path(w.path)] for w in setting.workloads if w.path is not None}


def _answers(
    rows: Sequence[Sequence[Any]], every: Sequence[Any], most: Sequence[Any]
) -> list[Answer]:
    """Test the claims of all parts that have rows, and number the claims consecutively."""
    found: list[Answer] = []
    for part, measured, strict, majority in zip(PARTS, rows, every, most, strict=True):
        for one in answer(part.claims, strict, majority) if measured else ():
            found.append(one._replace(number=len(found) + 1))
    return found


def _claim_table(found: Sequence[Answer]) -> Table:
    """A row for each claim."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right")
    table.add_column("section", no_wrap=True)
    table.add_column("claim")
    table.add_column("holds")
    table.add_column("on most workloads")
    for one in found:
        verdicts = [Text("cannot fail", "dim"), Text("-", "dim")]
        if not one.claim.always:
            verdicts = [_yes_or_no(one.holds), _yes_or_no(one.usually)]
        table.add_row(str(one.number), one.claim.where, one.claim.text, *verdicts)
    return table


def _yes_or_no(holds: bool) -> Text:
    """The answer to a claim, in colour."""
    return Text("yes", "green") if holds else Text("no", "red")
