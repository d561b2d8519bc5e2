"""The stage *resolve* of a workflow: from ids and names of files to numbered tasks and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.containers import Container
from wfrun.engine.model import Resources, Task
from wfrun.parsers.limits import MAX_PRIORITY, request_fault, text_fault, variable_fault
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import Draft, EdgeDraft, SubworkflowDraft, TaskDraft
from wfrun.parsers.workflows.edges import Edges
from wfrun.parsers.workflows.files import Files
from wfrun.parsers.workflows.twins import choose_twins

Opener = Callable[[Path, str, Document], tuple[Document, Iterator[Draft]]]
"""Opens the document at a path that takes the place of a node of another document."""


class Linked(msgspec.Struct):
    """A workflow whose tasks, files and edges refer to each other by number."""

    document: Document
    tasks: list[Task]
    files: Files
    edges: Edges
    parents: list[tuple[int, ...]]
    """Of each task: the declared ones and those that its inputs imply."""


def link(document: Document, drafts: Iterable[Draft], open_document: Opener) -> Linked:
    """Number tasks and files, read in sub-workflows, and add the edges that files imply.

    Raises InvalidError for ids that are missing or repeated, for edges of tasks that are not
    there, for file names that leave the sandbox, and for a file with two producers. Under emulation
    a file may have several, and each consumer reads that of one of them (see
    `choose_twins`). A task that reads and writes one file only writes it then.
    """
    linker = _Linker(open_document)
    linker.add(document, drafts, (str(Path(document.source).resolve()),))
    tasks, files, edges = linker.tasks, linker.files, linker.edges
    if not tasks:
        document.refuse("has no tasks", None, "A workflow consists of at least one task.")
    edges.resolve(tasks, [file.producer for file in files.all])
    if files.twins:
        choose_twins(tasks, files, edges)
    parents = edges.parents(tasks, [file.producer for file in files.all])
    return Linked(document, tasks, files, edges, parents)


class _Linker:
    def __init__(self, open_document: Opener) -> None:
        self._open_document = open_document
        self.tasks: list[Task] = []
        self.edges = Edges()
        self.files = Files(self.edges)
        self._shared: dict[Any, Any] = {}
        """One object of equal ones: tasks of a kind have names and arguments in common."""
        self._checked: set[Resources] = set()
        """The requests that are within the limits."""
        self._contained: dict[tuple[Resources, Container], Resources] = {}
        """Requests with their containers."""

    def add(self, document: Document, drafts: Iterable[Draft], including: tuple[str, ...]) -> None:
        """Add the drafts of a document. ``including``: the documents that are open."""
        for draft in drafts:
            if isinstance(draft, TaskDraft):
                self._add_task(document, draft)
            elif isinstance(draft, EdgeDraft):
                self.edges.declare(document, draft.child, draft.parents, draft.line)
            else:
                self._include(document, draft, including)

    def _add_task(self, document: Document, draft: TaskDraft) -> None:
        task, share = len(self.tasks), self._shared.setdefault
        task_id = self.edges.add_node(document, draft.id, draft.line)
        words = draft.arguments
        self._check(document, draft)
        optional: list[int] = []
        inputs = self.files.link_inputs(document, draft, optional)
        outputs = self.files.link_outputs(document, draft, task, inputs, optional)
        by_name = self.files.by_name
        stdin = by_name[draft.stdin].index if draft.stdin is not None else None
        self.tasks.append(
            Task(
                id=task_id,
                name=share(draft.name, draft.name),
                executable=share(draft.executable, draft.executable),
                arguments=share(words, words),
                inputs=tuple(inputs),
                outputs=tuple(outputs.values()),
                optional=tuple(optional),
                stdin=stdin if stdin in inputs else None,
                stdout=outputs[by_name[draft.stdout].index] if draft.stdout is not None else None,
                stderr=outputs[by_name[draft.stderr].index] if draft.stderr is not None else None,
                env=draft.env,
                resources=self._resources(draft),
                runtime_s=draft.runtime_s,
                priority=draft.priority,
            )
        )

    def _resources(self, draft: TaskDraft) -> Resources:
        if draft.container is None:
            return draft.resources
        key = (draft.resources, draft.container)
        if key not in self._contained:
            self._contained[key] = msgspec.structs.replace(key[0], container=key[1])
        return self._contained[key]

    def _check(self, document: Document, draft: TaskDraft) -> None:
        """Refuse texts and numbers that no site could take."""
        for word in (draft.executable, *draft.arguments):
            if fault := text_fault(word):
                document.refuse(f"task {draft.id}: {fault} in its command", draft.line)
        for name, value in (draft.env or {}).items():
            if fault := variable_fault(name, value):
                document.refuse(f"task {draft.id}: {fault} in its environment", draft.line)
        if (asked := draft.resources) not in self._checked:
            if fault := request_fault(asked):
                document.refuse(f"task {draft.id} asks for {fault}", draft.line)
            self._checked.add(asked)
        if abs(draft.priority) > MAX_PRIORITY:
            document.refuse(
                f"task {draft.id}: its priority is not from -{MAX_PRIORITY} to {MAX_PRIORITY}",
                draft.line,
            )

    def _include(
        self, outer: Document, draft: SubworkflowDraft, including: tuple[str, ...]
    ) -> None:
        """Read in another document in place of a node.

        The ids of its tasks get the prefix ``node.``, files are shared by name, and edges of the
        node become edges of the first or last tasks in it.
        """
        resolved = str(draft.path.resolve())
        if resolved in including:
            text = f"{draft.id} includes {draft.path}, which is being read already"
            outer.refuse(text, draft.line)
        group = self.edges.open_group(outer, draft.id, draft.line)
        first = len(self.tasks)
        document, drafts = self._open_document(draft.path, draft.id, outer)
        self.add(document, drafts, (*including, resolved))
        if len(self.tasks) == first:
            document.refuse("has no tasks", None)
        self.edges.close_group(group, first)
