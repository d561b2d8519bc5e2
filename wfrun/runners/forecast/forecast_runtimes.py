"""Predicted run times of the types of tasks of a run, at each site."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import inf
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec

from wfrun.engine.capabilities.estimates.observations import in_order
from wfrun.engine.fitting.fit import site_mask
from wfrun.engine.model import Catalog, SiteSpec, Task, Workflow
from wfrun.engine.prediction.job import Prediction
from wfrun.engine.prediction.run_times import Details, JobClass, make_run_times
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.runtime_history import read_history

EXAMINED = 10_000
"""Maximum number of tasks of a bag whose documented run times are examined."""

RuntimeSource = Literal["documented", "predicted", "assumed", "unknown"]


class SiteRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted run time of a type of tasks at a site, in seconds. None: unknown."""

    site: str
    source: RuntimeSource
    runtime_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    """Upper end of the interval of a single task's run time. If run times are documented, the
    interval is their range."""
    observations: int = 0
    """Number of earlier tasks from whose run times the prediction is made."""
    from_site: bool = False
    """Whether earlier tasks ran at this site. False: run times at other sites are scaled by the
    speeds of the sites."""
    method: str = ""


class TypeForecast(msgspec.Struct, frozen=True):
    """A group of tasks of a document with equal type, number of cores and source of run times."""

    workflow: str
    type: str
    cores: int
    tasks: int
    sites: tuple[SiteRuntime, ...]
    """The run time at each site that the tasks fit."""


class EarlierTasks:
    """Run times of earlier tasks at the sites of a catalog, for the predictors of runs."""

    def __init__(
        self,
        ended: Iterable[tuple[JobClass, str, float, Details]],
        speeds: Mapping[str, float],
        predictor: str = "last2",
    ) -> None:
        """``ended`` has (class, site, run time in seconds, details) of each earlier task, in the
        order in which the tasks ended. ``speeds`` are the speed ratios of the sites."""
        self._speeds = speeds
        self._run_times = make_run_times(predictor)
        self._sites: set[tuple[JobClass, str]] = set()
        self._reference_s: defaultdict[JobClass, list[float]] = defaultdict(list)
        """Run times of the earlier tasks of each class at all sites, in seconds on the reference
        processor."""
        for kind, site, runtime_s, details in ended:
            self._run_times.observe(kind, site, runtime_s, speeds[site], details)
            self._sites.add((kind, site))
            self._reference_s[kind].append(runtime_s * speeds[site])

    def predict(self, kind: JobClass, site: str) -> tuple[Prediction, bool] | None:
        """Predict the run time of a task at a site from earlier tasks of its class at this site. If
        there are none, predict it from earlier tasks at other sites.

        Returns the prediction, and whether earlier tasks ran at this site. None: there are no
        earlier tasks of the class.
        """
        if kind not in self._reference_s:
            return None
        found = self._run_times.predict(kind, site, self._speeds[site])
        return None if found is None else (found, (kind, site) in self._sites)

    def reference_s(self, kind: JobClass) -> list[float]:
        """Run times of the earlier tasks of a class in seconds on the reference processor, the
        oldest first."""
        return self._reference_s.get(kind, [])


def earlier_tasks(
    history: HistoryFile | None, workflows: Sequence[Workflow], catalog: Catalog, predictor: str
) -> EarlierTasks:
    """Read the earlier tasks of the owners of ``workflows`` from the user's history. ``history``
    None: there are no earlier tasks. ``predictor`` is the name of the predictor of run times."""
    speeds = {site.name: site.speed_ratio for site in catalog.sites}
    if history is None:
        return EarlierTasks((), speeds, predictor)
    read = read_history(history, workflows, catalog.sites, 0.0)
    return EarlierTasks(
        (
            (
                JobClass(job.owner, job.application, job.cores),
                job.site,
                runtime_s,
                Details(job.estimate_s, job.input_bytes),
            )
            for job, runtime_s in in_order(read)
        ),
        speeds,
        predictor,
    )


def class_of(workflow: Workflow, task: Task) -> JobClass:
    """The class of a task: its owner, name and cores. Run times are predicted from tasks of the
    same class."""
    return JobClass(workflow.owner, task.name, task.resources.cores)


def type_forecasts(
    workflows: Sequence[Workflow], catalog: Catalog, earlier: EarlierTasks, assumed_s: float | None
) -> list[TypeForecast]:
    """Predict the run times of each type of task. As in plans, a run time comes from the document,
    else from a prediction, else from ``assumed_s`` (in seconds on the reference processor);
    otherwise it is unknown."""
    return [
        _forecast(workflow, kind, group, catalog, earlier, assumed_s)
        for workflow in workflows
        for kind, group in _groups(workflow)
    ]


class _Group(NamedTuple):
    """Tasks of one class whose run times have the same source."""

    task: Task
    tasks: int
    documented_s: Sequence[float]


def _groups(workflow: Workflow) -> Iterator[tuple[JobClass, _Group]]:
    if workflow.bag is not None:
        first = workflow.tasks[0]
        examined = islice(workflow.tasks, EXAMINED if workflow.bag.estimate is not None else 1)
        times = [task.runtime_s for task in examined if task.runtime_s is not None]
        yield class_of(workflow, first), _Group(first, len(workflow.tasks), times)
        return
    groups: defaultdict[tuple[JobClass, bool], list[Task]] = defaultdict(list)
    for task in workflow.tasks:
        groups[class_of(workflow, task), task.runtime_s is None].append(task)
    for (kind, _), tasks in groups.items():
        times = [task.runtime_s for task in tasks if task.runtime_s is not None]
        yield kind, _Group(tasks[0], len(tasks), times)


def _forecast(
    workflow: Workflow,
    kind: JobClass,
    group: _Group,
    catalog: Catalog,
    earlier: EarlierTasks,
    assumed_s: float | None,
) -> TypeForecast:
    mask = site_mask(group.task, catalog.sites, workflow.source)
    sites = [site for number, site in enumerate(catalog.sites) if mask >> number & 1]
    runtimes = tuple(_runtime(kind, group, site, earlier, assumed_s) for site in sites)
    return TypeForecast(workflow.name, kind.application, kind.cores, group.tasks, runtimes)


def _runtime(
    kind: JobClass,
    group: _Group,
    site: SiteSpec,
    earlier: EarlierTasks,
    assumed_s: float | None,
) -> SiteRuntime:
    speed = site.speed_ratio
    if group.documented_s:
        times = [runtime_s / speed for runtime_s in group.documented_s]
        low_s, high_s = min(times), max(times)
        return SiteRuntime(
            site=site.name, source="documented", runtime_s=fmean(times), low_s=low_s, high_s=high_s
        )
    found = earlier.predict(kind, site.name)
    if found is not None:
        prediction, from_site = found
        is_bounded = prediction.high_s < inf
        return SiteRuntime(
            site=site.name,
            source="predicted",
            runtime_s=prediction.value_s,
            low_s=prediction.low_s if is_bounded else None,
            high_s=prediction.high_s if is_bounded else None,
            observations=prediction.observations,
            from_site=from_site,
            method=prediction.method,
        )
    if assumed_s is not None:
        return SiteRuntime(site=site.name, source="assumed", runtime_s=assumed_s / speed)
    return SiteRuntime(site=site.name, source="unknown")
