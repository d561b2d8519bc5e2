"""Names of the files of a run in the stores of its sites."""

from __future__ import annotations

import re

from wfrun.engine.core.state import WorkflowState
from wfrun.engine.model import Workflow

MAX_BASE_NAME = 120
"""Maximum length of the readable part of a stored name, in characters. The whole name then stays
below the 255 bytes that file systems allow."""


def stored_name(workflow: Workflow, number: int, file: int, variant: int = 0) -> str:
    """The name of a file in the sites' stores. It is flat, readable and unique in the run.

    ``variant`` is the number of the attempt that wrote the file (0: the first). Each attempt of a
    task writes files of its own, so that an abandoned attempt that still runs overwrites no file.
    """
    base = re.sub(r"[^A-Za-z0-9._+=-]", "_", workflow.files[file].name.rsplit("/", 1)[-1])
    return f"{number}-{file}{f'.{variant}' if variant else ''}-{base[-MAX_BASE_NAME:]}"


def stored_as(w: WorkflowState, file: int) -> str:
    """The stored name under which tasks read a file. The stored name of an output contains the
    number of the attempt that completed the producing task. The file may not exist yet."""
    return stored_name(w.workflow, w.index, file, w.variant_of(file))
