"""The command ``wfrun study bags``."""

from __future__ import annotations

from functools import partial

from wfrun.runners.experiments.command import open_results
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.bags.cause_tables import all_cells, cause_page, tables_of
from wfrun.studies.bags.causes import BagCauseCell, BagCauseRow, simulate
from wfrun.studies.bags.claims import CLAIMS
from wfrun.studies.bags.contradictions import contradicted
from wfrun.studies.bags.experiments import (
    FULL,
    QUICK,
    STAND_IN,
    BagSamples,
    cells,
    experiment_of,
    log_of,
)
from wfrun.studies.bags.figures import draw_bags
from wfrun.studies.bags.page import bags_page
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_verdicts, write_page, writing


def study_bags(options: StudyOptions) -> None:
    """Simulate the runs that results.csv and causes.csv lack, write page.md and the figures, and
    print the verdicts on all claims.

    Raises InvalidError for a corpus without a log and for a results.csv that is not from this
    study, and InfeasibleError if the folder cannot be written.
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
    causes = Results(output / "causes.csv", BagCauseCell, BagCauseRow, identity)
    changed = options.rows(tested, causes, partial(simulate, log), experiment.files)
    found = answer(CLAIMS, samples)
    shown = cause_page(tables, dict(zip(tested, changed, strict=True)), scale)
    with writing(options):
        pictures = draw_bags(samples, options.output) if can_draw() else []
        write_page(options, bags_page(samples, found, pictures, shown))
    once = ", by one repetition, without confidence" if scale.seeds == 1 else ""
    print_verdicts(
        options,
        found,
        f"{once}; {contradicted(found)} of those that do not hold contradict the thesis itself",
    )
