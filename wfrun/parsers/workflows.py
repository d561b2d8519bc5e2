"""Reads a workflow of any of the formats that wfrun knows."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Workflow
from wfrun.parsers.build import WorkflowBuilder, paused_gc

_KNOWN = "wfrun reads DAX (XML), Pegasus 5 workflows (YAML) and WfFormat (JSON)."
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 4096


def read_workflow(path: str | Path, *, emulate: bool = False) -> Workflow:
    """Read the workflow at ``path``: DAX 1.10-3.6, Pegasus 5 YAML or WfFormat JSON 1.0-1.5,
    which is told by the content.

    With ``emulate`` documents are accepted that can only be imitated; see `WorkflowBuilder`.
    Raises InvalidError, with the document and where there is one the line, for everything that
    is wrong with it.
    """
    builder = WorkflowBuilder(str(path), _read_into, emulate=emulate)
    with paused_gc():
        name = _read_into(builder, Path(path))
        return builder.build(name)


def _read_into(builder: WorkflowBuilder, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
        return _read_format(builder, path, head)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidError(f"can't be read: {reason}", source=str(path), hint=_KNOWN) from error


def _read_format(builder: WorkflowBuilder, path: Path, head: bytes) -> str:
    """Call the reader for this format; each is imported when it is first needed."""
    text = head
    for mark in _BYTE_ORDER_MARKS:
        text = text.removeprefix(mark)
    text = text.replace(b"\0", b"").lstrip() if text != head else text.lstrip()
    if not head.strip():
        builder.fail("the document is empty", None, _KNOWN)
    if text.startswith(b"<"):
        from wfrun.parsers.dax import read_dax

        return read_dax(builder, path)
    if b"\0" in text or head.startswith(b"\x1f\x8b"):
        hint = "Unpack it first. " + _KNOWN if head.startswith(b"\x1f\x8b") else _KNOWN
        builder.fail("not a workflow document, but binary data", None, hint)
    if text.startswith((b"{", b"[")) and path.suffix not in (".yml", ".yaml"):
        from wfrun.parsers.wfformat import read_wfformat

        return read_wfformat(builder, path)
    from wfrun.parsers.pegasus5 import is_pegasus5, read_pegasus5

    if not is_pegasus5(path):
        builder.fail("not a workflow document", None, _KNOWN)
    return read_pegasus5(builder, path)
