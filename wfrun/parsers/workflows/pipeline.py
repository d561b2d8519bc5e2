"""The four stages of a workflow document: read, resolve, check, build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.formats import format_of, known_formats, unreadable
from wfrun.parsers.workflows.build import build_workflow
from wfrun.parsers.workflows.check import check_acyclic
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import DocumentReader, Draft
from wfrun.parsers.workflows.link import link


def make_workflow(path: Path, reader: DocumentReader, *, emulate: bool) -> Workflow:
    """Make the workflow of a document and of those that it includes. Raises InvalidError if one of
    them is invalid or cannot be read."""
    document = Document(path, emulate=emulate)
    linked = link(document, reader(document, path), _open_included)
    check_acyclic(linked)
    return build_workflow(linked)


def _open_included(path: Path, node: str, outer: Document) -> tuple[Document, Iterator[Draft]]:
    """Open the document of a sub-workflow, which is the node ``node`` of ``outer``."""
    inner = Document(path, emulate=outer.emulate, node=node, outer=outer)
    try:
        found, reader = format_of(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if found.holds != "workflow":
        raise InvalidError("not a workflow document", source=inner.source, hint=known_formats())
    return inner, reader(inner, path)
