"""From what a document says, task by task, to a checked `Workflow`; shared by all formats.

The builder numbers tasks and files, links them, adds the edges that the files imply to the
declared ones, and refuses what has no sensible reading. What is odd but has one is accepted
with a warning that counts it.
"""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from posixpath import normpath
from typing import Any, NoReturn

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import File, Resources, Task, Workflow
from wfrun.parsers.workflows.edges import Edges, Place
from wfrun.parsers.workflows.profiles import ProfileError, Profiles, Requests, requests_of

MAX_INTEGER = 2**63 - 1

_BAD_NAME = re.compile(r"\A\Z|[\n\r\0]|\A/|(?:\A|/)\.\.(?:/|\Z)|\A\.?/*\Z")
_SPECIAL = ("", ".")
_UNTIDY_NAME = re.compile(r"(?:\A|/)\.(?:/|\Z)|//|/\Z")


class FileUse(msgspec.Struct, gc=False):
    """One task reads or writes one file."""

    name: str
    size_bytes: int | None = None
    optional: bool = False
    executable: bool = False
    stage_out: bool | None = None
    """Of an output: it is marked as one to keep (True) or not to keep (False)."""


class TaskDraft(msgspec.Struct):
    """A task as its document has it: files are names, the id has no prefix yet."""

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


class _FileState(msgspec.Struct, gc=False):
    """What is known so far of one file of one producer."""

    index: int
    name: str
    producer: int | None = None
    written_bytes: int | None = None
    read_bytes: int | None = None
    executable: bool = False
    stage_out: bool | None = None
    url: str | None = None


DocumentReader = Callable[["WorkflowBuilder", Path], str]
"""Reads a document into the builder, and gives the document's name."""


@contextmanager
def paused_gc() -> Iterator[None]:
    """Without the cyclic garbage collector: we make many objects and no cycles.

    Afterwards they count as old ones, so that the collector does not go through all of them at
    once (unless somebody keeps objects frozen, which we can't tell from ours).
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


class WorkflowBuilder:
    """Collects the tasks of a document and of those that it includes.

    With ``emulate`` the tasks are only to be imitated, and more is accepted:

    - Several tasks write one file: there is one File per producer. A consumer reads its declared
      parent's, the last in document order of several. Where no declared parent writes it, it
      reads that of the last producer in document order that comes before it in a topological
      order of the edges known by then, or else of the last one that does not depend on it, or
      else an initial input of that name.
    - A task reads and writes the same file: it only writes it.
    - Negative sizes and run times count as 0. (Otherwise they count as unknown.)
    """

    def __init__(self, source: str, read: DocumentReader, *, emulate: bool = False) -> None:
        self.source = source
        self.emulate = emulate
        self.locate: Callable[[int], int] = int
        """Turns the ``line`` given to the methods into a line, once that is needed."""
        self._read = read
        self._root = source
        self._prefix = ""
        self._including: list[str] = [str(Path(source).resolve())]
        self._tasks: list[Task] = []
        self._files: list[_FileState] = []
        self._by_name: dict[str, _FileState] = {}
        self._twins: dict[int, list[_FileState]] = {}
        self._odd_sizes: set[str] = set()
        self._warnings: dict[str, tuple[int, Place]] = {}
        self._edges = Edges(self)
        self._urls: dict[str, str] = {}
        self._shared: dict[Any, Any] = {}
        self._requests: dict[tuple[tuple[tuple[str, str], str], ...], Requests] = {}

    # What went wrong, and what is odd.

    def place(self, line: int | None) -> Place:
        """Where ``line`` of the document that is being read is, for later."""
        return (self.source, line, self.locate)

    def fail(self, message: str, line: int | None, hint: str | None = None) -> NoReturn:
        """Refuse the document that is being read."""
        self.fail_at(self.place(line), message, hint)

    def fail_at(self, place: Place, message: str, hint: str | None = None) -> NoReturn:
        """Refuse the document for what stands at ``place``."""
        source, line, locate = place
        where = None if line is None else locate(line)
        raise InvalidError(message, source=source, line=where, hint=hint)

    def warn(self, text: str, line: int | None, count: int = 1) -> None:
        """Count something odd; like ones are told together, with where the first one is."""
        seen, place = self._warnings.get(text) or (0, self.place(line))
        self._warnings[text] = (seen + count, place)

    # Values.

    def size(self, text: str | float, line: int | None) -> int | None:
        """Bytes; None where they are negative, that is unknown (under emulation 0)."""
        try:
            size = int(text)
        except (ValueError, OverflowError):
            size = self._integral(text, line)
        if 0 <= size <= MAX_INTEGER:
            return size
        if size > 0:
            self.fail(f"file size {text} is too large", line)
        counted = "0" if self.emulate else "unknown"
        self.warn(f"negative file size, counted as {counted}", line)
        return 0 if self.emulate else None

    def _integral(self, text: str | float, line: int | None) -> int:
        try:
            return int(float(text))
        except (ValueError, OverflowError):
            self.fail(f"file size {text!r} is not a number of bytes", line)

    def runtime(self, text: str | float, line: int | None) -> float | None:
        """Seconds; None where they are negative, that is unknown (under emulation 0)."""
        try:
            runtime_s = float(text)
        except ValueError:
            runtime_s = math.nan
        if not math.isfinite(runtime_s):
            self.fail(f"run time {text!r} is not a number of seconds", line)
        if runtime_s >= 0:
            return runtime_s
        counted = "0" if self.emulate else "unknown"
        self.warn(f"negative run time, counted as {counted}", line)
        return 0.0 if self.emulate else None

    def requests(self, profiles: Profiles, line: int | None) -> Requests:
        """What these profiles ask for; equal ones give the same object."""
        key = tuple(profiles.items())
        known = self._requests.get(key)
        if known is None:
            try:
                known = requests_of(profiles, lambda text: self.warn(text, line))
            except ProfileError as error:
                self.fail(str(error), line)
            self._requests[key] = known
        return known

    # Contents of the document.

    def add_url(self, name: str, url: str) -> None:
        """The replica catalog says where this file is; the first word on it holds."""
        self._urls.setdefault(name, url)

    def add_task(self, draft: TaskDraft, line: int | None) -> None:
        """Add a task with its files. ``line`` is where it starts."""
        task, share = len(self._tasks), self._shared.setdefault
        task_id = self._edges.add_node(self._prefix, draft.id, line)
        words = draft.arguments
        if "\0" in draft.executable or (words and any("\0" in word for word in words)):
            self.fail(f"task {task_id}: a NUL character in its command", line)
        _add_streams(draft)
        optional: list[int] = []
        inputs = self._link_inputs(draft, optional, line)
        outputs = self._link_outputs(draft, task, inputs, optional, line)
        by_name = self._by_name
        stdin = by_name[draft.stdin].index if draft.stdin is not None else None
        self._tasks.append(
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
                resources=draft.resources,
                runtime_s=draft.runtime_s,
                priority=draft.priority,
            )
        )

    def add_edges(self, child: str, parents: Sequence[str], line: int | None) -> None:
        """Task ``child`` waits for ``parents``; ids may be those of tasks still to come."""
        self._edges.declare(self._prefix, child, parents, line)

    def include(self, node: str, path: Path, line: int | None) -> None:
        """Read in the document at ``path`` in place of the node with this id.

        The ids of its tasks get the prefix ``node.``, files are shared by name, and edges of the
        node become edges of the tasks in it that come first or last.
        """
        resolved = str(path.resolve())
        if resolved in self._including:
            self.fail(f"{node} includes {path}, which is being read already", line)
        group = self._edges.open_group(self._prefix, node, line)
        outer = self.source, self._prefix, self.locate
        self._including.append(resolved)
        self.source, self._prefix, self.locate = str(path), f"{self._prefix}{node}.", int
        first = len(self._tasks)
        self._read(self, path)
        if len(self._tasks) == first:
            self.fail("has no tasks", None)
        self.source, self._prefix, self.locate = outer
        self._including.pop()
        self._edges.close_group(group, first, len(self._tasks))

    # Linking files.

    def _new_file(self, name: str, line: int | None) -> _FileState:
        # Most names need no closer look. Newlines and the like are not printable.
        if "/" in name or name[:1] in _SPECIAL or not name.isprintable():
            tidy = self._tidy_name(name, line)
            if tidy != name:
                state = self._by_name.get(tidy) or self._new_file(tidy, line)
                self._by_name[name] = state
                return state
        state = _FileState(len(self._files), name)
        self._files.append(state)
        self._by_name[name] = state
        return state

    def _tidy_name(self, name: str, line: int | None) -> str:
        if _BAD_NAME.search(name) or not _encodable(name):
            self.fail(
                f"file name {name!r} can't be used",
                line,
                "A file name is a path relative to the task's directory: not empty, not absolute, "
                "without '..' and without newlines.",
            )
        return normpath(name) if _UNTIDY_NAME.search(name) else name

    def _link_inputs(
        self, draft: TaskDraft, optional: list[int], line: int | None
    ) -> dict[int, None]:
        """The indices of what the task reads; of several twins the first stands for all."""
        inputs: dict[int, None] = {}
        by_name = self._by_name
        for use in draft.inputs:
            state = by_name.get(use.name) or self._new_file(use.name, line)
            index = state.index
            size = use.size_bytes
            if size is not None:
                known = state.read_bytes
                if known is None:
                    state.read_bytes = size
                elif known != size:
                    self._odd_sizes.add(state.name)
                    state.read_bytes = max(known, size)
            if index in inputs:
                continue
            inputs[index] = None
            if use.executable:
                state.executable = True
            if use.optional:
                optional.append(index)
        return inputs

    def _link_outputs(
        self,
        draft: TaskDraft,
        task: int,
        inputs: dict[int, None],
        optional: list[int],
        line: int | None,
    ) -> dict[int, int]:
        """The index of each file that the task writes, by that of its first twin."""
        outputs: dict[int, int] = {}
        by_name = self._by_name
        for use in draft.outputs:
            named = state = by_name.get(use.name) or self._new_file(use.name, line)
            first = state.index
            if first in inputs:
                self._overwritten(draft, state, inputs, optional, line)
            if first in outputs:
                state = self._files[outputs[first]]
            elif state.producer is None:
                state.producer = task
            else:
                state = self._twin(state, draft, line)
                state.producer = task
            outputs[first] = state.index
            size = use.size_bytes
            if size is not None:
                known = named.written_bytes
                if known is not None and known != size:
                    self._odd_sizes.add(state.name)
                state.written_bytes = size
            if use.stage_out is not None:
                state.stage_out = use.stage_out
            if use.optional and state.index not in optional:
                optional.append(state.index)
        return outputs

    def _overwritten(
        self,
        draft: TaskDraft,
        state: _FileState,
        inputs: dict[int, None],
        optional: list[int],
        line: int | None,
    ) -> None:
        if not self.emulate:
            self.fail(
                f"task {draft.id} reads and writes the same file, {state.name}",
                line,
                "Let it write a file of another name, so that it can be tried again.",
            )
        self.warn("file read and written by the same task, taken as its output only", line)
        del inputs[state.index]
        if state.index in optional:
            optional.remove(state.index)

    def _twin(self, state: _FileState, draft: TaskDraft, line: int | None) -> _FileState:
        """The file of the same name that another task writes."""
        if not self.emulate:
            other = self._tasks[state.producer or 0]
            place = self._edges.where(state.producer or 0)
            at = "" if place[1] is None else f" ({place[0]}:{place[2](place[1])})"
            self.fail(
                f"file {state.name} is written by two tasks: {other.id}{at} "
                f"and {self._prefix}{draft.id}",
                line,
                "Each file has one producer: rename one of them. (With --emulate each consumer "
                "reads that of its declared parent.)",
            )
        twin = _FileState(len(self._files), state.name)
        self._files.append(twin)
        twins = self._twins.setdefault(state.index, [state])
        if len(twins) == 1:
            self.warn("file written by several tasks, consumers read their parent's", line)
        twins.append(twin)
        return twin

    # The whole.

    def build(self, name: str) -> Workflow:
        """Check the whole and make the Workflow.

        Raises InvalidError for references to tasks that aren't there, for cycles, and where
        there are no tasks at all.
        """
        if not self._tasks:
            self.fail("has no tasks", None, "A workflow consists of at least one task.")
        self._edges.resolve(self._tasks, [state.producer for state in self._files])
        if self._twins:
            self._choose_twins()
        producers = [state.producer for state in self._files]
        parents = self._edges.parents(self._tasks, producers)
        self._edges.check_acyclic(parents, self._tasks, self._files_between)
        files = self._final_files()
        warnings = tuple(self._describe(text) for text in self._warnings)
        return Workflow(name, self._root, self._tasks, files, parents, warnings)

    def _describe(self, warning: str) -> str:
        count, (source, line, locate) = self._warnings[warning]
        first = "" if line is None else f", first at {source}:{locate(line)}"
        return f"{warning}: {count}{first}"

    def _choose_twins(self) -> None:
        """Say of each consumer of a file with several producers whose it reads."""
        producers = [None if s.index in self._twins else s.producer for s in self._files]
        twins = {
            index: [(state.producer, state.index) for state in states if state.producer is not None]
            for index, states in self._twins.items()
        }
        for task, changes in self._edges.choose_producers(self._tasks, producers, twins).items():
            chosen: dict[int, int] = {}
            for first, index in changes.items():
                chosen[first] = self._initial(first) if index is None else index
                self._files[chosen[first]].read_bytes = self._files[first].read_bytes
            old = self._tasks[task]
            own = set(old.outputs)
            self._tasks[task] = msgspec.structs.replace(
                old,
                inputs=tuple(chosen.get(index, index) for index in old.inputs),
                optional=tuple(i if i in own else chosen.get(i, i) for i in old.optional),
                stdin=None if old.stdin is None else chosen.get(old.stdin, old.stdin),
            )

    def _initial(self, first: int) -> int:
        """The index of the file of this name that no task has written yet."""
        states = self._twins[first]
        if states[-1].producer is not None:
            states.append(_FileState(len(self._files), states[0].name))
            self._files.append(states[-1])
        return states[-1].index

    def _final_files(self) -> list[File]:
        odd, urls = self._odd_sizes, self._urls
        consumed: set[int] = set()
        for task in self._tasks:
            consumed.update(task.inputs)
        files = []
        for state in self._files:
            name, size = state.name, state.read_bytes
            written = state.written_bytes
            if written is not None:
                if size is not None and size != written:
                    odd.add(name)
                size = written
            if state.producer is None:
                files.append(File(name, size, None, urls.get(name), state.executable))
                continue
            collect = state.stage_out
            if collect is None:
                collect = state.index not in consumed
            files.append(File(name, size, state.producer, None, state.executable, collect))
        if odd:
            self.warn("file with differing sizes, its producer's holds", None, len(odd))
        return files

    def _files_between(self, parent: int, child: int) -> str | None:
        """A file that one task writes and the other reads."""
        for index in self._tasks[child].inputs:
            if self._files[index].producer == parent:
                return self._files[index].name
        return None


def _add_streams(draft: TaskDraft) -> None:
    """The files of the standard streams are inputs and outputs, listed as such or not."""
    if draft.stdin is not None:
        draft.inputs.append(FileUse(draft.stdin))
    for stream in (draft.stdout, draft.stderr):
        if stream is not None:
            draft.outputs.append(FileUse(stream))


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
