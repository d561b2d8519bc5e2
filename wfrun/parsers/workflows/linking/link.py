"""A workflow document, from the drafts that its reader yields to the `Workflow`. Ids and names of
files become numbers, cycles are refused, and the model is built."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import File, InputSource, Resources, Task, Workflow
from wfrun.parsers.formats import format_of, known_formats, unreadable
from wfrun.parsers.syntax.limits import MAX_PRIORITY, request_fault, text_fault, variable_fault
from wfrun.parsers.workflows.document import Document, refuse_at
from wfrun.parsers.workflows.draft import (
    DocumentReader,
    Draft,
    EdgeDraft,
    SubworkflowDraft,
    TaskDraft,
)
from wfrun.parsers.workflows.linking.cycles import shortest_cycle
from wfrun.parsers.workflows.linking.edges import Edges
from wfrun.parsers.workflows.linking.files import Files
from wfrun.parsers.workflows.linking.producers import choose_producers

_SHOWN = 20
"""Maximum number of tasks, and of implied edges, of a cycle that a message names."""


def make_workflow(path: Path, reader: DocumentReader, *, emulate: bool) -> Workflow:
    """Make the workflow of a document and of the sub-workflows that it includes. Raises
    InvalidError if one of the documents is invalid or cannot be read, or if the workflow has a
    cycle."""
    document = Document(path, emulate=emulate)
    linked = link(document, reader(document, path))
    check_acyclic(linked)
    return build_workflow(linked)


class Linked(msgspec.Struct, frozen=True):
    """A workflow whose tasks, files and edges refer to each other by number."""

    document: Document
    tasks: list[Task]
    files: Files
    edges: Edges
    parents: list[tuple[int, ...]]
    """Parents by task: those that the documents declare, and the producers of its inputs."""


def link(document: Document, drafts: Iterable[Draft]) -> Linked:
    """Number tasks and files, read in sub-workflows, and add the edges that files imply.

    Raises InvalidError for ids that are missing or repeated, for edges of tasks that do not exist,
    for file names that leave the sandbox, and for a file with two producers. Under emulation a file
    may have several producers, and each consumer reads the file of one of them (see
    `choose_producers`). A file that one task both reads and writes is refused, too; under emulation
    it counts as written only.
    """
    linker = _Linker()
    linker.add(document, drafts, (str(Path(document.source).resolve()),))
    if any("\ud800" <= letter <= "\udfff" for letter in document.name):
        document.refuse("has a character that is no Unicode text in its name", None)
    tasks, files, edges = linker.tasks, linker.files, linker.edges
    if not tasks:
        document.refuse("has no tasks", None, "A workflow consists of at least one task.")
    edges.resolve(tasks, [file.producer for file in files.all])
    if files.alternatives:
        choose_producers(tasks, files, edges)
    parents = edges.parents(tasks, [file.producer for file in files.all])
    return Linked(document, tasks, files, edges, parents)


class _Linker:
    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.edges = Edges()
        self.files = Files(self.edges)
        self._shared: dict[Any, Any] = {}
        """One object for all equal ones, since tasks of a kind have equal names and arguments."""
        self._checked: set[Resources] = set()
        """The requests that are within the limits."""
        self._contained: dict[tuple[Resources, Container], Resources] = {}
        """Requests with their containers, by request and container."""

    def add(self, document: Document, drafts: Iterable[Draft], including: tuple[str, ...]) -> None:
        """Add the drafts of a document. ``including`` are the paths of the documents that are being
        read: this one and those that include it."""
        for draft in drafts:
            if isinstance(draft, TaskDraft):
                self._add_task(document, draft)
            elif isinstance(draft, EdgeDraft):
                self.edges.declare(document, draft.child, draft.parents, draft.line)
            else:
                self._include(document, draft, including)

    def _add_task(self, document: Document, draft: TaskDraft) -> None:
        task, share = len(self.tasks), self._shared.setdefault
        self.edges.add_node(document, draft.id, draft.line)
        words = draft.arguments
        self._check(document, draft)
        uses = self.files.link(document, draft, task)
        self.tasks.append(
            Task(
                id=document.prefix + draft.id,
                name=share(draft.name, draft.name),
                executable=share(draft.executable, draft.executable),
                arguments=share(words, words),
                inputs=uses.inputs,
                outputs=uses.outputs,
                optional=uses.optional,
                stdin=uses.stdin,
                stdout=uses.stdout,
                stderr=uses.stderr,
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
        """Refuse texts and numbers that no site could accept."""
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
        """Read the document of a sub-workflow in place of its node.

        The ids of the sub-workflow's tasks get the prefix ``node.``. Files with equal names in both
        documents are one file. Edges to the node become edges to the first tasks of the
        sub-workflow; edges from the node become edges from the last ones. Raises InvalidError for a
        document that includes itself, cannot be read, is not a workflow, or has no tasks.
        """
        resolved = str(draft.path.resolve())
        if resolved in including:
            text = f"{draft.id} includes {draft.path}, which is being read already"
            outer.refuse(text, draft.line)
        group = self.edges.open_group(outer, draft.id, draft.line)
        first = len(self.tasks)
        document = Document(draft.path, emulate=outer.emulate, node=draft.id, outer=outer)
        try:
            found, reader = format_of(draft.path)
        except OSError as error:
            raise unreadable(draft.path, error) from error
        if found.holds != "workflow":
            raise InvalidError(
                "not a workflow document", source=document.source, hint=known_formats()
            )
        self.add(document, reader(document, draft.path), (*including, resolved))
        if len(self.tasks) == first:
            document.refuse("has no tasks", None)
        self.edges.close_group(group, first)


def check_acyclic(linked: Linked) -> None:
    """Raise InvalidError for a graph with a cycle; the message names the shortest one."""
    cycle = shortest_cycle(linked.parents)
    if cycle is None:
        return
    tasks = linked.tasks
    names = [tasks[task].id for task in cycle]
    shown = [*names[:_SHOWN], "..."] if len(names) > _SHOWN else names
    reasons: list[str] = []
    for parent, child in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        if parent not in linked.edges.declared.get(child, ()) and len(reasons) < _SHOWN:
            files = (linked.files.all[index] for index in tasks[child].inputs)
            file = next(file.name for file in files if file.producer == parent)
            reasons.append(f"{tasks[child].id} reads {file}, which {tasks[parent].id} writes")
    hint = "Remove one of these dependencies."
    if reasons:
        hint = f"Edges that files imply: {'; '.join(reasons)}. {hint}"
    path = " -> ".join([*shown, names[0]])
    place = linked.edges.where(cycle[0])
    refuse_at(place, f"the dependencies form a cycle: {path}", hint)


def build_workflow(linked: Linked) -> Workflow:
    """Make the workflow, with its files and warnings."""
    document = linked.document
    files = _files(linked)
    warnings = []
    for text, (count, (source, line, locate)) in document.warnings.items():
        first = "" if line is None else f", first at {source}:{locate(line)}"
        warnings.append(f"{text}: {count}{first}")
    odd = len(linked.files.odd_sizes)
    if odd:
        warnings.append(f"file with differing sizes, its producer's holds: {odd}")
    name, source = document.name, document.source
    return Workflow(name, source, linked.tasks, files, linked.parents, tuple(warnings))


def _files(linked: Linked) -> list[File]:
    """The files of the model. The size of a file is the one stated by its producer, else the
    largest one stated by a reader. An output that no task reads is a final output, unless the
    document marks it otherwise."""
    odd, document = linked.files.odd_sizes, linked.document
    consumed: set[int] = set()
    for task in linked.tasks:
        consumed.update(task.inputs)
    files = []
    for file in linked.files.all:
        name, size = file.name, file.read_bytes
        written = file.written_bytes
        if written is not None:
            if size is not None and size != written:
                odd.add(name)
            size = written
        if file.producer is None:
            url, sources = document.urls.get(name), tuple(document.sources.get(name, ()))
            if url is not None and sources == (InputSource(url),):
                sources = ()
            sha256 = document.checksums.get(name)
            files.append(
                File(name, size, None, url, file.executable, sources=sources, sha256=sha256)
            )
            continue
        collect = file.stage_out
        if collect is None:
            collect = file.index not in consumed
        files.append(File(name, size, file.producer, None, file.executable, collect))
    return files
