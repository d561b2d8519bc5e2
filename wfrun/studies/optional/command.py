"""The command ``wfrun study optional``."""

from __future__ import annotations

from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import publish
from wfrun.studies.optional.claims import CLAIMS
from wfrun.studies.optional.experiments import (
    FULL,
    QUICK,
    OptionalCell,
    OptionalRow,
    OptionalSamples,
    cells,
    run_cell,
)
from wfrun.studies.optional.figures import draw_optional
from wfrun.studies.optional.page import LENGTH, optional_page


def study_optional(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError if results.csv is not from this study, and InfeasibleError if the folder
    cannot be written.
    """
    scale = QUICK if options.quick else FULL
    options.announce(LENGTH[options.quick])
    options.make_folder()
    output = options.output
    results = Results(output / "results.csv", OptionalCell, OptionalRow)
    samples = OptionalSamples(options.rows(cells(scale), results, run_cell))
    found = answer(CLAIMS, samples)
    publish(
        options, found, lambda: draw_optional(samples, output),
        lambda pictures: optional_page(samples, scale, found, pictures, quick=options.quick),
    )  # fmt: skip
