"""Files of a workflow while its tasks are linked: one per name and producer."""

from __future__ import annotations

import re
from posixpath import normpath
from typing import NamedTuple

import msgspec

from wfrun.parsers.syntax.limits import MAX_PART_BYTES, NAME_RULE, cut, name_fault
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import FileUse, TaskDraft
from wfrun.parsers.workflows.linking.edges import Edges

_SPECIAL = ("", ".")
_SHORT = MAX_PART_BYTES // 4
"""Maximum number of characters of a name whose length in bytes need not be checked: a character has
at most four bytes."""
_UNTIDY_NAME = re.compile(r"(?:\A|/)\.(?:/|\Z)|//|/\Z")


class LinkedFile(msgspec.Struct, gc=False):
    """One file as written by one producer, as far as the tasks linked so far describe it."""

    index: int
    name: str
    producer: int | None = None
    written_bytes: int | None = None
    read_bytes: int | None = None
    executable: bool = False
    stage_out: bool | None = None


class LinkedUses(NamedTuple):
    """The files of one task, by index."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    optional: tuple[int, ...]
    stdin: int | None
    stdout: int | None
    stderr: int | None


class Files:
    """All files by name.

    Under emulation, and only then, several tasks may write a file of one name. Each producer then
    has its own `LinkedFile`. These files are *alternatives*; the first of them stands for all until
    producers are chosen.
    """

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self.all: list[LinkedFile] = []
        self.by_name: dict[str, LinkedFile] = {}
        self.alternatives: dict[int, list[LinkedFile]] = {}
        """All alternatives of a file with several producers, by the index of the first."""
        self.odd_sizes: set[str] = set()
        """Names of files for which tasks state different sizes."""

    def link(self, document: Document, draft: TaskDraft, task: int) -> LinkedUses:
        """Number the files of a task. The files of its standard streams are added to the inputs and
        outputs of ``draft`` first."""
        _add_streams(draft)
        optional: list[int] = []
        inputs = self._link_inputs(document, draft, optional)
        outputs = self._link_outputs(document, draft, task, inputs, optional)
        by_name = self.by_name
        stdin = by_name[draft.stdin].index if draft.stdin is not None else None
        return LinkedUses(
            tuple(inputs),
            tuple(outputs.values()),
            tuple(optional),
            stdin if stdin in inputs else None,
            outputs[by_name[draft.stdout].index] if draft.stdout is not None else None,
            outputs[by_name[draft.stderr].index] if draft.stderr is not None else None,
        )

    def _link_inputs(
        self, document: Document, draft: TaskDraft, optional: list[int]
    ) -> dict[int, None]:
        """Return the indices of the files that the task reads, and add those of optional ones to
        ``optional``."""
        inputs: dict[int, None] = {}
        by_name = self.by_name
        for use in draft.inputs:
            file = by_name.get(use.name) or self._new(document, use.name, draft.line)
            index = file.index
            size = use.size_bytes
            if size is not None:
                known = file.read_bytes
                if known is None:
                    file.read_bytes = size
                elif known != size:
                    self.odd_sizes.add(file.name)
                    file.read_bytes = max(known, size)
            if index in inputs:
                continue
            inputs[index] = None
            if use.executable:
                file.executable = True
            if use.optional:
                optional.append(index)
        return inputs

    def _link_outputs(
        self,
        document: Document,
        draft: TaskDraft,
        task: int,
        inputs: dict[int, None],
        optional: list[int],
    ) -> dict[int, int]:
        """Return the index of each file that the task writes, by the index of its first
        alternative."""
        outputs: dict[int, int] = {}
        by_name = self.by_name
        for use in draft.outputs:
            named = file = by_name.get(use.name) or self._new(document, use.name, draft.line)
            first = file.index
            if first in inputs:
                _overwrite(document, draft, file, inputs, optional)
            if first in outputs:
                file = self.all[outputs[first]]
            elif file.producer is None:
                file.producer = task
            else:
                file = self._twin(document, draft, file)
                file.producer = task
            outputs[first] = file.index
            size = use.size_bytes
            if size is not None:
                known = named.written_bytes
                if known is not None and known != size:
                    self.odd_sizes.add(file.name)
                file.written_bytes = size
            if use.stage_out is not None:
                file.stage_out = use.stage_out
            if use.optional and file.index not in optional:
                optional.append(file.index)
        return outputs

    def _new(self, document: Document, name: str, line: int | None) -> LinkedFile:
        # Most names need no closer look. Control characters are not printable.
        if "/" in name or name[:1] in _SPECIAL or len(name) > _SHORT or not name.isprintable():
            tidy = _tidy_name(document, name, line)
            if tidy != name:
                file = self.by_name.get(tidy) or self._new(document, tidy, line)
                self.by_name[name] = file
                return file
        file = LinkedFile(len(self.all), name)
        self.all.append(file)
        self.by_name[name] = file
        return file

    def _twin(self, document: Document, draft: TaskDraft, file: LinkedFile) -> LinkedFile:
        """Add another file with the name of ``file``, for another producer. Raises InvalidError
        unless the document is emulated."""
        if not document.emulate:
            document.refuse(
                f"file {file.name} is written by two tasks: "
                f"{self._edges.describe(file.producer or 0)} and "
                f"{document.prefix}{draft.id}",
                draft.line,
                "Each file has one producer: rename one of them. (With --emulate each consumer "
                "reads that of its declared parent.)",
            )
        alternative = LinkedFile(len(self.all), file.name)
        self.all.append(alternative)
        alternatives = self.alternatives.setdefault(file.index, [file])
        if len(alternatives) == 1:
            text = "file written by several tasks, consumers read their parent's"
            document.warn(text, draft.line)
        alternatives.append(alternative)
        return alternative


def _add_streams(draft: TaskDraft) -> None:
    """Add the files of the standard streams, which documents may leave out of their lists."""
    if draft.stdin is not None:
        draft.inputs.append(FileUse(draft.stdin))
    for stream in (draft.stdout, draft.stderr):
        if stream is not None:
            draft.outputs.append(FileUse(stream))


def _overwrite(
    document: Document,
    draft: TaskDraft,
    file: LinkedFile,
    inputs: dict[int, None],
    optional: list[int],
) -> None:
    """Handle a file that one task reads and writes: refuse it, or, under emulation, drop it from
    ``inputs`` and ``optional``."""
    if not document.emulate:
        document.refuse(
            f"task {draft.id} reads and writes the same file, {file.name}",
            draft.line,
            "Let it write a file of another name, so that it can be tried again.",
        )
    text = "file read and written by the same task, taken as its output only"
    document.warn(text, draft.line)
    del inputs[file.index]
    if file.index in optional:
        optional.remove(file.index)


def _tidy_name(document: Document, name: str, line: int | None) -> str:
    fault = name_fault(name)
    if fault is not None:
        document.refuse(f"file name {cut(name)} cannot be used: it {fault}", line, NAME_RULE)
    return normpath(name) if _UNTIDY_NAME.search(name) else name
