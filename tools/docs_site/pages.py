"""Prepares the pages of the documentation for Sphinx: a copy of the Markdown files at the same
relative paths, with the navigation that docs/index.md describes."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
INDEX = "docs/index.md"
PATTERNS = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*", "examples/**/*",
    "bench/README.md", "wfrun/sites/remote/agent.py",
)  # fmt: skip
"""The files of the site: pages, pictures, and files that pages link to."""
REFERENCE = "Reference"
"""The section of the index that generated pages are added to."""
MARK = "<!-- generated pages -->\n"
"""The line of the index that stands for a list of them."""

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"^( *)(?:[-*]|\d+\.) \[([^\]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)


class Entry(NamedTuple):
    """A page in the navigation."""

    title: str
    path: str
    """Relative to the folder of the index."""
    children: list[Entry]


def sections(index: str) -> Iterator[tuple[str, list[Entry]]]:
    """The navigation: headings of the index, and the list items that begin with a link to a page.
    An item that is indented belongs to the item above it."""
    for part in re.split(r"^## ", _FENCE.sub("", index), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        entries: list[Entry] = []
        for indent, title, path in _ENTRY.findall(text):
            siblings = entries[-1].children if indent and entries else entries
            siblings.append(Entry(title.replace("`", ""), path, []))
        if entries:
            yield heading, entries


def prepare(target: Path, generated: Mapping[str, tuple[str, str]]) -> None:
    """Write the site's source into ``target``. ``generated`` are further pages: title and text by
    path. Files that have not changed are not touched, so that Sphinx builds only what has."""
    texts = {path: text for path, (_, text) in generated.items()}
    index = (ROOT / INDEX).read_text()
    folder = posixpath.dirname(INDEX)
    links = [
        f"- [{title}]({posixpath.relpath(path, folder)})\n"
        for path, (title, _) in generated.items()
    ]
    texts[INDEX] = index.replace(MARK, "".join(links))
    for heading, entries in sections(index):
        if heading == REFERENCE:
            entries += [
                Entry(title, posixpath.relpath(path, folder), [])
                for path, (title, _) in generated.items()
            ]
        texts[INDEX] += _toctree(entries, folder, folder, heading)
        for entry in entries:
            if entry.children:
                page = posixpath.normpath(posixpath.join(folder, entry.path))
                text = (ROOT / page).read_text()
                texts[page] = text + _toctree(entry.children, folder, posixpath.dirname(page))
    _write(target, {**_files(), **{path: text.encode() for path, text in texts.items()}})


def _toctree(entries: list[Entry], base: str, folder: str, caption: str = "") -> str:
    """The directive that puts entries, with paths relative to ``base``, into the navigation of a
    page in ``folder``."""
    lines = ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), ""]
    for entry in entries:
        path = posixpath.relpath(posixpath.join(base, entry.path), folder)
        lines.append(f"{entry.title} <{path}>")
    return "\n".join([*lines, "```", ""])


def _files() -> dict[str, bytes]:
    found = {}
    for pattern in PATTERNS:
        for file in sorted(ROOT.glob(pattern)):
            if file.is_file() and "__pycache__" not in file.parts:
                found[str(file.relative_to(ROOT))] = file.read_bytes()
    return found


def _write(target: Path, wanted: Mapping[str, bytes]) -> None:
    """Make ``target`` hold these files and no others."""
    for path, content in wanted.items():
        file = target / path
        if not file.exists() or file.read_bytes() != content:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    for name, _, files in os.walk(target):
        for each in files:
            file = Path(name, each)
            if str(file.relative_to(target)) not in wanted:
                file.unlink()
