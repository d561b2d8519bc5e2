"""The stage *build* of a workflow: from linked tasks to the model's `Workflow`."""

from __future__ import annotations

from wfrun.engine.model import File, InputSource, Workflow
from wfrun.parsers.workflows.link import Linked


def build_workflow(linked: Linked) -> Workflow:
    """Make the workflow, with its files and warnings."""
    document = linked.document
    files = _files(linked)
    warnings = []
    for text, (count, (source, line, locate)) in document.warnings.items():
        first = "" if line is None else f", first at {source}:{locate(line)}"
        warnings.append(f"{text}: {count}{first}")
    odd = len(linked.files.odd_sizes)
    if odd:
        warnings.append(f"file with differing sizes, its producer's holds: {odd}")
    name, source = document.name, document.source
    return Workflow(name, source, linked.tasks, files, linked.parents, tuple(warnings))


def _files(linked: Linked) -> list[File]:
    """The files of the model. The producer's size counts, else the largest that a reader states;
    an output that no task reads is a final one, unless it is marked otherwise."""
    odd, document = linked.files.odd_sizes, linked.document
    consumed: set[int] = set()
    for task in linked.tasks:
        consumed.update(task.inputs)
    files = []
    for file in linked.files.all:
        name, size = file.name, file.read_bytes
        written = file.written_bytes
        if written is not None:
            if size is not None and size != written:
                odd.add(name)
            size = written
        if file.producer is None:
            url, sources = document.urls.get(name), tuple(document.sources.get(name, ()))
            if url is not None and sources == (InputSource(url),):
                sources = ()
            sha256 = document.checksums.get(name)
            files.append(
                File(name, size, None, url, file.executable, sources=sources, sha256=sha256)
            )
            continue
        collect = file.stage_out
        if collect is None:
            collect = file.index not in consumed
        files.append(File(name, size, file.producer, None, file.executable, collect))
    return files
