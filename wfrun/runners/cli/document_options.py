"""What commands that take the documents of a run have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from wfrun.runners.cli.sections import option

DOCUMENTS = "Documents and sites"
"""The section of these options."""

_C = TypeVar("_C", bound=Callable[..., Any])

owner_option = option(
    "--owner", metavar="NAME", default="", section=DOCUMENTS,
    help="Owner of the documents, for fair selection policies. Default: that of each document, "
    "else you.",
)  # fmt: skip


def document_options(function: _C) -> _C:
    """Add the documents, the catalog of their sites and the folder of their inputs to a command."""
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
