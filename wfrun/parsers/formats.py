"""The document formats that wfrun reads: one record for each, in the order in which they are tried.

A new format needs one file with its reader and one record in `FORMATS`; see
docs/writing-a-format.md. Readers are imported when the first document of their format is read,
because some of them take long to import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from wfrun.engine.errors import InvalidError

if TYPE_CHECKING:
    from wfrun.parsers.bags.line_template import LineTemplate

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 4096
_YAML = (".yml", ".yaml")


class DocumentContent:
    """The content of a document, from which its format is recognized."""

    def __init__(self, path: Path) -> None:
        """Read the beginning of the document at ``path``. Raises OSError if it cannot be read."""
        self.suffix = path.suffix.lower()
        self._path = path
        with path.open("rb") as stream:
            self.head = stream.read(_HEAD_BYTES)
        text = self.head
        for mark in _BYTE_ORDER_MARKS:
            text = text.removeprefix(mark)
        if text != self.head:
            text = text.replace(b"\0", b"")  # UTF-16
        self.start = text.lstrip()
        """The first bytes of the document, without byte order mark and leading white space."""

    @property
    def is_binary(self) -> bool:
        """Whether the document is neither text nor XML. XML may be UTF-16 without a byte order
        mark."""
        if self.start.startswith(b"<"):
            return False
        return b"\0" in self.start or self.head.startswith(_GZIP)

    @cached_property
    def whole(self) -> bytes:
        """The whole content of the document."""
        return self._path.read_bytes()


Recognizer = Callable[[DocumentContent], bool]


def begins_with(*marks: bytes, unless: Iterable[str] = ()) -> Recognizer:
    """Recognize text that begins with one of ``marks``, unless the suffix of the document is in
    ``unless``."""
    return lambda content: (
        content.start.startswith(marks) and not content.is_binary and content.suffix not in unless
    )


def root_is(name: bytes) -> Recognizer:
    """Recognize XML by the name of its outermost element, in any namespace."""
    element = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?" + name + rb"[\s>/]")
    return lambda content: content.start[:1] == b"<" and element.search(content.head) is not None


def has_key(*keys: bytes) -> Recognizer:
    """Recognize text in which any mapping has one of ``keys``. The text need not be valid YAML."""
    key = re.compile(
        rb"""(?:^|[{,])[ \t]*(["']?)(?:""" + b"|".join(keys) + rb""")\1[ \t]*:""", re.MULTILINE
    )
    return lambda content: not content.is_binary and key.search(content.whole) is not None


def has_all(*recognizers: Recognizer, unless: Recognizer) -> Recognizer:
    """Recognize a document that all of ``recognizers`` recognize, and ``unless`` does not."""
    return lambda content: all(each(content) for each in recognizers) and not unless(content)


def has_suffix(*suffixes: str) -> Recognizer:
    """Recognize a document by the suffix of its name alone."""
    return lambda content: content.suffix in suffixes


class DocumentFormat(msgspec.Struct, frozen=True):
    """One document format: how it is recognized, which function reads it, and its title in
    messages."""

    name: str
    title: str
    holds: Literal["workflow", "bags", "jobs"]
    suffixes: tuple[str, ...]
    """Suffixes of file names of this format, in lower case."""
    recognize: Recognizer
    reader: str
    """``module:function``: a `DocumentReader` for a workflow, a `BagsReader` for bags, a
    `JobsReader` for parallel jobs."""
    line_options: bool = False
    """Whether each line of a document is a task, so that options such as ``--stdout`` apply."""
    estimate_hint: str = ""
    """How to state run times in a document of bags."""

    def load(self) -> Any:
        """Import the reader."""
        module, _, function = self.reader.partition(":")
        return getattr(import_module(module), function)


_WORKFLOWS, _BAGS = "wfrun.parsers.workflows", "wfrun.parsers.bags"
_TABLES = (".csv", ".tsv", ".tab")
_COMMANDS = (".txt", ".commands")
_OPTION = "Add --estimate '90 s' (or a column, '{runtime}'), or take a"
_KEY = "Add 'estimate: 90 s' (or a parameter, \"{runtime}\"), or take a"

FORMATS: tuple[DocumentFormat, ...] = (
    DocumentFormat(
        "table", "tables (.csv, .tsv) with --command", "bags", _TABLES, has_suffix(*_TABLES),
        f"{_BAGS}.commands:read_table_bag", True, _OPTION,
    ),
    DocumentFormat(
        "jsdl", "JSDL (XML)", "bags", (".jsdl",), root_is(b"JobDefinition"),
        f"{_BAGS}.jsdl_documents.jsdl:read_jsdl", False, "JSDL cannot say it; take a",
    ),
    DocumentFormat(
        "dax", "DAX (XML)", "workflow", (".dax", ".xml"), begins_with(b"<"),
        f"{_WORKFLOWS}.dax:read_dax",
    ),
    DocumentFormat(
        "wfformat", "WfFormat (JSON)", "workflow", (".json",),
        begins_with(b"{", b"[", unless=_YAML), f"{_WORKFLOWS}.wfformat:read_wfformat",
    ),
    DocumentFormat(
        "jobs", "YAML", "jobs", _YAML,
        has_all(has_key(b"jobs"), has_key(b"command"), unless=has_key(b"pegasus", b"bags?")),
        "wfrun.parsers.jobs.yaml_jobs:read_jobs",
    ),
    DocumentFormat(
        "pegasus5", "Pegasus 5 (YAML)", "workflow", _YAML, has_key(b"pegasus", b"jobs"),
        f"{_WORKFLOWS}.pegasus5:read_pegasus5",
    ),
    DocumentFormat(
        "yaml", "YAML", "bags", _YAML, has_key(b"bags?", b"command", b"parameters"),
        f"{_BAGS}.yaml_bags:read_bags", False, _KEY,
    ),
    DocumentFormat(
        "commands", "lists of commands (.txt)", "bags", _COMMANDS, has_suffix(*_COMMANDS),
        f"{_BAGS}.commands:read_commands", True, _OPTION,
    ),
)  # fmt: skip
"""The formats. The first one that recognizes a document is taken."""

TABLE = FORMATS[0]


def formats_of(holds: Literal["workflow", "bags", "jobs"]) -> list[DocumentFormat]:
    """The formats of documents that hold workflows, bags or parallel jobs."""
    return [each for each in FORMATS if each.holds == holds]


def line_formats() -> list[DocumentFormat]:
    """The formats of documents whose lines are tasks."""
    return [each for each in FORMATS if each.line_options]


def titles(found: Sequence[DocumentFormat]) -> str:
    """The titles of ``found`` in words, such as ``A, B and C``."""
    *first, last = [each.title for each in found]
    return f"{', '.join(first)} and {last}" if first else last


def known_formats() -> str:
    """A sentence that names all formats."""
    return (
        f"wfrun reads workflows as {titles(formats_of('workflow'))}, bags of tasks as "
        f"{titles(formats_of('bags'))}, and parallel jobs as {titles(formats_of('jobs'))}."
    )


def may_be_table(path: Path) -> bool:
    """Whether the document can be a table whose rows become tasks of a given command: its suffix is
    not that of a format whose lines are no tasks."""
    others = (each.suffixes for each in FORMATS if not each.line_options)
    return not any(path.suffix.lower() in suffixes for suffixes in others)


def has_commands(path: Path) -> bool:
    """Whether the document's suffix is that of a list of commands, one task a line."""
    suffix = path.suffix.lower()
    return any(suffix in each.suffixes for each in line_formats() if each is not TABLE)


def format_of(path: Path, template: LineTemplate | None = None) -> tuple[DocumentFormat, Any]:
    """Recognize the format of a document, and import its reader.

    With a command in the ``template`` the document is a table, unless its suffix is that of a
    format whose lines are no tasks. Raises InvalidError if no format recognizes the document, and
    OSError if it cannot be read.
    """
    content = DocumentContent(path)
    if template is not None and template.command is not None and may_be_table(path):
        return TABLE, TABLE.load()
    found = next((each for each in FORMATS if each.recognize(content)), None)
    if found is not None:
        return found, found.load()
    message, hint = "not a workflow document", known_formats()
    if not content.start:
        message = "the document is empty"
    elif content.is_binary:
        message = "not a workflow document, but binary data"
        hint = ("Unpack it first. " if content.head.startswith(_GZIP) else "") + hint
    raise InvalidError(message, source=str(path), hint=hint)


def unreadable(path: Path, error: OSError) -> InvalidError:
    """The error for a document for which the operating system raised ``error``."""
    reason = error.strerror or str(error)
    return InvalidError(f"cannot be read: {reason}", source=str(path), hint=known_formats())
