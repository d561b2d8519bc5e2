"""Safe reading of YAML: plain data and the line of every part of it, or one clear error.

The language is YAML 1.1 as PyYAML's safe loader reads it, with libyaml where it is installed. It is
restricted against untrusted and careless documents:

- aliases may not expand to much more than was written ("billion laughs"), nor contain themselves;
- explicit tags other than those of plain data are refused, and so are repeated or structured
  keys, nesting deeper than `MAX_DEPTH`, several documents in one file, an empty document, and
  text that is not UTF-8;
- timestamps and base-60 numbers stay text: ``24:00:00`` is the string that the user wrote.

The document is composed from parse events with an explicit stack, so that no input can exhaust the
interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from wfrun.engine.errors import InvalidError
from wfrun.parsers.syntax.yaml_faults import syntax_error

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_DEPTH = 100
"""Maximum depth of nesting."""

MAX_ALIAS_GROWTH = 1_000_000
"""Maximum number of nodes that aliases may add to those written in a document."""

MAX_BITS = 1000
"""Maximum number of bits of a whole number: a floating point number can hold it."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null"))
_TEXT_PER_NODE = 64
"""Number of characters of a scalar that count as one more node when aliases are weighed."""
_KNOWN_SCALARS = 10_000
"""Maximum number of resolved scalars that are cached: documents repeat them often."""


class YamlDocument:
    """The plain data of one YAML document, and the lines of its parts.

    ``value`` consists of dict, list, str, int, float, bool and None. Parts that an alias repeats
    are one shared object.
    """

    __slots__ = ("_lines", "_root_line", "source", "value")

    def __init__(self, source: str, value: Any, root_line: int, lines: dict[int, Any]) -> None:
        self.source = source
        self.value = value
        self._root_line = root_line
        self._lines = lines

    def line(self, *path: str | int) -> int:
        """The 1-based line of the part of the document at this path of keys and indices.

        For an entry of a mapping it is the line of the key, for an item of a list the line where
        the item starts. If the path leads to no part, it is the line of the last part that the path
        leads to.
        """
        line, value = self._root_line, self.value
        for step in path:
            lines = self._lines.get(id(value), {})
            try:
                line, value = lines[step], value[step]
            except (KeyError, IndexError, TypeError):
                break
        return line

    def error(self, message: str, *path: str | int, hint: str | None = None) -> InvalidError:
        """Make an error that points at the part at ``path``."""
        return InvalidError(message, source=self.source, line=self.line(*path), hint=hint)


def read_yaml(path: str | Path) -> YamlDocument:
    """Read the single YAML document in the file ``path``.

    Raises InvalidError, with the file and, if known, the line, for a file that cannot be read, is
    not YAML, or is refused for one of the reasons at the top of this module.
    """
    source = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidError(f"cannot be read: {error.strerror}", source=source) from error
    return parse_yaml(data, source)


def parse_yaml(data: bytes, source: str) -> YamlDocument:
    """Read a document from bytes; errors name it ``source``. See `read_yaml`."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidError(
            f"not UTF-8 text (byte 0x{data[error.start]:02x})",
            source=source,
            line=data.count(b"\n", 0, error.start) + 1,
            hint="Save the file with the encoding UTF-8.",
        ) from error
    try:
        # Building the loader already reads the first bytes, so it may fail as well.
        return _Composer(_Loader(data), source).compose()
    except yaml.MarkedYAMLError as error:
        raise syntax_error(data, source, error) from error
    except yaml.reader.ReaderError as error:
        raise InvalidError(
            f"not valid YAML: {error.reason}",
            source=source,
            line=data.count(b"\n", 0, max(error.position, 0)) + 1,
            hint="Control characters cannot stand in a YAML file; write them escaped in quotes.",
        ) from error


class _Frame:
    """A sequence or mapping that is being read."""

    __slots__ = ("anchor", "key", "key_line", "line", "lines", "merged", "size", "value")

    def __init__(self, value: list[Any] | dict[Any, Any], line: int, anchor: str | None) -> None:
        self.value = value
        self.line = line
        self.anchor = anchor
        self.lines: Any = [] if isinstance(value, list) else {}
        self.size = 1
        self.key: Any = _NO_KEY
        self.key_line = line
        self.merged: list[tuple[Any, int]] = []


_NO_KEY = object()
_MERGE = object()
"""Placeholder of the key ``<<``."""
_OPEN = object()
"""Placeholder of the value of an anchor whose node has not ended."""


class _Composer:
    """Builds data and line tables of one document from the loader's events."""

    def __init__(self, loader: Any, source: str) -> None:
        self._loader = loader
        self._source = source
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._lines: dict[int, Any] = {}
        self._written = 0
        self._scalars: dict[tuple[str, str | None, tuple[bool, bool]], Any] = {}
        self._root: Any = None
        self._root_line = 1

    def compose(self) -> YamlDocument:
        documents = 0
        while True:
            event = self._loader.get_event()
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.CollectionStartEvent):
                self._start(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._refuse("a second document starts here", event, "Keep one in each file.")
            elif isinstance(event, yaml.StreamEndEvent):
                break
        if documents == 0 or (self._root is None and self._written <= 1):
            raise InvalidError("the document is empty", source=self._source, line=1)
        return YamlDocument(self._source, self._root, self._root_line, self._lines)

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        size = 1 + len(event.value) // _TEXT_PER_NODE
        self._written += size
        value = self._scalar_value(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        self._put(value, line, size, event)

    def _scalar_value(self, event: Any) -> Any:
        text, implicit = event.value, event.implicit
        if event.tag is None and not implicit[0]:
            return text  # quoted
        if event.tag == "!":
            return text
        known = self._scalars.get((text, event.tag, implicit), self)
        if known is self:
            known = self._resolved(event)
            if len(self._scalars) < _KNOWN_SCALARS:
                self._scalars[text, event.tag, implicit] = known
        return known

    def _resolved(self, event: Any) -> Any:
        text, tag = event.value, event.tag
        if tag is None:
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
            if tag == _TAG + "merge":
                return _MERGE
            if tag not in _PLAIN_TAGS or (":" in text and tag != _TAG + "str"):
                return text  # timestamps, base-60 numbers and the key "="
        elif tag not in _PLAIN_TAGS:
            self._refuse_tag(event)
        if tag == _TAG + "str":
            return text
        hint = "Put it in quotes if it is text."
        try:
            value = self._loader.construct_object(yaml.ScalarNode(tag, text))
        except (ValueError, KeyError, IndexError):
            kind = tag.removeprefix(_TAG)
            self._refuse(f"{text[:40]!r} is no {kind}", event, hint)
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            self._refuse(f"the number {text[:40]}… has too many digits", event, hint)
        return value

    def _start(self, event: Any) -> None:
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            self._refuse_tag(event)
        if len(self._stack) >= MAX_DEPTH:
            self._refuse(f"nested more than {MAX_DEPTH} levels deep", event, None)
        self._check_key_is_plain(event)
        self._written += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = (_OPEN, 0)
        value: list[Any] | dict[Any, Any] = {} if kind == "map" else []
        self._stack.append(_Frame(value, event.start_mark.line + 1, event.anchor))

    def _end(self) -> None:
        frame = self._stack.pop()
        if isinstance(frame.value, dict):
            for merged, line in frame.merged:
                self._merge(frame, merged, line)
        self._lines[id(frame.value)] = frame.lines
        if frame.anchor is not None:
            self._anchors[frame.anchor] = (frame.value, frame.size)
        self._put(frame.value, frame.line, frame.size, None)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if event.anchor not in self._anchors:
            self._refuse(f"alias *{event.anchor} has no anchor &{event.anchor} above it", event)
        value, size = self._anchors[event.anchor]
        if value is _OPEN:
            self._refuse(f"alias *{event.anchor} stands inside what it repeats", event)
        if isinstance(value, (dict, list)):
            self._check_key_is_plain(event)
        self._written += 1
        self._put(value, line, size, event)

    def _check_key_is_plain(self, event: Any) -> None:
        if self._stack:
            frame = self._stack[-1]
            if isinstance(frame.value, dict) and frame.key is _NO_KEY:
                self._refuse("a key must be text or a number, not a list or mapping", event)

    def _put(self, value: Any, line: int, size: int, event: Any) -> None:
        """Put a finished node into its container."""
        if not self._stack:
            self._root, self._root_line = "<<" if value is _MERGE else value, line
            return
        frame = self._stack[-1]
        frame.size += size
        if frame.size > self._written + MAX_ALIAS_GROWTH:
            raise InvalidError(
                f"aliases expand the document by more than {MAX_ALIAS_GROWTH:,} nodes",
                source=self._source,
                line=line,
                hint="Write out what is needed instead of nesting aliases.",
            )
        if isinstance(frame.value, list):
            frame.value.append("<<" if value is _MERGE else value)
            frame.lines.append(line)
        elif frame.key is _NO_KEY:
            self._check_key(frame, value, line)
            frame.key, frame.key_line = value, line
        else:
            key, frame.key = frame.key, _NO_KEY
            if key is _MERGE:
                frame.merged.append((value, frame.key_line))
            else:
                frame.value[key] = "<<" if value is _MERGE else value
                frame.lines[key] = frame.key_line

    def _check_key(self, frame: _Frame, key: Hashable, line: int) -> None:
        assert isinstance(frame.value, dict)
        if key in frame.value:
            raise InvalidError(
                f"the key {key!r} stands here again; it is on line {frame.lines[key]} already",
                source=self._source,
                line=line,
                hint="Remove or rename one of the two.",
            )

    def _merge(self, frame: _Frame, merged: Any, line: int) -> None:
        """Add the entries that ``<<:`` names; keys of the mapping itself take precedence."""
        assert isinstance(frame.value, dict)
        for mapping in merged if isinstance(merged, list) else [merged]:
            if not isinstance(mapping, dict):
                raise InvalidError(
                    "'<<' takes a mapping or a list of mappings", source=self._source, line=line
                )
            lines = self._lines[id(mapping)]
            for key, value in mapping.items():
                if key not in frame.value:
                    frame.value[key] = value
                    frame.lines[key] = lines[key]

    def _refuse_tag(self, event: Any) -> NoReturn:
        tag = event.tag.replace(_TAG, "!!")
        self._refuse(f"the tag {tag} is not allowed here", event, "Write plain data without tags.")

    def _refuse(self, message: str, event: Any, hint: str | None = None) -> NoReturn:
        line = event.start_mark.line + 1
        raise InvalidError(message, source=self._source, line=line, hint=hint)
