"""Compares waits that the methods of thesis section 7.3 predict with those of real queues.

Users submit bursts of similar jobs, scaled in time, which one engine sends by MPL to two Slurm
clusters and Grid Engine. Each wait is predicted at the submission, from the earlier jobs of its
queue: by the models of queues of `wfrun predict` and by bounds from past waits. The rounds are one
history. The wait begins when wfrun has what the job needs, and ends with its start.

On this machine: root and the packages of docs/testbed.md. --keep keeps the log of each round, and
such logs after the options are measured without a run:

    python bench/testbed_waits.py [--rounds 6] [--jobs 300] [--load 0.9] [--keep FOLDER]
    python bench/testbed_waits.py FOLDER/*.gwf
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

# A script sees its own folder alone.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.shared.on_testbed import SLOTS, WFRUN, write_sites
from tests.testbed.fixture import bring_up_free
from tests.testbed.testbed import Testbed
from wfrun.engine.prediction.job import Job
from wfrun.engine.prediction.waits.accuracy import WaitAccuracy, judge, judged_waits
from wfrun.engine.prediction.waits.bursts import in_bursts
from wfrun.engine.prediction.waits.predictor import WAIT_PREDICTORS, Cluster, WaitPredictor
from wfrun.engine.prediction.waits.replay import recorded_events, replay_waits
from wfrun.engine.queues import JobId
from wfrun.parsers.generate.grid_log import GridLogModel, generate_grid_log
from wfrun.parsers.logs import LoggedJob, read_gwf, scale_load
from wfrun.runners.forecast.wait_accuracy import TRAINING, recorded_jobs

SCALE = 0.01
"""Of the generated log, whose jobs run for hours."""
MODEL = GridLogModel(
    jobs=0, span_s=40_000.0, mean_runtime_s=1_200.0, sigma=1.2, spread=0.3, longest_s=6_000.0,
    users=12, parallel=0.3, burst_median=4.0, burst_sigma=1.0, largest_burst=40, gap_s=20.0,
)  # fmt: skip
MOST_CORES = 4
QUEUES = ("fcfs", "easy")
"""Models of the queues: that of the thesis, and that of `wfrun plan`."""
POINTS = ("point", "point-corrected")
BOUNDS = ("bmbp", "chebyshev")
PAUSE_S = 60.0
"""Between two rounds in the history."""


class QueueWaits(NamedTuple):
    """Of one queue, in seconds."""

    waits_s: list[float]
    """Ascending."""
    starts_s: dict[str, float]
    """By predictor, the time that the batch system takes to start a job."""
    accuracies: dict[str, WaitAccuracy]


class WithStart:
    """A point-valued prediction, and the time that a batch system takes to start a job."""

    def __init__(self, inner: WaitPredictor) -> None:
        self._inner = inner
        self._idle: dict[JobId, float] = {}
        """Submission times of waiting jobs of which no wait was predicted."""
        self._starts_s: list[float] = []

    @property
    def start_s(self) -> float:
        """The median wait of the jobs of which no wait was predicted; 0 before the first."""
        return statistics.median(self._starts_s) if self._starts_s else 0.0

    def on_submitted(self, key: JobId, job: Job, requested_s: float, now_s: float) -> float | None:
        wait_s = self._inner.on_submitted(key, job, requested_s, now_s)
        if wait_s == 0.0:
            self._idle[key] = now_s
        return None if wait_s is None else wait_s + self.start_s

    def on_started(self, key: JobId, now_s: float) -> None:
        if key in self._idle:
            self._starts_s.append(now_s - self._idle.pop(key))
        self._inner.on_started(key, now_s)

    def on_ended(self, key: JobId, now_s: float) -> None:
        self._inner.on_ended(key, now_s)


def log(jobs: int, load: float, seed: int) -> str:
    """A log in SWF of bursts that use this share of the clusters while they arrive."""
    random = Random(f"estimates/{seed}")
    drawn = generate_grid_log(msgspec.structs.replace(MODEL, jobs=jobs), seed)
    narrow = [_narrow(job) for job in drawn]
    lines = ["; Version: 2.2"]
    for job in scale_load(narrow, load, sum(SLOTS.values())):
        run_s = job.runtime_s or 0.0
        size, at, run = job.size, round(job.submit_s), round(run_s)
        asked = round(run_s * random.uniform(2, 5))
        lines.append(
            f"{job.id} {at} 0 {run} {size} -1 -1 {size} {asked} -1 1 {job.user} 1 "
            f"{job.application} 1 -1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def _narrow(job: LoggedJob) -> LoggedJob:
    size = min(MOST_CORES, job.size or 1)
    return msgspec.structs.replace(
        job, processors=size, requested_processors=size, runtime_s=max(100.0, job.runtime_s or 0.0)
    )


def run(testbed: Testbed, text: str, kept: Path) -> None:
    """Run the log at the clusters, and keep what happened as a log."""
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
        folder = Path(place)
        (folder / "log.swf").write_text(text)
        write_sites(testbed, folder)
        argv = [sys.executable, "-c", WFRUN, "jobs", "log.swf", "--sites", "sites.yaml", "-q",
                "--emulate", "--arrivals", "--time-scale", str(SCALE), "--allocate", "mpl",
                "--run-dir", "run"]  # fmt: skip
        subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=900)
        argv = [sys.executable, "-c", WFRUN, "export", "run", "--format", "trace", "-o", str(kept)]
        subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=100)


def one_history(logs: Iterable[Path]) -> list[LoggedJob]:
    """The jobs of the logs, one log after the other."""
    found: list[LoggedJob] = []
    begin_s = 0.0
    for path in logs:
        jobs = [
            msgspec.structs.replace(job, submit_s=begin_s + job.submit_s)
            for job in read_gwf(path).jobs
            if job.wait_s is not None and job.runtime_s
        ]
        found += jobs
        ends_s = (job.submit_s + (job.wait_s or 0.0) + (job.runtime_s or 0.0) for job in jobs)
        begin_s = PAUSE_S + max(ends_s)
    return found


def measure(jobs: Sequence[LoggedJob], site: str) -> QueueWaits:
    """Predict the waits of one queue."""
    own = [job for job in jobs if job.grid and job.grid.run_site == site]
    # Emulated jobs ask for no time.
    replayed = [job._replace(requested_s=inf) for job in recorded_jobs(own, site)]
    predictors: dict[str, WaitPredictor] = {
        name: WAIT_PREDICTORS[name].make(Cluster(SLOTS[site], "")) for name in BOUNDS
    }
    for lrm in QUEUES:
        for name in POINTS:
            cluster = Cluster(SLOTS[site], lrm)
            predictors[f"{name}, {lrm}"] = WAIT_PREDICTORS[name].make(cluster)
        with_start = WithStart(WAIT_PREDICTORS[POINTS[0]].make(cluster))
        predictors[f"{POINTS[0]} + start, {lrm}"] = with_start
    replay = replay_waits(replayed, recorded_events(replayed), predictors)
    # Bursts are those of five minutes of the log before it was scaled.
    bursts = in_bursts([job.submit_s / SCALE for job in replayed])
    first = int(TRAINING * len(replayed))
    found = {
        name: judge(judged_waits(replay.waits_s, predicted_s, bursts, first))
        for name, predicted_s in replay.predicted_s.items()
    }
    starts_s = {n: one.start_s for n, one in predictors.items() if isinstance(one, WithStart)}
    return QueueWaits(sorted(replay.waits_s), starts_s, found)


def main() -> int:
    """Print a line for each predictor at each queue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("logs", type=Path, nargs="*")
    asked = parser.parse_args()
    if asked.logs:
        report(asked.logs)
        return 0
    with tempfile.TemporaryDirectory(prefix="wfrun-bench-") as place:
        kept = Path(place) if asked.keep is None else asked.keep.absolute()
        kept.mkdir(exist_ok=True)
        paths = [kept / f"round-{seed}.gwf" for seed in range(asked.rounds)]
        testbed = bring_up_free()
        try:
            for seed, path in enumerate(paths):
                run(testbed, log(asked.jobs, asked.load, seed), path)
                print(f"round {seed} done", flush=True)
        finally:
            testbed.down()
        report(paths)
    return 0


def report(logs: Sequence[Path]) -> None:
    """Print the accuracy of all predictors."""
    jobs = one_history(logs)
    for site in SLOTS:
        waits_s, starts_s, found = measure(jobs, site)
        print(
            f"{site}: {len(waits_s)} jobs, wait: mean {statistics.mean(waits_s):.1f} s, "
            f"median {statistics.median(waits_s):.1f} s, "
            f"95% {waits_s[int(0.95 * len(waits_s))]:.1f} s; start: "
            + ", ".join(f"{start_s:.1f} s" for start_s in starts_s.values())
        )
        for name, one in found.items():
            print(
                f"  {name:20} accuracy {_number(one.accuracy)}  error {_number(one.error_s)} s  "
                f"under {_share(one.under)}  over {_share(one.over)}  within: in bursts "
                f"({_share(one.in_bursts)}) {_share(one.within_in_bursts)}, outside "
                f"{_share(one.within_outside)}  of {one.jobs}"
            )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


if __name__ == "__main__":
    sys.exit(main())
