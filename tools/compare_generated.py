"""Compare generated workflows with the published synthetic documents that they imitate.

    python tools/compare_generated.py FOLDER

writes the tables of docs/generators.md. FOLDER holds the documents of the WorkflowSim collection,
such as Montage_1000.xml. Generated numbers are means over `SEEDS`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import fsum
from pathlib import Path

from wfrun.engine.model import Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow

PAGE = Path(__file__).parent.parent / "docs" / "generators.md"
BEGIN, END = "<!-- compared: begin -->\n", "<!-- compared: end -->\n"
SEEDS = range(5)
DOCUMENTS = {
    "Montage": (25, 50, 100, 1000),
    "CyberShake": (30, 50, 100, 1000),
    "Inspiral": (30, 50, 100, 1000),
    "Sipht": (30, 60, 100),
    "Epigenomics": (24, 46, 100, 997),
}
"""The number in the name of each document, by family. The largest is compared by type of task."""

Row = tuple[float, ...]


def main(arguments: Sequence[str]) -> int:
    """Write the tables into the page."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(f"usage: {Path(__file__).name} FOLDER: the folder of the documents", file=sys.stderr)
        return 2
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = compared(Path(arguments[0]))
    PAGE.write_text(f"{before}{BEGIN}{tables}{END}{after}", encoding="utf-8")
    return 0


def compared(folder: Path) -> str:
    """Both tables."""
    whole = ["| document | tasks | edges | without a file | files | initial [MB] | written [MB] |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    by_type = ["| document | type | tasks | run time [s] | files read | read [MB] "
               "| files written | written [MB] |",
               "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for family, sizes in DOCUMENTS.items():
        for size in sizes:
            name = f"{family}_{size}"
            published = read_workflow(folder / f"{name}.xml", emulate=True)
            tasks = len(published.tasks)
            made = [generate(family.lower(), tasks, seed) for seed in SEEDS]
            whole.append(_line([name], _totals(published), _mean(map(_totals, made))))
            if size == max(sizes):
                by_type += _type_lines(name, published, made)
    return "\n".join(["", *whole, "", *by_type, ""]) + "\n"


def _type_lines(name: str, published: Workflow, made: Sequence[Workflow]) -> list[str]:
    there, here = _types(published), [_types(workflow) for workflow in made]
    return [
        _line([name, kind], there[kind], _mean(types[kind] for types in here)) for kind in there
    ]


def _totals(workflow: Workflow) -> Row:
    """Tasks, edges, edges without a file, files, MB of initial files, MB written."""
    edges = sum(map(len, workflow.parents))
    with_file = sum(
        len({workflow.files[file].producer for file in task.inputs} - {None})
        for task in workflow.tasks
    )
    initial = [f.size_bytes for f in workflow.files if f.producer is None]
    written = [f.size_bytes for f in workflow.files if f.producer is not None]
    return (len(workflow.tasks), edges, edges - with_file, len(workflow.files),
            _megabytes(initial), _megabytes(written))  # fmt: skip


def _types(workflow: Workflow) -> dict[str, Row]:
    """By type of task: their number, and means of run time, files read, MB read, files written, MB
    written."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for task in workflow.tasks:
        read = [workflow.files[file].size_bytes for file in task.inputs]
        written = [workflow.files[file].size_bytes for file in task.outputs]
        rows[task.name].append((
            max(0.0, task.runtime_s or 0.0),
            len(read), _megabytes(read), len(written), _megabytes(written),
        ))  # fmt: skip
    return {kind: (len(of_kind), *_mean(of_kind)) for kind, of_kind in rows.items()}


def _megabytes(sizes: Iterable[int | None]) -> float:
    return fsum(max(0, size or 0) for size in sizes) / 1e6


def _mean(rows: Iterable[Row]) -> Row:
    columns = list(zip(*rows, strict=True))
    return tuple(fsum(column) / len(column) for column in columns)


def _line(names: Sequence[str], there: Row, here: Row) -> str:
    pairs = (f"{_number(a)} / {_number(b)}" for a, b in zip(there, here, strict=True))
    return "| " + " | ".join([*names, *pairs]) + " |"


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
