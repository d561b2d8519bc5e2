"""The command ``wfrun study allocation``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.allocation.claims import CLAIMS
from wfrun.studies.allocation.experiments import (
    FULL_WEEKS,
    QUICK_WEEKS,
    AllocationCase,
    AllocationOutcome,
    cases,
    run_case,
)
from wfrun.studies.allocation.figures import draw_allocation
from wfrun.studies.allocation.page import LENGTH, allocation_page
from wfrun.studies.allocation.samples import AllocationSamples
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_verdicts, write_page, writing
from wfrun.studies.grids.jgc_grids import GRIDS, Logs, logs_of
from wfrun.studies.predictions.workloads import workloads_of


def study_allocation(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError without a corpus that has the logs of Grid1, for a log that cannot be read,
    and for a results.csv that is not from this study. Raises InfeasibleError if the folder cannot
    be written.
    """
    weeks = QUICK_WEEKS if options.quick else FULL_WEEKS
    logs, identity = _logs(options.corpus)
    wanted = cases(weeks, tuple(logs))
    options.announce(LENGTH[options.quick])
    options.make_folder()
    output = options.output
    results = Results(output / "results.csv", AllocationCase, AllocationOutcome, {"logs": identity})
    paths = [Path(path) for known in logs.values() for _, path in known]
    files = {path: [path] for path in paths}
    rows = options.rows(wanted, results, partial(run_case, logs=logs), files)
    samples = AllocationSamples(weeks, tuple(logs), rows)
    found = answer(CLAIMS, samples)
    with writing(options):
        pictures = draw_allocation(samples, options.output) if can_draw() else {}
        write_page(options, allocation_page(samples, found, pictures, quick=options.quick))
    print_verdicts(options, found)


def _logs(corpus: Path | None) -> tuple[dict[str, Logs], str]:
    """The logs of each grid for which ``corpus`` has all logs, and a text that identifies these
    logs in results."""
    hint = (
        "name a folder with the logs KTH-SP2, SDSC-SP2, HPC2N, CTC-SP2, LANL-CM5, SDSC-BLUE and "
        "SDSC-DS of the Parallel Workloads Archive: --corpus DIR"
    )
    if corpus is None:
        raise InvalidError("the study allocation needs workload logs", hint=hint)
    workloads = {w.title: w for w in workloads_of(corpus, ()) if w.path is not None}
    paths = {title: workload.path for title, workload in workloads.items()}
    missing = [name for name in GRIDS["Grid1"] if name not in paths]
    if missing:
        raise InvalidError(
            f"logs of Grid1 are missing: {', '.join(missing)}", source=str(corpus), hint=hint
        )
    found = {grid: known for grid in GRIDS if (known := logs_of(paths, grid)) is not None}
    return found, " ".join(workloads[name].label.rpartition("#")[2] for name in GRIDS["Grid1"])
