"""Measures reuse: a run of which an earlier one did all tasks, and a look before it.

    python bench/reuse.py [--tasks N] [--rounds N]

A workflow of N tasks (10,000), half of which copy an input each and half the copy of one of these,
runs once on this machine, with real files. Then these are measured, as a user runs them, from the
start of the command to its end, in processor seconds and in seconds; medians of the rounds count:

- dry run    `wfrun run --dry-run`: reading and checking the document (target: 2 s)
- reuse      `wfrun run --reuse RUN` of the same document, the document included (target: 3 s)
- edited     the same after 100 inputs have changed: their hashes, and 200 tasks that run again
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from wfrun import File, Task, Workflow, write_dax  # noqa: E402

DRY_RUN_S, REUSE_S = 2.0, 3.0
WFRUN = (sys.executable, "-m", "wfrun.runners.cli.main")
EDITED = 100


def copies(pairs: int) -> Workflow:
    """in-i → a-i → b-i, for each pair of tasks."""
    files: list[File] = []
    tasks: list[Task] = []
    parents: list[tuple[int, ...]] = []
    for number in range(pairs):
        first = len(files)
        names = [f"in-{number}", f"a-{number}", f"b-{number}"]
        files += [
            File(names[0]),
            File(names[1], producer=2 * number),
            File(names[2], producer=2 * number + 1, collect=True),
        ]
        for step in (0, 1):
            pair = (names[step], names[step + 1])
            inputs, outputs = (first + step,), (first + step + 1,)
            tasks.append(Task(pair[1], "cp", "/bin/cp", pair, inputs, outputs))
            parents.append((2 * number,) if step else ())
    return Workflow("copies", "copies.dax", tasks, files, parents)


class Took(NamedTuple):
    """The time of a command in seconds."""

    cpu_s: float
    elapsed_s: float

    def __str__(self) -> str:
        return f"{self.cpu_s:5.2f} s ({self.elapsed_s:.2f} s elapsed)"


def wfrun(folder: Path, *words: str) -> Took:
    """Run a command; returns its time."""
    begun_s, before = time.perf_counter(), os.times()
    done = subprocess.run([*WFRUN, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    after = os.times()
    user_s = after.children_user - before.children_user
    system_s = after.children_system - before.children_system
    return Took(user_s + system_s, time.perf_counter() - begun_s)


def median(rounds: int, measure: Callable[[int], Took]) -> Took:
    took = [measure(number) for number in range(rounds)]
    return Took(*map(statistics.median, zip(*took, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wfrun-reuse-") as name:
        folder = Path(name)
        write_dax(copies(options.tasks // 2), folder / "copies.dax")
        for number in range(options.tasks // 2):
            (folder / f"in-{number}").write_text(f"{number}\n")
        first = wfrun(folder, "run", "copies.dax", "-q", "--run-dir", "first", "--keep", "all")
        print(f"{options.tasks} tasks ran in {first.elapsed_s:.1f} s")
        look = ("run", "copies.dax", "--dry-run")
        dry = median(options.rounds, lambda _: wfrun(folder, *look))
        seen = median(options.rounds, lambda _: wfrun(folder, *look, "--reuse", "first"))
        again = ("run", "copies.dax", "-q", "--reuse", "first", "--run-dir")
        reused = median(options.rounds, lambda n: wfrun(folder, *again, f"again-{n}"))
        for number in range(EDITED):
            (folder / f"in-{number}").write_text(f"edited {number}\n")
        edited = wfrun(folder, *again, "edited")
    print(f"dry run                 {dry} (target: {DRY_RUN_S:g})")
    print(f"dry run with --reuse    {seen}")
    print(f"reuse of all            {reused} (target: {REUSE_S:g})")
    print(f"{EDITED} inputs edited       {edited}, {2 * EDITED} tasks ran again")


if __name__ == "__main__":
    main()
