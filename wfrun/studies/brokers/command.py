"""The command ``wfrun study brokers``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.tables.results import Results
from wfrun.sites.catalog import read_catalog
from wfrun.studies.brokers import figures
from wfrun.studies.brokers.claims import CLAIMS
from wfrun.studies.brokers.emulated import EmulatedOutcome, emulate, emulated_cases
from wfrun.studies.brokers.experiments import (
    FULL,
    QUICK,
    WORKFLOWS,
    BrokersCase,
    BrokersOutcome,
    cases,
    run_case,
)
from wfrun.studies.brokers.page import page
from wfrun.studies.brokers.samples import BrokerSamples
from wfrun.studies.common.claim import answer
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_verdicts, write_page, writing
from wfrun.studies.workflows.experiments import document_of


def study_brokers(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims. If ``options.emulate_at`` names a catalog, first emulate on its clusters
    the runs that emulated.csv lacks.

    Raises InvalidError for a catalog that cannot be read and for results that are not from this
    study, and InfeasibleError if the folder cannot be written or a broker of the emulation fails.
    """
    if options.emulate_at is not None:
        read_catalog(options.emulate_at)  # the error of the user's file comes before any work
    repetitions = QUICK if options.quick else FULL
    output, corpus = options.output, options.corpus
    options.make_folder()
    emulated = _emulated(options)
    results = Results(output / "results.csv", BrokersCase, BrokersOutcome)
    simulate = partial(run_case, corpus=corpus)
    rows = options.rows(cases(repetitions, corpus), results, simulate, _files(corpus))
    samples = BrokerSamples(rows)
    found = answer(CLAIMS, samples)
    with writing(options):
        pictures = figures.draw(samples, options.output) if can_draw() else []
        write_page(options, page(samples, found, repetitions, emulated, pictures))
    print_verdicts(options, found)


def _emulated(options: StudyOptions) -> list[EmulatedOutcome] | None:
    """The runs of the emulation; None if nothing is emulated."""
    if options.emulate_at is None:
        return None
    wanted = emulated_cases(quick=options.quick, corpus=options.corpus)
    return emulate(
        wanted, options.emulate_at, options.output, corpus=options.corpus, quiet=options.quiet
    )


def _files(corpus: Path | None) -> Files:
    """The documents that simulations read."""
    if corpus is None:
        return {}
    found = (document_of(corpus, *workflow) for workflow in WORKFLOWS)
    return {corpus: [document for document in found if document is not None]}
