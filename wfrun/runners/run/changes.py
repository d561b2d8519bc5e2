"""Changes of the options and sites of a run that is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.errors import InvalidError
from wfrun.engine.fitting.fit import check_moldable, site_mask
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.engine.settings import Setting, Settings, all_settings, as_argument, make_settings
from wfrun.runners.run.prepare.prepare import with_selection
from wfrun.runners.run.prepare.prepare_jobs import claimable, direct, has_parallel_jobs
from wfrun.runners.run.prepare.scavenging import scavengeable


def changed_run(
    state: RunState,
    given: Mapping[str, Any],
    catalog: Catalog | None,
    written: Callable[[Setting], str] = as_argument,
) -> ev.RunChanged | None:
    """Return the event that changes the options of a run to ``given``, and its sites and links to
    those of ``catalog``; None if nothing changes. ``given`` maps fields of `Settings` to values;
    None keeps the present value. Without a catalog the run keeps its sites and links. ``written``
    returns the name of an option for messages.

    Raises InvalidError if an option is invalid, has no effect or cannot be changed on resume, if
    the kind, directory or ``dispatch`` of a site has changed, if the run is emulated and a catalog
    is given, or if a task fits no site.
    """
    settings = _settings(state, given, written)
    if catalog is not None and has_parallel_jobs(state):
        catalog = (
            claimable(catalog, settings, simulated=False) if settings.place else direct(catalog)
        )
    elif catalog is not None and settings.scavenge:
        catalog = scavengeable(catalog)
    specs = [site.spec for site in state.sites]
    links, left = state.links, list(state.left_sites)
    if catalog is not None:
        if settings.emulate:
            raise InvalidError("an emulated run keeps its sites", hint="start a new run")
        named = {spec.name: spec for spec in catalog.sites}
        left = [n for n, spec in enumerate(specs) if spec.name not in named]
        for spec in specs:
            _check_same_site(spec, named.get(spec.name, spec), catalog)
        known = {spec.name for spec in specs}
        gone = {specs[number].name for number in left}
        specs = [named.get(spec.name, spec) for spec in specs]
        specs += [spec for spec in catalog.sites if spec.name not in known]
        kept = [link for link in state.links if gone & {link.source, link.destination}]
        links = (*catalog.links, *kept)
    change = ev.RunChanged(0.0, settings, tuple(specs), tuple(links), tuple(left))
    if change == present_of(state):
        return None
    offered = [spec for number, spec in enumerate(specs) if number not in left]
    workflows = [w.workflow for w in state.workflows]
    source = None if catalog is None else catalog.source
    settings = with_selection(settings, workflows, Catalog(tuple(offered), source=source))
    _check_fits(state, offered)
    return msgspec.structs.replace(change, settings=settings)


def present_of(state: RunState) -> ev.RunChanged:
    """The change to the settings, sites and links that the run already has."""
    specs = tuple(site.spec for site in state.sites)
    return ev.RunChanged(0.0, state.settings, specs, tuple(state.links), state.left_sites)


def _settings(
    state: RunState, given: Mapping[str, Any], written: Callable[[Setting], str]
) -> Settings:
    """The settings of the run with the given options. Raises InvalidError for options that are
    wrong, cannot be changed or have no effect."""
    new = {name: value for name, value in given.items() if value is not None}
    for name in new:
        setting = all_settings()[name]
        if not setting.option.resume:
            raise InvalidError(f"{written(setting)} cannot be changed when a run is resumed")
    if state.settings.sizing and not new.keys().isdisjoint(("policy", "policy_options")):
        raise InvalidError(
            f"{written(all_settings()['policy'])} has no effect: the search of sizes "
            f"({state.settings.sizing}) chooses the sites of this run"
        )
    for name in ("policy", "throttle", "replicas") if state.settings.place else ():
        if new.get(name):
            raise InvalidError(
                f"{written(all_settings()[name])} has no effect: "
                f"{written(all_settings()['place'])} places the jobs of this run"
            )
    for name in ("policy", "replicas") if state.settings.scavenge else ():
        if new.get(name):
            raise InvalidError(
                f"{written(all_settings()[name])} has no effect: launchers of each owner pull its "
                "tasks in this run"
            )
    if state.settings.plans_queues and new.get("replicas"):
        raise InvalidError(
            f"{written(all_settings()['replicas'])} has no effect: jobs with sizes, and jobs that "
            "move between clusters, have no replicas"
        )
    if "policy" in new:  # the options of another policy are none of this one
        new.setdefault("policy_options", {})
    settings = make_settings(msgspec.structs.asdict(state.settings) | new, written)
    placement_options(placement_class(settings.policy), settings.policy_options)
    return settings


def _check_same_site(before: SiteSpec, now: SiteSpec, catalog: Catalog) -> None:
    """Raise InvalidError if the kind, directory or ``dispatch`` of a site differs from before. The
    run has files and attempts at the earlier place."""
    for what, then, new in (
        ("kind", before.kind, now.kind),
        ("directory", before.directory, now.directory),
        ("dispatch", _dispatch(before), _dispatch(now)),
    ):
        if then != new:
            raise InvalidError(
                f"the {what} of site {now.name!r} was {then!r} when the run began, and is {new!r}",
                source=catalog.source,
                line=catalog.lines.get(now.name, {}).get(""),
                hint="give the changed site another name: the run then leaves the old one",
            )


def _dispatch(spec: SiteSpec) -> str:
    return "" if spec.access is None else spec.access.dispatch


def _check_fits(state: RunState, sites: list[SiteSpec]) -> None:
    """Raise InvalidError for a task that is not done and fits none of these sites."""
    for w in state.workflows:
        seen: set[int] = set()
        for task, status in enumerate(w.status):
            kind = w.resource_class[task]
            if status == TaskStatus.DONE:
                continue
            if state.settings.sizing and task in w.workflow.moldable:
                check_moldable(w.workflow, task, sites)
            elif kind not in seen:
                seen.add(kind)
                site_mask(w.workflow.tasks[task], sites, w.workflow.source)


def described(state: RunState, change: ev.RunChanged) -> Iterator[str]:
    """Yield a line for each option and site that a change modifies, for the user."""
    before = present_of(state)
    for setting in all_settings().values():
        then, now = getattr(before.settings, setting.name), getattr(change.settings, setting.name)
        if then != now:
            yield f"{setting.flag}: {_shown(then)} before, {_shown(now)} now"
    for number, spec in enumerate(change.sites):
        if number >= len(before.sites):
            yield f"site {spec.name} is new"
        elif number in change.left and number not in before.left:
            yield f"site {spec.name} is no longer in the catalog: it gets no more tasks"
        elif number in before.left and number not in change.left:
            yield f"site {spec.name} is in the catalog again"
        elif spec != before.sites[number]:
            yield f"site {spec.name} has changed"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in value.items()) or "none"
    return "none" if value is None else str(value)
