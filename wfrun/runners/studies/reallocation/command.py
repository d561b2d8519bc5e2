"""The command ``wfrun study reallocation``."""

from __future__ import annotations

import click

from wfrun.runners.display.console import make_console
from wfrun.runners.experiments.results import Results
from wfrun.runners.studies.claim import answer, tally
from wfrun.runners.studies.options import StudyOptions
from wfrun.runners.studies.reallocation.claims import CLAIMS
from wfrun.runners.studies.reallocation.experiments import FULL, QUICK, Cell, Row, Study, cells
from wfrun.runners.studies.reallocation.figures import draw_reallocation
from wfrun.runners.studies.reallocation.page import reallocation_page
from wfrun.runners.studies.reallocation.samples import ReallocationSamples
from wfrun.runners.studies.reallocation.traces import LOGS, log_of
from wfrun.runners.studies.workflows import figures
from wfrun.runners.studies.workflows.command import claim_table

LENGTH = {True: "five minutes of processor time", False: "about a day of processor time"}
"""Of the quick and of the full study."""


def study_reallocation(options: StudyOptions) -> None:
    """Simulate what results.csv does not have, write page.md and the figures, and print the
    verdicts on all claims.

    Raises InvalidError for a log that cannot be read and for a results.csv of something else,
    InfeasibleError where the folder cannot be written.
    """
    scale = QUICK if options.quick else FULL
    logs = {site: log_of(site, options.corpus) for site in LOGS}
    missing = [site for site, path in logs.items() if path is None]
    if not options.quiet:
        if missing:
            names = " and ".join(LOGS[site][0] for site in missing)
            click.echo(f"no log of {names} (--corpus): jobs are generated", err=True)
        length = LENGTH[options.quick]
        click.echo(f"this takes {length} in all; what is simulated is kept", err=True)
    options.make_folder()
    output = options.output
    known = [path for path in logs.values() if path is not None]
    identity = {"logs": " ".join(path.name for path in known) or "generated"}
    results = Results(output / "results.csv", Cell, Row, identity)
    simulate = Study(logs["ctc"], logs["sdsc"]).simulate
    rows = options.rows(cells(scale), results, simulate, {path: [path] for path in known})
    samples = ReallocationSamples(rows)
    found = answer(CLAIMS, samples)
    pictures: list[str] = []
    try:
        if figures.available():
            pictures = draw_reallocation(samples, output)
        page = reallocation_page(samples, scale, found, pictures, missing)
        (output / "page.md").write_text(page)
    except OSError as error:
        raise options.unwritable(error) from error
    make_console().print(claim_table(found))
    click.echo(f"{tally(found)}; see {output}/page.md")
    if not pictures:
        click.echo("no figures: matplotlib is not installed (pip install 'wfrun[plots]')", err=True)
