"""Reads workflows and bags of any of the formats that wfrun knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.workflows.build import WorkflowBuilder, paused_gc

if TYPE_CHECKING:
    from wfrun.parsers.bags.commands import LineTemplate

_KNOWN = (
    "wfrun reads workflows as DAX (XML), Pegasus 5 (YAML) and WfFormat (JSON), and bags of tasks "
    "as YAML, JSDL (XML), tables (.csv, .tsv) with --command, and lists of commands (.txt)."
)
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 4096
_YAML = (".yml", ".yaml")
_DOCUMENTS = (*_YAML, ".dax", ".xml", ".json", ".jsdl")
_TABLES = (".csv", ".tsv", ".tab")
_COMMANDS = (".txt", ".commands")
_JSDL = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?JobDefinition[\s>/]")


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
    """Read what is at ``path``: a workflow in DAX 1.10-3.6, Pegasus 5 YAML or WfFormat JSON
    1.0-1.5; bags in YAML or JSDL 1.0; or a list of commands (.txt). It is told by the content.

    With a command in the ``template`` it is a table of parameters, a row a task, unless its name
    ends as those of other documents do.
    With ``emulate`` documents are accepted that can only be imitated; see `WorkflowBuilder`.
    Raises InvalidError, with the document and where there is one the line, for everything that
    is wrong with it.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        with paused_gc():
            bags = _read_bags(path, head, template)
    except OSError as error:
        raise _unreadable(path, error) from error
    if bags is not None:
        return bags
    builder = WorkflowBuilder(str(path), _read_into, emulate=emulate)
    with paused_gc():
        name = _read_into(builder, path)
        return [builder.build(name)]


def may_be_table(path: Path) -> bool:
    """Whether a command is for the rows of this file."""
    return path.suffix.lower() not in _DOCUMENTS


def may_be_commands(path: Path) -> bool:
    """Whether it may be a list of commands."""
    return path.suffix.lower() in _COMMANDS


def _read_bags(path: Path, head: bytes, template: LineTemplate | None) -> list[Workflow] | None:
    """The bags of a document; None: it is none of bags."""
    suffix = path.suffix.lower()
    if template is not None and template.command is not None and may_be_table(path):
        from wfrun.parsers.bags.commands import read_table_bag

        return [read_table_bag(path, template.command, template)]
    if suffix in _TABLES:
        raise InvalidError(
            "a table needs a command for its rows",
            source=str(path),
            hint="Give --command 'PROGRAM {COLUMN}', with the columns in braces; or name the "
            "table in a YAML document; see docs/bags.md.",
        )
    text = _without_mark(head)
    if text.startswith(b"<"):
        if not _JSDL.search(head):
            return None
        from wfrun.parsers.bags.jsdl import read_jsdl

        return [read_jsdl(path)]
    if not text or (text.startswith((b"{", b"[")) and suffix not in _YAML):
        return None
    from wfrun.parsers.bags.yaml_bags import is_bag, read_bags
    from wfrun.parsers.workflows.pegasus5 import is_pegasus5

    if is_pegasus5(path):
        return None
    if b"\0" not in head and is_bag(path):
        return read_bags(path)
    if suffix in _COMMANDS:
        from wfrun.parsers.bags.commands import LineTemplate, read_commands

        return [read_commands(path, template or LineTemplate())]
    return None


def _unreadable(path: Path, error: OSError) -> InvalidError:
    reason = error.strerror or str(error)
    return InvalidError(f"can't be read: {reason}", source=str(path), hint=_KNOWN)


def _without_mark(head: bytes) -> bytes:
    text = head
    for mark in _BYTE_ORDER_MARKS:
        text = text.removeprefix(mark)
    return text.replace(b"\0", b"").lstrip() if text != head else text.lstrip()


def _read_into(builder: WorkflowBuilder, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        return _read_format(builder, path, head)
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_format(builder: WorkflowBuilder, path: Path, head: bytes) -> str:
    """Call the reader for this format; each is imported when it is first needed."""
    text = _without_mark(head)
    if not head.strip():
        builder.fail("the document is empty", None, _KNOWN)
    if text.startswith(b"<"):
        from wfrun.parsers.workflows.dax import read_dax

        return read_dax(builder, path)
    if b"\0" in text or head.startswith(b"\x1f\x8b"):
        hint = "Unpack it first. " + _KNOWN if head.startswith(b"\x1f\x8b") else _KNOWN
        builder.fail("not a workflow document, but binary data", None, hint)
    if text.startswith((b"{", b"[")) and path.suffix not in _YAML:
        from wfrun.parsers.workflows.wfformat import read_wfformat

        return read_wfformat(builder, path)
    from wfrun.parsers.workflows.pegasus5 import is_pegasus5, read_pegasus5

    if not is_pegasus5(path):
        builder.fail("not a workflow document", None, _KNOWN)
    return read_pegasus5(builder, path)
