"""``wfrun jobs --malleable``: jobs that grow and shrink while they run, simulated."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wfrun.engine.settings import Settings, all_settings
from wfrun.runners.cli.exit_statuses import DONE

if TYPE_CHECKING:
    from wfrun.runners.simulate.malleable import MalleableResult


_KEPT = ("policy", "malleable", "precedence", "threshold")
"""Settings that the command uses, or for which it has its own default."""


def grow_and_shrink(
    documents: Sequence[Path], options: Mapping[str, Any], settings: Settings,
    warn: Callable[[Sequence[str]], None],
) -> None:  # fmt: skip
    """Carry out ``wfrun jobs --malleable --simulate``, and exit the process."""
    from wfrun.engine.jobs.malleable.simulation import Rules
    from wfrun.runners.run.prepare.prepare import this_machine
    from wfrun.runners.run.prepare.prepare_jobs import read_job_documents
    from wfrun.runners.simulate.malleable import simulate_malleable
    from wfrun.sites.catalog import read_catalog

    _check(options, settings)
    catalog = read_catalog(options["sites"]) if options["sites"] else this_machine()
    read = read_job_documents(
        documents, synthetic=True, together=True, skip_bad_lines=options["skip_bad_lines"]
    )
    if not options["quiet"]:
        warn(read.remarks)
    assert settings.malleable is not None, "it asks for that"
    rules = Rules(settings.malleable, settings.precedence, settings.threshold, settles=True)
    found = simulate_malleable(read.read, read.arrivals_s, catalog, rules)
    if options["as_json"]:
        from wfrun.runners.display.ascii_json import print_json

        print_json(found)
    else:
        _show(found, several=len(documents) > 1, quiet=options["quiet"])
    sys.exit(DONE)


def _check(options: Mapping[str, Any], settings: Settings) -> None:
    """Raise UsageError for options that have no effect on malleable jobs."""
    for name in ("allocate", "background", "lrm", "run_dir", "inputs"):
        if options[name] is not None:
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(f"{flag} has no effect with --malleable and --simulate")
    usual = Settings(policy=settings.policy)
    for name, setting in all_settings().items():
        if name not in _KEPT and getattr(settings, name) != getattr(usual, name):
            raise click.UsageError(f"{setting.flag} has no effect with --malleable and --simulate")


def _show(found: MalleableResult, *, several: bool, quiet: bool) -> None:
    """Print a line for each job, unless ``quiet``, and the summary."""
    from rich.table import Table
    from rich.text import Text

    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.durations import duration

    if not quiet:
        table = Table(box=None, pad_edge=False)
        table.add_column("job")
        table.add_column("site")
        for title in ("start", "end", "smallest", "mean", "largest", "grows", "shrinks"):
            table.add_column(title, justify="right")
        for job in found.jobs:
            table.add_row(
                Text(f"{job.workflow}/{job.job}" if several else job.job), Text(job.site),
                duration(job.start_s), duration(job.end_s), str(job.smallest), f"{job.mean:.1f}",
                str(job.largest), str(job.grows), str(job.shrinks),
            )  # fmt: skip
        make_console().print(table)
        click.echo()
    click.echo(
        f"{len(found.jobs)} jobs in {duration(found.makespan_s)}, "
        f"utilization {found.utilization:.1%}, mean response {duration(found.mean_response_s)}"
    )
