"""What DAX and Pegasus 5 documents do alike with their catalogs: find programs, include others."""

from __future__ import annotations

from pathlib import Path

from wfrun.parsers.workflows.build import TaskDraft, WorkflowBuilder
from wfrun.parsers.workflows.profiles import PhysicalNames


def include_document(
    builder: WorkflowBuilder,
    node: str,
    name: str,
    places: PhysicalNames | None,
    directory: Path,
    line: int,
) -> None:
    """Read in the sub-workflow ``name`` in place of the node.

    It is where the replica catalog says, or beside the document that includes it (under its name,
    or that which the catalog gives). Raises InvalidError that says where it was looked for.
    """
    path = places.path(directory) if places is not None else None
    candidates = [] if path is None else [Path(path)]
    candidates.append(directory / name)
    if path is not None:
        candidates.append(directory / Path(path).name)
    for candidate in candidates:
        if candidate.is_file():
            builder.include(node, candidate, line)
            return
    looked = ", ".join(dict.fromkeys(map(str, candidates)))
    builder.fail(
        f"sub-workflow {node}: its document {name} is not there",
        line,
        f"Put it at one of: {looked}.",
    )


def use_catalog_entry(
    builder: WorkflowBuilder, entry: PhysicalNames, draft: TaskDraft, directory: Path, line: int
) -> None:
    """Take the program and the environment from the transformation catalog."""
    if entry.env:
        draft.env = entry.env
    path = entry.path(directory)
    if path is not None:
        draft.executable = path
    elif entry.places:
        text = "transformation whose catalog entry is not on this machine, looked up by name"
        builder.warn(text, line)
