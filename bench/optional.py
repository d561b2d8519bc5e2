"""Measures Table 2 and Figure 9 of DIET-ethic (INRIA RR-7959, section 5.2) for real: 100 owners
with optional tasks on 138 slots of this machine.

    python bench/optional.py [--full | --quick] [--peer] [--csv FILE]

The slots are two local sites of 69, each with one launcher; all bags are there when the run
begins, with 3 mandatory tasks and at most 10,000. Tasks are ``sleep``, so that the processor time
is what wfrun and process creation cost.

--full has the paper's times, tasks of 1 s and a deadline of 100 s: 138 tasks a second. By default
tasks take 4 s and the deadline is 200 s, 34 tasks a second, so that two cores that do other work as
well suffice; less than 5 minutes. --quick: 10 owners on 12 slots for 20 s; does it work?

--peer starts the same tasks with `xargs` first, as long as until the deadline: what this machine
completes beside its other work, with neither owners nor a record of what has ended.

Printed are unhappy owners, unfairness and completed tasks as `wfrun results --owners` has them,
beside the paper's, and the processor time of engine and launchers in the phases of Figure 9.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script sees its own folder alone

from wfrun.studies.optional import paper  # noqa: E402

WFRUN = [sys.executable, "-c",
         "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"]  # fmt: skip
DOCUMENT = """\
bag: bag-{number}
owner: owner-{number}
command: sleep {task_s:g}
parameters: {{n: {{range: [1, {most}]}}}}
estimate: {task_s:g}
optional: {{min: {least}, max: {most}, deadline: {deadline_s:g} s}}
"""


@dataclass(frozen=True)
class Size:
    """What is run."""

    owners: int = paper.LARGE_CLIENTS
    slots: int = paper.LARGE_SERVERS
    task_s: float = 4.0
    deadline_s: float = 200.0

    @property
    def possible(self) -> int:
        """Number of tasks that all slots could complete."""
        return int(self.slots * self.deadline_s / self.task_s)


DEFAULT, FULL, QUICK = Size(), Size(task_s=1.0, deadline_s=100.0), Size(10, 12, 0.2, 20.0)


@dataclass
class ProcessorTime:
    """Processor seconds of the engine, and of the launchers with their ended tasks, by time."""

    engine: list[tuple[float, float]] = field(default_factory=list)
    launchers: list[tuple[float, float]] = field(default_factory=list)
    _by_pid: dict[int, float] = field(default_factory=dict)
    """Of each launcher, also after its end."""

    def sample(self, at_s: float, engine: int, scratch: Path) -> None:
        """Take a sample."""
        self.engine.append((at_s, _used_s(engine, with_children=False)))
        for pid in _launchers(scratch):
            used_s = _used_s(pid, with_children=True)
            self._by_pid[pid] = max(used_s, self._by_pid.get(pid, 0.0))
        self.launchers.append((at_s, sum(self._by_pid.values())))


def _launchers(scratch: Path) -> list[int]:
    """The launchers of the sites in this folder, by their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(scratch / "launcher-") in words:
                found.append(int(entry.name))
    return found


def _used_s(pid: int, *, with_children: bool) -> float:
    """Processor seconds of a process, and of its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11 : 15 if with_children else 13])) / os.sysconf("SC_CLK_TCK")


def run(size: Size, scratch: Path) -> tuple[list[dict[str, str]], ProcessorTime, float]:
    """Run the bags. Returns the rows of all owners, the samples, and the time in seconds from the
    start of the engine to the first sample with launchers."""
    documents = []
    for number in range(size.owners):
        path = scratch / f"bag-{number}.yaml"
        path.write_text(
            DOCUMENT.format(
                number=number, task_s=size.task_s, most=paper.LARGE_MOST, least=paper.MANDATORY,
                deadline_s=size.deadline_s,
            )
        )  # fmt: skip
        documents.append(str(path))
    sites = scratch / "sites.yaml"
    half = size.slots // 2
    sites.write_text(
        "sites:\n"
        f"  one: {{kind: local, slots: {half}, directory: {scratch}/launcher-one}}\n"
        f"  two: {{kind: local, slots: {size.slots - half}, directory: {scratch}/launcher-two}}\n"
    )
    folder = scratch / "run"
    words = [*WFRUN, "run", *documents, "--sites", str(sites), "--selection", "ethic"]
    words += ["--policy", "fpf", "--run-dir", str(folder), "--no-history", "--quiet"]
    used, begun_s, setup_s = ProcessorTime(), time.monotonic(), 0.0
    with (scratch / "output").open("wb") as output:
        engine = subprocess.Popen(words, stdout=output, stderr=output, cwd=ROOT)
        while engine.poll() is None:
            at_s = time.monotonic() - begun_s
            used.sample(at_s, engine.pid, scratch)
            if not setup_s and used.launchers[-1][1] > 0:
                setup_s = at_s
            time.sleep(0.5)
    if engine.returncode:
        sys.exit((scratch / "output").read_text() or f"exit status {engine.returncode}")
    text = subprocess.run(
        [*WFRUN, "results", str(folder), "--owners"], cwd=ROOT, check=True, capture_output=True,
        text=True,
    ).stdout  # fmt: skip
    return list(csv.DictReader(io.StringIO(text))), used, setup_s


def completed_by_xargs(size: Size) -> int:
    """Minimum number of tasks that `xargs` completes until the deadline: those that it has started,
    which it prints, without one for each slot."""
    words = ["xargs", "--verbose", "-P", str(size.slots), "-n", "1", "sleep"]
    with tempfile.TemporaryFile() as times, tempfile.TemporaryFile() as started:
        times.write(f"{size.task_s:g}\n".encode() * (2 * size.possible))
        times.seek(0)
        peer = subprocess.Popen(words, stdin=times, stderr=started, start_new_session=True)
        time.sleep(size.deadline_s)
        os.killpg(peer.pid, signal.SIGKILL)
        peer.wait()
        started.seek(0)
        return started.read().count(b"\n") - size.slots


def share(samples: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """Share of one core in use between two times."""
    inside = [sample for sample in samples if from_s <= sample[0] <= to_s]
    if len(inside) < 2:
        return 0.0
    (first_s, before), (last_s, after) = inside[0], inside[-1]
    return (after - before) / (last_s - first_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="tasks of 1 s, a deadline of 100 s")
    which.add_argument("--quick", action="store_true", help="few tasks: does it work?")
    parser.add_argument("--peer", action="store_true", help="run the tasks with xargs first")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the samples of Figure 9")
    options = parser.parse_args()
    size = FULL if options.full else QUICK if options.quick else DEFAULT
    if options.peer:
        done = completed_by_xargs(size)
        print(f"completed by xargs{done:7} of {size.possible} ({done / size.possible:.1%}), "
              f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as folder:
        rows, used, setup_s = run(size, Path(folder))
    satisfied = [float(row["satisfaction"]) for row in rows]
    completed = sum(int(row["completed"]) for row in rows)
    print(f"{size.owners} owners, {size.slots} slots, tasks of {size.task_s:g} s, deadline "
          f"{size.deadline_s:g} s; load of this machine {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"unhappy owners    {sum(int(row['unhappy']) for row in rows):8}   paper 0")
    print(f"unfairness        {max(satisfied) - min(satisfied):8.3f}   paper 0.70")
    print(f"completed         {completed:8} of {size.possible} ({completed / size.possible:.1%})   "
          f"paper 13605 of 13800 (98.6%)")  # fmt: skip
    end_s = used.engine[-1][0]
    phases = {
        "before the tasks": (0.0, setup_s),
        "monitoring": (setup_s, setup_s + size.deadline_s),
        "after the deadline": (setup_s + size.deadline_s, end_s),
    }
    print("processor time as a share of one core: engine, launchers with their tasks")
    for name, (from_s, to_s) in phases.items():
        shares = (share(samples, from_s, to_s) for samples in (used.engine, used.launchers))
        print(f"  {name:20} {to_s - from_s:6.1f} s  " + "  ".join(f"{x:6.1%}" for x in shares))
    if options.csv is not None:
        with options.csv.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(("time_s", "engine_s", "launchers_s"))
            writer.writerows(
                (f"{at_s:.2f}", f"{one:.2f}", f"{other:.2f}")
                for (at_s, one), (_, other) in zip(used.engine, used.launchers, strict=True)
            )


if __name__ == "__main__":
    main()
