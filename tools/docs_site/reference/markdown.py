"""Markdown of generated pages: texts of the code, tables, and tables of pages."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

from tools.docs_site.pages import ROOT

_CODE = re.compile(r"(``?.+?``?)", re.DOTALL)
_SPECIAL = re.compile(r"([*_<>\[\]|\\])")


def escaped(text: str) -> str:
    """Text whose only markup are code marks, single or double."""
    parts = _CODE.split(text)
    parts[::2] = [_SPECIAL.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = ["`" + part.strip("`").replace("|", "\\|") + "`" for part in parts[1::2]]
    return "".join(parts)


def cell(text: str) -> str:
    """Text for the cell of a table."""
    return escaped(" ".join(text.split()))


def code(text: str) -> str:
    """Code for the cell of a table; nothing for no text."""
    return "`" + text.replace("|", "\\|") + "`" if text else ""


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_of_page(page: str, heading: str) -> dict[str, list[str]]:
    """The rows of all tables of a page whose first column has this heading: the other cells, by
    each name in the first. A name with several rows has the cells of all. Links in them lead to the
    same place from docs/reference/."""
    rows: dict[str, list[str]] = {}
    inside = False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        cells = [each.strip() for each in re.split(r"(?<!\\)\|", line.strip("|"))]
        if line.startswith(f"| {heading} |"):
            inside = True
        elif inside and line.startswith("|"):
            for name in re.findall(r"[\w-]+", cells[0]):
                rows.setdefault(name, []).extend(_relinked(each, page) for each in cells[1:])
        else:
            inside = False
    return rows


def _relinked(text: str, page: str) -> str:
    text = re.sub(r"\]\(#", f"]({page}#", text)
    return re.sub(r"\]\((?!https?:)", "](../", text)


def docstrings(record: type) -> dict[str, str]:
    """The texts below the fields of a class and its bases, by field; empty where there is none."""
    texts: dict[str, str] = {}
    for base in reversed(record.__mro__):
        if not base.__module__.startswith("wfrun."):
            continue
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, after in zip(definition.body, [*definition.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = after.value if isinstance(after, ast.Expr) else None
                said = isinstance(text, ast.Constant) and isinstance(text.value, str)
                texts[field.target.id] = str(text.value) if said else ""  # type: ignore[union-attr]
    return texts
