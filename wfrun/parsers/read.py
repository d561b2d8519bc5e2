"""Documents to workflows and bags, in four stages: read, resolve, check, build.

Each stage takes the record of the stage before and returns its own. A workflow
(`wfrun.parsers.workflows.pipeline`): the reader of its format yields `Draft` records, `link` turns
them into `Linked` tasks and files, `check_acyclic` refuses cycles, `build_workflow` makes the
`Workflow`. A bag (`wfrun.parsers.bags.build`): its reader returns a `BagDraft`, templates are
checked, the estimate becomes seconds, names of files are checked, and `expand` makes the
`Workflow`.
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
from wfrun.parsers.formats import DocumentFormat, format_of, unreadable

if TYPE_CHECKING:
    from wfrun.parsers.bags.line_template import LineTemplate


class ReadDocument(msgspec.Struct, frozen=True):
    """One workflow or bag, and what is known of the document that it is from."""

    workflow: Workflow
    folder: Path = Path()
    """The folder in which relative paths start."""
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
        with paused_gc():
            found, reader = format_of(path, template)
            if found.holds == "bags":
                from wfrun.parsers.bags.build import make_bags

                bags = make_bags(path, reader, template)
                return [ReadDocument(bag, path.parent, found, lines) for bag, lines in bags]
            from wfrun.parsers.workflows.pipeline import make_workflow

            return [ReadDocument(make_workflow(path, reader, emulate=emulate), path.parent, found)]
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector: reading makes many objects and no cycles.

    Afterwards the objects count as old, so that the collector does not traverse all of them at
    once (unless the program keeps objects frozen, which would be unfrozen too).
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
