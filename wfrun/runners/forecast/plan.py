"""The plan of a run: its documents, simulated on the present state of the sites.

docs/plan.md says what is simulated, and what is not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.engine.fitting.fit import site_mask
from wfrun.engine.model import Catalog, File, LinkSpec, Workflow
from wfrun.engine.prediction.run_times import JobClass
from wfrun.engine.queues.easy import Easy
from wfrun.engine.queues.fcfs import Fcfs
from wfrun.engine.settings import Settings
from wfrun.engine.tasks.bag import BagFiles
from wfrun.runners.experiments.subjects.measured import AUTO, overheads_for, with_history
from wfrun.runners.experiments.subjects.past_run import measured_runtimes_s
from wfrun.runners.experiments.subjects.plan_runtimes import RuntimeSources, with_runtimes
from wfrun.runners.experiments.subjects.subjects import Warn
from wfrun.runners.forecast.plan_alternatives import Comparison, Throttle, compare
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.overheads import Overheads
from wfrun.runners.run.prepare.prepare import with_selection
from wfrun.runners.simulate.plan import PlannedRun, plan_run
from wfrun.runners.simulate.rest import Reused, done_of
from wfrun.runners.simulate.simulation import Platform
from wfrun.sites.simulated.model import SiteModel
from wfrun.sites.simulated.queues import SimulatedJob


class SizeSources(msgspec.Struct, frozen=True):
    """Number of files by the source of their size."""

    documented: int
    """Number of files whose size the document states."""
    measured: int
    """Number of files whose size was measured: inputs on this machine, and files that the run has
    written or copied so far."""
    assumed: int
    """Number of files of unknown size, which are assumed to be empty."""


def size_sources(
    workflows: Sequence[Workflow], reused: Reused | None, *, emulated: bool
) -> SizeSources:
    """Count the sources of the sizes of all files that a run may copy. Outputs of tasks that are
    already done do not count if they no longer exist at a place that the simulation uses."""
    documented, measured, files = 0, 0, 0
    for number, workflow in enumerate(workflows):
        parts = () if reused is None else reused[number]
        known = {file for part in parts for file, _, _ in part.files}
        lost = {file for part in parts for file in part.lost}
        measured += len(known)
        files += len(workflow.files) - len(lost)
        if isinstance(workflow.files, BagFiles) and not parts:
            inputs = workflow.files.input_count
            measured += sum(workflow.files.size_bytes(index) >= 0 for index in range(inputs))
            if workflow.files.output_bytes is not None:
                documented += len(workflow.files) - inputs
            continue
        for index, file in enumerate(workflow.files):
            if index in known or index in lost or file.size_bytes is None:
                continue
            if not emulated and _is_here(file):
                measured += 1
            else:
                documented += 1
    return SizeSources(documented, measured, files - documented - measured)


def _is_here(file: File) -> bool:
    """Whether the file is an input that was found on this machine."""
    return file.producer is None and file.url is not None and file.url.startswith("/")


_OBSERVED_S = 1.0
"""Time of the first report of other users' jobs, and interval of further reports, in seconds. So
the simulated engine knows the queues before it places a task, like the engine of a real run."""

COMPARE_S = 10.0
"""Default time limit of all simulations of other policies and throttles, in seconds."""
COMPARED = 3
"""Number of alternatives for whose simulations the default time limit is extended beyond
`COMPARE_S`."""

LinkSource = Literal["catalog", "measured", "assumed"]


class PresentSite(msgspec.Struct, frozen=True):
    """The state that a site has reported."""

    site: str
    state: Literal["up", "down", "needs login"]
    reason: str
    """Why the site is not up; empty if it is up. A site that is not up has no part in the plan."""
    hint: str
    slots: int
    idle_cores: int | None
    has_queue: bool
    """Whether the site has a batch system. A site without one starts tasks in its slots regardless
    of its load."""
    jobs_ahead: int
    """Number of simulated jobs of other users that hold slots or wait for slots."""


class Sources(msgspec.Struct, frozen=True):
    """Sources of the numbers of a plan."""

    runtimes: RuntimeSources
    sizes: SizeSources
    links: Mapping[LinkSource, int]
    """Number of links by the source of their speed: stated by the catalog, measured by copies of
    earlier runs, or assumed to be unlimited."""
    measured_overheads: tuple[str, ...]
    """Sites whose overheads earlier runs have measured."""
    assumed_overheads: tuple[str, ...]
    """Sites without measured overheads, which are assumed to have none."""


class RunPlan(msgspec.Struct, frozen=True):
    """The plan of a run that starts now. Times of tasks are seconds from its start."""

    policy: str
    throttle: Throttle
    is_emulated: bool
    """Whether tasks are emulated by sleeping, so that the load of hosts does not matter."""
    run: PlannedRun
    present: tuple[PresentSite, ...]
    sources: Sources
    comparison: Comparison


class BegunRun(NamedTuple):
    """The state and the measured run times of a run that is to be resumed."""

    state: RunState
    runtimes_s: Mapping[JobClass, float]
    """Mean run time of the done tasks of each class, in seconds on the reference processor."""


def begun_run(run: RunDir, state: RunState) -> BegunRun:
    """Read the measured run times from the log of a run. Raises InvalidError for a damaged log."""
    found: defaultdict[JobClass, list[float]] = defaultdict(list)
    for (number, task), runtime_s in measured_runtimes_s(run, state).items():
        workflow = state.workflows[number].workflow
        record = workflow.tasks[task]
        kind = JobClass(workflow.owner, record.name, record.resources.cores)
        found[kind].append(runtime_s)
    return BegunRun(state, {kind: fmean(values) for kind, values in found.items()})


class Present(msgspec.Struct, frozen=True):
    """The current state of the sites, and the jobs of other users at each site with a queue."""

    sites: tuple[PresentSite, ...]
    ahead: Mapping[str, Sequence[SimulatedJob]]


class PlanInputs(NamedTuple):
    """The input of the simulations of a plan."""

    workflows: Sequence[Workflow]
    """The workflows, with a run time in seconds on the reference processor for each task."""
    platform: Platform
    settings: Settings
    reused: Reused | None
    """The tasks of each workflow that are already done; None: the run is new."""
    sources: Sources


def plan_of(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    settings: Settings,
    present: Present,
    *,
    history: HistoryFile | None,
    assumed_s: float | None,
    limit_s: float | None,
    warn: Warn,
    begun: BegunRun | None = None,
) -> RunPlan:
    """Simulate a run on the sites that are up, and then the same run with other policies and
    throttles. ``limit_s`` is the time limit of all simulations of alternatives, in seconds; None:
    `COMPARE_S`, or longer if `COMPARED` alternatives need more time. ``begun``: simulate only the
    remaining tasks of this run; None: the run is new.

    Raises InfeasibleError if no site is up, and InvalidError for a task that fits no site or has no
    run time.
    """
    inputs = plan_inputs(
        workflows, catalog, settings, present, history=history, assumed_s=assumed_s, warn=warn,
        begun=begun,
    )  # fmt: skip
    begun_s = time.monotonic()
    run = plan_run(inputs.workflows, inputs.platform, inputs.settings, inputs.reused)
    if limit_s is None:
        limit_s = max(COMPARE_S, COMPARED * (time.monotonic() - begun_s))
    return RunPlan(
        policy=inputs.settings.policy,
        throttle=inputs.settings.throttle,
        is_emulated=inputs.settings.emulate,
        run=run,
        present=present.sites,
        sources=inputs.sources,
        comparison=compare(
            inputs.workflows, inputs.platform, inputs.settings, limit_s, inputs.reused
        ),
    )


def plan_inputs(
    workflows: Sequence[Workflow],
    catalog: Catalog,
    settings: Settings,
    present: Present,
    *,
    history: HistoryFile | None,
    assumed_s: float | None,
    warn: Warn,
    begun: BegunRun | None = None,
) -> PlanInputs:
    """Find run times, links and overheads for the sites that are up. Raises the errors of
    `plan_of`."""
    catalog = reached(catalog, present)
    _check_fits(workflows, catalog, present)
    measured = {} if begun is None else begun.runtimes_s
    reused = None if begun is None else done_of(begun.state, catalog.sites)
    filled, runtimes = with_runtimes(
        workflows, catalog, history, measured, assumed_s, reused, predictor=settings.predictor
    )
    settings = with_selection(settings, filled, catalog)
    overheads = overheads_for(catalog, AUTO, warn, local=True)
    known = catalog if settings.emulate else with_history(catalog, warn, history)
    return PlanInputs(
        filled,
        _platform(known, overheads, present),
        settings,
        reused,
        Sources(
            runtimes=runtimes,
            sizes=size_sources(filled, reused, emulated=settings.emulate),
            links=_links(catalog, known, overheads),
            measured_overheads=tuple(s.name for s in known.sites if s.name in overheads.sites),
            assumed_overheads=tuple(s.name for s in known.sites if s.name not in overheads.sites),
        ),
    )


def reached(catalog: Catalog, present: Present) -> Catalog:
    """Return the catalog without the sites that are not up, and without their links. Raises
    InfeasibleError if no site is up."""
    down = {site.site for site in present.sites if site.state != "up"}
    sites = tuple(site for site in catalog.sites if site.name not in down)
    if not sites:
        first = next(site for site in present.sites if site.state != "up")
        raise InfeasibleError(
            f"no site can be reached; {first.site}: {first.reason}", hint=first.hint or None
        )
    links = tuple(link for link in catalog.links if not down & {link.source, link.destination})
    return replace(catalog, sites=sites, links=links)


def _check_fits(workflows: Sequence[Workflow], catalog: Catalog, present: Present) -> None:
    """Raise InvalidError for a task that fits none of the sites that are up. The hint names the
    sites that are not up, because the task may fit one of them."""
    down = [f"{site.site} is {site.state}" for site in present.sites if site.state == "down"]
    down += [f"{site.site} needs login" for site in present.sites if site.state == "needs login"]
    for workflow in workflows:
        tasks = workflow.tasks[:1] if workflow.bag is not None else workflow.tasks
        for task in {task.resources: task for task in reversed(tasks)}.values():
            try:
                site_mask(task, catalog.sites, workflow.source)
            except InvalidError as error:
                hint = "; ".join([error.hint or "", *down])
                raise InvalidError(error.message, source=error.source, hint=hint) from error


def _platform(catalog: Catalog, overheads: Overheads, present: Present) -> Platform:
    has_queues = any(present.ahead.values())
    model = SiteModel(lrm=Easy.name if has_queues else Fcfs.name, observe_s=_OBSERVED_S)
    return Platform(
        catalog,
        model,
        background=present.ahead,
        start_s=_OBSERVED_S if has_queues else 0.0,
        overheads=overheads,
    )


def _links(stated: Catalog, known: Catalog, overheads: Overheads) -> dict[LinkSource, int]:
    """Number of links by the source of their speed."""
    places = [*(site.name for site in known.sites), "origin"]
    pairs = {(a, b) for a in places for b in places if a != b}
    of_catalog = _with_speed(stated.links) & pairs
    measured = ((_with_speed(known.links) | _with_speed(overheads.links)) & pairs) - of_catalog
    return {
        "catalog": len(of_catalog),
        "measured": len(measured),
        "assumed": len(pairs) - len(of_catalog) - len(measured),
    }


def _with_speed(links: Sequence[LinkSpec]) -> set[tuple[str, str]]:
    return {(link.source, link.destination) for link in links if link.has_speed}
