"""The command ``wfrun study workflows``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.publish import can_draw, print_verdicts, write_page, writing
from wfrun.studies.workflows import figures, paper
from wfrun.studies.workflows.causes import (
    CauseCase,
    CauseOutcome,
    cause_cases,
    run_cause,
    tested,
)
from wfrun.studies.workflows.claims import answers
from wfrun.studies.workflows.experiments import (
    FULL,
    QUICK,
    WorkflowsCase,
    WorkflowsOutcome,
    cases,
    document_of,
    run_case,
)
from wfrun.studies.workflows.page import page
from wfrun.studies.workflows.samples import Samples


def study_workflows(options: StudyOptions) -> None:
    """Simulate the runs that results.csv lacks, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError for a corpus without workflows and for a results.csv that is not from this
    study, and InfeasibleError if the folder cannot be written.
    """
    scale = QUICK if options.quick else FULL
    corpus = options.corpus
    origins = _origins(corpus)
    wanted = cases(scale, origins)
    options.make_folder()
    output = options.output
    outcomes = Results(output / "results.csv", WorkflowsCase, WorkflowsOutcome)
    simulate = partial(run_case, corpus=corpus)
    rows = options.rows(wanted, outcomes, simulate, _files(corpus, origins))
    causes = Results(output / "causes.csv", CauseCase, CauseOutcome)
    again = partial(run_cause, corpus=corpus)
    changed = options.rows(cause_cases(wanted), causes, again, _files(corpus, origins))
    samples = Samples(rows)
    found = answers(rows)
    tests = list(tested(rows, changed, found))
    with writing(options):
        pictures = figures.draw(samples, scale, options.output) if can_draw() else []
        write_page(options, page(samples, found, tests, scale, origins, pictures))
    print_verdicts(options, found)


def _origins(corpus: Path | None) -> list[tuple[str, int]]:
    """(family, size) of each workflow for which ``corpus`` has a document; empty without a corpus.
    Raises InvalidError for a corpus without any of them."""
    if corpus is None:
        return []
    wanted = dict.fromkeys(w for workload in paper.WORKLOADS.values() for w in workload)
    found = [w for w in wanted if document_of(corpus, *w) is not None]
    if not found:
        raise InvalidError(
            "there is no workflow of the study in this folder",
            source=str(corpus),
            hint="it should hold documents such as CyberShake_30.xml or Montage_1000.xml",
        )
    return found


def _files(corpus: Path | None, origins: list[tuple[str, int]]) -> Files:
    """The documents in ``corpus`` that simulations read."""
    if corpus is None:
        return {}
    found = (document_of(corpus, *origin) for origin in origins)
    return {corpus: [document for document in found if document is not None]}
