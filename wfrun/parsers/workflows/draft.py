"""Drafts: tasks, edges and sub-workflows as a document writes them.

The readers of workflow formats yield them. Tasks and files are named as in the document;
`wfrun.parsers.workflows.linking.link` replaces the names by numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import Resources
from wfrun.parsers.workflows.document import Document


class FileUse(msgspec.Struct, gc=False):
    """A file as one task reads or writes it."""

    name: str
    size_bytes: int | None = None
    optional: bool = False
    """Whether the task also runs without this input, or succeeds without this output."""
    executable: bool = False
    """Whether the document calls the file a program. The program that has the name of the task is
    run."""
    stage_out: bool | None = None
    """Whether the document requests that this output is kept; None if it does not say."""


class TaskDraft(msgspec.Struct):
    """A task as its document describes it."""

    id: str
    name: str
    executable: str
    arguments: tuple[str, ...] = ()
    inputs: list[FileUse] = []
    outputs: list[FileUse] = []
    stdin: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: dict[str, str] | None = None
    resources: Resources = Resources()
    """The requests of the task, except its container."""
    container: Container | None = None
    runtime_s: float | None = None
    priority: int = 0
    line: int | None = None
    """Position of the task in the document, which `Document.locate` turns into a line."""


class EdgeDraft(msgspec.Struct):
    """Declared edges from several parents to one child, by id. The document may declare the edges
    before these tasks."""

    child: str
    parents: Sequence[str]
    line: int | None = None


class SubworkflowDraft(msgspec.Struct):
    """A node of a workflow that stands for the workflow of another document."""

    id: str
    path: Path
    line: int | None = None


Draft = TaskDraft | EdgeDraft | SubworkflowDraft

DocumentReader = Callable[[Document, Path], Iterator[Draft]]
"""Reads the document at a path. Sets `Document.name` if the document has a name."""
