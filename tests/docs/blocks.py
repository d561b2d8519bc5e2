"""The code blocks of a page, and runs of those that are terminal sessions.

A ``console`` block is a session: commands after ``$ ``, each with what it prints; ``…`` stands for
anything that differs. The sessions of a page run in order, in one shell and one folder. A comment
before a block, ``<!-- KEY: TEXT -->``, says what is special about it:

- ``not run``: why the session is not run,
- ``clusters``: the session needs these clusters of the testbed,
- ``file``: the block is the content of this file, which the sessions need,
- ``part``: the YAML is a part of a document, namely this one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

from tests.places import ROOT

_COMMENT = re.compile(r"<!-- (not run|clusters|file|part): (.+?) -->", re.DOTALL)
_STATUS = "@@status"


class Block(NamedTuple):
    """A fenced block; or an indented one, which has no language."""

    language: str
    text: str
    line: int
    notes: dict[str, str]
    """The comment before it: text by key."""


class Command(NamedTuple):
    """A command of a session, and the lines that it prints."""

    line: str
    output: list[str]


def blocks(page: Path) -> Iterator[Block]:
    """All code blocks of a page in order."""
    return iter(_blocks(page.read_text()))


@cache  # Each process that collects tests asks for the blocks of every page five times.
def _blocks(text: str) -> list[Block]:
    found: list[Block] = []
    notes: dict[str, str] = {}
    for token in MarkdownIt().enable("table").disable("inline").parse(text):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            found.append(Block(token.info.strip(), token.content, token.map[0] + 1, notes))
        comment = _COMMENT.search(token.content) if token.type == "html_block" else None
        notes = {comment[1]: comment[2]} if comment else {}
    return found


def sessions(page: Path, *, on_clusters: bool = False) -> list[str]:
    """The sessions of a page that run on clusters, or all others, in order."""
    runnable = [b for b in blocks(page) if b.language == "console" and "not run" not in b.notes]
    return [b.text for b in runnable if ("clusters" in b.notes) is on_clusters]


def commands(session: str) -> list[Command]:
    """The commands of a session. A line that ends with a backslash goes on in the next one."""
    found: list[Command] = []
    for line in session.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:], []))
        elif found and found[-1].line.endswith("\\") and not found[-1].output:
            found[-1] = Command(f"{found[-1].line}\n{line}", [])
        else:
            assert found, f"a session begins with '$ ', not with {line!r}"
            found[-1].output.append(line)
    return found


def run_sessions(
    texts: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> list[tuple[Command, str]]:
    """Run the commands of sessions in one shell: each with what it printed."""
    todo = [command for text in texts for command in commands(text)]
    programs = folder / ".programs"
    programs.mkdir()
    (programs / "wfrun").write_text(
        f'#!/bin/sh\nexec {sys.executable} -m wfrun.runners.cli.main "$@"\n'
    )
    (programs / "wfrun").chmod(0o755)
    script = "\n".join(f"{command.line}\necho; echo {_STATUS} $?" for command in todo)
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}\n"],
        cwd=folder,
        env={
            "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    parts = re.split(rf"^{_STATUS} \d+\n", done.stdout, flags=re.MULTILINE)
    assert len(parts) == len(todo) + 1, done.stdout
    return [*zip(todo, parts[:-1], strict=True)]


def is_printed(expected: Sequence[str], printed: str) -> bool:
    """Whether output is what a page shows; ``…`` in a line stands for any text, and a line that is
    only ``…`` for any lines. The number of spaces does not count: columns are as wide as their
    content."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            parts = re.sub(" +", " ", line.rstrip()).split("…")
            pattern += ".*?".join(map(re.escape, parts)) + r" ?\n"
    return re.fullmatch(pattern + r"\s*", re.sub(" +", " ", printed)) is not None
