"""Checks that one module reads numbers that others have written: `wfrun.parsers.foreign`.

``isdigit``, ``isdecimal`` and ``isnumeric`` take characters for which ``int`` fails, or any number
of them. ``int`` and ``float`` fail for other text, so that one answer of a site would end the run:
where sites and servers are read they are called only with what the code has computed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

READER = Path("wfrun/parsers/foreign.py")
ROOMS = ("wfrun/parsers", "wfrun/sites", "wfrun/runners")
ANSWERS = ("wfrun/sites", "wfrun/runners/admin/survey.py")
"""Where answers of sites and servers are read."""
EXEMPT = (
    # Programs of sites, of one file each: the engine checks what they say.
    "wfrun/sites/node",
    "wfrun/sites/remote/agent.py",
    # They read bytes, of which only ASCII digits are digits, and count them.
    "wfrun/parsers/bags/columns.py",
    "wfrun/parsers/logs",
    # A program of this machine, whose argument the engine computes.
    "wfrun/sites/transfers/relay/limited_ssh.py",
    # Virtual sites, which read nothing.
    "wfrun/sites/simulated",
)
TESTS = frozenset({"isdigit", "isdecimal", "isnumeric"})


def is_number(node: ast.expr) -> bool:
    """Whether an argument is a number for certain: computed, or infinite."""
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return True
    return isinstance(node, ast.Constant) and node.value in ("inf", "-inf")


def faults(tree: ast.Module, *, answers: bool) -> Iterator[tuple[int, str]]:
    """Lines of a module and what is wrong there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in TESTS:
            yield node.lineno, f"{node.attr} takes what is no number"
        if not answers or not isinstance(node, ast.Call):
            continue
        names = [n.id for n in (node.func, *node.args) if isinstance(n, ast.Name)]
        converts = isinstance(node.func, ast.Name) and node.func.id in ("int", "float")
        is_mapped = names[:1] == ["map"] and names[1:2] in (["int"], ["float"])
        if is_mapped or (converts and not (node.args and is_number(node.args[0]))):
            yield node.lineno, "a number is read by int or float"


def below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path == Path(place) or Path(place) in path.parents for place in places)


def main(root: Path) -> int:
    found = []
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            path = file.relative_to(root)
            if path == READER or below(path, EXEMPT):
                continue
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for line, what in sorted(faults(tree, answers=below(path, ANSWERS))):
                found.append(f"{path}:{line}: {what}: use number_of or decimal_of of {READER}")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else Path()))
