"""The experiments of thesis section 6.4, emulated for real: processes of `wfrun run` over real
clusters, each the broker of one workflow."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.errors import InfeasibleError
from wfrun.parsers.generate import generate
from wfrun.parsers.workflows.writers.write_dax import write_dax
from wfrun.runners.experiments.progress import ExperimentProgress
from wfrun.runners.experiments.tables.results import Results
from wfrun.runners.metrics.log import RunTimings, run_timings
from wfrun.runners.run.store.event_store import Store
from wfrun.studies.brokers import paper
from wfrun.studies.brokers.experiments import percentiles
from wfrun.studies.workflows.experiments import document_of
from wfrun.studies.workflows.paper import CLUSTER_MIN


class EmulatedCase(msgspec.Struct, frozen=True):
    """Brokers that start together."""

    policy: str
    throttle: int | None
    """The concurrency limit in the thesis, a key of LIMITS; None: no limit."""
    size: int
    """Number of tasks of each workflow."""
    instances: int
    """Number of workflows, each with its own broker."""
    time_scale: float
    origin: str
    """``generated`` or ``corpus``."""
    repetition: int


class EmulatedOutcome(EmulatedCase, frozen=True):
    """Measures from the logs of the brokers. Times are those of the clock, not scaled."""

    makespan_s: float
    qwt_s: float
    ftd_s: float
    nft: float
    head_cpu_s: float
    """CPU time of agents and batch commands on the head nodes of all clusters."""
    head_commands: int
    """Number of commands that the agents ran on the head nodes."""
    broker_cpu_s: float
    """CPU time of all brokers on this machine."""
    dispatched: int
    """Maximum number of tasks dispatched at the same time."""
    waits_s: tuple[float, ...]
    """Percentiles 0 to 100 of the queue wait."""

    @property
    def load(self) -> float:
        """Mean number of processors that agents and batch commands use on the head nodes of all
        clusters; 1 is 100%."""
        return self.head_cpu_s / self.makespan_s

    @property
    def median_qwt_s(self) -> float:
        """The median of the queue wait."""
        return self.waits_s[len(self.waits_s) // 2]


THROTTLED = CLUSTER_MIN
"""The policy that is also run with limits: the only one of the three that section 6.3.1
throttles."""
SIZE = 50
LIMITS: Mapping[int, int] = {25: 5, 150: 15}
"""The emulated concurrency limits, by the limits of the thesis: the smallest and the largest of its
four. A workflow here has a twentieth of the tasks, and the clusters have a fifth of the idle
processors. As in the thesis, the smaller limit keeps the tasks of five workflows at about the
number of processors. The larger limit does not, but is less than the number of tasks of a workflow
that can run at once."""
TIME_SCALE = 0.1
SIZE_SCALE = 0.001
REPETITIONS = 5
"""Number of runs of each case in the full study."""


def emulated_cases(*, quick: bool, corpus: Path | None) -> list[EmulatedCase]:
    """The cases, one repetition after another: one workflow and five workflows with each policy,
    and five workflows with THROTTLED and each limit. The quick study has one repetition of five
    workflows with THROTTLED, without a limit and with the smallest limit, and fewer and shorter
    tasks."""
    size, time_scale = (30, 0.05) if quick else (SIZE, TIME_SCALE)
    has_document = corpus is not None and document_of(corpus, "cybershake", size) is not None
    origin = "corpus" if has_document else "generated"
    limits = list(LIMITS)[: 1 if quick else None]
    settings: list[tuple[int, str, int | None]] = []
    if not quick:
        settings += [(1, policy, None) for policy in paper.POLICIES]
    policies = (THROTTLED,) if quick else paper.POLICIES
    settings += [(paper.INSTANCES, policy, None) for policy in policies]
    settings += [(paper.INSTANCES, THROTTLED, limit) for limit in limits]
    return [
        EmulatedCase(policy, limit, size, instances, time_scale, origin, repetition)
        for repetition in range(1 if quick else REPETITIONS)
        for instances, policy, limit in settings
    ]


def emulate(
    wanted: Sequence[EmulatedCase],
    sites: Path,
    folder: Path,
    *,
    corpus: Path | None,
    quiet: bool,
) -> list[EmulatedOutcome]:
    """Run the cases that ``folder``/emulated.csv lacks, one after another, on the clusters of the
    catalog ``sites``.

    Raises InfeasibleError if a broker fails. The error has the end of the broker's output.
    """
    results = Results(folder / "emulated.csv", EmulatedCase, EmulatedOutcome)
    try:
        with ExperimentProgress(quiet=quiet) as progress:
            missing = results.missing(wanted)
            for number, case in enumerate(missing):
                progress.update(len(wanted) - len(missing) + number, len(wanted))
                results.add(run_emulated(case, sites, folder / "runs", corpus))
    finally:
        results.close()
    return results.of(wanted)


def run_emulated(
    case: EmulatedCase, sites: Path, folder: Path, corpus: Path | None
) -> EmulatedOutcome:
    """Run one case, and measure it from the logs of its brokers. The brokers run in ``folder``,
    which is emptied first."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    document = document_of(corpus, "cybershake", case.size) if corpus is not None else None
    if document is None:
        document = folder / f"cybershake-{case.size}.dax"
        write_dax(generate("cybershake", case.size, case.repetition), document)
    runs = [folder / f"broker-{number}" for number in range(case.instances)]
    before_s = _children_cpu_s()
    _run_brokers([_command(case, document, sites, run) for run in runs], folder)
    broker_cpu_s = _children_cpu_s() - before_s
    return _measured(case, [_log(run) for run in runs], broker_cpu_s)


def _command(case: EmulatedCase, document: Path, sites: Path, run: Path) -> list[str]:
    limit = "none" if case.throttle is None else str(LIMITS[case.throttle])
    return [
        sys.executable, "-m", "wfrun.runners.cli.main", "run", str(document),
        "--sites", str(sites),
        "--emulate", "--at-sites", "--time-scale", str(case.time_scale),
        "--size-scale", str(SIZE_SCALE), "--policy", case.policy, "--throttle", limit,
        "--seed", str(case.repetition), "--run-dir", str(run), "--quiet",
    ]  # fmt: skip


def _run_brokers(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run the commands at the same time, a second apart. No process is left running if one cannot
    be started, fails or is interrupted."""
    logs = [folder / f"broker-{number}.log" for number in range(len(commands))]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                started.append(
                    subprocess.Popen(
                        command, stdout=output, stderr=output, stdin=subprocess.DEVNULL
                    )
                )
            time.sleep(1)
        for process, log in zip(started, logs, strict=True):
            if process.wait() != 0:
                raise InfeasibleError(
                    "a broker of the emulation has failed",
                    source=str(log),
                    hint="its output ends with: " + log.read_text(errors="replace")[-800:].strip(),
                )
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()  # it cancels its tasks at the clusters
        for process in started:
            process.wait()


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _BrokerLog(NamedTuple):
    timings: RunTimings
    counted: list[ev.SiteCounted]


def _log(run: Path) -> _BrokerLog:
    store = Store(run)
    try:
        timings = run_timings(store.load(), store.workflows())
        counted = [event for event in store.load() if isinstance(event, ev.SiteCounted)]
    finally:
        store.close()
    return _BrokerLog(timings, counted)


def _measured(
    case: EmulatedCase, brokers: Sequence[_BrokerLog], broker_cpu_s: float
) -> EmulatedOutcome:
    runs = [broker.timings for broker in brokers]
    counted = [event for broker in brokers for event in broker.counted]
    tasks = [task for run in runs for task in run.tasks if task.done]
    begun_s = min(run.started_s for run in runs)
    waits_s = [task.queue_wait_s for task in tasks]
    return EmulatedOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=max(task.end_s for task in tasks) - begun_s,
        qwt_s=fsum(waits_s) / len(tasks),
        ftd_s=fsum(task.staging_s for task in tasks) / len(tasks),
        nft=fsum(m.transfers for run in runs for m in run.workflow_metrics()) / len(runs),
        head_cpu_s=fsum(event.cpu_s for event in counted),
        head_commands=sum(sum(event.commands.values()) for event in counted),
        broker_cpu_s=broker_cpu_s,
        dispatched=_most((task.placed_s, task.end_s) for task in tasks),
        waits_s=percentiles(waits_s),
    )


def _most(spans: Iterator[tuple[float, float]]) -> int:
    """The maximum number of spans that overlap at the same time."""
    changes = sorted(change for span in spans for change in ((span[0], 1), (span[1], -1)))
    most = present = 0
    for _, change in changes:
        present += change
        most = max(most, present)
    return most
