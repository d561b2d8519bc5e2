"""Writes what is derived from `Settings` and has to be a file: the types of the keyword arguments,
which type checkers read, and the table of options in docs/running.md. ``make options`` runs it;
``make check`` runs it with ``--check``, and fails if a file is not what it would write."""

from __future__ import annotations

import collections.abc
import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from wfrun.engine.settings import Setting, Settings, all_settings
from wfrun.runners.api import run_async
from wfrun.runners.cli.run.running import run
from wfrun.runners.cli.sections import section_of
from wfrun.runners.experiments.experiment import VARIED

ROOT = Path(__file__).parent.parent
ARGUMENTS = ROOT / "wfrun/runners/run/prepare/arguments.py"
PAGE = ROOT / "docs/running.md"
BEGIN, END = "<!-- written by make options -->\n", "<!-- end of what make options writes -->\n"

HEADER = '''\
"""Keyword arguments of functions that take the options of a run. `wfrun.engine.settings.Settings`
describes each; ``make options`` writes this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict
'''


def arguments() -> str:
    """The module with the types of the keyword arguments."""
    common = [s for s in all_settings().values() if s.option.simulate and s.name not in VARIED]
    others = [s for s in all_settings().values() if s not in common and not s.option.only_jobs]
    changed = [s for s in all_settings().values() if s.option.resume]
    said = "Options that the runs of an experiment have in common."
    return (
        HEADER
        + _typed_dict("SimulateArguments(TypedDict", said, common)
        + _typed_dict("RunArguments(SimulateArguments", "The other options of a real run.", others)
        + _typed_dict("ResumeArguments(TypedDict", "Options that a resume can change.", changed)
    )


def _typed_dict(head: str, docstring: str, settings: list[Setting]) -> str:
    hints = get_type_hints(Settings)
    lines = [f"    {setting.name}: {_text(hints[setting.name])}" for setting in settings]
    return "\n\n" + "\n".join(
        [f"class {head}, total=False):", f'    """{docstring}"""', "", *lines, ""]
    )


def _text(hint: Any) -> str:
    """A type as it is written in source code."""
    if get_origin(hint) is Literal:
        return "Literal[" + ", ".join(f'"{choice}"' for choice in get_args(hint)) + "]"
    if get_origin(hint) is collections.abc.Mapping:
        return "Mapping[" + ", ".join(map(_text, get_args(hint))) + "]"
    if get_args(hint):
        return " | ".join(map(_text, get_args(hint)))
    return "None" if hint is type(None) else str(hint.__name__)


def table() -> str:
    """The options of ``wfrun run``: a table for each heading of its help text."""
    rows: dict[str, list[str]] = {}
    for param in run.params:
        if isinstance(param, click.Option):
            rows.setdefault(section_of(param), []).append(_row(param))
    head = "| option | in Python | meaning |\n|---|---|---|\n"
    return "\n".join(f"### {heading}\n\n{head}{''.join(lines)}" for heading, lines in rows.items())


def _row(param: click.Option) -> str:
    record = param.get_help_record(click.Context(run))
    assert record is not None
    names, name = record[0].replace("|", "\\|"), str(param.name)
    meaning = [str(param.help)]
    setting = all_settings().get(name)
    if setting is not None:
        if setting.type is not bool and setting.default not in (None, "", {}):
            meaning.append(f"Default: {setting.shown_default}.")
        if setting.range:
            meaning.append(f"{setting.range.capitalize()}.")
    in_python = f"`{name}`" if name in signature(run_async).parameters else ""
    return f"| `{names}` | {in_python} | {' '.join(meaning)} |\n"


def with_table(page: str) -> str:
    """The page with the current table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def derived() -> dict[Path, str]:
    """The files and what they have to contain."""
    return {ARGUMENTS: arguments(), PAGE: with_table(PAGE.read_text())}


def stale(files: Mapping[Path, str]) -> list[Path]:
    """Those of the files that do not contain what they have to."""
    return [path for path, text in files.items() if path.read_text() != text]


def main() -> int:
    """Write both files, or with ``--check`` name those that are not as they would be written."""
    files = derived()
    checked = "--check" in sys.argv[1:]
    for path in stale(files):
        if checked:
            print(f"{path.relative_to(ROOT)} is stale: run `make options`")
        else:
            path.write_text(files[path])
    return 1 if checked and stale(files) else 0


if __name__ == "__main__":
    sys.exit(main())
