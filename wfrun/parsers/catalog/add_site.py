"""Adding a site to a catalog document without changing any other byte."""

from __future__ import annotations

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from wfrun.engine.errors import InvalidError

BEGINNING = "# The sites that wfrun may use. Format: docs/catalog.md\nsites:\n"


def with_site(document: str, entry: str, source: str) -> str:
    """Return ``document`` with ``entry`` after its last site. All lines of the entry must be
    indented by two spaces or more and end with a newline; indentation and line ends are adapted to
    the document's. An empty document gets a comment and the key ``sites``.

    Raises InvalidError if the sites are written in braces, because there is no line to insert at.
    """
    if not document.strip():
        return BEGINNING + entry
    root = yaml.compose(document, Loader=yaml.SafeLoader)
    sites = _sites(root)
    if sites is None or sites.flow_style or not sites.value:
        raise InvalidError(
            "the sites are written in braces, so the new one cannot be inserted",
            source=source,
            hint=f"Add this by hand:\n{entry.rstrip()}",
        )
    width = sites.value[0][0].start_mark.column
    if width != 2:
        entry = "".join(" " * width + line[2:] for line in entry.splitlines(keepends=True))
    lines = document.splitlines(keepends=True)
    ending = "\r\n" if lines[0].endswith("\r\n") else "\n"
    at = _last_line(sites) + 1
    # An indented comment belongs to the entry above it.
    while at < len(lines) and lines[at].lstrip(" ").startswith("#") and lines[at][0] == " ":
        at += 1
    if not lines[at - 1].endswith(("\n", "\r")):
        lines[at - 1] += ending
    return "".join([*lines[:at], entry.replace("\n", ending), *lines[at:]])


def _sites(root: Node | None) -> MappingNode | None:
    if isinstance(root, MappingNode):
        for key, value in root.value:
            if isinstance(key, ScalarNode) and key.value == "sites":
                return value if isinstance(value, MappingNode) else None
    return None


def _last_line(node: Node) -> int:
    """Number, from 0, of the last line of this node."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        pair = last if isinstance(last, tuple) else (last,)
        return max(_last_line(part) for part in pair)
    line: int = node.end_mark.line
    # A block scalar ends at the beginning of the line after it.
    if node.end_mark.column == 0 and line > node.start_mark.line:
        return line - 1
    return line
