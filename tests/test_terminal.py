"""No module writes foreign text to a terminal past the streams and the console that escape it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT

ALLOWED = {
    "wfrun/runners/display/console.py": {"Console"},
    "wfrun/runners/run/sites.py": {"getpass", "input"},  # its prompts are made visible there
}
"""Modules that may write past the streams, and how."""
ELSEWHERE = ("wfrun/sites/node/", "wfrun/sites/remote/agent.py", "wfrun/testing/host.py")
"""Programs that run on clusters or in tests, and write to pipes."""
FORBIDDEN = {"Console", "getpass", "input", "prompt", "confirm", "style", "secho", "__stdout__",
             "__stderr__", "from_markup", "from_ansi", "print_exception"}  # fmt: skip
"""Names that write to the terminal itself, or interpret markup or escape sequences in a text."""


def names_used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Functions and classes that are called, attributes of `sys`, and paths of terminals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name):
                yield called.id, node.lineno
            elif isinstance(called, ast.Attribute):
                yield called.attr, node.lineno
            for keyword in node.keywords:
                on = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                if keyword.arg == "markup" and on:
                    yield "from_markup", node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in ("__stdout__", "__stderr__"):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Constant) and node.value == "/dev/tty":
            yield "getpass", node.lineno


def violations(source: str, path: str) -> list[str]:
    allowed = ALLOWED.get(path, set())
    found = names_used(ast.parse(source))
    return [f"{path}:{line}: {name}" for name, line in found if name in FORBIDDEN - allowed]


def test_all_text_passes_the_escaping_streams() -> None:
    bad = []
    for module in sorted((ROOT / "wfrun").rglob("*.py")):
        path = module.relative_to(ROOT).as_posix()
        if not path.startswith(ELSEWHERE):
            bad += violations(module.read_text(encoding="utf-8"), path)
    assert not bad


def test_the_check_finds_what_it_looks_for() -> None:
    source = "import sys\nConsole()\nsys.__stderr__.write(x)\nopen('/dev/tty')\nclick.secho(x)\n"
    assert len(violations(source, "wfrun/x.py")) == 4
    assert Path(ROOT / "wfrun/runners/display/console.py").exists()
