"""The options of ``wfrun simulate`` and `wfrun.simulate`, and the experiment that they describe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.fit import site_mask
from wfrun.engine.model import Catalog, Workflow
from wfrun.engine.policies.placement import PLACEMENT, placement_class, placement_options
from wfrun.engine.policies.selection import SELECTION, selection_class
from wfrun.engine.settings import Settings
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.logs import read_log
from wfrun.parsers.workflows.runtimes import read_runtimes
from wfrun.runners.experiments.cells import Cell, Throttle
from wfrun.runners.experiments.experiment import Background, Experiment, options_of
from wfrun.runners.experiments.subjects.documents import Documents
from wfrun.runners.experiments.subjects.measured import AUTO, overheads_for, with_history
from wfrun.runners.experiments.subjects.past_run import past_run
from wfrun.runners.experiments.subjects.plan_runtimes import with_earlier_runtimes
from wfrun.runners.experiments.subjects.subjects import (
    Warn,
    warn_of_sizes,
    workflows_of,
    workloads_of,
)
from wfrun.runners.experiments.subjects.workloads import POLICIES, Workloads
from wfrun.runners.run.history.history_file import history_file
from wfrun.runners.run.history.overheads import Overheads
from wfrun.runners.run.prepare.deadlines import late_warning
from wfrun.runners.run.prepare.prepare import this_machine
from wfrun.runners.run.prepare.scaling import without_containers
from wfrun.runners.run.prepare.scavenging import check_bag, check_options, scavengeable
from wfrun.runners.simulate.architectures import ARCHITECTURES, architecture_class
from wfrun.runners.simulate.background import background_of, unfit
from wfrun.runners.simulate.das3_grid5000 import das3_grid5000
from wfrun.runners.simulate.simulation import Platform, complete_links
from wfrun.sites.catalog import read_catalog
from wfrun.sites.simulated.queues import make_lrm, sizes_from

LOAD = 0.6
"""Default load of generated workloads of bags."""

Names = Sequence[str]
"""Names of policies or architectures; ``("all",)``: all of them."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The dimensions of an experiment, its sites, and the settings of its runs."""

    sites: str | Path | Catalog | None = None
    """None: the sites of the run ``from_run``, otherwise this machine; for workloads of bags the
    DAS-3 and Grid'5000."""
    policies: Names = ("all",)
    architectures: Names = ("csp",)
    selections: Names = ()
    """Empty: s-bot for documents with a bag, s-t for workloads of bags."""
    throttles: Sequence[Throttle] = ()
    """Empty: the default throttle of each policy."""
    loads: Sequence[float] = ()
    seeds: int = 1
    tasks: int | None = None
    separately: bool = False
    background: str | Path | None = None
    skip_bad_lines: bool = False
    runtime_s: float | None = None
    runtimes: str | Path | None = None
    from_run: str | None = None
    overheads: str | None = None
    """Source of the overheads: a past run that measured them, ``auto`` (the latest runs) or
    ``none``. None: the run ``from_run`` if given, otherwise ``auto``."""
    template: LineTemplate | None = None
    """Template of commands, for documents whose lines are tasks."""
    platform: Platform = Platform(Catalog(()))
    """The platform. Its catalog is ignored; see ``sites``."""
    settings: Settings = Settings()


def documents_experiment(
    described: Description, documents: Sequence[str | Path | Workflow], warn: Warn
) -> Experiment:
    """Return an experiment with documents, or with the workflows of a past run. Raises InvalidError
    if the documents or options are invalid."""
    make_lrm(described.platform.model.lrm, 1)
    _check_needs(described)
    catalog, selections = None, _names(described.selections, SELECTION, selection_class)
    overheads: Overheads | None = None
    history = history_file(None)
    if described.from_run is not None:
        if documents:
            raise InvalidError("--from-run takes the workflows of the run; name no others")
        if described.runtime_s is not None or described.runtimes is not None:
            raise InvalidError("--from-run takes the run times of the run; give no others")
        past = past_run(described.from_run, warn)
        workflows, are_bags, catalog = past.workflows, past.are_bags, past.catalog
        overheads = past.overheads
        selections = selections or ((past.selection,) if past.selection else ())
    else:
        table = read_runtimes(described.runtimes) if described.runtimes is not None else None
        catalog = _catalog(described.sites) or this_machine()
        fill = partial(
            with_earlier_runtimes, catalog=catalog, history=history,
            predictor=described.settings.predictor, warn=warn,
        )  # fmt: skip
        workflows = workflows_of(
            documents, described.runtime_s, table, warn, template=described.template, fill=fill
        )
        are_bags = all(workflow.bag is not None for workflow in workflows)
    workflows = [without_containers(workflow) for workflow in workflows]
    catalog = _catalog(described.sites) or catalog or this_machine()
    if overheads is None or described.overheads is not None:
        given = described.overheads or AUTO
        overheads = overheads_for(catalog, given, warn)
        if given == AUTO:
            catalog = with_history(catalog, warn, history)
    policies = _policies(described.policies, are_bags=are_bags, with_default=True)
    if described.settings.scavenge:
        policies = (Settings().policy,)
        catalog = _scavengeable(described, workflows, catalog)
    for workflow in workflows:
        if (late := late_warning(workflow, catalog, None)) is not None:
            warn(f"{workflow.source}: {late}")
    subject = Documents(workflows, described.separately)
    background = described.background
    experiment = Experiment(
        subject=subject,
        platform=msgspec.structs.replace(
            described.platform, catalog=catalog, overheads=overheads
        ),
        policies=policies,
        selections=selections or (None,),
        throttles=tuple(dict.fromkeys(described.throttles)),
        loads=tuple(described.loads) or (None,),
        seeds=tuple(range(described.seeds)),
        settings=described.settings,
        background=None if background is None else Background(
            str(background), described.skip_bad_lines
        ),
    )  # fmt: skip
    _check_policy_options(experiment.policies, described.settings)
    _warn_of_links(catalog, overheads, warn)
    for cell in experiment.cells()[:1]:
        subject.settings_of(experiment, cell)
    for workflow in workflows:
        tasks = workflow.tasks[:1] if workflow.bag is not None else workflow.tasks
        for task in {task.resources: task for task in reversed(tasks)}.values():
            site_mask(task, catalog.sites, workflow.source)
        warn_of_sizes(workflow, warn)
    _check_background(experiment, warn)
    return experiment


def _scavengeable(
    described: Description, workflows: Sequence[Workflow], catalog: Catalog
) -> Catalog:
    """The catalog with its sites prepared for scavenging. Raises InvalidError for options that have
    no effect with scavenging, and for bags with optional tasks."""
    given = {
        "--policy": described.policies not in ((), ("all",)),
        "--selection": described.selections,
        "--throttle": described.throttles,
    }
    usual = Settings()  # what varies between simulations is not in the settings of all
    settings = msgspec.structs.replace(
        described.settings, policy=usual.policy, selection=usual.selection, throttle=usual.throttle
    )
    check_options(settings, given)
    for workflow in workflows:
        check_bag(workflow, None)
    return scavengeable(catalog, simulated=True)


def workloads_experiment(described: Description, names: Sequence[str], warn: Warn) -> Experiment:
    """Return an experiment with workloads of bags. Raises InvalidError if the workloads or options
    are invalid."""
    make_lrm(described.platform.model.lrm, 1)
    catalog = _catalog(described.sites) or das3_grid5000()
    subject = workloads_of(names, described.tasks, skip_bad_lines=described.skip_bad_lines)
    load = None if len(subject.logs) == len(subject.labels) else LOAD
    experiment = Experiment(
        subject=subject,
        platform=msgspec.structs.replace(described.platform, catalog=catalog),
        policies=_policies(described.policies, are_bags=True, with_default=False),
        architectures=_names(described.architectures, ARCHITECTURES, architecture_class),
        selections=_names(described.selections, SELECTION, selection_class) or ("s-t",),
        throttles=tuple(dict.fromkeys(described.throttles)),
        loads=tuple(described.loads) or (load,),
        seeds=tuple(range(described.seeds)),
        settings=described.settings,
    )
    _check_policy_options(experiment.policies, described.settings)
    _check_workloads(experiment, subject, warn)
    return experiment


def _check_needs(described: Description) -> None:
    """Raise InvalidError for options that need a background if there is none."""
    if described.background is None:
        if described.loads:
            raise InvalidError("--load scales a background; name its log with --background")
        if described.skip_bad_lines:
            raise InvalidError("--skip-bad-lines is for logs; name one with --background")


def _catalog(sites: str | Path | Catalog | None) -> Catalog | None:
    return sites if sites is None or isinstance(sites, Catalog) else read_catalog(sites)


def _policies(names: Names, *, are_bags: bool, with_default: bool) -> tuple[str, ...]:
    """The names of policies; ``all`` stands for all policies for bags, or all for workflows. With
    ``with_default``, ``all`` includes the default policy of runs."""
    bags = set(POLICIES)
    everything = list(POLICIES) if are_bags else [name for name in PLACEMENT if name not in bags]
    default = Settings().policy
    if with_default and default not in everything:
        everything.insert(0, default)
    return _names(names, everything, placement_class)


def _check_policy_options(policies: Names, settings: Settings) -> None:
    """Raise InvalidError for an option that no policy has, or whose value has a wrong type."""
    for policy in policies:
        placement_options(placement_class(policy), options_of(policy, settings))
    for name in settings.policy_options:
        if not any(name in placement_class(policy).options for policy in policies):
            raise InvalidError(
                f"none of the policies has an option {name!r}",
                hint=f"the policies are {', '.join(policies)}; `wfrun policies` lists the options",
            )


def _names(
    names: Names, everything: Sequence[str] | Mapping[str, object], check: Callable[[str], object]
) -> tuple[str, ...]:
    """The names, each checked by ``check`` and kept once; ``all`` stands for ``everything``."""
    if list(names) == ["all"]:
        return tuple(everything)
    for name in names:
        check(name)
    return tuple(dict.fromkeys(names))


def _warn_of_links(catalog: Catalog, overheads: Overheads, warn: Warn) -> None:
    known = {*overheads.links, *catalog.links}
    added = [
        link
        for link in complete_links(catalog, overheads.links)
        if "origin" not in (link.source, link.destination) and link not in known
    ]
    if added:
        first = added[0]
        warn(
            f"the catalog lacks {len(added)} links between sites, the first is {first.source} to "
            f"{first.destination}: transfers there take no time"
        )


def _check_background(experiment: Experiment, warn: Warn) -> None:
    """Raise InvalidError for errors of the background log and its loads, before anything is
    simulated. Warn of jobs that are left out and of loads above 1."""
    background, sites = experiment.background, experiment.platform.catalog.sites
    if background is None:
        return
    jobs, remarks, _ = read_log(Path(background.log), skip_bad_lines=background.skip_bad_lines)
    for remark in [*remarks, *unfit(jobs, sites)]:
        warn(remark)
    if any(not job.requested_processors for job in jobs):
        warn(f"{background.log}: processors of a job: {sizes_from(jobs)}")
    for load in experiment.loads:
        background_of(jobs, sites, load, experiment.seeds[0])
        if load is not None and load > 1:
            warn(
                f"a load of {load:g} is more than the sites can do, so that their queues grow "
                "without end; 0.3 is 30%"
            )


def _check_workloads(experiment: Experiment, subject: Workloads, warn: Warn) -> None:
    """Make each workload once, at its highest load, to find its errors before anything is
    simulated. Pass remarks on the workloads and on loads above 1 to ``warn``. Raises InvalidError
    if a workload is invalid."""
    first: dict[str | None, Cell] = {}
    for cell in sorted(experiment.cells(), key=lambda cell: cell.load or 0.0, reverse=True):
        first.setdefault(cell.workload, cell)
    for cell in first.values():
        workload = subject.workload_of(cell, experiment.platform.catalog.sites)
        for remark in workload.remarks:
            warn(f"{cell.workload}: {remark}")
    for load in experiment.loads:
        if load is not None and load > 1:
            warn(
                f"a load of {load:g} is more than the sites can do, so that their queues grow "
                "until the last bag has arrived; 0.3 is 30%"
            )
