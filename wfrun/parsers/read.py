"""Documents to workflows and bags, in four stages: read, resolve, check, build.

Each stage is called from here, takes the record of the stage before, and returns its own:

- *read*: the reader of the format yields drafts, which say what is written and on which line;
- *resolve*: ids, names of files and sub-workflows become numbers; parameters of bags get values;
- *check*: no cycles; names of outputs differ;
- *build*: the model's `Workflow`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.formats import DocumentFormat, format_of, known_formats

if TYPE_CHECKING:
    from wfrun.parsers.bags.line_template import LineTemplate
    from wfrun.parsers.workflows.document import Document
    from wfrun.parsers.workflows.draft import Draft


class ReadDocument(msgspec.Struct, frozen=True):
    """One workflow or bag, and what is known of the document that it is from."""

    workflow: Workflow
    folder: Path = Path()
    """What relative paths in it start from."""
    format: DocumentFormat | None = None
    """None: a program made it."""
    lines: Mapping[str, int] = {}
    """Of a bag: the lines of its keys; under the empty key its first line."""

    def line(self, key: str) -> int | None:
        """The line of a key of a bag, else of the bag; None where it is from no document."""
        return self.lines.get(key, self.lines.get(""))


def read_workflow(path: str | Path, *, emulate: bool = False) -> Workflow:
    """Read the one workflow or bag at ``path``; see `read_workflows`.

    Raises InvalidError also for a document of several bags.
    """
    workflows = read_workflows(path, emulate=emulate)
    if len(workflows) > 1:
        raise InvalidError(
            f"has {len(workflows)} bags, but one is wanted",
            source=str(path),
            hint="Write each into a document of its own.",
        )
    return workflows[0]


def read_workflows(
    path: str | Path,
    *,
    emulate: bool = False,
    template: LineTemplate | None = None,
) -> list[Workflow]:
    """Read the workflow or the bags at ``path``; see `read_document`."""
    return [each.workflow for each in read_document(Path(path), emulate=emulate, template=template)]


def read_document(
    path: Path, *, emulate: bool = False, template: LineTemplate | None = None
) -> list[ReadDocument]:
    """Read the workflow or the bags at ``path``, in any of `wfrun.parsers.formats.FORMATS`.

    The content tells the format. With a command in the ``template`` the document is a table of
    parameters, a row a task, unless its name ends like that of another format. With ``emulate``
    documents are accepted whose tasks can only be imitated (see `wfrun.parsers.workflows.link`).
    Raises InvalidError, with the document and where there is one the line, for whatever is wrong.
    """
    try:
        found = format_of(path, template)
        with paused_gc():
            if found.holds == "bags":
                return _bags(path, found, template)
            return [_workflow(path, found, emulate=emulate)]
    except OSError as error:
        raise _unreadable(path, error) from error


def _workflow(path: Path, found: DocumentFormat, *, emulate: bool) -> ReadDocument:
    from wfrun.parsers.workflows.build import build_workflow
    from wfrun.parsers.workflows.check import check_acyclic
    from wfrun.parsers.workflows.document import Document
    from wfrun.parsers.workflows.link import link

    document = Document(path, emulate=emulate)
    linked = link(document, found.load()(document, path), _open_included)
    check_acyclic(linked)
    return ReadDocument(build_workflow(linked), path.parent, found)


def _open_included(path: Path, node: str, outer: Document) -> tuple[Document, Iterator[Draft]]:
    """Open the document of a sub-workflow."""
    from wfrun.parsers.workflows.document import Document

    inner = Document(path, emulate=outer.emulate, node=node, outer=outer)
    try:
        found = format_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if found.holds != "workflow":
        inner.refuse("not a workflow document", None, known_formats())
    return inner, found.load()(inner, path)


def _bags(path: Path, found: DocumentFormat, template: LineTemplate | None) -> list[ReadDocument]:
    from wfrun.parsers.bags.build import build_bag
    from wfrun.parsers.bags.line_template import LineTemplate

    drafts = found.load()(path, template or LineTemplate())
    return [ReadDocument(build_bag(draft), path.parent, found, draft.lines) for draft in drafts]


def _unreadable(path: Path, error: OSError) -> InvalidError:
    reason = error.strerror or str(error)
    return InvalidError(f"can't be read: {reason}", source=str(path), hint=known_formats())


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector: reading makes many objects and no cycles.

    Afterwards the objects count as old, so that the collector does not traverse all of them at
    once (unless the program keeps objects frozen, which can't be told from these).
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
