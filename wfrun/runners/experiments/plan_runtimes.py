"""Run times of the tasks of a plan, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from wfrun.engine.capabilities.observations import in_order
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.prediction.run_times import JobClass, RunTimes
from wfrun.parsers.workflows.runtimes import with_estimate
from wfrun.runners.run.history import read_history
from wfrun.runners.run.history_file import HistoryFile
from wfrun.runners.simulate.rest import Reused


class RuntimeSources(msgspec.Struct, frozen=True):
    """Number of tasks by the source of their run time."""

    documented: int
    """Stated by the document."""
    predicted: int
    """The mean of the last two tasks of the same class in earlier runs, or of all that the run
    itself has done."""
    assumed: int
    """Given with ``--runtime``."""


def with_runtimes(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    history: HistoryFile | None,
    measured: Mapping[JobClass, float],
    assumed_s: float | None,
    reused: Reused | None = None,
) -> tuple[list[Workflow], RuntimeSources]:
    """The workflows with a run time for each task, on the reference processor: the documented one,
    else a prediction from ``measured`` ones or from earlier runs, else ``assumed_s``. Raises
    InvalidError for a task with none of them. Tasks that are done before, ``reused``, do not
    count."""
    known = {**_observed(workflows, catalog, history), **measured}
    counts = {"documented": 0, "predicted": 0, "assumed": 0}
    before = [frozenset[int]()] * len(workflows)
    if reused is not None:
        before = [frozenset(task for part in parts for task in part.tasks) for parts in reused]
    filled = [
        _filled(workflow, known, assumed_s, counts, done)
        for workflow, done in zip(workflows, before, strict=True)
    ]
    return filled, RuntimeSources(**counts)


def _observed(
    workflows: Sequence[Workflow], catalog: Catalog, history: HistoryFile | None
) -> dict[JobClass, float]:
    """Run times on the reference processor by class of tasks, at any site of the catalog."""
    if history is None:
        return {}
    run_times = RunTimes()
    speeds = {site.name: site.speed_ratio for site in catalog.sites}
    classes = set()
    for job, runtime_s in in_order(read_history(history, workflows, catalog.sites, 0.0)):
        kind = JobClass(job.owner, job.application, job.cores)
        run_times.observe(kind, job.site, runtime_s, speeds[job.site])
        classes.add(kind)
    found = {kind: run_times.predict_s(kind, "", 1.0) for kind in classes}
    return {kind: runtime_s for kind, runtime_s in found.items() if runtime_s is not None}


def _filled(
    workflow: Workflow,
    known: dict[JobClass, float],
    assumed_s: float | None,
    counts: dict[str, int],
    done: frozenset[int],
) -> Workflow:
    tasks, bag = workflow.tasks, workflow.bag
    if bag is not None:
        if bag.estimate is not None:
            counts["documented"] += len(tasks) - len(done)
            return workflow
        runtime_s, source = _unknown_s(workflow, 0, known, assumed_s)
        counts[source] += len(tasks) - len(done)
        return with_estimate(workflow, runtime_s)
    filled = []
    for index, task in enumerate(tasks):
        if task.runtime_s is not None:
            counts["documented"] += index not in done
            filled.append(task)
            continue
        if index in done:
            filled.append(replace(task, runtime_s=0.0))
            continue
        runtime_s, source = _unknown_s(workflow, index, known, assumed_s)
        counts[source] += 1
        filled.append(replace(task, runtime_s=runtime_s))
    return replace(workflow, tasks=filled)


def _unknown_s(
    workflow: Workflow, index: int, known: dict[JobClass, float], assumed_s: float | None
) -> tuple[float, str]:
    """The run time of a task whose document states none, and its source."""
    task = workflow.tasks[index]
    kind = JobClass(workflow.owner, task.name, task.resources.cores)
    if kind in known:
        return known[kind], "predicted"
    if assumed_s is not None:
        return assumed_s, "assumed"
    raise InvalidError(
        f"the run time of task {task.id!r} ({task.name}) is neither documented nor known from "
        "earlier runs",
        source=workflow.source,
        hint="assume one for all such tasks: --runtime SECONDS",
    )
