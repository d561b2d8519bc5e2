"""The end of a study: its figures, its page, and the verdicts on its claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.table import Table
from rich.text import Text

from wfrun.parsers.atomic import write_file
from wfrun.runners.display.console import make_console
from wfrun.runners.display.extras import install_command
from wfrun.runners.display.record_table import RecordColumn, number_column, record_table
from wfrun.studies.common.claim import Answer, tally
from wfrun.studies.common.options import StudyOptions
from wfrun.studies.common.verdict import Verdict

_COLOURS = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNCLEAR: "yellow"}


@contextmanager
def writing(options: StudyOptions) -> Iterator[None]:
    """A context in which figures and page are written: an OSError becomes an InfeasibleError."""
    try:
        yield
    except OSError as error:
        raise options.unwritable(error) from error


def can_draw() -> bool:
    """Whether matplotlib is installed. If not, a message that says how to install it is printed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        command = install_command("matplotlib")
        click.echo(f"no figures: matplotlib is not installed; {command} installs it", err=True)
        return False
    return True


def write_page(options: StudyOptions, page: str) -> None:
    """Write page.md. Raises OSError."""
    write_file(options.output / "page.md", page.encode())


def publish(
    options: StudyOptions,
    found: Sequence[Answer],
    draw: Callable[[], Sequence[str]],
    page: Callable[[Sequence[str]], str],
) -> None:
    """Draw the figures if matplotlib is installed, write the page, and print the verdicts. ``draw``
    writes the figures and returns the names of their files; ``page`` makes the page from these
    names. Raises InfeasibleError if the folder cannot be written."""
    with writing(options):
        write_page(options, page(draw() if can_draw() else []))
    print_verdicts(options, found)


def print_verdicts(options: StudyOptions, found: Sequence[Answer], remark: str = "") -> None:
    """Print a row for each claim, the number of claims that hold, and a remark."""
    columns = (
        number_column("", "number"),
        RecordColumn("section", "claim.where"),
        RecordColumn("claim", "claim.text", wraps=True),
        RecordColumn("verdict", _verdict_text),
    )
    print_table(options, record_table(found, columns), f"{tally(found)}{remark}")


def print_table(options: StudyOptions, table: Table, summary: str) -> None:
    """Print a table and, on the next line, a summary that names the page."""
    make_console().print(table)
    click.echo(f"{summary}; see {options.output}/page.md")


def _verdict_text(answer: Answer) -> Text:
    """The verdict as coloured text. For a claim that cannot fail, the text is only *cannot
    fail*."""
    if answer.claim.always:
        return Text("cannot fail", "dim")
    return Text(answer.verdict.value, _COLOURS[answer.verdict])
