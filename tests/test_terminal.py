"""No module writes foreign text to a terminal past the streams and the console that escape it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.places import ROOT

ALLOWED = {
    "wfrun/runners/cli/run/cleaning.py": {"confirm"},  # its question is made visible there
    "wfrun/runners/display/console.py": {"Console"},
    "wfrun/runners/run/sites/make_sites.py": {
        "getpass",
        "input",
    },  # its prompts are made visible there
}
"""Modules that may write past the streams, and how."""
ELSEWHERE = (
    "wfrun/sites/transfers/relay/limited_ssh.py",  # a program that scp starts; it passes bytes
    "wfrun/malleable.py",  # copied beside a program, and run as one there
    "wfrun/sites/node/",
    "wfrun/sites/remote/agent.py",
    "wfrun/testing/",
)
"""Programs that run on clusters or in tests, and write to pipes."""
FORBIDDEN = {
    "Console", "getpass", "input", "prompt", "confirm", "style", "secho", "__stdout__",
    "__stderr__", "from_markup", "from_ansi", "print_exception", "/dev/tty",
}  # fmt: skip
"""Names that write to the terminal itself, or interpret markup or escape sequences in a text."""
STARTS = ("create_subprocess_exec", "create_subprocess_shell", "Popen")
"""Functions that start a process, which inherits the streams that it is not given."""


def faults(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """What could write to a terminal, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("__std"):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Constant) and node.value == "/dev/tty":
            yield "/dev/tty", node.lineno
        elif isinstance(node, ast.Call):
            yield from faults_of_call(node)


def faults_of_call(call: ast.Call) -> Iterator[tuple[str, int]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    yield name, call.lineno
    if given.get("markup") == "True":
        yield "from_markup", call.lineno
    if name in STARTS and not {"stdout", "stderr"} <= given.keys():
        yield "__stderr__", call.lineno
    # Rich's own redirection interprets escape sequences.
    if name == "Live" and given.get("redirect_stderr") != "False":
        yield "from_ansi", call.lineno
    if ast.unparse(call.func) == "os.write" and ast.unparse(call.args[0]) in ("1", "2"):
        yield "__stdout__", call.lineno


def violations(source: str, path: str) -> list[str]:
    allowed = ALLOWED.get(path, set())
    found = faults(ast.parse(source))
    return [f"{path}:{line}: {name}" for name, line in found if name in FORBIDDEN - allowed]


@pytest.mark.slow
def test_all_text_passes_the_escaping_streams() -> None:
    bad = []
    for module in sorted((ROOT / "wfrun").rglob("*.py")):
        path = module.relative_to(ROOT).as_posix()
        if not path.startswith(ELSEWHERE):
            bad += violations(module.read_text(encoding="utf-8"), path)
    assert not bad


@pytest.mark.parametrize(
    "line",
    [
        "Console()",
        "rich.console.Console(stderr=True)",
        "sys.__stderr__.write(x)",
        "open('/dev/tty', 'w')",
        "click.secho(x)",
        "os.write(2, x)",
        "subprocess.Popen(x, stdout=y)",
        "Live(x, redirect_stdout=False)",
        "render(x, markup=True)",
    ],
)
def test_the_check_finds(line: str) -> None:
    assert violations(line, "wfrun/x.py")
