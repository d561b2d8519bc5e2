"""From documents and options to a run that can start.

Everything that can be wrong with the user's input is found here, before anything is started. Each
document is read (`wfrun.parsers.read`), its run times are checked, its input files and programs are
found (or it is scaled for emulation), and its tasks have to fit a site.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, SiteSpec, Workflow
from wfrun.engine.policies.placement import placement_class, placement_options
from wfrun.engine.visible import name_line
from wfrun.parsers.bags.line_template import LineTemplate
from wfrun.parsers.input_catalog import read_input_catalog
from wfrun.parsers.read import ReadDocument, read_document
from wfrun.runners.run.checks import check_fits, check_template, container_warnings, with_selection
from wfrun.runners.run.resolve import resolve
from wfrun.runners.run.runtimes import check_runtimes
from wfrun.runners.run.scaling import emulated

MAX_MISSING = 200
"""Maximum number of characters of a warning about missing files."""


class Plan(msgspec.Struct, frozen=True):
    """What is going to be run, checked."""

    workflows: list[Workflow]
    catalog: Catalog
    settings: Settings
    warnings: tuple[str, ...]


def _smallest(workflow: Workflow) -> str:
    """The warning for moldable jobs of a run without a search of sizes."""
    count = len(workflow.moldable)
    get = "job gets its smallest size" if count == 1 else "jobs get their smallest sizes"
    return f"{workflow.source}: {count} {get}; `wfrun jobs --size` chooses others"


def this_machine() -> Catalog:
    """The catalog of a run without ``--sites``: one local site with all cores."""
    slots = len(os.sched_getaffinity(0))
    return Catalog((SiteSpec("local", slots=slots),))


def prepare(
    documents: Sequence[Path | Workflow | ReadDocument],
    catalog: Catalog,
    settings: Settings,
    *,
    inputs: Path | None = None,
    at_sites: bool = False,
    template: LineTemplate | None = None,
    needs_files: bool = True,
) -> Plan:
    """Read and check documents.

    Without ``needs_files`` missing inputs and executables are warnings. ``at_sites``: emulated
    tasks run at the catalog's clusters, not at stand-ins on this machine. ``template``: for tables
    and lists of commands.

    Raises InvalidError for the first document that is wrong, for all missing inputs and for all
    missing executables of a document together, for a task that fits no site, and for settings that
    contradict each other.
    """
    policy = placement_class(settings.policy)
    placement_options(policy, settings.policy_options)
    if not documents:
        raise InvalidError("there is no workflow to run")
    if settings.emulate:
        catalog = emulated(catalog, settings.time_scale, at_sites=at_sites)
    if template is not None:
        check_template(template, [d for d in documents if isinstance(d, Path)])
    input_catalog = None
    if settings.input_catalog and not settings.emulate:
        input_catalog = read_input_catalog(Path(settings.input_catalog))
    workflows: list[Workflow] = []
    warnings: list[str] = []
    for document in documents:
        for read in (
            [ReadDocument(document)]
            if isinstance(document, Workflow)
            else [document]
            if isinstance(document, ReadDocument)
            else read_document(document, emulate=settings.emulate, template=template)
        ):
            warnings += check_runtimes(read, policy, settings)
            try:
                workflow = resolve(read, catalog, settings, inputs, input_catalog)
            except InvalidError as error:
                if needs_files:
                    raise
                workflow = read.workflow
                warnings.append(f"{workflow.source}: {name_line(error.message, MAX_MISSING)}")
            sized = settings.sizing is not None
            check_fits(read, workflow, catalog, sized=sized)
            if workflow.moldable and not sized:
                warnings.append(_smallest(workflow))
            warnings += container_warnings(workflow, catalog)
            workflows.append(workflow)
    if input_catalog is not None and all(w.bag is not None for w in workflows):
        raise InvalidError("--input-catalog has no effect: bags name the paths of their inputs")
    settings = with_selection(settings, workflows, catalog)
    return Plan(workflows, catalog, settings, tuple(warnings))
