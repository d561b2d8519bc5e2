"""The stage *read* of documents: from text to a workflow, a bag or parallel jobs.

A workflow (`wfrun.parsers.workflows.linking.link`): the reader of its format yields `Draft`
records, `link` turns them into `Linked` tasks and files, `check_acyclic` refuses cycles,
`build_workflow` makes the `Workflow`. A bag (`wfrun.parsers.bags.build`): its reader returns a
`BagDraft`, templates are checked, the estimate is converted to seconds, names of files are checked,
and `expand` makes the `Workflow`. Parallel jobs (`wfrun.parsers.jobs.build`): their reader returns
checked `JobDraft` records, which become the tasks of a `Workflow`.
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
    """One workflow, bag or set of parallel jobs, with facts about the document that it comes
    from."""

    workflow: Workflow
    folder: Path = Path()
    """The folder from which relative paths start."""
    format: DocumentFormat | None = None
    """Format of the document; None if a program made the workflow."""
    lines: Mapping[str, int] = {}
    """For a bag: the line of each of its keys in the document, and under the empty key the first
    line of the bag. For parallel jobs: the first line of each job, by name."""

    def line(self, key: str) -> int | None:
        """The line of a key of a bag, or of the bag itself if it lacks the key. For parallel jobs,
        the line of the job ``key``. None if no line is known."""
        return self.lines.get(key, self.lines.get(""))


def read_workflow(path: str | Path, *, emulate: bool = False) -> Workflow:
    """Read the one workflow or bag at ``path``; see `read_workflows`.

    Raises InvalidError also if the document has several bags.
    """
    workflows = read_workflows(path, emulate=emulate)
    if len(workflows) > 1:
        raise InvalidError(
            f"the document has {len(workflows)} bags, but must have one",
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

    The format is recognized by the content. With a command in the ``template`` the document is a
    table of parameters with a row for each task, unless its suffix is that of a format whose lines
    are no tasks. With ``emulate``, documents whose tasks can only be emulated are accepted, too
    (see `wfrun.parsers.workflows.linking.link`). Raises InvalidError, with document and line, if
    the document cannot be read or is invalid.
    """
    try:
        with paused_gc():
            found, reader = format_of(path, template)
            if found.holds == "bags":
                from wfrun.parsers.bags.build import make_bags

                bags = make_bags(path, reader, template)
                return [ReadDocument(bag, path.parent, found, lines) for bag, lines in bags]
            if found.holds == "jobs":
                from wfrun.parsers.jobs.build import make_jobs

                jobs = make_jobs(path, reader)
                return [ReadDocument(each, path.parent, found, lines) for each, lines in jobs]
            from wfrun.parsers.workflows.linking.link import make_workflow

            return [ReadDocument(make_workflow(path, reader, emulate=emulate), path.parent, found)]
    except OSError as error:
        raise unreadable(path, error) from error


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector, since reading makes many objects but no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Move the new objects to the oldest generation, so that the next young collection does not
        # traverse all of them. Objects that the program has frozen would be unfrozen too.
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()
