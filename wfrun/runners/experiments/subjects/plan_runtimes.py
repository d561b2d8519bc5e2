"""Run times of the tasks of a plan, and where they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from wfrun.engine.capabilities.estimates.observations import in_order
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Task, Workflow
from wfrun.engine.prediction.run_times import Details, JobClass, make_run_times
from wfrun.parsers.workflows.runtimes import with_estimate
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.runtime_history import read_history
from wfrun.runners.simulate.rest import Reused


class RuntimeSources(msgspec.Struct, frozen=True):
    """Number of tasks by the source of their run time."""

    documented: int
    """Number of tasks whose document states the run time."""
    predicted: int
    """Number of tasks whose run time is predicted, from tasks of their class in earlier runs, or
    from the mean of their class in this run so far."""
    assumed: int
    """Number of tasks with the run time that ``--runtime`` gives."""


def with_runtimes(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    history: HistoryFile | None,
    measured: Mapping[JobClass, float],
    assumed_s: float | None,
    reused: Reused | None = None,
    *,
    predictor: str = "last2",
) -> tuple[list[Workflow], RuntimeSources]:
    """Return the workflows with a run time on the reference processor for each task, and the number
    of tasks by source. The source is the document, else a prediction from ``measured`` run times or
    earlier runs, else ``assumed_s``. Tasks in ``reused`` are done already: they need no run time
    and are not counted. Raises InvalidError if any other task has no source."""
    known = {**earlier_runtimes(workflows, catalog, history, predictor), **measured}
    counts = {"documented": 0, "predicted": 0, "assumed": 0}
    before = [frozenset[int]()] * len(workflows)
    if reused is not None:
        before = [frozenset(task for part in parts for task in part.tasks) for parts in reused]
    filled = [
        _filled(workflow, known, assumed_s, counts, done)
        for workflow, done in zip(workflows, before, strict=True)
    ]
    return filled, RuntimeSources(**counts)


def earlier_runtimes(
    workflows: Sequence[Workflow], catalog: Catalog, history: HistoryFile | None, predictor: str
) -> dict[JobClass, float]:
    """Predicted run times in seconds on the reference processor, by class of tasks, from earlier
    runs at any site of the catalog. Empty without a history."""
    if history is None:
        return {}
    run_times = make_run_times(predictor)
    speeds = {site.name: site.speed_ratio for site in catalog.sites}
    classes = set()
    for job, runtime_s in in_order(read_history(history, workflows, catalog.sites, 0.0)):
        kind = JobClass(job.owner, job.application, job.cores)
        details = Details(job.estimate_s, job.input_bytes)
        run_times.observe(kind, job.site, runtime_s, speeds[job.site], details)
        classes.add(kind)
    found = {kind: run_times.predict_s(kind, "", 1.0) for kind in classes}
    return {kind: runtime_s for kind, runtime_s in found.items() if runtime_s is not None}


def with_earlier_runtimes(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    history: HistoryFile | None,
    predictor: str,
    warn: Callable[[str], None],
) -> list[Workflow]:
    """The workflows with predicted run times for tasks whose document states none, if earlier runs
    have run tasks of their class. Run times are on the reference processor. A warning gives the
    number of these tasks."""
    if not any(map(_lacks_runtimes, workflows)):
        return list(workflows)
    known = earlier_runtimes(workflows, catalog, history, predictor)
    filled, count = [], 0
    for workflow in workflows:
        tasks = workflow.tasks
        if workflow.bag is not None:
            runtime_s = known.get(_class_of(workflow, tasks[0]))
            if workflow.bag.estimate is None and runtime_s is not None:
                count += len(tasks)
                workflow = with_estimate(workflow, runtime_s)
        elif _lacks_runtimes(workflow):
            found = [known.get(_class_of(workflow, t)) if t.runtime_s is None else None
                     for t in tasks]  # fmt: skip
            count += sum(runtime_s is not None for runtime_s in found)
            workflow = replace(
                workflow,
                tasks=[
                    task if runtime_s is None else replace(task, runtime_s=runtime_s)
                    for task, runtime_s in zip(tasks, found, strict=True)
                ],
            )
        filled.append(workflow)
    if count:
        warn(f"{count:,} tasks have no run time in their documents; it is that of earlier runs")
    return filled


def _lacks_runtimes(workflow: Workflow) -> bool:
    if workflow.bag is not None:
        return workflow.bag.estimate is None
    return any(task.runtime_s is None for task in workflow.tasks)


def _class_of(workflow: Workflow, task: Task) -> JobClass:
    return JobClass(workflow.owner, task.name, task.resources.cores)


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
    """The run time in seconds of a task whose document states none, and its source, ``predicted``
    or ``assumed``. Raises InvalidError if there is no source."""
    task = workflow.tasks[index]
    kind = _class_of(workflow, task)
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
