"""Measures time and memory of reading a large DAX.

Makes a DAX of 100,000 jobs (7.5 uses and 2.5 edges a job, about 120 MB), and compares reading it
into the model with a bare ``lxml.iterparse`` loop that only counts and clears. Times are
processor seconds, medians of runs that alternate; memory is the growth of the resident set of a
fresh process, at its peak.

    python bench/parse.py [--jobs 100000] [--runs 5]
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lxml import etree
from rich.console import Console
from rich.table import Table

from wfrun.parsers.read import read_workflow

TIME_GOAL = 2.0
MEMORY_GOAL_KB = 3.5
OUTPUTS = 4
REACH = 1000
"""How far back in the document the parents of a job are."""

MEASURE_MEMORY = """
import sys
from wfrun.parsers.workflows import dax
from wfrun.parsers.read import read_workflow
def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))
before = kilobytes("VmRSS")
workflow = read_workflow(sys.argv[1])
print(kilobytes("VmHWM") - before)
"""


def write_document(path: Path, jobs: int, seed: int = 1) -> None:
    """Each job reads one common file and one of each of its 2 or 3 parents, and writes four."""
    rng = random.Random(seed)
    above: list[list[int]] = []
    with path.open("w") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        out.write('<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="bench">\n')
        for job in range(jobs):
            first = max(0, job - REACH)
            wanted = min(job, rng.choice((2, 3)))
            above.append(sorted(rng.sample(range(first, job), wanted)))
            out.write(
                f'  <job id="ID{job:07d}" namespace="Montage" name="mProjectPP" version="1.0" '
                f'runtime="{rng.uniform(1, 100):.2f}">\n'
            )
            out.write(use("region.hdr", "input", 304))
            for parent in above[-1]:
                out.write(use(fits(parent, 0), "input", 4_000_000 + parent))
            for number in range(OUTPUTS):
                out.write(use(fits(job, number), "output", 4_000_000 + job))
            out.write("  </job>\n")
        for job, parents in enumerate(above):
            if parents:
                refs = "".join(f'    <parent ref="ID{parent:07d}"/>\n' for parent in parents)
                out.write(f'  <child ref="ID{job:07d}">\n{refs}  </child>\n')
        out.write("</adag>\n")


def fits(job: int, number: int) -> str:
    return f"p2mass-atlas-ID{job:07d}s-{number}.fits"


def use(name: str, link: str, size_bytes: int) -> str:
    return (
        f'    <uses file="{name}" link="{link}" register="true" transfer="true" '
        f'optional="false" type="data" size="{size_bytes}"/>\n'
    )


def bare_loop(path: Path) -> int:
    """Count the elements, and keep nothing."""
    count = 0
    for _, element in etree.iterparse(str(path)):
        count += 1
        element.clear()
    return count


def seconds(what: Callable[[Path], object], path: Path) -> float:
    start = time.process_time()
    result = what(path)
    elapsed = time.process_time() - start
    del result
    return elapsed


def memory_kb(path: Path) -> int:
    command = [sys.executable, "-c", MEASURE_MEMORY, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--jobs", type=int, default=100_000)
    options.add_argument("--runs", type=int, default=5)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bench.dax"
        write_document(path, chosen.jobs)
        size_mb = path.stat().st_size / 1e6
        pairs = [
            (seconds(bare_loop, path), seconds(read_workflow, path)) for _ in range(chosen.runs)
        ]
        per_job_kb = memory_kb(path) / chosen.jobs
    bare, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(mine / base for base, mine in pairs)
    table = Table(title=f"Reading a DAX of {chosen.jobs:,} jobs, {size_mb:.0f} MB")
    for heading in ("", "measured", "goal"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_row("bare lxml.iterparse loop", f"{bare:.2f} s", "")
    table.add_row("into the model", f"{ours:.2f} s", "")
    table.add_row("ratio", f"{ratio:.2f}", f"<= {TIME_GOAL}")
    table.add_row("peak memory a job", f"{per_job_kb:.2f} kB", f"<= {MEMORY_GOAL_KB} kB")
    Console().print(table)


if __name__ == "__main__":
    main()
