"""Shell completion of names in a run or a catalog.

A shell inserts a completion unchanged, so that names that need quotes are left out. If a run or a
catalog cannot be read, nothing is completed; the command itself reports the error.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from wfrun.engine.core.state import RunState

MAX_NAMES = 500
"""Maximum number of names that are given to the shell. More do not fit a screen."""
_EXAMINED = 20_000
"""Maximum number of tasks of a workflow whose types are collected."""
_Items = list[CompletionItem]


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Names of the user's runs, the latest first, and ``last``; folders if no name matches."""
    found = _matching([*_runs(), "last"], incomplete)
    return found or [CompletionItem(incomplete, type="dir")]


def complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Names of the user's runs, and the words ``auto`` and ``none``."""
    return _matching([*_runs(), "auto", "none"], incomplete)


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Files of this machine."""
    return [CompletionItem(incomplete, type="file")]


def complete_tasks(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Ids of tasks of the command's run."""
    state = _state(ctx)
    tasks = (task for w in state.workflows for task in w.workflow.tasks) if state else ()
    return _matching((task.id for task in tasks), incomplete)


def complete_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Types of tasks of the command's run."""
    state = _state(ctx)
    names: dict[str, None] = {}
    for w in state.workflows if state else ():
        tasks = w.workflow.tasks
        shown = 1 if w.workflow.bag is not None else _EXAMINED
        names.update(dict.fromkeys(task.name for task in islice(tasks, shown)))
    return _matching(names, incomplete)


def complete_workflows(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Names of workflows of the command's run."""
    from wfrun.runners.display.workflow_names import distinct_names

    state = _state(ctx)
    workflows = [w.workflow for w in state.workflows] if state else []
    return _matching(distinct_names(workflows), incomplete)


def complete_sites(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Names of sites of the command's run."""
    state = _state(ctx)
    return _matching([site.spec.name for site in state.sites] if state else [], incomplete)


def complete_entries(ctx: click.Context, param: click.Parameter, incomplete: str) -> _Items:
    """Names of sites of the command's catalog."""
    from wfrun.engine.errors import WfrunError
    from wfrun.sites.catalog import read_catalog

    names: Sequence[str] = []
    with suppress(WfrunError, OSError):
        path = ctx.params.get("catalog") or "sites.yaml"
        names = [site.name for site in read_catalog(Path(path)).sites]
    return _matching(names, incomplete)


def _matching(names: Iterable[str], incomplete: str) -> _Items:
    found = (name for name in names if name.startswith(incomplete) and shlex.quote(name) == name)
    return [CompletionItem(name) for name in islice(found, MAX_NAMES)]


def _runs() -> list[str]:
    from wfrun.runners.run.directory.run_directory import existing, names

    return names(existing())[::-1]


def _state(ctx: click.Context) -> RunState | None:
    """The state of the command's run; None if it cannot be read."""
    from wfrun.engine.errors import WfrunError
    from wfrun.runners.inspect.tables.followed_run import FollowedRun
    from wfrun.runners.run.directory.run_directory import find
    from wfrun.runners.run.prepare.plugins import load_policies

    # Click leaves all arguments unparsed if the last word is an option without its value.
    run = ctx.params.get("run") or next(iter(ctx.args), None)
    with suppress(WfrunError, OSError):
        load_policies()
        with FollowedRun(find(run), timeout_s=0) as followed:
            return followed.state
    return None
