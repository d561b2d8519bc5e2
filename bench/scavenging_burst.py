"""Measures Table 4.1 of the thesis (chapter 4) on the testbed of this machine, with shorter times:
three owners scavenge two Slurm clusters and Grid Engine beside jobs of another user that come in
blocks or bursts, and the engine is killed and resumed.

    python bench/scavenging_burst.py [--policy persite] [--workload wburst] [--minutes 15]
                                     [--scale 0.25] [--kills 2] [--seed 1]

Each task appends a line to a file when it has run: after the run every line stands there once.
Needs root and the packages of docs/testbed.md.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.scavenging import quantile, use_of
from tests.integration.jobs.coallocated import LocalJob
from tests.integration.jobs.scavengers import SLOTS, Scavengers
from tests.testbed.fixture import bring_up_free
from wfrun.engine import events as ev
from wfrun.studies.scavenging import paper

NAMES = ("alpha", "beta", "gamma")
OWNERS = ("ann", "bea", "cho")
TASK_S = 5.0
CORES = 2
"""Of a launcher, and of a job of the other user."""
WINDOWS_S = {
    "wblock": (paper.BLOCK_S, paper.BLOCK_PERIOD_S),
    "wburst": (paper.BURST_S, paper.BURST_PERIOD_S),
}
"""Length and period of a window of load, in seconds."""


class OtherUser:
    """The jobs of another user, which hold a share of each cluster in each window."""

    def __init__(
        self, run: Scavengers, workload: str, scale: float, random_: random.Random
    ) -> None:
        self._run, self._random = run, random_
        self.length_s, self.period_s = (scale * each for each in WINDOWS_S[workload])
        self.jobs: list[LocalJob] = []
        self._due: list[tuple[float, str]] = []
        self._next_s = 0.25 * self.period_s

    def submit_due(self, now_s: float) -> None:
        """Submit what is due at this time of the run. A window's jobs come within its first
        quarter and last as long as it."""
        if now_s >= self._next_s:
            for name in NAMES:
                for _ in range(round(paper.LOAD * SLOTS[name] / CORES)):
                    later_s = self._random.uniform(0.0, self.length_s / 4)
                    self._due.append((self._next_s + later_s, name))
            self._due.sort()
            self._next_s += self.period_s
        while self._due and self._due[0][0] <= now_s:
            _, name = self._due.pop(0)
            self.jobs.append(self._run.local_job(name, CORES, self.length_s))


def drive(
    run: Scavengers, other: OtherUser, policy: str, seconds: float, kills: list[float]
) -> tuple[float, float]:
    """Run the sweeps to their end; returns begin and end of the time in which all are busy."""
    engine = run.start("--scavenge", policy, "--retries", "0")
    slots = sum(SLOTS.values())
    while run.running() < 0.8 * slots:
        time.sleep(1.0)
    begin_s = time.time()
    while engine.poll() is None:
        now_s = time.time() - begin_s
        if now_s < seconds:
            other.submit_due(now_s)
        elif now_s > 2 * seconds:
            raise TimeoutError(f"not done after {now_s:.0f} s")
        if kills and now_s >= kills[0]:
            print(f"engine killed after {kills.pop(0):.0f} s", file=sys.stderr)
            engine.send_signal(signal.SIGKILL)
            engine.wait()
            engine = run.start()
        time.sleep(0.2)
    run.done(engine)
    return begin_s, begin_s + seconds


def rows_of(run: Scavengers, begin_s: float, end_s: float) -> dict[str, tuple[float, int, float]]:
    """Of each owner the tasks per minute, preemptions and mean number of launchers in a time."""
    owners: dict[str, str] = {}
    started: dict[str, float] = {}
    found = {owner: [0.0, 0, 0.0] for owner in OWNERS}
    for event in run.events():
        if isinstance(event, ev.WorkflowAdded):
            owners[str(event.workflow)] = event.name
        elif isinstance(event, ev.AttemptStarted):
            started[event.key] = event.at_s
        elif isinstance(event, ev.AttemptEnded) and event.key in started:
            row = found[owners[event.key.split(".")[-3]]]
            since_s = max(begin_s, started.pop(event.key))
            row[2] += max(0.0, min(end_s, event.at_s) - since_s) / (end_s - begin_s) / CORES
            if begin_s <= event.at_s < end_s:
                row[0] += (event.outcome.cause == "done") * 60 / (end_s - begin_s)
                row[1] += event.outcome.cause == "reclaimed"
    return {owner: (row[0], int(row[1]), row[2]) for owner, row in found.items()}


def write(run: Scavengers, tasks: int, effects: Path) -> None:
    """Write the sweeps. Tasks leave a line."""
    run.write_sweeps(*NAMES, tasks=tasks, seconds=TASK_S, owners=" ".join(OWNERS),
                     narrow=" ".join(NAMES))  # fmt: skip
    effects.touch()
    effects.chmod(0o666)
    for owner in OWNERS:
        path = run.folder / f"{owner}.yaml"
        sweep = yaml.safe_load(path.read_text())
        sweep["command"] = f"sh -c 'sleep {TASK_S:g} && echo {owner} {{n}} >> {effects}'"
        path.write_text(yaml.safe_dump(sweep))


def measure(given: argparse.Namespace, console: Console) -> bool:
    """Run and print; returns whether each task has run once."""
    random_ = random.Random(given.seed)
    seconds = 60 * given.minutes
    testbed = bring_up_free()
    try:
        with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
            folder = Path(place)
            folder.chmod(0o711)
            effects = folder / "effects"
            run = Scavengers(testbed, folder)
            tasks = int(sum(SLOTS.values()) * seconds / TASK_S / len(OWNERS))
            write(run, tasks, effects)
            other = OtherUser(run, given.workload, given.scale, random_)
            kills = sorted(random_.uniform(0.1, 0.8) * seconds for _ in range(given.kills))
            begin_s, end_s = drive(run, other, given.policy, seconds, kills)
            run.close()
            run.check_done("lost")
            run.check_quiet()
            rows = rows_of(run, begin_s, end_s)
            share, used_s = use_of(run, list(NAMES), begin_s, end_s)
            waits = sorted(job.waited_s() for job in other.jobs)
            lines = Counter(effects.read_text().splitlines())
            shown = subprocess.run(
                [sys.executable, "-c", "from wfrun.runners.cli.main import main; main()", "shares",
                 "run"], cwd=folder, capture_output=True, text=True, check=True)  # fmt: skip
    finally:
        testbed.down()
    table = Table("owner", "tasks/min", "preemptions", "mean launchers", "Table 4.1")
    for (owner, (rate, preempted, held)), of_paper in zip(
        rows.items(), paper.TABLE_4_1[given.policy], strict=True
    ):
        text = f"{of_paper.throughput} tasks/min, {of_paper.preemptions}, {of_paper.nodes} nodes"
        table.add_row(owner, f"{rate:.1f}", str(preempted), f"{held:.1f}", text)
    console.print(f"{given.policy}, {given.workload}, windows of {other.length_s:g} s every "
                  f"{other.period_s:g} s, {given.kills} kills of the engine")  # fmt: skip
    console.print(table)
    console.print(
        f"{len(waits)} jobs of the other user started {quantile(waits, 0.5):.2f} s after they were "
        f"submitted (median), {quantile(waits, 0.95):.2f} s (95%), {waits[-1]:.2f} s at most"
    )
    mean_s = sum(used_s.values()) / len(used_s)
    worst = max(abs(each / mean_s - 1) for each in used_s.values())
    console.print(
        f"{share:.3f} of the idle processor time used, shares within {worst:.1%} of equal"
    )
    console.print(shown.stdout)
    doubled = [line for line, count in lines.items() if count > 1]
    console.print(f"{len(lines)} of {tasks * len(OWNERS)} tasks ran, {len(doubled)} of them twice")
    return len(lines) == tasks * len(OWNERS) and not doubled


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure owners who scavenge beside bursts.")
    parser.add_argument("--policy", choices=list(paper.TABLE_4_1), default="persite")
    parser.add_argument("--workload", choices=list(WINDOWS_S), default="wburst")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--scale", type=float, default=0.25, help="of the thesis' times")
    parser.add_argument("--kills", type=int, default=2, help="of the engine")
    parser.add_argument("--seed", type=int, default=1)
    return 0 if measure(parser.parse_args(), Console(width=110)) else 1


if __name__ == "__main__":
    sys.exit(main())
