"""What the readers of workflow documents yield: tasks, edges and sub-workflows as they are written.

Files are names, and ids are those of the document. `wfrun.parsers.workflows.link` resolves them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.model import Resources
from wfrun.parsers.workflows.document import Document


class FileUse(msgspec.Struct, gc=False):
    """One file that one task reads or writes."""

    name: str
    size_bytes: int | None = None
    optional: bool = False
    executable: bool = False
    stage_out: bool | None = None
    """Whether an output is marked as one to keep; None: it is not marked."""


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
    runtime_s: float | None = None
    priority: int = 0
    line: int | None = None
    """Where it starts, as a position that `Document.locate` turns into a line."""


class EdgeDraft(msgspec.Struct):
    """Declared edges from several parents to one child. Tasks may follow in the document."""

    child: str
    parents: Sequence[str]
    line: int | None = None


class SubworkflowDraft(msgspec.Struct):
    """A node that stands for another document."""

    id: str
    path: Path
    line: int | None = None


Draft = TaskDraft | EdgeDraft | SubworkflowDraft

DocumentReader = Callable[[Document, Path], Iterator[Draft]]
"""Reads the document at a path, and sets the document's name where it has one."""
