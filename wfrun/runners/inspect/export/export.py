"""``wfrun export``: writes a run in a format that other programs read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from wfrun.engine.core.state import WorkflowState
from wfrun.engine.errors import InfeasibleError, InvalidError
from wfrun.runners.display.workflow_names import distinct_names
from wfrun.runners.inspect.export.attempts import RunAttempts, read_attempts
from wfrun.runners.inspect.export.ro_crate import export_ro_crate
from wfrun.runners.inspect.export.trace import export_trace
from wfrun.runners.inspect.export.wfformat import export_wfformat
from wfrun.runners.run.directory.run_directory import RunDir

Report = Callable[[str], None]
"""Called with a line for the user."""

_UNSAFE = re.compile(r"[^0-9A-Za-z_.-]+")
_MAX_NAME = 80
"""Maximum number of characters of the name of a workflow in the name of a file."""


def export(run: RunDir, form: str, output: Path | None, note: Report, warn: Report) -> None:
    """Write a run in the format ``form``: ``trace``, ``wfformat`` or ``ro-crate``.

    ``output`` is the file or crate to write. If the run has several workflows, and the format takes
    one workflow, ``output`` is a folder for the documents. None: a file or folder in the current
    folder, named after the run. ``note`` gets what was written, ``warn`` what the format could not
    express.

    Raises InvalidError for a run without workflows, InvalidError or InfeasibleError if ``output``
    cannot be written, and what ``await_start`` and ``Store`` raise.
    """
    read = read_attempts(run)
    if not read.state.workflows:
        raise InvalidError(
            f"the run {run.name} has no workflow yet", hint="try again once it has begun"
        )
    if form == "trace":
        _trace(read, output or Path(f"{_name(read)}.csv"), note, warn)
    else:
        _each_workflow(read, _FORMATS[form], output, note, warn)


def _name(read: RunAttempts) -> str:
    return _UNSAFE.sub("_", read.run.path.absolute().name)


def _trace(read: RunAttempts, path: Path, note: Report, warn: Report) -> None:
    for loss in export_trace(read, path):
        warn(f"{path}: {loss}")
    note(f"{path}: {len(read.attempts):,} attempts")


class _Format(NamedTuple):
    """A format that takes one workflow."""

    write: Callable[[RunAttempts, WorkflowState, Path], list[str]]
    suffix: str
    """Suffix of a default file name of a workflow; empty: the output of a workflow is a folder."""
    folder: str
    """Suffix of a default folder name: the folder of several workflows, or, if ``suffix`` is empty,
    of one workflow."""


_FORMATS = {
    "wfformat": _Format(export_wfformat, ".json", "-wfformat"),
    "ro-crate": _Format(export_ro_crate, "", "-crate"),
}


def _each_workflow(
    read: RunAttempts, form: _Format, output: Path | None, note: Report, warn: Report
) -> None:
    """Write a document for each workflow."""
    workflows = read.state.workflows
    if len(workflows) == 1:
        name = f"{_name(read)}{form.suffix or form.folder}"
        _one(read, workflows[0], form, output or Path(name), note, warn)
        return
    folder = output or Path(f"{_name(read)}{form.folder}")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InfeasibleError(
            f"the folder {folder} cannot be made: {error.strerror or error}",
            hint=f"the run has {len(workflows)} workflows, and each is a document of its own",
        ) from error
    digits = len(str(len(workflows)))
    names = distinct_names([w.workflow for w in workflows])
    for w, its_name in zip(workflows, names, strict=True):
        safe = _UNSAFE.sub("_", its_name)[:_MAX_NAME]
        path = folder / f"{w.index + 1:0{digits}}-{safe}{form.suffix}"
        _one(read, w, form, path, note, warn)


def _one(
    read: RunAttempts, w: WorkflowState, form: _Format, path: Path, note: Report, warn: Report
) -> None:
    for loss in form.write(read, w, path):
        warn(f"{path}: {loss}")
    measured = len(read.successes(w.index))
    if measured < len(w.status):
        warn(
            f"{path}: {len(w.status) - measured:,} of {len(w.status):,} tasks have no run time, "
            "since this run has not done them"
        )
    note(f"{path}: {len(w.status):,} tasks, {measured:,} with what they took")
