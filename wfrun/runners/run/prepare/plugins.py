"""Loads placement and selection policies, and orders of preemption, from installed packages."""

from __future__ import annotations

import logging
import traceback
from importlib.metadata import entry_points
from typing import Any

from wfrun.engine.errors import InvalidError
from wfrun.engine.jobs.scavenging.policies import PREEMPTION
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION

_LOGGER = logging.getLogger(__name__)
KINDS: dict[str, dict[str, Any]] = {
    "wfrun.placement": PLACEMENT,
    "wfrun.selection": SELECTION,
    "wfrun.preemption": PREEMPTION,
}
"""The registry of policies for each group of entry points."""


def load_policies() -> None:
    """Register the policies that installed packages offer under the entry point groups of `KINDS`.
    The name of an entry point is the policy's name. Its value is the policy's class, or the
    function of a preemption order. A policy that cannot be imported, or whose name is already
    taken, is skipped with a warning, because only runs that name it need it."""
    installed = entry_points()  # reads files of all packages
    for group, policies in KINDS.items():
        for entry in installed.select(group=group):
            known = policies.get(entry.name)
            if known is not None:
                if f"{known.__module__}:{known.__name__}" == entry.value:
                    continue  # loaded before
                _LOGGER.warning(
                    "%s offers a policy %r, which already exists: it is left out",
                    entry.value, entry.name,
                )  # fmt: skip
                continue
            try:
                policies[entry.name] = entry.load()
            except Exception as error:
                source, line = _place(error)
                fault = InvalidError(
                    f"the policy {entry.name!r} cannot be imported from {entry.value}: "
                    f"{type(error).__name__}: {error}",
                    source=source,
                    line=line,
                    hint="It is left out. Correct, update or uninstall the package that offers it.",
                )
                _LOGGER.warning("%s", fault)


def _place(error: Exception) -> tuple[str | None, int | None]:
    """File and line at which an import failed, without the frames of the import machinery. (None,
    None) if the module itself was not found."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and "importlib" not in frame.filename
    ]
    # The first frame is ours: without another one the module itself was not found.
    return (frames[-1].filename, frames[-1].lineno) if len(frames) > 1 else (None, None)
