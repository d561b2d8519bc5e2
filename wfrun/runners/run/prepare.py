"""From documents and options to a run that can start.

Everything that can be wrong with the user's input is found here, before anything is started. Each
document goes through four stages: *read* (`wfrun.parsers.read`), *check* its estimates, *resolve*
its input files and programs (or scale it for emulation), and *check* that its tasks fit a site.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.read import ReadDocument, read_document
from wfrun.runners.run.checks import (
    check_estimates,
    check_fits,
    check_template,
    runtime_warnings,
    with_selection,
)
from wfrun.runners.run.prepare_bag import with_files
from wfrun.runners.run.prepare_workflow import check_outputs, with_executables, with_inputs
from wfrun.runners.run.scaling import on_this_machine, scaled, scaled_links


class Plan(msgspec.Struct, frozen=True):
    """What is going to be run, checked."""

    workflows: list[Workflow]
    catalog: Catalog
    settings: Settings
    warnings: tuple[str, ...]


def this_machine() -> Catalog:
    """The catalog of a run without ``--sites``: one local site with all cores."""
    slots = len(os.sched_getaffinity(0))
    return Catalog((SiteSpec("local", slots=slots),))


def prepare(
    documents: Sequence[Path | Workflow],
    catalog: Catalog,
    settings: Settings,
    *,
    inputs: Path | None = None,
    at_sites: bool = False,
    template: LineTemplate | None = None,
) -> Plan:
    """Read and check documents.

    ``at_sites``: emulated tasks run at the catalog's clusters, not at stand-ins on this machine.
    ``template``: for tables and lists of commands. Raises InvalidError for the first document that
    is wrong, for all missing inputs and for all missing executables of a document together, for a
    task that fits no site, and for settings that contradict each other.
    """
    policy = placement_class(settings.policy)
    placement_options(policy, settings.policy_options)
    if not documents:
        raise InvalidError("there is no workflow to run")
    if settings.emulate and not at_sites:
        catalog = on_this_machine(catalog)
    workflows: list[Workflow] = []
    warnings: list[str] = []
    for read in _read(documents, settings, template):
        source = read.workflow.source
        warnings += [w if source in w else f"{source}: {w}" for w in read.workflow.warnings]
        check_estimates(read, policy, settings)
        warnings += runtime_warnings(read.workflow, policy, settings)
        workflow = _resolve(read, catalog, settings, inputs)
        if workflow.bag is None:
            check_outputs(workflow)
        check_fits(read, workflow, catalog)
        workflows.append(workflow)
    settings = with_selection(settings, workflows, catalog)
    if settings.emulate:
        catalog = scaled_links(catalog, settings.time_scale)
    return Plan(workflows, catalog, settings, tuple(warnings))


def _read(
    documents: Sequence[Path | Workflow], settings: Settings, template: LineTemplate | None
) -> Iterator[ReadDocument]:
    if template is not None:
        check_template(template, [d for d in documents if not isinstance(d, Workflow)])
    for document in documents:
        if isinstance(document, Workflow):
            yield ReadDocument(document)
        else:
            yield from read_document(document, emulate=settings.emulate, template=template)


def _resolve(
    read: ReadDocument, catalog: Catalog, settings: Settings, inputs: Path | None
) -> Workflow:
    """The workflow with the files and programs that it needs, or scaled for emulation."""
    workflow, folder = read.workflow, read.folder
    if settings.emulate:
        return scaled(workflow, settings)
    places = [place for place in (inputs, folder) if place is not None]
    clusters = any(site.access is not None for site in catalog.sites)
    if workflow.bag is not None:
        return with_files(read, places, clusters=clusters)
    return with_executables(with_inputs(workflow, places, folder), folder, clusters=clusters)
