"""The stage *resolve* of a run: what a document names is found, or scaled for emulation."""

from __future__ import annotations

from pathlib import Path

from wfrun.engine.events import Settings
from wfrun.engine.model import Catalog, Workflow
from wfrun.parsers.input_catalog.entries import InputCatalog
from wfrun.parsers.read import ReadDocument
from wfrun.runners.run.images import with_images
from wfrun.runners.run.input_places import InputPlaces
from wfrun.runners.run.prepare_bag import with_files
from wfrun.runners.run.prepare_workflow import check_outputs, with_executables, with_inputs
from wfrun.runners.run.scaling import scaled


def resolve(
    read: ReadDocument,
    catalog: Catalog,
    settings: Settings,
    inputs: Path | None,
    input_catalog: InputCatalog | None = None,
) -> Workflow:
    """Find the input files and programs of a document; ``inputs`` is searched before its folder.

    Raises InvalidError for missing ones, and for outputs that cannot be kept in one folder.
    """
    workflow, folder = read.workflow, read.folder
    if workflow.bag is None:
        check_outputs(workflow)
    if settings.emulate:
        return scaled(workflow, settings)
    places = [place for place in (inputs, folder) if place is not None]
    remote_sites = any(site.access is not None for site in catalog.sites)
    # A site that sets up an environment may have programs that this process does not see.
    at_sites = remote_sites or any(site.environment is not None for site in catalog.sites)
    if workflow.bag is not None:
        return with_files(read, places, at_sites=at_sites, remote_sites=remote_sites)
    workflow = with_inputs(workflow, InputPlaces(places, folder, catalog, settings, input_catalog))
    workflow = with_executables(workflow, folder, at_sites=at_sites)
    return with_images(workflow, places, remote_sites=remote_sites)
