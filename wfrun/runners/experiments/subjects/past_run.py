"""A past run as the subject of an experiment: its workflows with measured run times and sizes."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.capabilities.placements import expected_runtimes_s
from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.errors import InvalidError
from wfrun.engine.model import Catalog, Workflow
from wfrun.runners.experiments.subjects.measured import measured_by
from wfrun.runners.experiments.subjects.subjects import Warn
from wfrun.runners.run.directory import run_directory as rundir
from wfrun.runners.run.history.overheads import Overheads
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store


class PastRun(NamedTuple):
    """The workflows of a past run with the values that it measured, and its sites."""

    workflows: list[Workflow]
    are_bags: bool
    """Whether all workflows are bags."""
    catalog: Catalog
    """The catalog of the run, after the last resume that changed it."""
    selection: str
    overheads: Overheads


def past_run(name: str, warn: Warn) -> PastRun:
    """Read a run. Its workflows get the run times (on the reference processor) and file sizes that
    the run measured. A task that was not done gets the mean run time of its type; a warning gives
    the number of these tasks. Raises InvalidError if there is no such run, or if none of its tasks
    was done."""
    run = rundir.find(name)
    state = read_state(run)
    measured = measured_runtimes_s(run, state)
    if not measured:
        raise InvalidError(
            f"no task of the run {run.name} has been done; it measured nothing",
            hint="simulate its document instead, and give run times with --runtime",
        )
    if len(measured) < state.tasks:
        warn(
            f"run {run.name}: {state.tasks - len(measured)} of {state.tasks} tasks are not done; "
            "they get the mean run time of their kind"
        )
    workflows = [_with_measured(w, measured) for w in state.workflows]
    are_bags = all(w.workflow.bag is not None for w in state.workflows)
    overheads = measured_by(run, state)
    return PastRun(workflows, are_bags, _catalog(state), state.settings.selection, overheads)


def _catalog(state: RunState) -> Catalog:
    """The last catalog of a run, without the sites that were removed by a resume and without their
    links."""
    left = {state.sites[number].spec.name for number in state.left_sites}
    sites = tuple(s.spec for s in state.sites if s.spec.name not in left)
    links = (link for link in state.links if not left & {link.source, link.destination})
    return Catalog(sites, tuple(links))


def measured_runtimes_s(run: rundir.RunDir, state: RunState) -> dict[tuple[int, int], float]:
    """Measured run times in seconds on the reference processor, by (workflow, task), for tasks that
    are done."""
    speeds = [site.spec.speed_ratio for site in state.sites]
    measured: dict[tuple[int, int], float] = {}
    placed: dict[str, ev.AttemptPlaced] = {}
    store = Store(run.path)
    for event in store.load():
        if isinstance(event, ev.AttemptPlaced):
            placed[event.key] = event
        elif isinstance(event, ev.AttemptEnded) and event.outcome.cause == "done":
            outcome, where = event.outcome, placed[event.key]
            if outcome.started_s is not None and outcome.ended_s is not None:
                runtime_s = outcome.ended_s - outcome.started_s
                measured[where.workflow, where.task] = runtime_s * speeds[where.site]
    store.close()
    return measured


def _with_measured(w: WorkflowState, measured: dict[tuple[int, int], float]) -> Workflow:
    replace = msgspec.structs.replace
    tasks = [
        replace(task, runtime_s=measured.get((w.index, i)))
        for i, task in enumerate(w.workflow.tasks)
    ]
    files = [
        replace(file, size_bytes=max(0, w.sizes[i])) for i, file in enumerate(w.workflow.files)
    ]
    parents = list(w.workflow.parents)
    workflow = replace(w.workflow, tasks=tasks, files=files, parents=parents, bag=None)
    expected = expected_runtimes_s(workflow)
    tasks = [replace(t, runtime_s=s) for t, s in zip(tasks, expected, strict=True)]
    return replace(workflow, tasks=tasks)
