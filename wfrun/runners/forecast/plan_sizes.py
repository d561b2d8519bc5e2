"""Where the sizes of the files of a plan come from."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from wfrun.engine.model import File, Workflow
from wfrun.engine.tasks.bag import BagFiles
from wfrun.runners.simulate.rest import Reused


class SizeSources(msgspec.Struct, frozen=True):
    """Number of files by the source of their size."""

    documented: int
    """Stated by the document."""
    measured: int
    """Of inputs on this machine, and of what a run has written or copied so far."""
    assumed: int
    """Assumed to be empty."""


def size_sources(
    workflows: Sequence[Workflow], reused: Reused | None, *, emulated: bool
) -> SizeSources:
    """The sources of all files that a run may copy. Files of done tasks that nothing needs do not
    count."""
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
    """Whether it is an input that was found on this machine."""
    return file.producer is None and file.url is not None and file.url.startswith("/")
