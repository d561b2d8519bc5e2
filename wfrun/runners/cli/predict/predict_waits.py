"""``wfrun predict --log FILE --waits``: the accuracy of predictions of queue waits on a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wfrun.runners.cli.predict.predict_log import ALL
from wfrun.runners.cli.predict.predict_modes import Mode
from wfrun.runners.cli.sections import SectionedOption

if TYPE_CHECKING:
    from rich.table import Table

    from wfrun.parsers.logs import LoggedJob
    from wfrun.runners.forecast.wait_accuracy import LogWaits, SiteJobs

_SECTION = "Accuracy of predicted waits"
_LRMS = ("fcfs", "easy", "conservative", "replanned")
_MAX_SITES = 8
"""Maximum number of sites in the printed table. CSV files and JSON have all sites."""


def _run(_: tuple[str, ...], options: dict[str, Any]) -> None:
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.explain.visible import message_block
    from wfrun.parsers.logs import read_log
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.record_table import write_csv
    from wfrun.runners.forecast.wait_accuracy import flat, log_waits

    path, lrm, load = options["log"], options["lrm"], options["load"]
    if path is None:
        raise click.UsageError("--waits measures predictions on a log: give --log FILE.")
    methods = _methods(options["method"])
    if methods and lrm is None:
        raise click.UsageError("--method predicts run times for a simulated queue: give --lrm too.")
    for name in ("load", "processors"):
        if options[name] is not None and lrm is None:
            raise click.UsageError(f"--{name} is for a simulated queue: give --lrm too.")
    jobs, remarks, processors = read_log(path, skip_bad_lines=options["skip_bad_lines"])
    is_grid = ".gwf" in path.suffixes
    sites = _sites(path, jobs, is_grid, remarks)
    size = options["processors"] or (None if len(sites) > 1 else processors)
    remarks += _remarks(path, sites, lrm, size)
    for remark in remarks:
        click.echo(message_block(f"warning: {remark}"), err=True)
    try:
        rows = list(log_waits(sites, lrm, processors=size, load=load, methods=methods))
    except InvalidError as error:
        raise InvalidError(error.message, source=str(path), hint=error.hint) from None
    if options["csv_file"] is not None:
        flat_rows = [flat(row) for row in rows]
        write_csv(options["csv_file"], flat_rows[0], (row.values() for row in flat_rows))
    if options["as_json"]:
        print_json({"log": str(path), "load": load, "waits": rows})
        return
    console = make_console()
    for site in sites[:_MAX_SITES]:
        its = [row for row in rows if row.site == site.site]
        console.print(_title(path, its, load), soft_wrap=True, markup=False)
        console.print(_table(its))
    if len(sites) > _MAX_SITES:
        console.print(f"{len(sites) - _MAX_SITES} more sites: see --csv or --json")
    console.print(_NOTES, soft_wrap=True, markup=False)


def _methods(text: str) -> list[str]:
    """Return names of methods that predict run times, from a list with commas. ``all`` gives an
    empty list, for the method of the thesis. Raises UsageError for an unknown name."""
    from wfrun.engine.prediction.registry import PREDICTORS

    words = [] if text == ALL else list(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in PREDICTORS:
            known = ", ".join(PREDICTORS)
            raise click.UsageError(
                f"--method {word!r} cannot predict run times for --waits; available: {known}."
            )
    return words


def _sites(
    path: Path, jobs: Sequence[LoggedJob], is_grid: bool, remarks: list[str]
) -> list[SiteJobs]:
    """The sites with at least `MIN_JOBS` jobs. A remark is added if others are left out. Raises
    InvalidError if no site has enough jobs."""
    from wfrun.engine.errors import InvalidError
    from wfrun.runners.forecast.wait_accuracy import MIN_JOBS, jobs_by_site

    found = jobs_by_site(jobs, is_grid=is_grid)
    large = [site for site in found if len(site.jobs) >= MIN_JOBS]
    if not large:
        raise InvalidError(
            f"the log has {len(jobs)} jobs, at no site {MIN_JOBS}: too few to measure",
            source=str(path),
            hint="give a longer log",
        )
    if len(large) < len(found):
        remarks.append(
            f"{path}: {len(found) - len(large)} of {len(found)} sites left out: they have fewer "
            f"than {MIN_JOBS} jobs"
        )
    return large


def _remarks(
    path: Path, sites: Sequence[SiteJobs], lrm: str | None, processors: int | None
) -> list[str]:
    """Remarks on jobs that are left out, and on assumed sizes and estimates."""
    jobs = [job for site in sites for job in site.jobs]
    if lrm is None:
        unknown = sum(1 for job in jobs if job.wait_s is None or job.wait_s < 0)
        return [f"{path}: {unknown:,} jobs left out: their waits are unknown"] if unknown else []
    remarks = []
    if processors is None:
        remarks.append(
            f"{path}: processors unknown: each site is simulated with as many as its jobs used at "
            "once (--processors N for another number)"
        )
    else:
        larger = sum(1 for job in jobs if (job.size or 0) > processors)
        if larger:
            remarks.append(f"{path}: {larger:,} jobs left out: larger than {processors} processors")
    without = sum(1 for job in jobs if job.requested_s is None or job.requested_s <= 0)
    if without:
        remarks.append(
            f"{path}: {without:,} jobs without an estimate: the queue is given one of 1 to 5 times "
            "their run time, drawn at random"
        )
    return remarks


def _title(path: Path, rows: Sequence[LogWaits], load: float | None) -> str:
    first = rows[0]
    site = f", site {first.site}" if first.site else ""
    jobs = f"{path}{site}: {first.accuracy.jobs + first.accuracy.unknown:,} jobs"
    if first.lrm is None:
        return f"{jobs}, waits of the log"
    at = "" if load is None else f" at a load of {load:g}"
    return f"{jobs}, {first.lrm} simulated on {first.processors:,} processors{at}"


_NOTES = (
    "*: only jobs that waited; error: mean absolute error\n"
    "under, exact, over: share of the jobs that waited longer than predicted, as long, less long\n"
    "in bursts, outside: share of the jobs submitted there that waited no longer than predicted\n"
    "The first 10% of the jobs are predicted but not counted."
)


def _table(rows: Sequence[LogWaits]) -> Table:
    from wfrun.runners.display.record_table import RecordColumn, number_column, record_table

    share, minutes = "{:.1%}", "{:,.0f} min"
    columns = [
        RecordColumn("predictor", "predictor"),
        number_column("accuracy", "accuracy.accuracy", share),
        number_column("accuracy*", "accuracy.accuracy_waited", share),
        number_column("error", "accuracy.error_s", minutes, 60),
        number_column("error*", "accuracy.error_waited_s", minutes, 60),
        number_column("under", "accuracy.under", share),
        number_column("exact", "accuracy.perfect", share),
        number_column("over", "accuracy.over", share),
        number_column("in bursts", "accuracy.within_in_bursts", share),
        number_column("outside", "accuracy.within_outside", share),
    ]
    if any(row.accuracy.unknown for row in rows):
        columns.append(number_column("unknown", "accuracy.unknown", "{:,}"))
    return record_table(rows, columns)


MODE = Mode(
    title="the accuracy of predicted waits (--waits)",
    chosen_by="waits",
    options=(
        SectionedOption(
            ["--waits"], is_flag=True, section=_SECTION,
            help="With --log: measure how accurately queue waits are predicted: those of the log "
            "by upper bounds, those of a simulated queue (--lrm) also by simulations on run times "
            "that --method predicts (default: as in the thesis)."),
        SectionedOption(
            ["--lrm"], type=click.Choice(_LRMS), section=_SECTION,
            help="Simulate a queue with this policy instead of taking the waits of the log."),
        SectionedOption(
            ["--load"], type=click.FloatRange(min=0, min_open=True), metavar="RATIO",
            section=_SECTION,
            help="Scale the times between submissions to this load, such as 0.7; also of a "
            "--grid."),
        SectionedOption(
            ["--processors"], type=click.IntRange(min=1), metavar="N", section=_SECTION,
            help="Size of the simulated cluster; default: that of the log."),
    ),
    run=_run,
    shares=("log", "method", "skip_bad_lines", "csv_file"),
)  # fmt: skip
