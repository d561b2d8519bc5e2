"""The command ``wfrun study demt``."""

from __future__ import annotations

from wfrun.engine.errors import InfeasibleError
from wfrun.runners.display.extras import install_command
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import publish
from wfrun.studies.demt.claims import CLAIMS
from wfrun.studies.demt.experiments import (
    FULL,
    QUICK,
    DemtCell,
    DemtRow,
    DemtSamples,
    cells,
    run_cell,
)
from wfrun.studies.demt.figures import draw_demt
from wfrun.studies.demt.page import LENGTH, demt_page


def study_demt(options: StudyOptions) -> None:
    """Pack the jobs of the runs that results.csv lacks, write page.md and the figures, and print
    the verdicts on all claims.

    Raises InvalidError if results.csv is not from this study, and InfeasibleError if scipy is
    missing or the folder cannot be written.
    """
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise InfeasibleError(
            "the study demt needs scipy for its bounds",
            hint=f"install it by {install_command('scipy')}",
        ) from None
    scale = QUICK if options.quick else FULL
    options.announce(LENGTH[options.quick])
    options.make_folder()
    output = options.output
    results = Results(output / "results.csv", DemtCell, DemtRow)
    samples = DemtSamples(options.rows(cells(scale), results, run_cell))
    found = answer(CLAIMS, samples)
    publish(
        options, found, lambda: draw_demt(samples, output),
        lambda pictures: demt_page(samples, scale, found, pictures, quick=options.quick),
    )  # fmt: skip
