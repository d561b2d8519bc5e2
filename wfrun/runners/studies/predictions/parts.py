"""The parts of the study, in the order of the page."""

from __future__ import annotations

from wfrun.runners.studies.predictions import runtimes
from wfrun.runners.studies.predictions.part import Part
from wfrun.runners.studies.predictions.runtime_claims import CLAIMS as RUNTIME_CLAIMS
from wfrun.runners.studies.predictions.runtime_figures import draw_runtimes
from wfrun.runners.studies.predictions.runtime_page import runtime_page
from wfrun.runners.studies.predictions.runtime_samples import RuntimeSamples

PARTS: tuple[Part, ...] = (
    Part(
        "runtimes",
        runtimes.RuntimeCell,
        runtimes.RuntimeRow,
        runtimes.cells,
        runtimes.run,
        RuntimeSamples,
        RUNTIME_CLAIMS,
        runtime_page,
        draw_runtimes,
    ),
)
"""Names are unique: they name files of results."""
