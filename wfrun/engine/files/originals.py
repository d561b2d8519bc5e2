"""Initial inputs that sites have already: where replica catalogs say, outside of the run's stores.

Such a file is a source of copies like any other, and policies see it at its site. It is never
changed or removed: a task at its own site reads a copy in the store, which the site makes itself.
"""

from __future__ import annotations

from wfrun.engine.core.state import RunState, WorkflowState
from wfrun.engine.model import File


def sites_with(state: RunState, file: File) -> int:
    """The sites that have an initial input by its replica catalog, as a mask."""
    names = {source.site for source in file.sources if source.site}
    if not names:
        return 0
    return sum(1 << index for index, site in enumerate(state.sites) if site.spec.name in names)


def add_originals(state: RunState, w: WorkflowState) -> None:
    """Note the places and checksums that replica catalogs state for the inputs of a workflow."""
    for index, file in enumerate(w.workflow.files):
        if file.sha256 is not None:
            w.digests[index] = file.sha256
        if file.sources and (mask := sites_with(state, file)):
            w.originals[index] = mask
            w.present[index] = mask if file.url is None else w.present[index] | mask


def keep_original(state: RunState, w: WorkflowState, file: int, site: int) -> None:
    """Count on the original again where the copy in the store is removed or has vanished."""
    bit = state.network.bit(site)
    if file in w.originals and sites_with(state, w.workflow.files[file]) & bit:
        w.originals[file] |= bit
        w.present[file] |= bit
        w.lost.discard(file)


def restore_originals(state: RunState, w: WorkflowState, file: int) -> None:
    """Count again on all originals of an input that is at no other place: a copy from each has
    failed, and may succeed now. Without a place it would be taken for one that nobody wrote."""
    mask = sites_with(state, w.workflow.files[file]) & ~state.left
    w.originals[file] = mask
    w.present[file] = mask


def original_path(file: File, site: str) -> str:
    """The path of an initial input at a site that has it."""
    return next(source.url for source in file.sources if source.site == site)
