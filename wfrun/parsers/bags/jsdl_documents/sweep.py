"""The parameter sweeps of a JSDL document (GFD.149), as axes of a bag.

Only XPaths that are location paths are evaluated, since they take a bounded time. XPath 1.0 (W3C,
1999) also has nested predicates, unions, comparisons of node sets and functions, by which an
expression of twelve kilobytes can run for hours. In GFD.149 a Match is an XPath that names
elements, attributes or text. A path of steps suffices for that, and its time grows with the number
of steps and the size of the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn, cast

from lxml import etree

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Axis, Column, Progression
from wfrun.engine.tasks.bag import INDEX, values_of
from wfrun.engine.tasks.templates import NAME
from wfrun.parsers.bags.columns import MAX_LISTED, column_of, progression
from wfrun.parsers.bags.values import escaped
from wfrun.parsers.syntax.limits import cut

SWEEP = "http://schemas.ogf.org/jsdl/2009/03/sweep"
FUNCTIONS = "http://schemas.ogf.org/jsdl/2009/03/sweep/functions"

_SUBSTRING = re.compile(
    r"\s*substring\s*\((.+?),\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)\s*", re.ASCII | re.DOTALL
)
MAX_DEPTH = 32


def line_of(element: etree._Element) -> int:
    """The line of an element."""
    return cast("int | None", element.sourceline) or 1


class _Target:
    """A part of the text of an element or of one of its attributes."""

    __slots__ = ("attribute", "element", "end", "first", "parameter")

    def __init__(
        self, element: etree._Element, attribute: str | None, first: int, end: int, parameter: str
    ) -> None:
        self.element, self.attribute = element, attribute
        self.first, self.end, self.parameter = first, end, parameter

    @property
    def text(self) -> str:
        if self.attribute is not None:
            return str(self.element.attrib[self.attribute])
        return self.element.text or ""


class Sweeps:
    """The sweeps of a document.

    ``read`` returns their axes. ``fill_in`` then turns each text and attribute of the document into
    a template: it puts a parameter in braces wherever a sweep changes the text, and escapes the
    rest.
    """

    def __init__(self, root: etree._Element, source: str) -> None:
        self._root, self._source = root, source
        self._elements = sum(1 for _ in root.iter())
        self._visits = 0
        """Upper estimate of the number of elements visited by the paths so far."""
        self._targets: list[_Target] = []
        self.lines: dict[str, int] = {}
        """The line of each parameter."""

    def read(self) -> tuple[Axis, ...]:
        """Read an axis for each sweep, outer sweeps first. Raises InvalidError for a sweep that is
        invalid or not supported."""
        axes: list[Axis] = []
        element = self._only_sweep(self._root)
        while element is not None:
            if len(axes) >= MAX_DEPTH:
                self._fail(element, f"sweeps are nested more than {MAX_DEPTH} levels deep")
            axes.append(self._axis(element))
            element = self._only_sweep(element)
        for element in self._root.iter(f"{{{SWEEP}}}FileSweep"):
            self._fail(element, "a FileSweep is not supported", "Name the files by a parameter.")
        return tuple(axes)

    def fill_in(self) -> None:
        """Turn the document's texts and attributes into templates."""
        by_text: dict[tuple[etree._Element, str | None], list[_Target]] = {}
        for target in self._targets:
            by_text.setdefault((target.element, target.attribute), []).append(target)
        for element in self._root.iter(etree.Element):
            for attribute in (None, *map(str, element.attrib)):
                targets = by_text.get((element, attribute), [])
                text = self._filled(element, attribute, targets)
                if attribute is None:
                    element.text = text or None
                else:
                    element.set(attribute, text)

    def _filled(
        self, element: etree._Element, attribute: str | None, targets: Sequence[_Target]
    ) -> str:
        text = (element.text or "") if attribute is None else str(element.attrib[attribute])
        pieces, done = [], 0
        for target in sorted(targets, key=lambda target: target.first):
            if target.first < done:
                self._fail(element, f"two sweeps change the same text: {text.strip()!r}")
            pieces.append(escaped(text[done : target.first]) + f"{{{target.parameter}}}")
            done = target.end
        return "".join(pieces) + escaped(text[done:])

    def _fail(self, element: etree._Element, message: str, hint: str | None = None) -> NoReturn:
        raise InvalidError(message, source=self._source, line=line_of(element), hint=hint)

    def _only_sweep(self, parent: etree._Element) -> etree._Element | None:
        found = parent.findall(f"{{{SWEEP}}}Sweep")
        if len(found) > 1:
            self._fail(
                found[1], "two sweeps stand beside each other",
                "Put one inside the other for all combinations, or their assignments into one "
                "sweep to let them vary together.",
            )  # fmt: skip
        return found[0] if found else None

    def _axis(self, sweep: etree._Element) -> Axis:
        assignments = sweep.findall(f"{{{SWEEP}}}Assignment")
        if not assignments:
            self._fail(sweep, "the sweep has no Assignment")
        names, columns = [], []
        for assignment in assignments:
            names.append(self._parameter(assignment))
            columns.append(self._column(assignment))
            if len(columns[-1]) != len(columns[0]):
                self._fail(
                    assignment,
                    f"the assignments of a sweep vary together, but this one has "
                    f"{len(columns[-1])} values and the first {len(columns[0])}",
                    "Put one into a sweep inside this one for all combinations.",
                )
        return Axis(tuple(names), tuple(columns))

    # What is changed

    def _parameter(self, assignment: etree._Element) -> str:
        nodes = assignment.findall(f"{{{SWEEP}}}DocumentNode")
        if not nodes:
            self._fail(assignment, "the assignment names no DocumentNode")
        targets = [target for node in nodes for target in self._targets_of(node)]
        name = self._free(_word(targets[0]))
        for target in targets:
            target.parameter = name
        self._targets += targets
        self.lines[name] = line_of(assignment)
        return name

    def _free(self, word: str) -> str:
        word = word if NAME.fullmatch(word) and word != INDEX else "parameter"
        name, number = word, 1
        while name in self.lines:
            number += 1
            name = f"{word}{number}"
        return name

    def _targets_of(self, node: etree._Element) -> list[_Target]:
        match = node.find(f"{{{SWEEP}}}Match")
        path = "" if match is None else (match.text or "").strip()
        if match is None or not path:
            self._fail(node, "the DocumentNode has no Match")
        spaces = {prefix: uri for prefix, uri in match.nsmap.items() if prefix}
        for binding in node.findall(f"{{{SWEEP}}}NamespaceBinding"):
            spaces[binding.get("prefix") or ""] = binding.get("ns") or ""
        spaces.pop("", None)
        part = _SUBSTRING.fullmatch(path) if len(path) <= MAX_CHARACTERS else None
        location = part[1] if part else path
        if not is_location_path(location):
            self._fail(match, f"{cut(path)} is no XPath that is evaluated", RULE)
        self._visits += self._elements
        if self._visits > MAX_VISITS:
            self._fail(match, "there are too many DocumentNodes in so large a document")
        try:
            found = self._root.getroottree().xpath(location, namespaces=spaces)
        except etree.XPathError as error:
            self._fail(match, f"{path!r} is no XPath: {error}")
        if not isinstance(found, list) or not found:
            self._fail(
                match, f"{path!r} matches nothing in this document",
                "It is an XPath such as //jsdl-posix:Argument[2], with the prefixes of the "
                "document or of a NamespaceBinding.",
            )  # fmt: skip
        return [self._target(match, path, node, part) for node in found]

    def _target(
        self, match: etree._Element, path: str, node: object, part: re.Match[str] | None
    ) -> _Target:
        element, attribute = None, None
        if isinstance(node, etree._Element):
            element = node
        elif isinstance(node, etree._ElementUnicodeResult):
            element = node.getparent()
            attribute = str(node.attrname) if node.is_attribute else None
        if element is None or len(element) or not isinstance(element.tag, str):
            self._fail(
                match, f"{path!r} does not match elements of text, or attributes",
                "Name elements such as Argument, or text() in them.",
            )  # fmt: skip
        target = _Target(element, attribute, 0, 0, "")
        text = target.text
        if part is None:
            target.end = len(text)
            return target
        target.first = max(0, int(part[2]) - 1)
        target.end = len(text) if part[3] is None else target.first + int(part[3])
        if not target.first < target.end <= len(text):
            self._fail(match, f"{path!r} is not inside the text {text!r}")
        return target

    # Functions

    def _column(self, assignment: etree._Element) -> Column:
        for space in (FUNCTIONS, SWEEP):
            values = assignment.find(f"{{{space}}}Values")
            if values is not None:
                return self._values(values, space)
            for kind in ("LoopInteger", "LoopDouble"):
                loop = assignment.find(f"{{{space}}}{kind}")
                if loop is not None:
                    return self._loop(loop, space, whole=kind == "LoopInteger")
        return self._fail(
            assignment, "the assignment has no function that is known",
            f"Values, LoopInteger and LoopDouble are, in the namespace {FUNCTIONS}.",
        )  # fmt: skip

    def _values(self, element: etree._Element, space: str) -> Column:
        column = column_of(v.text or "" for v in element.findall(f"{{{space}}}Value"))
        if not len(column):
            self._fail(
                element, "there are no values: the product is empty", "Add a Value to the Values."
            )
        return column

    def _loop(self, element: etree._Element, space: str, *, whole: bool) -> Column:
        name = etree.QName(element).localname
        numbers = {
            key: self._number(element, key, default, whole=whole)
            for key, default in (("start", None), ("end", None), ("step", "1"))
        }
        try:
            column = progression(numbers["start"], numbers["end"], numbers["step"])
        except ValueError as error:
            self._fail(element, f"{name}: {error}")
        exceptions = element.findall(f"{{{space}}}Exception")
        if not exceptions:
            return column
        if len(column) > MAX_LISTED:
            self._fail(element, f"{name}: it has more than {MAX_LISTED:,} values, too long for "
                       "exceptions")  # fmt: skip
        left_out = {self._number(e, "value", None, whole=whole) for e in exceptions}
        rest = column_of(text for text in _texts(column) if float(text) not in left_out)
        if not len(rest):
            self._fail(element, f"all values of the {name} are exceptions: the product is empty")
        return rest

    def _number(
        self, element: etree._Element, key: str, default: str | None, *, whole: bool
    ) -> float | int:
        text = element.get(key, default)
        if text is None:
            self._fail(element, f"{etree.QName(element).localname} lacks the attribute {key!r}")
        try:
            return int(text) if whole else float(text)
        except ValueError:
            kind = "whole number" if whole else "number"
            self._fail(element, f"{key} is {str(text)!r}; it must be a {kind}")


def _texts(column: Progression) -> Iterator[str]:
    return map(values_of(column), range(len(column)))


def _word(target: _Target) -> str:
    """The name of the parameter for a part of the document that a sweep changes.

    For an Environment it is the name of the variable. For an Argument it is the option before the
    argument, or the argument's number. For any other element or attribute it is the name of the
    element or attribute.
    """
    element = target.element
    name = etree.QName(element).localname
    if target.attribute is not None:
        return etree.QName(target.attribute).localname
    if name == "Environment":
        return str(element.get("name", name))
    if name != "Argument":
        return name[:1].lower() + name[1:]
    before = element.getprevious()
    if before is not None and before.tag == element.tag and (before.text or "").strip():
        option = re.fullmatch(r"--?([A-Za-z][\w-]*)", (before.text or "").strip())
        if option is not None:
            return option[1]
    place = sum(1 for _ in element.itersiblings(element.tag, preceding=True)) + 1
    return f"argument{place}"


MAX_CHARACTERS = 1000
"""Maximum length of a path."""
MAX_STEPS = 16
"""Maximum number of steps of a path."""
MAX_VISITS = 20_000_000
"""Maximum product of the number of paths of a document and the number of its elements: an estimate
of the number of elements that the evaluation of the paths visits."""

RULE = (
    "A Match is a path such as //jsdl-posix:Argument[2], //jsdl-posix:Environment[@name='X'] or "
    f"/a/b/text(): at most {MAX_STEPS} steps, without functions and conditions of other kinds."
)

_NAME = r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?"
_LITERAL = r"""(?:"[^"]*"|'[^']*')"""
_PREDICATE = (
    r"\[\s*(?:\d+|last\(\)|position\(\)\s*=\s*\d+"
    rf"|(?:@?{_NAME}|text\(\)|\.)(?:\s*=\s*{_LITERAL})?)\s*\]"
)
_TEST = rf"(?:text\(\)|node\(\)|@?(?:{_NAME}(?::\*)?|\*)(?![\w.:(-])|\.\.?)"
_AXIS = r"(?:(?:child|attribute|self|descendant|descendant-or-self)\s*::\s*)?"
_STEP = re.compile(rf"\s*(//?)?\s*{_AXIS}{_TEST}(?:\s*{_PREDICATE})*\s*")


def is_location_path(path: str) -> bool:
    """Whether ``path`` has at most `MAX_CHARACTERS` characters and at most `MAX_STEPS` steps, which
    select only by name, position and equal text."""
    if len(path) > MAX_CHARACTERS:
        return False
    position = steps = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or (step[1] is None and steps) or steps >= MAX_STEPS:
            return False
        position, steps = step.end(), steps + 1
    return steps > 0
