"""The command ``wfrun study coallocation``."""

from __future__ import annotations

from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.coallocation.claims import CLAIMS
from wfrun.studies.coallocation.experiments import (
    FULL,
    QUICK,
    CoallocationCell,
    CoallocationRow,
    cells,
    run_cell,
)
from wfrun.studies.coallocation.figures import draw_coallocation
from wfrun.studies.coallocation.page import LENGTH, coallocation_page
from wfrun.studies.coallocation.samples import CoallocationSamples
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import publish


def study_coallocation(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError if results.csv is not from this study, and InfeasibleError if the folder
    cannot be written.
    """
    scale = QUICK if options.quick else FULL
    options.announce(LENGTH[options.quick])
    options.make_folder()
    output = options.output
    results = Results(output / "results.csv", CoallocationCell, CoallocationRow)
    samples = CoallocationSamples(options.rows(cells(scale), results, run_cell))
    found = answer(CLAIMS, samples)
    publish(
        options, found, lambda: draw_coallocation(samples, output),
        lambda pictures: coallocation_page(samples, scale, found, pictures, quick=options.quick),
    )  # fmt: skip
