"""DAX, the XML workflows of Pegasus: schema 1.10, 2.x and 3.x.

Source: the schemas dax-2.0.xsd to dax-3.6.xsd of Pegasus, and the Pegasus 4.9 user guide, "Creating
workflows". Workflow generators and simulators write attributes that the schemas lack; they are
read, too: ``runtime`` (seconds on the reference processor), ``cores`` and ``priority`` of jobs, and
``size`` (bytes) of uses.

Documents are read as a stream. Entities are never expanded: a document that declares any is
refused, and neither a DTD nor anything else is fetched.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, cast

from lxml import etree

from wfrun.parsers.foreign import number_of
from wfrun.parsers.syntax.xml_document import ElementLines, not_well_formed, refuse_entities
from wfrun.parsers.workflows.catalogs import (
    PhysicalNames,
    TransformationCatalog,
    TransformationKey,
    find_subworkflow,
    use_catalog_entry,
)
from wfrun.parsers.workflows.document import Document
from wfrun.parsers.workflows.draft import Draft, EdgeDraft, FileUse, TaskDraft
from wfrun.parsers.workflows.profiles import Profiles, profile_key

Attributes = Mapping[str, str]

_CHUNK_BYTES = 1 << 16
_ELEMENTS = frozenset(
    (
        "adag",
        "argument",
        "child",
        "dag",
        "dax",
        "executable",
        "file",
        "filename",
        "job",
        "metadata",
        "parent",
        "pfn",
        "profile",
        "stderr",
        "stdin",
        "stdout",
        "transformation",
        "uses",
    )
)
_IGNORED = frozenset(("invoke",))
_YES = ("true", "1")
_NO = ("false", "0")


def read_dax(document: Document, path: Path) -> Iterator[Draft]:
    """Read the document at ``path`` as a stream.

    Raises InvalidError, with the line, for a document that is not well-formed, is not a DAX, or is
    refused. An OSError is left to the caller.
    """
    target = _DaxTarget(document, path)
    parser = etree.XMLParser(
        target=cast("Any", target),
        remove_comments=True,
        remove_pis=True,
        resolve_entities=cast("Any", "internal"),  # with False an attribute's &amp; stays &#38;
        no_network=True,
        load_dtd=False,
    )
    with path.open("rb") as stream:
        refuse_entities(document.source, stream)
        stream.seek(0)
        document.locate = ElementLines(path)
        try:
            chunk = stream.read(_CHUNK_BYTES)
            while chunk:
                parser.feed(chunk)
                chunk = stream.read(_CHUNK_BYTES)
                if not chunk:
                    parser.close()
                yield from target.drafts
                target.drafts.clear()
        except etree.XMLSyntaxError as error:
            raise not_well_formed(document.source, error) from None


class _DaxTarget:
    """The parser's target: the parser calls its methods for each element. In the names of
    attributes and methods an entry is a child of the root element."""

    # These are more attributes than a dictionary of instances shares keys for, and they are read
    # often.
    __slots__ = (
        "drafts", "_argument_files", "_attributes", "_count", "_directory", "_document", "_draft",
        "_enders", "_entry", "_extra_inputs", "_handlers", "_has_jobs", "_key", "_line",
        "_marks_consumed", "_names", "_opened", "_parents", "_pfns", "_profiles", "_references",
        "_text_of", "_texts", "_transformations", "_use",
    )  # fmt: skip

    def __init__(self, document: Document, path: Path) -> None:
        self.drafts: list[Draft] = []
        """Drafts read since the caller last emptied the list."""
        self._document = document
        self._directory = path.parent
        self._count = 0
        self._entry: str | None = None
        self._opened = False
        self._marks_consumed = True
        self._has_jobs = False
        self._handlers: dict[str, Callable[[Attributes], None]] = {}
        self._enders: dict[str, Callable[[], None] | None] = {}
        self._transformations = TransformationCatalog()
        self._extra_inputs: dict[TransformationKey, list[FileUse]] = {}
        self._pfns: dict[str, PhysicalNames] = {}
        # State of the entry that is being read.
        self._line = 0
        self._key: TransformationKey = (None, "", None)
        self._attributes: Attributes = {}
        self._draft = TaskDraft("", "", "")
        self._use: FileUse | None = None
        self._profiles: Profiles = {}
        self._names: PhysicalNames | None = None
        self._parents: list[str] = []
        # State of text that contains names of files.
        self._texts: list[str] | None = None
        self._references: list[str] = []
        self._argument_files: list[str] = []
        self._text_of: tuple[str, str] = ("", "")

    # What the parser calls.

    def start(self, tag: str, attributes: Attributes) -> None:
        """Handle the start of an element."""
        self._count += 1
        try:
            handler = self._handlers[tag]
        except KeyError:
            handler = self._learn(tag)
        handler(attributes)

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        ender = self._enders[tag]
        if ender is not None:
            ender()

    def data(self, text: str) -> None:
        """Collect text inside an element whose text is needed."""
        if self._texts is not None:
            self._texts[-1] += text

    def close(self) -> None:
        """Handle the end of the document."""

    def _learn(self, tag: str) -> Callable[[Attributes], None]:
        """Find the handlers of elements of this name, in any namespace."""
        kind = tag.rpartition("}")[2]
        if not self._opened and kind != "adag":
            self._document.refuse(
                f"not a workflow: its outermost element is <{kind}>",
                self._count,
                "A DAX document consists of one <adag> element.",
            )

        handler: Callable[[Attributes], None] = partial(self._skip, kind)
        ender = None
        if kind in _ELEMENTS:
            handler = getattr(self, f"_start_{kind}")
            ender = getattr(self, f"_end_{kind}", None)
        self._handlers[tag] = handler
        self._enders[tag] = ender
        return handler

    def _skip(self, kind: str, _: Attributes) -> None:
        """Skip an unknown element and its content. Raises InvalidError if the content has a known
        element, which the workflow may need."""
        if kind not in _IGNORED:
            self._document.warn(f"unknown element <{kind}>, skipped", self._count)
        begun, depth = self._count, 1
        kept = self._handlers, self._enders, self._texts

        def start(inner: str, _: Attributes) -> None:
            nonlocal depth
            if inner in _ELEMENTS:
                message = f"<{inner}> inside of the unknown element <{kind}>"
                self._document.refuse(message, begun, f"Remove <{kind}>, or what is in it.")
            depth += 1

        def end() -> None:
            nonlocal depth
            depth -= 1
            if not depth:
                self._handlers, self._enders, self._texts = kept

        self._handlers = _Any(lambda tag: partial(start, tag.rpartition("}")[2]))
        self._enders = _Any(lambda _: end)
        self._texts = None

    def _enter(self, kind: str, attributes: Attributes) -> None:
        """Start an entry."""
        if self._entry is not None:
            self._document.refuse(f"<{kind}> inside of <{self._entry}>", self._count)
        self._entry = kind
        self._attributes = attributes
        self._line = self._count

    def _start_adag(self, attributes: Attributes) -> None:
        if self._opened:
            self._document.refuse("<adag> inside of <adag>", self._count, "Include it with <dax>.")
        self._opened = True
        self._document.name = attributes.get("name") or self._document.name
        version = (attributes.get("version") or "2").split(".")[0]
        # Generators of schema 2.x write transfer="true" everywhere, so it has no meaning there.
        self._marks_consumed = number_of(version) is not None and version not in ("1", "2")

    # Text and the names in it.

    def _start_argument(self, attributes: Attributes) -> None:
        self._texts, self._references = [""], []

    def _start_file(self, attributes: Attributes) -> None:
        if self._texts is not None:
            self._references.append(self._name_of("file", attributes))
            self._texts.append("")
            return
        self._enter("file", attributes)
        self._names = self._pfns.setdefault(self._need("file", attributes, "name"), PhysicalNames())

    def _start_filename(self, attributes: Attributes) -> None:
        if self._texts is not None:  # Up to schema 2; outside of text it only lists a file.
            self._start_file(attributes)

    def _end_argument(self) -> None:
        texts, self._texts = self._texts or [""], None
        if self._entry != "job":
            return
        try:
            self._draft.arguments = split_words(texts, self._references)
            self._argument_files = self._references
        except ValueError as error:
            self._document.refuse(
                f"job {self._draft.id}: arguments cannot be split into words ({error})",
                self._line,
                "Quotes come in pairs; a single one is written \\' or \\\".",
            )

    def _start_profile(self, attributes: Attributes) -> None:
        space = self._need("profile", attributes, "namespace")
        self._text_of = profile_key(space, self._need("profile", attributes, "key"))
        self._texts, self._references = [""], []

    def _end_profile(self) -> None:
        text = self._text()
        if self._entry == "job":
            self._profiles[self._text_of] = text
        elif self._names is not None and self._text_of[0] == "env":
            self._names.env[self._text_of[1]] = text

    def _start_metadata(self, attributes: Attributes) -> None:
        if self._use is not None and attributes.get("key") == "size":
            self._texts, self._references = [""], []

    def _end_metadata(self) -> None:
        if self._texts is not None and self._use is not None:
            self._use.size_bytes = self._document.size(self._text(), self._count)

    def _text(self) -> str:
        texts, self._texts = self._texts or [""], None
        pairs = zip_longest(texts, self._references, fillvalue="")
        return "".join(part for pair in pairs for part in pair).strip()

    # Catalogs.

    def _start_pfn(self, attributes: Attributes) -> None:
        if self._names is not None:
            place = (attributes.get("site") or "local", self._need("pfn", attributes, "url"))
            self._names.places.append(place)

    def _end_file(self) -> None:
        if self._texts is not None or self._names is None:
            return
        url = self._names.url(self._directory)
        if url is not None:
            name = self._attributes["name"]
            self._document.add_url(name, url)
            self._document.add_sources(name, self._names.sources(self._directory))
        self._leave()

    def _leave(self) -> None:
        self._entry = self._names = self._use = None

    def _start_executable(self, attributes: Attributes) -> None:
        self._start_catalog_entry("executable", attributes)
        self._names = self._transformations.entry(self._key)

    def _start_transformation(self, attributes: Attributes) -> None:
        self._start_catalog_entry("transformation", attributes)

    def _start_catalog_entry(self, kind: str, attributes: Attributes) -> None:
        self._enter(kind, attributes)
        if self._has_jobs:
            self._document.refuse(
                f"<{kind}> after the first job",
                self._count,
                "Catalogs stand before the jobs, as the schema has it: move it there.",
            )
        name = self._need(kind, attributes, "name")
        self._key = (attributes.get("namespace"), name, attributes.get("version"))

    _end_executable = _end_transformation = _leave

    # Nodes and edges.

    def _start_child(self, attributes: Attributes) -> None:
        self._enter("child", attributes)
        self._parents = []

    def _start_parent(self, attributes: Attributes) -> None:
        self._parents.append(attributes.get("ref") or self._need("parent", attributes, "ref"))

    def _end_child(self) -> None:
        child = self._need("child", self._attributes, "ref")
        self.drafts.append(EdgeDraft(child, self._parents, self._line))
        self._leave()

    def _start_dag(self, attributes: Attributes) -> None:
        self._document.refuse(
            f"<dag> job {attributes.get('id')}: DAGMan files are not read",
            self._count,
            "Describe the workflow in it as a DAX, and include that with <dax>.",
        )

    def _start_dax(self, attributes: Attributes) -> None:
        self._enter("dax", attributes)

    def _end_dax(self) -> None:
        """Add a sub-workflow. Its document is in the replica catalog or beside this document."""
        node = self._need("dax", self._attributes, "id")
        name = self._need("dax", self._attributes, "file")
        places = self._pfns.get(name)
        self.drafts.append(
            find_subworkflow(self._document, node, name, places, self._directory, self._line)
        )
        self._leave()

    def _start_job(self, attributes: Attributes) -> None:
        self._enter("job", attributes)
        self._has_jobs = True
        name = attributes.get("name") or self._need("job", attributes, "name")
        self._draft = TaskDraft(self._need("job", attributes, "id"), name, name)
        if self._profiles:
            self._profiles = {}

    def _end_job(self) -> None:
        draft = self._draft
        if self._argument_files:
            self._check_references(draft)
        self._find_executable(draft)
        self._read_requests(draft)
        draft.line = self._line
        self.drafts.append(draft)
        self._leave()

    def _start_uses(self, attributes: Attributes) -> None:
        get = attributes.get
        link = get("link")
        if link is None or link == "none":
            # A transformation, or a file that is only mentioned.
            if self._entry == "transformation":
                self._start_part(attributes)
            return
        name = get("file") or get("name") or self._name_of("uses", attributes)
        size = get("size")
        size_bytes: int | None = None
        if size is not None:
            size_bytes = number_of(size)
            if size_bytes is None:
                size_bytes = self._document.size(size, self._count)
        optional = get("optional") in _YES
        if link == "input":
            executable = get("type") == "executable" or get("executable") in _YES
            self._use = use = FileUse(name, size_bytes, optional, executable)
            self._draft.inputs.append(use)
        elif link == "output":
            marked = self._marked(get)
            self._use = use = FileUse(name, size_bytes, optional, False, marked)
            self._draft.outputs.append(use)
        else:
            self._start_other_use(link, FileUse(name, size_bytes, optional), attributes)

    def _start_other_use(self, link: str, use: FileUse, attributes: Attributes) -> None:
        if link == "inout":
            self._use = use
            self._draft.inputs.append(use)
            marked = self._marked(attributes.get)
            self._draft.outputs.append(
                FileUse(use.name, use.size_bytes, use.optional, False, marked)
            )
        elif link == "checkpoint":
            self._document.warn("checkpoint file, not kept between attempts", self._count)
        else:
            self._document.refuse(
                f"file {use.name}: its link is {link!r}",
                self._count,
                "It is one of input, output, inout, checkpoint and none.",
            )

    def _start_part(self, attributes: Attributes) -> None:
        """Note a file that all jobs of a transformation read. A file without ``executable="false"``
        is an executable, by the schema's default, and is not noted."""
        if attributes.get("executable") in _NO:
            self._use = FileUse(self._name_of("uses", attributes))
            self._extra_inputs.setdefault(self._key, []).append(self._use)

    def _marked(self, get: Callable[[str], str | None]) -> bool | None:
        transfer = get("transfer")
        if transfer == "true":
            return True if self._marks_consumed else None
        if transfer in _NO or get("dontTransfer") in _YES:
            return False
        return None

    def _start_stdin(self, attributes: Attributes) -> None:
        self._draft.stdin = self._name_of("stdin", attributes)

    def _start_stdout(self, attributes: Attributes) -> None:
        self._draft.stdout = self._name_of("stdout", attributes)

    def _start_stderr(self, attributes: Attributes) -> None:
        self._draft.stderr = self._name_of("stderr", attributes)

    def _check_references(self, draft: TaskDraft) -> None:
        used = {use.name for use in (*draft.inputs, *draft.outputs)}
        used.update((draft.stdin or "", draft.stdout or "", draft.stderr or ""))
        count = len(set(self._argument_files) - used)
        if count:
            text = "file in an argument that the task does not use, passed as text only"
            self._document.warn(text, self._line, count)
        self._argument_files = []

    def _find_executable(self, draft: TaskDraft) -> None:
        """Find the program of a job: an executable input with the job's name, else the catalog's
        entry, else the bare name."""
        get = self._attributes.get
        key = (get("namespace"), draft.name, get("version"))
        if self._extra_inputs:
            draft.inputs.extend(self._extra_inputs.get(key, ()))
        for use in draft.inputs:
            if use.executable and use.name == draft.name:
                draft.executable = f"./{draft.name}"
                return
        found = self._transformations.find(key)
        if found is not None:
            use_catalog_entry(self._document, found, draft, self._directory, self._line)

    def _read_requests(self, draft: TaskDraft) -> None:
        document, get = self._document, self._attributes.get
        runtime = get("runtime")
        for attribute in ("cores", "priority"):
            text = get(attribute)
            if text is not None:
                self._profiles[("pegasus", attribute)] = text
        if self._profiles:
            requests = document.requests(self._profiles, self._line)
            draft.resources, draft.priority = requests.resources, requests.priority
            draft.container = requests.container
            if runtime is None:
                runtime = requests.runtime_s
            if requests.env:
                # The catalog's profiles take precedence over the document's (Pegasus 5.0 user
                # guide, "Profiles Conflict Resolution").
                draft.env = {**requests.env, **draft.env} if draft.env else requests.env
        if runtime is not None:
            draft.runtime_s = document.runtime(runtime, self._line)

    # Attributes.

    def _need(self, kind: str, attributes: Attributes, key: str) -> str:
        value = attributes.get(key)
        if not value:
            self._document.refuse(f"<{kind}> without {key}=", self._count)
        return value

    def _name_of(self, kind: str, attributes: Attributes) -> str:
        """The file that an element names by ``file=`` (up to schema 2) or ``name=`` (from schema
        3)."""
        name = attributes.get("file") or attributes.get("name")
        if not name:
            self._document.refuse(f"<{kind}> without the name of a file", self._count)
        return name


class _Any(dict[str, Any]):
    """A dictionary with a value for every key. A value is made when it is first read."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Any:
        return self._make(key)


def split_words(texts: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Split ``texts[0] names[0] texts[1] names[1] ...`` into words, as a shell does.

    Each name is part of one word, whatever characters it contains. Raises ValueError for unbalanced
    quotes.
    """
    if not names:
        text = texts[0]
        plain = not any(mark in text for mark in "'\"\\")
        return tuple(text.split() if plain else shlex.split(text))
    mark = next(mark for mark in map(chr, range(0xE000, 0xF900)) if mark not in "".join(texts))
    words = split_words([mark.join(texts)], [])
    result, following = [], iter(names)
    for word in words:
        parts = word.split(mark)
        result.append(parts[0] + "".join(next(following) + part for part in parts[1:]))
    return tuple(result)
