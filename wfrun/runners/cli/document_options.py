"""Options and arguments of all commands that take the documents of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from wfrun.runners.cli.sections import option

DOCUMENTS = "Documents and sites"
"""The section of these options in help texts."""

_C = TypeVar("_C", bound=Callable[..., Any])

owner_option = option(
    "--owner", metavar="NAME", default="", section=DOCUMENTS,
    help="Owner of the documents, for fair selection policies. Default: that of each document, "
    "else you.",
)  # fmt: skip


def document_options(function: _C) -> _C:
    """Add to a command the argument for documents, and options for the site catalog and the folder
    of inputs."""
    for add in (
        option("--inputs", type=click.Path(path_type=Path, file_okay=False, exists=True),
               metavar="DIR", section=DOCUMENTS, help="Folder of the initial input files."),
        option("--sites", type=click.Path(path_type=Path), metavar="CATALOG", section=DOCUMENTS,
               help="Site catalog (YAML). Default: one site, this machine."),
        click.argument("documents", nargs=-1, required=True, type=click.Path(path_type=Path),
                       metavar="DOCUMENT..."),
    ):  # fmt: skip
        function = add(function)
    return function
