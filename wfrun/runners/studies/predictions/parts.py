"""The parts of the study, in the order of the page."""

from __future__ import annotations

from wfrun.runners.studies.predictions import grids, jgc, queue_waits, runtimes
from wfrun.runners.studies.predictions.burst import PART as BURST
from wfrun.runners.studies.predictions.grid_causes import PART as GRID_CAUSES
from wfrun.runners.studies.predictions.grid_claims import CLAIMS as GRID_CLAIMS
from wfrun.runners.studies.predictions.grid_figures import draw_grids
from wfrun.runners.studies.predictions.grid_page import grid_page
from wfrun.runners.studies.predictions.grid_samples import GridSamples
from wfrun.runners.studies.predictions.jgc_page import draw_jgc, jgc_page
from wfrun.runners.studies.predictions.jgc_samples import CLAIMS as JGC_CLAIMS
from wfrun.runners.studies.predictions.jgc_samples import JgcSamples
from wfrun.runners.studies.predictions.jgc_weeks import PART as JGC_WEEKS
from wfrun.runners.studies.predictions.part import Part
from wfrun.runners.studies.predictions.runtime_causes import PART as RUNTIME_CAUSES
from wfrun.runners.studies.predictions.runtime_claims import CLAIMS as RUNTIME_CLAIMS
from wfrun.runners.studies.predictions.runtime_figures import draw_runtimes
from wfrun.runners.studies.predictions.runtime_page import runtime_page
from wfrun.runners.studies.predictions.runtime_samples import RuntimeSamples
from wfrun.runners.studies.predictions.wait_causes import PART as WAIT_CAUSES
from wfrun.runners.studies.predictions.wait_claims import CLAIMS as WAIT_CLAIMS
from wfrun.runners.studies.predictions.wait_figures import draw_waits
from wfrun.runners.studies.predictions.wait_page import wait_page
from wfrun.runners.studies.predictions.wait_samples import WaitSamples

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
    RUNTIME_CAUSES,
    Part(
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
    Part(
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
    Part(
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
