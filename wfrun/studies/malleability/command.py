"""The command ``wfrun study malleability``."""

from __future__ import annotations

from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import publish
from wfrun.studies.malleability.claims import CLAIMS
from wfrun.studies.malleability.experiments import (
    FULL,
    QUICK,
    MalleabilityCell,
    MalleabilityRow,
    MalleabilitySamples,
    cells,
    run_cell,
)
from wfrun.studies.malleability.figures import draw_malleability
from wfrun.studies.malleability.page import LENGTH, malleability_page


def study_malleability(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError if results.csv is not from this study, and InfeasibleError if the folder
    cannot be written.
    """
    scale = QUICK if options.quick else FULL
    options.announce(LENGTH[options.quick])
    options.make_folder()
    output = options.output
    results = Results(output / "results.csv", MalleabilityCell, MalleabilityRow)
    samples = MalleabilitySamples(options.rows(cells(scale), results, run_cell))
    found = answer(CLAIMS, samples)
    publish(
        options, found, lambda: draw_malleability(output),
        lambda pictures: malleability_page(samples, scale, found, pictures, quick=options.quick),
    )  # fmt: skip
