"""The command ``wfrun study scavenging``."""

from __future__ import annotations

from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import publish
from wfrun.studies.scavenging.claims import CLAIMS
from wfrun.studies.scavenging.experiments import (
    FULL,
    QUICK,
    ScavengingCell,
    ScavengingRow,
    ScavengingSamples,
    cells,
    run_cell,
)
from wfrun.studies.scavenging.figures import draw_scavenging
from wfrun.studies.scavenging.page import LENGTH, scavenging_page


def study_scavenging(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError if results.csv is not from this study, and InfeasibleError if the folder
    cannot be written.
    """
    scale = QUICK if options.quick else FULL
    options.announce(LENGTH[options.quick])
    options.make_folder()
    results = Results(options.output / "results.csv", ScavengingCell, ScavengingRow)
    samples = ScavengingSamples(options.rows(cells(scale), results, run_cell))
    found = answer(CLAIMS, samples)
    publish(
        options, found, lambda: draw_scavenging(samples, options.output),
        lambda pictures: scavenging_page(samples, scale, found, pictures, quick=options.quick),
    )  # fmt: skip
