"""Fuzzing of documents: ``make fuzz ARGS="--count 10000 --seed 1 --formats dax swf"``.

Each format has its own process. Defects are unexpected exceptions, more than `TIMEOUT_S` for a
document, too much memory, and effects outside. A defect is printed with its seed and number, and
``--number`` repeats it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.formats import FORMATS
from tests.places import ROOT

TIMEOUT_S = 10.0
"""Maximum processor time for one document, in seconds."""
START_S = 120.0
"""Maximum time for the start of a process, in seconds."""


class Defect(NamedTuple):
    """What a document did."""

    format: str
    seed: int
    number: int
    what: str

    def __str__(self) -> str:
        again = (
            f'make fuzz ARGS="--formats {self.format} --seed {self.seed} --number {self.number}"'
        )
        return f"{again}\n{self.what}\n"


class _Run:
    """One process, which is started again after a document that ended it."""

    def __init__(self, name: str, seed: int, first: int, end: int, folder: Path) -> None:
        self._name, self._seed, self._end, self._folder = name, seed, end, folder
        self._next = first
        self.defects: list[Defect] = []

    def to_the_end(self) -> list[Defect]:
        while self._next < self._end:
            self._some()
        return self.defects

    def _some(self) -> None:
        words = (self._name, self._seed, self._next, self._end, self._folder)
        with subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", *map(str, words)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            watch = _Watch(process)
            current = self._follow(process, watch)
            status = process.wait()
            watch.end()
        if self._next >= self._end and status == 0:
            return
        reason = f"over {TIMEOUT_S:g} s" if watch.late else f"its process ended with {status}"
        self._defect(current, reason)
        if current < 0:
            self._next = self._end  # it does not even start

    def _follow(self, process: subprocess.Popen[str], watch: _Watch) -> int:
        """Read what a process prints; returns the number of its last document."""
        current = -1
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found = json.loads(line)
                self._defect(found["number"], found["trace"])
            elif line.startswith("done"):
                watch.pause()
            elif line.startswith("end"):
                self._next = self._end
            else:
                current = int(line)
                self._next = current + 1
                watch.begin()
        return current

    def _defect(self, number: int, what: str) -> None:
        self.defects.append(Defect(self._name, self._seed, number, what))
        print(self.defects[-1], file=sys.stderr, flush=True)


class _Watch:
    """Kills a process that takes too much processor time for one document."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.late = False
        self._begun_s: float | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Note that a document begins."""
        self._begun_s = self._used_s()

    def pause(self) -> None:
        """Note that a document is done."""
        self._begun_s = math.inf

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            begun_s, used_s = self._begun_s, self._used_s()
            limit_s = START_S if begun_s is None else begun_s + TIMEOUT_S
            if used_s is not None and used_s > limit_s and begun_s == self._begun_s:
                self.late = True
                self._process.send_signal(signal.SIGKILL)
                return

    def _used_s(self) -> float | None:
        """Processor time of the process, which other load does not change, in seconds."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fuzz(name: str, seed: int, first: int, end: int) -> list[Defect]:
    """Examine the documents of a format with the numbers ``first`` to ``end - 1``."""
    with tempfile.TemporaryDirectory(prefix="wfrun-fuzz-") as folder:
        return _Run(name, seed, first, end, Path(folder)).to_the_end()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Fuzz the readers of documents.")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--count", type=int, default=10_000, help="documents of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, help="examine one document, and keep it")
    options = parser.parse_args()
    defects: list[Defect] = []
    for name in options.formats:
        if options.number is not None:
            from tests.fuzz.worker import document

            path = Path(f"fuzz-{options.seed}-{options.number}{FORMATS[name].suffix}")
            path.write_bytes(document(name, options.seed, options.number))
            print(f"the document is {path}")
        first = options.number or 0
        end = options.count if options.number is None else first + 1
        found = fuzz(name, options.seed, first, end)
        print(f"{name}: {end - first} documents, {len(found)} defects", flush=True)
        defects += found
    return 1 if defects else 0


if __name__ == "__main__":
    raise SystemExit(main())
