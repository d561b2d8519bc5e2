"""``wfrun predict --log``: the accuracy of run time predictions on a workload log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.shell_completion import CompletionItem

from wfrun.runners.cli.predict.predict_modes import Mode
from wfrun.runners.cli.sections import SectionedOption

if TYPE_CHECKING:
    from rich.table import Table

    from wfrun.runners.forecast.log_accuracy import Accuracy

_SECTION = "Accuracy on a workload log"
ALL = "all"


def _complete_methods(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from wfrun.runners.forecast.log_predictors import ALL_METHODS

    return _names_after_comma([ALL, *ALL_METHODS], incomplete)


def _complete_classes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from wfrun.runners.forecast.log_predictors import ALL_CLASSES

    return _names_after_comma([ALL, *ALL_CLASSES], incomplete)


def _names_after_comma(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    before, comma, start = incomplete.rpartition(",")
    return [CompletionItem(before + comma + name) for name in names if name.startswith(start)]


def _run(_: tuple[str, ...], options: dict[str, Any]) -> None:
    from wfrun.engine.errors import InvalidError
    from wfrun.engine.explain.visible import message_block
    from wfrun.engine.prediction.methods import METHODS
    from wfrun.parsers.logs import read_log
    from wfrun.runners.display.ascii_json import print_json
    from wfrun.runners.display.console import make_console
    from wfrun.runners.display.record_table import write_csv
    from wfrun.runners.forecast.log_accuracy import Accuracy, accuracies, log_history
    from wfrun.runners.forecast.log_predictors import ALL_CLASSES, ALL_METHODS, candidates

    methods = _chosen(options["method"], ALL_METHODS, "--method")
    classes = _chosen(options["classification"], ALL_CLASSES, "--class")
    if classes != ALL_CLASSES and methods == ALL_METHODS:
        methods = tuple(METHODS)  # only these have classes
    path: Path = options["log"]
    jobs, remarks, _processors = read_log(path, skip_bad_lines=options["skip_bad_lines"])
    history = log_history(jobs, is_grid=".gwf" in path.suffixes)
    chosen = list(candidates(methods, classes, history.missing, options["window"]))
    left_out = list(_left_out(methods, classes, history.missing))
    if not chosen:
        hint = "Choose others with --method and --class, or leave these options out."
        raise InvalidError("; ".join(left_out), source=str(path), hint=hint)
    remarks += [f"{path}: {remark}" for remark in left_out]
    for remark in remarks:
        click.echo(message_block(f"warning: {remark}"), err=True)
    found = list(accuracies(history, chosen))
    if options["csv_file"] is not None:
        names = Accuracy.__struct_fields__
        write_csv(options["csv_file"], names, map(msgspec.structs.astuple, found))
    if options["as_json"]:
        print_json({"log": str(path), "jobs": history.jobs, "accuracies": found})
        return
    console = make_console()
    console.print(f"{path}: {history.jobs:,} jobs", soft_wrap=True, markup=False)
    console.print(_table(found))


def _chosen(text: str, names: Sequence[str], option: str) -> Sequence[str]:
    """Split a list with commas into names, each once; ``all`` stands for all ``names``. Raises
    UsageError for an unknown name."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in (ALL, *names):
            known = ", ".join(names)
            raise click.UsageError(f"{option} {word!r} is unknown; available: {ALL}, {known}.")
    return names if ALL in words else list(dict.fromkeys(words))


_FIELDS = {"site": "site", "owner": "user", "application": "application", "estimate_s": "estimate"}


def _left_out(
    methods: Sequence[str], classes: Sequence[str], missing: Sequence[str]
) -> Iterator[str]:
    """A warning for each field that the log lacks, with the classes and methods that are left out
    because they need the field."""
    from wfrun.engine.prediction.classes import CLASSIFICATIONS
    from wfrun.engine.prediction.methods import METHODS
    from wfrun.runners.forecast.log_predictors import OWN

    has_classes = any(method in METHODS for method in methods)
    for name in missing:
        needing = [c for c in classes if c in CLASSIFICATIONS and name in CLASSIFICATIONS[c].needs]
        lists = [
            _listed("class", "classes", needing if has_classes else []),
            _listed("method", "methods", [m for m in methods if m in OWN and name in OWN[m].needs]),
        ]
        what = ", and ".join(filter(None, lists))
        if what:
            yield f"no job states its {_FIELDS[name]}; left out: {what}"


def _listed(one: str, several: str, names: Sequence[str]) -> str:
    if len(names) < 2:
        return f"{one} {names[0]}" if names else ""
    return f"{several} {', '.join(names[:-1])} and {names[-1]}"


def _table(found: Sequence[Accuracy]) -> Table:
    from wfrun.runners.display.record_table import RecordColumn, number_column, record_table

    columns = [
        RecordColumn("class", lambda each: each.classification or None),
        RecordColumn("method", "method"),
        number_column("accuracy", "accuracy", "{:.1%}"),
        number_column("mean error", "mean_error_s", "{:,.0f} s"),
        number_column("median error", "median_error_s", "{:,.0f} s"),
        number_column("unknown", lambda each: each.unknown / each.jobs, "{:.1%}"),
    ]
    if any(each.in_interval is not None for each in found):
        columns.append(number_column("in interval", "in_interval", "{:.1%}", absent=""))
    return record_table(found, columns)


MODE = Mode(
    title="the accuracy on a log (--log)",
    chosen_by="log",
    options=(
        SectionedOption(
            ["--log"], type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE", section=_SECTION,
            help="Measure how accurately the run times of this log (SWF or GWF, also with gzip) "
            "are predicted: each job from those that had ended when it was submitted."),
        SectionedOption(
            ["--method"], default=ALL, show_default=True, metavar="NAMES", section=_SECTION,
            shell_complete=_complete_methods,
            help="Methods, with commas between them: es, rm, sm, last, last2 by class; auto, "
            "estimate, M1 to M12."),
        SectionedOption(
            ["--class", "classification"], default=ALL, show_default=True, metavar="NAMES",
            section=_SECTION, shell_complete=_complete_classes,
            help="Classes of jobs that are predicted from each other: site, user, user-site, "
            "application; chain: the most specific of these with a history."),
        SectionedOption(
            ["--window"], type=click.IntRange(1, 10), default=5, show_default=True, metavar="K",
            section=_SECTION, help="Number of run times that M1 to M8 average."),
        SectionedOption(
            ["--skip-bad-lines"], is_flag=True, section=_SECTION,
            help="Drop and count lines that cannot be read, instead of stopping."),
        SectionedOption(
            ["--csv", "csv_file"], type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE", section=_SECTION,
            help="Write the table as CSV, with all digits."),
    ),
    run=_run,
)  # fmt: skip
