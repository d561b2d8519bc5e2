"""The command ``wfrun study bags``."""

from __future__ import annotations

from pathlib import Path

import click

from wfrun.runners.display.console import make_console
from wfrun.runners.experiments.command import open_results
from wfrun.runners.experiments.progress import ExperimentProgress
from wfrun.runners.experiments.run_cells import run_cells
from wfrun.runners.studies.bags.claims import CLAIMS
from wfrun.runners.studies.bags.experiments import (
    FULL,
    QUICK,
    STAND_IN,
    BagSamples,
    cells,
    experiment_of,
    log_of,
)
from wfrun.runners.studies.bags.figures import draw_bags
from wfrun.runners.studies.bags.page import bags_page
from wfrun.runners.studies.claim import answer, tally
from wfrun.runners.studies.workflows import figures
from wfrun.runners.studies.workflows.command import claim_table, unwritable


def study_bags(
    output: Path,
    *,
    quick: bool,
    corpus: Path | None,
    processes: int | None,
    quiet: bool,
    on: Path | None = None,
) -> None:
    """Simulate what ``output``/results.csv does not have, here or ``on`` the sites of a catalog;
    write page.md and the figures there, and print the verdicts on all claims.

    Raises InvalidError for a corpus without a log and for a results.csv of something else,
    InfeasibleError where ``output`` cannot be written.
    """
    scale = QUICK if quick else FULL
    log = log_of(corpus)
    real = STAND_IN if log is None else log.name
    experiment, wanted = experiment_of(log), cells(scale, real)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(output, error) from error
    results = open_results(experiment, output / "results.csv")
    try:
        with ExperimentProgress(quiet=quiet) as progress:
            run_cells(
                wanted, results, experiment.simulate, progress.update,
                processes=processes, on=on, files=experiment.files,
            )  # fmt: skip
    finally:
        results.close()
    samples = BagSamples(results.of(wanted), scale, real)
    found = answer(CLAIMS, samples)
    try:
        pictures = draw_bags(samples, output) if figures.available() else []
        (output / "page.md").write_text(bags_page(samples, found, pictures))
    except OSError as error:
        raise unwritable(output, error) from error
    make_console().print(claim_table(found))
    once = ", by one repetition, without confidence" if scale.seeds == 1 else ""
    click.echo(f"{tally(found)}{once}; see {output}/page.md")
    if not pictures:
        click.echo("no figures: matplotlib is not installed (pip install 'wfrun[plots]')", err=True)
