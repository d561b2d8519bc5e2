"""Paths of the outputs of a run on the submit host."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Container, Iterator
from pathlib import Path

from wfrun.engine.model import Workflow
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.files.stored_names import MAX_BASE_NAME, stored_name

_MAX_SUFFIX = 60
"""Maximum length of a task's id in the name of an output, in characters."""
MAX_NAME_BYTES = 255
"""Maximum length of one part of a path on usual file systems, in bytes."""


class OutputPaths:
    """Paths of the outputs of a run at ORIGIN. Final outputs are in ``outputs/``. Outputs of reused
    tasks that only other tasks read are in ``reused/``.

    ``several``: the run began with several workflows, so that each has its own folder in
    ``outputs/``. If the run began with one workflow, only workflows added later have folders of
    their own.
    """

    def __init__(self, run: RunDir, *, several: bool) -> None:
        self._run = run
        self._several = several
        self._final: dict[int, dict[int, Path]] = {}

    def path(self, workflow: Workflow, number: int, file: int) -> Path:
        """The path of an output of a workflow. Under emulation final outputs may share a name; the
        second and further ones then get the id of their task as a suffix. Before writing, the
        caller must check that the path is inside its folder."""
        record = workflow.files[file]
        if not record.collect:
            return self._run.reused.absolute() / stored_name(workflow, number, file)
        if workflow.bag is not None:  # output names of bags are distinct
            return self._folder(workflow, number) / (record.url or record.name)
        if number not in self._final:
            self._final[number] = self._final_paths(workflow, number)
        return self._final[number][file]

    def _folder(self, workflow: Workflow, number: int) -> Path:
        folder = self._run.outputs.absolute()
        if not self._several and number == 0:
            return folder
        return folder / workflow_folder(workflow, number)

    def _final_paths(self, workflow: Workflow, number: int) -> dict[int, Path]:
        folder = self._folder(workflow, number)
        paths: dict[int, Path] = {}
        final = [
            (n, f) for n, f in enumerate(workflow.files) if f.collect and f.producer is not None
        ]
        names = {file.url or file.name for _, file in final}
        # A name of its own is neither that of another output nor that of a folder of one.
        taken = names | {name[:end] for name in names for end in _slashes(name)}
        for index, file in final:
            name = file.url or file.name
            if name in names:
                names.remove(name)  # the first of this name
            else:
                assert file.producer is not None
                name = _own_name(name, workflow.tasks[file.producer].id, taken)
                taken.add(name)
            paths[index] = folder / name
        return paths


def workflow_folder(workflow: Workflow, number: int) -> str:
    """Name of the folder of a workflow in ``outputs/``."""
    return f"{number}-{_plain(workflow.name)[:MAX_BASE_NAME]}"


def _slashes(name: str) -> Iterator[int]:
    return (place for place, letter in enumerate(name) if letter == "/")


def _own_name(name: str, task: str, taken: Container[str]) -> str:
    """Return a free name for an output whose name is taken: the name with the task's id as a
    suffix, and with a number if that is taken too. Characters of the id that could change the path
    are replaced."""
    folder, slash, base = name.rpartition("/")
    suffix = f".{_plain(task)[:_MAX_SUFFIX]}"
    for number in itertools.count(1):
        end = suffix if number == 1 else f"{suffix}.{number}"
        start = os.fsencode(base)[: MAX_NAME_BYTES - len(end)].decode(errors="ignore")
        found = f"{folder}{slash}{start}{end}"
        if found not in taken:
            break
    return found


def _plain(text: str) -> str:
    """Return the text for use in a file name: all but letters, digits, ``.``, ``_`` and ``-``
    becomes ``_``."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)
