"""Checks who imports whom in ``wfrun/``, and that names are used once, without importing anything.

Imports point down only: runners -> sites -> parsers -> engine, and inside the runners cli ->
forecast -> experiments -> inspect -> simulate, run. The studies stand above, and the command alone
imports them. No modules import each other in a circle. The engine is pure: it
imports itself and a short list of modules without input, output, clock or global randomness. The
core calls capabilities through hooks, never by name.
Programs that run on clusters use the standard library alone: clusters have nothing else.

A public class has a name of its own in the whole package.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "wfrun"

ROOT = Path(__file__).parents[1]

MAY_IMPORT: dict[str, frozenset[str]] = {
    "engine": frozenset({"engine"}),
    "parsers": frozenset({"engine", "parsers"}),
    "sites": frozenset({"engine", "parsers", "sites"}),
    "testing": frozenset({"engine", "sites", "testing"}),
    "runners": frozenset({"engine", "parsers", "sites", "runners"}),
    "studies": frozenset({"engine", "parsers", "sites", "runners", "studies"}),
    # The package itself, that is the public Python API.
    "": frozenset({"engine", "parsers", "sites", "runners"}),
}

STUDY_COMMAND = Path("wfrun/runners/cli/simulate")
"""The command ``study`` alone imports the studies."""

RUNNERS_MAY_IMPORT: dict[str, frozenset[str]] = {
    "run": frozenset({"run"}),
    "display": frozenset({"display"}),
    "simulate": frozenset({"run", "simulate"}),
    "metrics": frozenset({"run", "simulate", "metrics"}),
    "inspect": frozenset({"run", "display", "metrics", "inspect"}),
    "experiments": frozenset({"run", "display", "simulate", "metrics", "inspect", "experiments"}),
    "forecast": frozenset({"run", "display", "simulate", "experiments", "forecast"}),
    "admin": frozenset({"run", "display", "simulate", "inspect", "admin"}),
    "api": frozenset({"run", "inspect", "simulate", "experiments", "api"}),
    "cli": frozenset(
        {
            "run", "display", "simulate", "metrics", "inspect", "experiments", "forecast", "admin",
            "api", "cli",
        }
    ),
}  # fmt: skip
"""Rooms of the runners that a room of the runners may import from."""

ENGINE_MAY_IMPORT = frozenset(
    {
        "__future__", "abc", "array", "bisect", "collections", "collections.abc", "dataclasses",
        "difflib", "enum", "functools", "hashlib", "heapq", "itertools", "math", "msgspec",
        "operator", "re", "shlex", "string", "typing",
    }
)  # fmt: skip
"""Besides these, ``from random import Random`` is allowed: an instance has a seed."""

ENGINE = Path("wfrun/engine")

CAPABILITIES = "wfrun.engine.capabilities"

WITHOUT_CAPABILITIES = frozenset(
    ENGINE / name
    for name in ("core/core.py", "tasks/attempts.py", "tasks/status.py", "files/file_events.py")
)
"""Modules that call capabilities only through the hooks of ``wfrun.engine.core.capability``."""

NODE = Path("wfrun/sites/node")
"""Programs that run on clusters, in rooms. They import the standard library and each other;
``__init__.py`` is not sent."""

LATER = frozenset({"_sha2"})
"""Modules of the standard library of later versions of Python."""

AGENT = Path("wfrun/sites/remote/agent.py")
"""Runs on head nodes, as a single file."""


class Import:
    """One imported module, or one name that may be a module, at one line."""

    __slots__ = ("line", "module", "name")

    def __init__(self, line: int, module: str, name: str | None) -> None:
        self.line = line
        self.module = module
        """Absolute dotted name."""
        self.name = name
        """For ``from module import name``."""

    @property
    def text(self) -> str:
        return self.module if self.name is None else f"{self.module}.{self.name}"


def is_beside(found: Import) -> bool:
    """Whether the import names another program that is sent to the same folder."""
    files = [file.relative_to(ROOT).with_suffix("") for file in (ROOT / NODE).glob("*/*.py")]
    programs = {".".join(file.parts) for file in files}
    return found.module in {file.stem for file in files} or bool(
        {found.module, found.text} & programs
    )


def room_of(path: Path) -> str:
    """The room of a file of the package, given relative to the project's root."""
    inside = path.parts[1:]
    return "" if len(inside) == 1 and inside[0] != "testing.py" else Path(inside[0]).stem


def imports_of(tree: ast.AST, path: Path) -> Iterator[Import]:
    """All imports of a module, also those within functions. Relative ones are made absolute."""
    package = path.parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, None)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = package[: len(package) - node.level + 1]
                module = ".".join((*base, module)) if module else ".".join(base)
            for alias in node.names:
                yield Import(node.lineno, module, alias.name)


def is_inside(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def module_of(path: Path) -> str:
    """The dotted name of a file of the package, given relative to the project's root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def fault_of(path: Path, found: Import) -> str | None:
    """Why the import is forbidden in the file ``path``; None if it is allowed."""
    top = found.module.split(".")[0]
    if path == AGENT or path.parent.parent == NODE:
        if top not in sys.stdlib_module_names | LATER and (path == AGENT or not is_beside(found)):
            return f"{path.name} imports {found.text}, which is not in the standard library"
        return None
    room = room_of(path)
    if top == PACKAGE:
        parts = found.text.split(".")
        target = parts[1] if len(parts) > 1 else ""
        allowed = MAY_IMPORT.get(room)
        if allowed is None:
            return f"{room} is not a room of the design; add it to MAY_IMPORT or move the file"
        if target == "studies" and path.parent == STUDY_COMMAND:
            return None
        if target not in allowed:
            return (
                f"{room or PACKAGE} imports {found.text}; "
                f"it may import {', '.join(sorted(allowed))} only"
            )
        if room == "runners" and parts[1:2] == ["runners"] and len(parts) > 2:
            return runners_fault_of(path, parts[2])
        if path in WITHOUT_CAPABILITIES and is_inside(found.text, CAPABILITIES):
            return f"{path.name} imports {found.text}; it calls capabilities through hooks alone"
        return None
    if room == "engine" and found.module not in ENGINE_MAY_IMPORT:
        if (found.module, found.name) == ("random", "Random"):
            return None
        return f"the engine imports {found.text}, and may not: it is pure"
    return None


def runners_fault_of(path: Path, target: str) -> str | None:
    """Why a file of the runners may not import from their room ``target``; None if it may."""
    room = Path(path.parts[2]).stem
    allowed = RUNNERS_MAY_IMPORT.get(room)
    if allowed is None:
        return f"runners/{room} is not a room of the design; add it to RUNNERS_MAY_IMPORT"
    if target not in allowed:
        return f"runners/{room} imports from runners/{target}; it may from {sorted(allowed)} only"
    return None


class Graph:
    """The imports between modules, each with its first line. Imports within functions and those for
    type checkers count too."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._found: dict[str, list[Import]] = {}

    def add(self, path: Path, imports: list[Import]) -> None:
        module = module_of(path)
        self._files[module] = path
        self._found[module] = imports

    def imported(self, module: str) -> dict[str, int]:
        """The imported modules, and the packages around them, whose ``__init__`` runs first. The
        packages around ``module`` itself are left out: they are running when it begins."""
        lines: dict[str, int] = {}
        for found in self._found[module]:
            target = found.text if found.text in self._files else found.module
            while target in self._files and not is_inside(module, target):
                lines.setdefault(target, found.line)
                target = target.rpartition(".")[0]
        return lines

    def faults(self) -> list[str]:
        """One line for each import that closes a circle, found by depth-first search."""
        faults: list[str] = []
        seen: set[str] = set()
        way: list[str] = []

        def visit(module: str) -> None:
            seen.add(module)
            way.append(module)
            for target, line in sorted(self.imported(module).items()):
                if target in way:
                    circle = " -> ".join((*way[way.index(target) :], target))
                    file = self._files[module].as_posix()
                    faults.append(f"{file}:{line}: a circle of imports: {circle}")
                elif target not in seen:
                    visit(target)
            way.pop()

        for module in sorted(self._files):
            if module not in seen:
                visit(module)
        return faults


class Names:
    """The public classes of the package, each with the place of its first definition."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}

    def faults_of(self, path: Path, tree: ast.AST) -> Iterator[str]:
        """A line for each class of a module whose name another one has already."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                place = f"{path.as_posix()}:{node.lineno}"
                first = self._places.setdefault(node.name, place)
                if first != place:
                    yield f"{place}: {first} defines a class {node.name}, too: choose another name"


def faults_in(root: Path) -> list[str]:
    """All forbidden imports and names below ``root/wfrun``, as ``file:line: reason``."""
    faults: list[str] = []
    graph, names = Graph(), Names()
    for file in sorted((root / PACKAGE).rglob("*.py")):
        path = file.relative_to(root)
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        imports = list(imports_of(tree, path))
        graph.add(path, imports)
        faults.extend(names.faults_of(path, tree))
        for found in imports:
            fault = fault_of(path, found)
            if fault is not None:
                faults.append(f"{path.as_posix()}:{found.line}: {fault}")
    return faults + graph.faults()


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    faults = faults_in(root)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
