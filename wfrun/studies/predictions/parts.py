"""The parts of the study, in the order of the page."""

from __future__ import annotations

from wfrun.studies.predictions.burst import PART as BURST
from wfrun.studies.predictions.grids import grids
from wfrun.studies.predictions.grids.grid_causes import PART as GRID_CAUSES
from wfrun.studies.predictions.grids.grid_claims import CLAIMS as GRID_CLAIMS
from wfrun.studies.predictions.grids.grid_figures import draw_grids
from wfrun.studies.predictions.grids.grid_page import grid_page
from wfrun.studies.predictions.grids.grid_samples import GridSamples
from wfrun.studies.predictions.jgc import jgc
from wfrun.studies.predictions.jgc.jgc_page import draw_jgc, jgc_page
from wfrun.studies.predictions.jgc.jgc_samples import CLAIMS as JGC_CLAIMS
from wfrun.studies.predictions.jgc.jgc_samples import JgcSamples
from wfrun.studies.predictions.jgc.jgc_weeks import PART as JGC_WEEKS
from wfrun.studies.predictions.part import StudyPart
from wfrun.studies.predictions.runtimes import runtimes
from wfrun.studies.predictions.runtimes.runtime_causes import PART as RUNTIME_CAUSES
from wfrun.studies.predictions.runtimes.runtime_claims import CLAIMS as RUNTIME_CLAIMS
from wfrun.studies.predictions.runtimes.runtime_figures import draw_runtimes
from wfrun.studies.predictions.runtimes.runtime_page import runtime_page
from wfrun.studies.predictions.runtimes.runtime_samples import RuntimeSamples
from wfrun.studies.predictions.waits import queue_waits
from wfrun.studies.predictions.waits.wait_causes import PART as WAIT_CAUSES
from wfrun.studies.predictions.waits.wait_claims import CLAIMS as WAIT_CLAIMS
from wfrun.studies.predictions.waits.wait_figures import draw_waits
from wfrun.studies.predictions.waits.wait_page import wait_page
from wfrun.studies.predictions.waits.wait_samples import WaitSamples

PARTS: tuple[StudyPart, ...] = (
    StudyPart(
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
    RUNTIME_CAUSES,
    StudyPart(
        "waits",
        queue_waits.WaitCell,
        queue_waits.WaitRow,
        queue_waits.cells,
        queue_waits.run,
        WaitSamples,
        WAIT_CLAIMS,
        wait_page,
        draw_waits,
    ),
    WAIT_CAUSES,
    BURST,
    StudyPart(
        "grids",
        grids.GridCell,
        grids.GridRow,
        grids.cells,
        grids.run,
        GridSamples,
        GRID_CLAIMS,
        grid_page,
        draw_grids,
    ),
    GRID_CAUSES,
    StudyPart(
        "jgc",
        jgc.JgcCell,
        jgc.JgcRow,
        jgc.cells,
        jgc.run,
        JgcSamples,
        JGC_CLAIMS,
        jgc_page,
        draw_jgc,
    ),
    JGC_WEEKS,
)
"""Names are unique: they name files of results."""
