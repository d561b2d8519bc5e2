"""The command ``wfrun study workflows``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from wfrun.engine.errors import InvalidError
from wfrun.parsers.atomic import write_file
from wfrun.runners.display.console import make_console
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.runners.experiments.on_sites.work import Files
from wfrun.runners.experiments.tables.results import Results
from wfrun.studies.common.claim import Answer, tally
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.verdict import Verdict
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
    """Simulate what results.csv does not have, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError for a corpus without workflows and for a results.csv of something else,
    InfeasibleError where the folder cannot be written.
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
    try:
        pictures = figures.draw(samples, scale, output) if figures.available() else []
        write_file(
            output / "page.md", page(samples, found, tests, scale, origins, pictures).encode()
        )
    except OSError as error:
        raise options.unwritable(error) from error
    make_console().print(claim_table(found))
    click.echo(f"{tally(found)}; see {output}/page.md")


def _origins(corpus: Path | None) -> list[tuple[str, int]]:
    """Workflows for which ``corpus`` has a document."""
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
    """The documents that simulations read."""
    if corpus is None:
        return {}
    found = (document_of(corpus, *origin) for origin in origins)
    return {corpus: [document for document in found if document is not None]}


def claim_table(found: list[Answer]) -> Table:
    """A row for each claim."""
    columns = (
        number_column("", "number"),
        RecordColumn("section", "claim.where"),
        RecordColumn("claim", "claim.text", wraps=True),
        RecordColumn("verdict", verdict_text),
    )
    return record_table(found, columns)


_COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNCLEAR: "yellow"}


def verdict_text(answer: Answer) -> Text:
    """The verdict, in colour; of a claim that cannot fail, only that."""
    if answer.claim.always:
        return Text("cannot fail", "dim")
    return Text(answer.verdict.value, _COLOURS[answer.verdict])


def yes_or_no(holds: bool) -> Text:
    """The answer to a claim, in colour."""
    return Text("yes", "green") if holds else Text("no", "red")
