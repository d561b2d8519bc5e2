"""The experiments of thesis section 6.4: their cases, and the measures of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import fsum
from pathlib import Path
from random import Random

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.runners.metrics.workflows import critical_path_s
from wfrun.runners.simulate.brokers import BrokerRun, BrokerWorld, simulate_brokers
from wfrun.sites.simulated.head_node import HeadModel
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.studies.brokers import paper
from wfrun.studies.workflows.das3 import das3
from wfrun.studies.workflows.experiments import document_of, workflow_of

SUBMISSION = "delft"
"""Section 6.4.2: the cluster that is both the submission site and one of the execution sites."""

FEW = ("vrije", "amsterdam", "delft")
"""The three clusters of the experiments with throttling. The text does not name them. We take
Delft, which Figure 6.8 shows, and the first two of Table 1.2."""

MODEL = SiteModel(start_s=4.8)
"""Grid Engine takes 4.8 s to start a job. This is the mean queue wait (QWT) of the small workflows
in Table 6.6 of the thesis: their jobs find idle processors."""

HEAD = HeadModel(submit_s=1.2, copy_s=1.2)
"""Seconds that a head node works for a submission and for a copy. Fitted, since the thesis gives no
costs: see the page."""

GIGABIT = 125e6
"""Bandwidth of all links in bytes per second: all traffic with Delft is over Gigabit Ethernet
(section 2.4.1). The rates of Table 2.1, down to 10 MB/s, cannot be those of this experiment: at
them the outputs of five CyberShake-30 with Cluster Minimization, 5.8 GB that return from one
cluster to Delft, would take longer than the makespan of 330 s."""

STATUS_S = 10.0
"""Interval in seconds at which the information service reports loads. The thesis does not state it;
the page shows other intervals."""

APART_S = 1.0
"""Seconds between the starts of two brokers, as if five programs were started by hand or by a
script."""

FASTEST = 1.25
"""Speed of the fastest processor (section 6.3.1). Makespan and NSL of Tables 6.6 and 6.7 imply
critical paths that are shorter by this factor than those of the documents."""

CHANGES: Mapping[str, str] = {
    "free-heads": "head nodes that cost nothing",
    "links": "links of Table 2.1",
    "equal-load": "other users hold 35% of each cluster",
    "no-return": "outputs stay where they are made",
    "status-1": "status every second",
    "status-60": "status every minute",
    "speeds": "tasks as fast as the processors, not waiting for a fixed time",
}
"""Titles of the changes, by name. Each is tested alone, with five CyberShake-1000."""

_STATUS_S: Mapping[str | None, float] = {"status-1": 1.0, "status-60": 60.0}

POINTS = 101
BINS = 60
_FOREVER_S = 1e6


class BrokersCase(msgspec.Struct, frozen=True):
    """One simulated run."""

    experiment: str
    """``tables``, ``throttle`` or ``change``."""
    family: str
    size: int
    instances: int
    policy: str
    throttle: int | None
    clusters: int
    change: str | None
    """A key of CHANGES; None if nothing is changed."""
    repetition: int
    origin: str
    """``generated`` or ``corpus``: the origin of the workflow."""


class BrokersOutcome(BrokersCase, frozen=True):
    """The metrics of section 6.2.4; means are over all tasks of all instances."""

    makespan_s: float
    """Makespan; for several instances, the total makespan."""
    nsl: float
    qwt_s: float
    """Mean wait in the queue of the cluster, after the submission."""
    head_s: float
    """Mean wait for the submission by the head node."""
    ftd_s: float
    """Mean file transfer delay, without the delay of its initiation."""
    nft: float
    """Transfers between clusters per workflow, without the return of outputs."""
    load: float
    """Mean load of the head node of SUBMISSION; 1 is 100%."""
    waits_s: tuple[float, ...]
    """Percentiles 0 to 100 of the queue wait."""
    loads: tuple[float, ...]
    """Mean load of the head node of SUBMISSION in each of BINS equal parts of the run."""

    @property
    def median_qwt_s(self) -> float:
        """The median of the queue wait."""
        return self.waits_s[POINTS // 2]

    @property
    def late_share(self) -> float:
        """Share of tasks that wait longer than LATE_S in a queue."""
        return sum(wait > paper.LATE_S for wait in self.waits_s) / POINTS


QUICK = 2
FULL = 12
"""Number of repetitions, each with another background and other random choices."""


def cases(repetitions: int, corpus: Path | None = None) -> list[BrokersCase]:
    """All simulated runs, in an order in which all experiments progress evenly."""
    made = [case for r in range(repetitions) for case in (*_tables(r), *_throttle(r), *_changes(r))]
    return [
        msgspec.structs.replace(
            case,
            origin="corpus" if corpus and document_of(corpus, case.family, case.size) else
            "generated",
        )
        for case in made
    ]  # fmt: skip


def _case(workflow: tuple[str, int], instances: int, policy: str, repetition: int) -> BrokersCase:
    return BrokersCase(
        "tables", *workflow, instances, policy, None, 5, None, repetition, "generated"
    )


def _tables(repetition: int) -> Iterator[BrokersCase]:
    """The cases of Tables 6.6 and 6.7, and those of Inspiral-100, which the numbers of Montage-100
    fit."""
    for instances in (1, paper.INSTANCES):
        for workflow in WORKFLOWS:
            for policy in paper.POLICIES:
                yield _case(workflow, instances, policy, repetition)


def _throttle(repetition: int) -> Iterator[BrokersCase]:
    """The cases of Figure 6.8."""
    for policy in paper.POLICIES:
        for limit in (*paper.LIMITS, None):
            case = _case(paper.CYBERSHAKE_1000, paper.INSTANCES, policy, repetition)
            yield msgspec.structs.replace(
                case, experiment="throttle", throttle=limit, clusters=len(FEW)
            )


def _changes(repetition: int) -> Iterator[BrokersCase]:
    for change in CHANGES:
        for policy in paper.POLICIES:
            case = _case(paper.CYBERSHAKE_1000, paper.INSTANCES, policy, repetition)
            yield msgspec.structs.replace(case, experiment="change", change=change)


WORKFLOWS = (
    paper.CYBERSHAKE_30,
    paper.MONTAGE_100,
    paper.INSPIRAL_100,
    paper.CYBERSHAKE_1000,
)


# One run


def run_case(case: BrokersCase, corpus: Path | None) -> BrokersOutcome:
    """Simulate one case and measure it, from the logs of its brokers."""
    document = None
    if case.origin == "corpus" and corpus is not None:
        document = document_of(corpus, case.family, case.size)
    workflow = workflow_of(case.family, case.size, case.repetition, document)
    settings = ev.Settings(
        policy=case.policy, throttle=case.throttle or "none", seed=case.repetition
    )
    run = simulate_brokers([workflow] * case.instances, world_of(case), settings)
    return _outcome(case, workflow, run)


def world_of(case: BrokersCase) -> BrokerWorld:
    """The clusters with their other users, and the behaviour of head nodes and brokers."""
    catalog = das3()
    if case.change != "links":
        catalog = _gigabit(catalog)
    if case.clusters == len(FEW):
        catalog = _some(catalog, FEW)
    return BrokerWorld(
        catalog,
        SUBMISSION,
        model=MODEL,
        head=HeadModel() if case.change == "free-heads" else HEAD,
        background={site.name: _others(site, _share(site, case)) for site in catalog.sites},
        status_s=_STATUS_S.get(case.change, STATUS_S),
        apart_s=APART_S,
        returns=case.change != "no-return",
        own_speed=case.change == "speeds",
    )


def _gigabit(catalog: Catalog) -> Catalog:
    replace = msgspec.structs.replace
    links = tuple(replace(link, bandwidth_bytes_per_s=GIGABIT) for link in catalog.links)
    return replace(catalog, links=links)


def _some(catalog: Catalog, names: Sequence[str]) -> Catalog:
    sites = tuple(site for site in catalog.sites if site.name in names)
    links = tuple(
        link for link in catalog.links if link.source in names and link.destination in names
    )
    return msgspec.structs.replace(catalog, sites=sites, links=links)


def _share(site: SiteSpec, case: BrokersCase) -> float:
    """Share of a cluster that other users hold: between 30% and 40% (section 6.2.3)."""
    if case.change == "equal-load":
        return 0.35
    return Random(f"others/{case.repetition}/{site.name}").uniform(0.3, 0.4)


def _others(site: SiteSpec, share: float) -> list[SimulatedJob]:
    """Jobs that permanently hold the share ``share`` of a cluster."""
    return [SimulatedJob(0.0, _FOREVER_S, 1, _FOREVER_S)] * round(site.slots * share)


def _outcome(case: BrokersCase, workflow: Workflow, run: BrokerRun) -> BrokersOutcome:
    runtimes_s = [task.runtime_s or 0.0 for task in workflow.tasks]
    path_s = critical_path_s(workflow, runtimes_s) / FASTEST
    begun_s = min(log[0].at_s for log in run.logs)
    ended_s = max(log[-1].at_s for log in run.logs)
    heads_s, waits_s = _waits(run)
    moves_s = [
        event.elapsed_s
        for log in run.logs
        for event in log
        if isinstance(event, ev.TransferEnded) and event.source >= 0 and event.destination >= 0
    ]
    makespan_s = ended_s - begun_s
    loads = binned(run.loads[SUBMISSION], begun_s, ended_s)
    return BrokersOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=makespan_s,
        nsl=makespan_s / path_s,
        qwt_s=fsum(waits_s) / len(waits_s),
        head_s=fsum(heads_s) / len(heads_s),
        ftd_s=fsum(moves_s) / len(waits_s),
        nft=len(moves_s) / case.instances,
        load=fsum(loads) / BINS,
        waits_s=percentiles(waits_s),
        loads=loads,
    )


def _waits(run: BrokerRun) -> tuple[list[float], list[float]]:
    """Two lists with an entry for each task: the wait for its submission once its inputs are at the
    cluster, and the wait in the queue."""
    heads_s, waits_s = [], []
    submitted_s: dict[str, float] = {}
    for event in (event for log in run.logs for event in log):
        if isinstance(event, ev.AttemptsSubmitted):
            submitted_s.update(dict.fromkeys(event.keys, event.at_s))
        elif isinstance(event, ev.AttemptStarted):
            waits_s.append(event.at_s - submitted_s[event.key])
            heads_s.append(submitted_s[event.key] - run.ready_s[event.key])
    return heads_s, waits_s


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Percentiles 0 to 100."""
    ordered = sorted(values)
    return tuple(round(ordered[round(p / 100 * (len(ordered) - 1))], 2) for p in range(POINTS))


def binned(
    loads: Sequence[tuple[float, float]], begun_s: float, ended_s: float
) -> tuple[float, ...]:
    """Mean load in each of BINS equal parts of the run. ``loads`` has (start in seconds, load) of
    each step."""
    width_s = (ended_s - begun_s) / BINS
    sums = [0.0] * BINS
    points = [*loads, (ended_s, 0.0)]
    for (from_s, load), (until_s, _) in pairwise(points):
        first, last = ((at_s - begun_s) / width_s for at_s in (from_s, until_s))
        for number in range(max(0, int(first)), min(BINS, int(last) + 1)):
            sums[number] += load * max(0.0, min(last, number + 1) - max(first, number))
    return tuple(round(value, 3) for value in sums)
