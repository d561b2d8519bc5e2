"""The command ``wfrun study reallocation``."""

from __future__ import annotations

import click
import msgspec

from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_verdicts, write_page, writing
from wfrun.studies.reallocation.claims import CLAIMS
from wfrun.studies.reallocation.experiments import (
    FULL,
    LRM,
    QUICK,
    ReallocationCell,
    ReallocationRow,
    ReallocationScale,
    Study,
    cells,
)
from wfrun.studies.reallocation.figures import draw_reallocation
from wfrun.studies.reallocation.page import reallocation_page
from wfrun.studies.reallocation.samples import ReallocationSamples
from wfrun.studies.reallocation.traces import LOGS, SIX_MONTHS_DAYS, days_of, log_of

TRACE_MINUTES = 0.4
"""Processor time in minutes that ten days of a trace take with one seed."""
GROWTH = 1.15
"""Exponent with which the processor time of a trace grows with its number of days."""


def study_reallocation(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError for a log that cannot be read and for a results.csv that is not from this
    study, and InfeasibleError if the folder cannot be written.
    """
    scale = scale_of(options)
    logs = {site: log_of(site, options.corpus) for site in LOGS}
    missing = [site for site, path in logs.items() if path is None]
    if missing and not options.quiet:
        names = " and ".join(LOGS[site][0] for site in missing)
        click.echo(f"no log of {names} (--corpus): jobs are generated", err=True)
    options.announce(length_of(scale))
    options.make_folder()
    output = options.output
    known = [path for path in logs.values() if path is not None]
    identity = {"logs": " ".join(path.name for path in known) or "generated", "lrm": LRM}
    results = Results(output / "results.csv", ReallocationCell, ReallocationRow, identity)
    simulate = Study(logs["ctc"], logs["sdsc"]).simulate
    rows = options.rows(cells(scale), results, simulate, {path: [path] for path in known})
    samples = ReallocationSamples(rows)
    found = answer(CLAIMS, samples)
    with writing(options):
        pictures = draw_reallocation(samples, options.output) if can_draw() else []
        write_page(
            options,
            reallocation_page(
                samples,
                scale,
                found,
                pictures,
                missing,
                words=words_of(options),
                length=f"{length_of(scale)} of processor time",
            ),
        )
    print_verdicts(options, found)


def scale_of(options: StudyOptions) -> ReallocationScale:
    """The scale that the options request: quick or full, with their days and seeds."""
    scale = QUICK if options.quick else FULL
    days = scale.days if options.days is None else min(options.days, SIX_MONTHS_DAYS)
    seeds = scale.seeds if options.seeds is None else options.seeds
    return msgspec.structs.replace(scale, days=days, seeds=seeds)


def words_of(options: StudyOptions) -> str:
    """The command line that requests the same scale, for the page."""
    words = ["wfrun study reallocation"]
    words += ["--quick"] if options.quick else []
    words += [f"--days {options.days:g}"] if options.days is not None else []
    words += [f"--seeds {options.seeds}"] if options.seeds is not None else []
    words += ["--corpus DIR"] if options.corpus is not None else []
    return " ".join([*words, "--output study"])


def length_of(scale: ReallocationScale) -> str:
    """Approximate time that the study takes on one processor, as text."""
    lengths = [min(scale.days, days_of(trace)) for trace in scale.traces]
    minutes = scale.seeds * TRACE_MINUTES * sum((days / 10) ** GROWTH for days in lengths)
    if minutes < 90:
        return f"about {max(1, round(minutes))} minutes"
    return f"about {round(minutes / 60)} hours"
