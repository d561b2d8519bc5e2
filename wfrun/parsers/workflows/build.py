"""The stage *build* of a workflow: from linked tasks to the model's `Workflow`."""

from __future__ import annotations

from wfrun.engine.model import Workflow
from wfrun.parsers.workflows.link import Linked


def build_workflow(linked: Linked) -> Workflow:
    """Make the workflow, with its files and warnings."""
    document, tasks = linked.document, linked.tasks
    consumed: set[int] = set()
    for task in tasks:
        consumed.update(task.inputs)
    files = linked.files.finish(document.urls, consumed)
    odd = len(linked.files.odd_sizes)
    if odd:
        document.warn("file with differing sizes, its producer's holds", None, odd)
    warnings = []
    for text, (count, (source, line, locate)) in document.warnings.items():
        first = "" if line is None else f", first at {source}:{locate(line)}"
        warnings.append(f"{text}: {count}{first}")
    return Workflow(document.name, document.source, tasks, files, linked.parents, tuple(warnings))
