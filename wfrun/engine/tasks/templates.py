"""Templates of bags: texts with parameters in braces.

``{ligand}`` stands for the value of the parameter ``ligand``, ``{seed:04}`` for the value of
``seed`` in the format ``04`` of Python's format mini-language, ``{{`` and ``}}`` for braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter

import msgspec

from wfrun.engine.errors import InvalidError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""Pattern of the names of parameters."""

MAX_WIDTH = 255
"""Maximum width and precision of a format: a width of a billion would fill the memory."""

_SPEC = re.compile(r"(?:.?[<>^])?[-+ ]?0?(\d{0,9})(?:\.(\d{1,9}))?[defgosxX]?", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_ZEROS = re.compile(r"0(?![<>^])")
"""Pattern of the beginning of a format that pads numbers with zeros."""
_INTEGERS = frozenset("doxX")


class TemplatePart(msgspec.Struct, frozen=True):
    """A literal text and the parameter that follows it."""

    literal: str
    name: str | None = None
    """None: no parameter follows."""
    spec: str = ""

    def formatted(self, value: str) -> str:
        """The formatted value. Raises ValueError if the format requires a number and the value is
        not a number."""
        if not self.spec:
            return value
        kind = self.spec[-1]
        if kind in _INTEGERS:
            return format(int(value), self.spec)
        if kind in "efg":
            return format(float(value), self.spec)
        if kind == "s":
            return format(value, self.spec)
        if (value.isdecimal() and value.isascii()) or _INTEGER.fullmatch(value):
            return format(int(value), self.spec)
        if _DECIMAL.fullmatch(value):
            return format(float(value), self.spec)
        if _ZEROS.match(self.spec):
            raise ValueError(f"{value!r} is not a number")
        return format(value, self.spec)


def parse_template(text: str) -> tuple[TemplatePart, ...]:
    """The parts of a template. Raises InvalidError for unpaired braces, invalid names and invalid
    formats."""
    parts = []
    try:
        for literal, name, spec, conversion in Formatter().parse(text):
            if name is None:
                parts.append(TemplatePart(literal))
                continue
            spec_match = _SPEC.fullmatch(spec or "")
            if not NAME.fullmatch(name) or conversion or spec_match is None:
                shown = name + (f":{spec}" if spec else "")
                raise InvalidError(
                    f"{{{shown}}} is not a parameter in {text!r}",
                    hint="a parameter is {name} or {name:format}; braces of the text itself are "
                    "doubled: {{ and }}",
                )
            if max(int(number or 0) for number in spec_match.groups()) > MAX_WIDTH:
                raise InvalidError(
                    f"the format {spec!r} in {text!r} is too wide",
                    hint=f"The width and the precision are at most {MAX_WIDTH}.",
                )
            parts.append(TemplatePart(literal, name, spec or ""))
    except ValueError as error:
        raise InvalidError(
            f"the braces in {text!r} are not paired: {error}",
            hint="a parameter is {name} or {name:format}; braces of the text itself are doubled: "
            "{{ and }}",
        ) from None
    return tuple(parts)


def placeholders(text: str) -> tuple[str, ...]:
    """The names of the parameters in a template, in order, without repeats."""
    return tuple(dict.fromkeys(p.name for p in parse_template(text) if p.name is not None))


def filled(text: str, values: Mapping[str, str]) -> str:
    """A template with its parameters replaced by their values. Raises KeyError for a parameter
    without a value."""
    return "".join(
        part.literal if part.name is None else part.literal + part.formatted(values[part.name])
        for part in parse_template(text)
    )
