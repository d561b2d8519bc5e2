"""Messages for text that is not YAML: they describe the text, instead of what the scanner
expected."""

from __future__ import annotations

import yaml

from wfrun.engine.errors import InvalidError

_QUOTED_STARTS = "@`%*&!{"
"""Characters that may begin commands and patterns, but not plain text of YAML (YAML 1.1, section
9.1.3)."""


def syntax_error(data: bytes, source: str, error: yaml.MarkedYAMLError) -> InvalidError:
    """The InvalidError for a document for which the parser raised ``error``."""
    if error.context_mark is not None and "end of stream" in (error.problem or ""):
        return InvalidError(
            "not valid YAML: what begins here, with a quote or a bracket, does not end",
            source=source,
            line=error.context_mark.line + 1,
        )
    mark = error.problem_mark or error.context_mark
    reason = ": ".join(part for part in (error.context, error.problem) if part)
    if mark is None:
        return InvalidError(f"not valid YAML: {reason}", source=source)
    lines = data.decode("utf-8", "replace").splitlines()[: mark.line + 1]
    found, hint = _explain(lines, mark.column) if len(lines) > mark.line else (None, None)
    return InvalidError(
        f"not valid YAML: {found or reason}", source=source, line=mark.line + 1, hint=hint
    )


def _explain(lines: list[str], column: int) -> tuple[str | None, str | None]:
    """(fault, hint) for the last of ``lines``, in which the parser stopped at ``column``. Either is
    None if unknown."""
    line = lines[-1]
    indent = _indent(line)
    if "\t" in line[:indent]:
        return "a tab indents the line", "Indent with spaces only."
    above = [text for text in lines[:-1] if text.strip() and text.lstrip()[0] != "#"]
    is_structure = column <= indent or _is_key(line[:column])
    if is_structure and (found := _indentation_fault(above, indent)):
        return found, "Keys of one mapping, and items of one list, have the same indentation."
    if line[column : column + 1] == ":" and ":" in line[:column].lstrip():
        return "a second ': ' in the line", "Write text that contains ': ' in quotes."
    value = line[indent:].partition(": ")[2].lstrip() or line[indent:].removeprefix("- ")
    for start in (line[column : column + 1], line[max(0, column - 1) : column], value[:1]):
        if start and start in _QUOTED_STARTS:
            return None, f"Write text that begins with {start} in quotes."
    return None, None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _is_key(text: str) -> bool:
    """Whether ``text``, the line up to the column of the error, is a single key. For a misplaced
    mapping the parser reports the column of the colon."""
    return ":" not in text and bool(text.strip())


def _indentation_fault(above: list[str], indent: int) -> str | None:
    """The fault of the indentation ``indent`` of a line, after the lines ``above``; None if the
    indentation is valid."""
    open_: list[int] = []
    for line in above:
        own = _indent(line)
        open_ = [each for each in open_ if each < own]
        open_.append(own)
        if line[own : own + 2] == "- " and ":" in line:
            open_.append(_indent(line.replace("-", " ", 1)))  # a mapping inside of a list item
    if not open_ or indent in open_:
        return None
    if indent > open_[-1]:
        if above[-1].rstrip().endswith((":", "|", ">", "-")):
            return None
        return "the line is indented more than the line above, which has a value already"
    spaces = ", ".join(map(str, open_))
    return (
        f"the line is indented by {indent} space{'' if indent == 1 else 's'}, where the lines "
        f"above are by {spaces}"
    )
