"""Owners of documents. The usage of a site by a task is charged to the owner of the task's
document."""

from __future__ import annotations

from msgspec.structs import replace

from wfrun.engine.errors import InvalidError
from wfrun.engine.explain.visible import name_line
from wfrun.engine.tasks.bag import expand
from wfrun.parsers.read import ReadDocument
from wfrun.parsers.syntax.limits import label_fault


def check_owner(owner: str) -> None:
    """Raise InvalidError if the value of ``--owner`` is no valid name of an owner."""
    if fault := label_fault(owner) if owner.strip() else "is empty":
        raise InvalidError(f"the name {fault}", source="--owner")


def with_owner(read: ReadDocument, owner: str) -> ReadDocument:
    """Return the document with ``owner`` as its owner. Raises InvalidError, with the line, if the
    document names another owner."""
    workflow = read.workflow
    if workflow.owner == owner:
        return read
    if workflow.owner:
        key = "owner" if workflow.bag is not None else workflow.tasks[0].id
        raise InvalidError(
            f"the document names the owner {name_line(workflow.owner)}, and --owner says "
            f"{name_line(owner)}",
            source=workflow.source,
            line=read.line(key),
            hint="leave --owner out for documents that name their owner",
        )
    if workflow.bag is not None:
        return replace(read, workflow=expand(replace(workflow.bag, owner=owner)))
    return replace(read, workflow=replace(workflow, owner=owner))
