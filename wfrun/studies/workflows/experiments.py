"""The experiments of thesis section 6.3: the simulated runs and their metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import fsum
from pathlib import Path

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.model import File, Workflow
from wfrun.parsers.generate import generate
from wfrun.parsers.read import read_workflow
from wfrun.runners.metrics.log import RunTimings, run_timings
from wfrun.runners.metrics.workflows import total_makespan_s
from wfrun.runners.simulate.simulation import Platform, check_runtimes, simulate
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob
from wfrun.studies.workflows import paper
from wfrun.studies.workflows.background import WARM_UP_S, Load, background
from wfrun.studies.workflows.das3 import das3

MODEL = SiteModel(lrm="fcfs", observe_s=1.0)
"""All LRMs are FCFS (section 6.2.1). We assume that the monitoring service reports every second."""


OPTIONS = {policy: {"ties": "catalog"} for policy in (paper.FILE_AWARE, paper.COARSENING)}
"""Options of policies: ties go to the first cluster of the catalog. In the thesis each workflow has
a broker of its own (section 6.1.2). A broker does not know yet where the brokers of workflows
submitted at the same time place tasks, so all of them begin in the same cluster."""


class CaseSetup(msgspec.Struct, frozen=True):
    """The setting in which a case is simulated; by default that of the thesis."""

    model: SiteModel = MODEL
    load: Load = Load()
    options: tuple[tuple[str, str], ...] = ()
    """Options of the policy. If given, they replace OPTIONS."""


class WorkflowsCase(msgspec.Struct, frozen=True):
    """One simulated run."""

    experiment: str
    """``single``; ``multi``; or ``places``, in which nodes run several tasks at a time."""
    workload: str
    """A workload of Table 6.2; in the experiment ``multi`` a name such as ``5 x CS-100``."""
    family: str
    size: int
    instances: int
    policy: str
    throttle: int | None
    loaded: bool
    """Whether there is background load."""
    places: int
    """Number of tasks that a node runs at a time."""
    repetition: int
    origin: str
    """``generated`` or ``corpus``: the origin of the workflow."""


class WorkflowsOutcome(WorkflowsCase, frozen=True):
    """The metrics of section 6.2.4. They are means over the workflows of the run."""

    makespan_s: float
    """Makespan in seconds; for several instances, the total makespan."""
    nsl: float
    held_s: float
    qwt_s: float
    ftd_s: float
    nft: float
    once_s: float
    """Mean file transfer delay of a task in seconds, when each transfer is charged to only one of
    the tasks that need the file; see the page."""
    main_share: float
    """Share of a workflow's tasks that ran in the cluster that ran most of them."""


class WorkflowsScale(msgspec.Struct, frozen=True):
    """Numbers of repetitions. Repetitions differ in the generated workflows, the background load
    and all random choices. A workflow from a document is the same in all repetitions."""

    idle: int
    """Repetitions without background load."""
    loaded: int
    """Repetitions with background load."""


QUICK = WorkflowsScale(idle=5, loaded=12)
FULL = WorkflowsScale(idle=100, loaded=100)


def cases(scale: WorkflowsScale, origins: Sequence[tuple[str, int]] = ()) -> list[WorkflowsCase]:
    """All simulated runs of the study, ordered such that all experiments progress evenly.
    ``origins`` are the (family, size) of the workflows that the corpus has."""
    made = [*_single(scale), *_throttled(scale), *_multi(scale), *_places(scale)]
    replace = msgspec.structs.replace
    known = frozenset(origins)
    return sorted(
        (replace(c, origin="corpus") if (c.family, c.size) in known else c for c in made),
        key=lambda c: (c.repetition, -c.instances * c.size),
    )


def _single(scale: WorkflowsScale) -> Iterator[WorkflowsCase]:
    """The runs of Figure 6.3 and Table 6.3. Coarsening runs only on large workflows, HEFT-P only
    with background load."""
    for workload in paper.WORKLOADS:
        for loaded in (False, True):
            for policy in paper.TABLE_6_3[workload, loaded]:
                yield from _workload(workload, policy, None, scale, loaded=loaded)


def _throttled(scale: WorkflowsScale) -> Iterator[WorkflowsCase]:
    """The runs of Figure 6.5 and Table 6.4 with a throttle. Those without one are in
    ``_single``."""
    for policy, workload, loaded in paper.TABLE_6_4:
        for limit in paper.LIMITS:
            yield from _workload(workload, policy, limit, scale, loaded=loaded)


def _workload(
    workload: str, policy: str, throttle: int | None, scale: WorkflowsScale, *, loaded: bool
) -> Iterator[WorkflowsCase]:
    for family, size in paper.WORKLOADS[workload]:
        for repetition in range(scale.loaded if loaded else scale.idle):
            yield WorkflowsCase(
                experiment="single",
                workload=workload,
                family=family,
                size=size,
                instances=1,
                policy=policy,
                throttle=throttle,
                loaded=loaded,
                places=1,
                repetition=repetition,
                origin="generated",
            )


def _multi(scale: WorkflowsScale) -> Iterator[WorkflowsCase]:
    """The runs of Figure 6.6 and Table 6.5, without background load (section 6.2.3)."""
    for family, size, instances in paper.MULTI:
        for policy, throttled in paper.MULTI_VARIANTS:
            for repetition in range(scale.idle):
                yield WorkflowsCase(
                    experiment="multi",
                    workload=multi_name(size, instances),
                    family=family,
                    size=size,
                    instances=instances,
                    policy=policy,
                    throttle=paper.MULTI_LIMITS[size] if throttled else None,
                    loaded=False,
                    places=1,
                    repetition=repetition,
                    origin="generated",
                )


def multi_name(size: int, instances: int) -> str:
    """The name of the workload of several CyberShake workflows, such as ``5 x CS-100``."""
    return f"{instances} x CS-{size}"


def _places(scale: WorkflowsScale) -> Iterator[WorkflowsCase]:
    """Runs of Single Cluster with nodes that run two or four tasks at a time."""
    for workload in ("wf-large1", "wf-large2"):
        for case in _workload(workload, paper.SINGLE, None, scale, loaded=False):
            for places in (2, 4):
                yield msgspec.structs.replace(case, experiment="places", places=places)


# Workflows


_DOCUMENTS = {"cybershake": "CyberShake", "montage": "Montage", "inspiral": "Inspiral",
              "sipht": "Sipht"}  # fmt: skip


def document_of(corpus: Path, family: str, size: int) -> Path | None:
    """The document of a workflow in ``corpus`` or a folder below it; None if there is none. Its
    file name is that of the workflow generator which the thesis uses (its reference 19), such as
    ``CyberShake_30.xml``."""
    name = f"{_DOCUMENTS[family]}_{size}.xml"
    return next(iter(sorted(corpus.rglob(name))), None)


@lru_cache(maxsize=24)
def workflow_of(family: str, size: int, seed: int, document: Path | None) -> Workflow:
    """A workflow as the thesis models it: read from ``document``, or generated if that is None.

    In section 6.1.1 a task passes one file to all its successors. Therefore the outputs of a task
    become one file of their total size. Inputs that no task writes are dropped, since they cost
    nothing. Raises InvalidError for a document that cannot be read or has no run times.
    """
    if document is None:
        return one_file_per_task(generate(family, size, seed))
    workflow = read_workflow(document, emulate=True)
    check_runtimes(workflow)
    return one_file_per_task(workflow)


def one_file_per_task(workflow: Workflow) -> Workflow:
    """The workflow with all outputs of a task joined into one file, and without initial inputs."""
    replace = msgspec.structs.replace
    files: list[File] = []
    merged: dict[int, int] = {}
    outputs: list[tuple[int, ...]] = []
    for task in workflow.tasks:
        if not task.outputs:
            outputs.append(())
            continue
        size_bytes = sum(workflow.files[f].size_bytes or 0 for f in task.outputs)
        merged.update(dict.fromkeys(task.outputs, len(files)))
        outputs.append((len(files),))
        files.append(replace(workflow.files[task.outputs[0]], size_bytes=size_bytes))
    tasks = [
        replace(
            task,
            inputs=tuple(dict.fromkeys(merged[f] for f in task.inputs if f in merged)),
            outputs=made,
        )
        for task, made in zip(workflow.tasks, outputs, strict=True)
    ]
    return replace(workflow, tasks=tasks, files=files)


# One run


class _Events:
    """The log of a run, in memory."""

    def __init__(self) -> None:
        self.events: list[ev.Event] = []

    def append(self, events: Sequence[ev.Event]) -> None:
        self.events += events

    def commit(self) -> None:
        """Do nothing: the log is in memory only."""


@lru_cache(maxsize=2)  # cases are in the order of the repetitions
def _background(seed: int, places: int, load: Load) -> Mapping[str, Sequence[SimulatedJob]]:
    return background(das3(places).sites, seed, load)


def run_case(
    case: WorkflowsCase, corpus: Path | None, setup: CaseSetup | None = None
) -> WorkflowsOutcome:
    """Simulate one case, and measure the run from its log."""
    setup = setup or CaseSetup()
    workflow = documented_workflow(case, corpus)
    catalog = das3(case.places)
    world = Platform(
        catalog=catalog,
        model=setup.model,
        sharing="serial",
        background=_background(case.repetition, case.places, setup.load) if case.loaded else {},
        start_s=WARM_UP_S if case.loaded else 0.0,
    )
    settings = ev.Settings(
        policy=case.policy,
        policy_options=dict(setup.options) or OPTIONS.get(case.policy, {}),
        throttle=case.throttle or "none",
        seed=case.repetition,
    )
    log = _Events()
    workflows = [workflow] * case.instances
    simulate(workflows, world, settings, log=log, arrivals_s=[0.0] * len(workflows))
    timings = run_timings(log.events, {str(i): w for i, w in enumerate(workflows)})
    return outcome_of(case, timings, log.events)


def documented_workflow(case: WorkflowsCase, corpus: Path | None) -> Workflow:
    """The workflow of a case, from its document or generated."""
    document = None
    if case.origin == "corpus" and corpus is not None:
        document = document_of(corpus, case.family, case.size)
    return workflow_of(case.family, case.size, case.repetition, document)


def outcome_of(
    case: WorkflowsCase, timings: RunTimings, events: Sequence[ev.Event]
) -> WorkflowsOutcome:
    """The metrics of a run, from its log."""
    metrics = timings.workflow_metrics()
    makespan_s = total_makespan_s(timings.workflows)
    assert makespan_s is not None  # nothing fails in this world
    moving_s = fsum(
        event.elapsed_s
        for event in events
        if isinstance(event, ev.TransferEnded) and event.source >= 0 and event.destination >= 0
    )
    return WorkflowsOutcome(
        **msgspec.structs.asdict(case),
        makespan_s=makespan_s,
        nsl=_mean([w.nsl or 0.0 for w in timings.workflows]),
        held_s=_mean([m.held_s or 0.0 for m in metrics]),
        qwt_s=_mean([m.queue_wait_s or 0.0 for m in metrics]),
        ftd_s=_mean([m.staging_s or 0.0 for m in metrics]),
        nft=_mean([float(m.transfers) for m in metrics]),
        once_s=moving_s / len(timings.tasks),
        main_share=_main_share(timings),
    )


def _main_share(timings: RunTimings) -> float:
    """Share of a workflow's tasks that ran in its main cluster, the one that ran most of them; mean
    over the workflows."""
    counts = [[0] * len(timings.sites) for _ in timings.workflows]
    for task in timings.tasks:
        counts[task.workflow][task.site] += 1
    return _mean([max(count) / sum(count) for count in counts])


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)
