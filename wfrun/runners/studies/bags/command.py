"""The command ``wfrun study bags``."""

from __future__ import annotations

from functools import partial

import click

from wfrun.parsers.atomic import write_file
from wfrun.runners.display.console import make_console
from wfrun.runners.experiments.command import open_results
from wfrun.runners.experiments.old_results import without_failure
from wfrun.runners.experiments.results import Results
from wfrun.runners.studies.bags.cause_tables import all_cells, cause_page, tables_of
from wfrun.runners.studies.bags.causes import CauseCell, CauseRow, simulate
from wfrun.runners.studies.bags.claims import CLAIMS
from wfrun.runners.studies.bags.contradictions import contradicted
from wfrun.runners.studies.bags.experiments import (
    FULL,
    QUICK,
    STAND_IN,
    BagSamples,
    cells,
    experiment_of,
    log_of,
)
from wfrun.runners.studies.bags.figures import draw_bags
from wfrun.runners.studies.bags.page import bags_page
from wfrun.runners.studies.claim import answer, tally
from wfrun.runners.studies.options import StudyOptions
from wfrun.runners.studies.workflows import figures
from wfrun.runners.studies.workflows.command import claim_table


def study_bags(options: StudyOptions) -> None:
    """Simulate what results.csv and causes.csv do not have, write page.md and the figures, and
    print the verdicts on all claims.

    Raises InvalidError for a corpus without a log and for a results.csv of something else,
    InfeasibleError where the folder cannot be written.
    """
    scale = QUICK if options.quick else FULL
    log = log_of(options.corpus)
    real = STAND_IN if log is None else log.name
    experiment, wanted = experiment_of(log), cells(scale, real)
    options.make_folder()
    output = options.output
    results = open_results(experiment, output / "results.csv")
    rows = options.rows(wanted, results, experiment.simulate, experiment.files)
    samples = BagSamples(rows, scale, real)
    tables = tables_of(scale, real)
    tested = all_cells(tables, scale)
    identity = experiment.identity()
    formats = (without_failure(CauseRow, identity),)
    causes = Results(output / "causes.csv", CauseCell, CauseRow, identity, formats)
    changed = options.rows(tested, causes, partial(simulate, log), experiment.files)
    found = answer(CLAIMS, samples)
    try:
        pictures = draw_bags(samples, output) if figures.available() else []
        shown = cause_page(tables, dict(zip(tested, changed, strict=True)), scale)
        write_file(output / "page.md", bags_page(samples, found, pictures, shown).encode())
    except OSError as error:
        raise options.unwritable(error) from error
    make_console().print(claim_table(found))
    once = ", by one repetition, without confidence" if scale.seeds == 1 else ""
    click.echo(
        f"{tally(found)}{once}; {contradicted(found)} of those that do not hold contradict the "
        f"thesis itself; see {output}/page.md"
    )
    if not pictures:
        click.echo("no figures: matplotlib is not installed (pip install 'wfrun[plots]')", err=True)
