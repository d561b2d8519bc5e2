"""The XPaths of a JSDL document that are evaluated: location paths that take a bounded time.

XPath 1.0 (W3C, 1999) has nested predicates, unions, comparisons of node sets and functions, with
which twelve kilobytes run for hours. GFD.149 says that a Match is an XPath, and names elements,
attributes and text by it: a path of steps does that, in a time that grows with the number of its
steps and the size of the document.
"""

from __future__ import annotations

import re

MAX_CHARACTERS = 1000
"""Maximum length of a path."""
MAX_STEPS = 16
"""Maximum number of steps of a path."""
MAX_VISITS = 20_000_000
"""Maximum number of paths of a document times its elements: about the elements visited."""

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
    """Whether the path has only steps by name, position, and equal texts."""
    if len(path) > MAX_CHARACTERS:
        return False
    position = steps = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or (step[1] is None and steps) or steps >= MAX_STEPS:
            return False
        position, steps = step.end(), steps + 1
    return steps > 0
