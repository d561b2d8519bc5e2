"""Placement and selection policies of installed packages."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from wfrun.engine.errors import InvalidError
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.policies.selection import SELECTION

KINDS: dict[str, dict[str, Any]] = {"wfrun.placement": PLACEMENT, "wfrun.selection": SELECTION}
"""The registry of policies for each group of entry points."""


def load_policies() -> None:
    """Register the policies that installed packages offer under the entry point groups
    ``wfrun.placement`` and ``wfrun.selection`` (name = the policy's name, value = its class).
    Raises InvalidError for a policy that cannot be imported or has the name of another."""
    for group, policies in KINDS.items():
        for entry in entry_points(group=group):
            known = policies.get(entry.name)
            if known is not None:
                if f"{known.__module__}:{known.__name__}" == entry.value:
                    continue  # loaded before
                raise InvalidError(
                    f"{entry.value} offers a policy {entry.name!r}, which already exists"
                )
            try:
                policies[entry.name] = entry.load()
            except Exception as error:
                raise InvalidError(
                    f"the policy {entry.name!r} cannot be imported from {entry.value}: {error}",
                    hint="update or uninstall the package that offers it",
                ) from error
