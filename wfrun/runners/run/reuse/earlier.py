"""Earlier runs whose tasks a new run may reuse."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState, TaskStatus
from wfrun.engine.errors import InvalidError, WfrunError
from wfrun.engine.model import ORIGIN, SiteSpec, Workflow
from wfrun.runners.run.directory.lock import driver
from wfrun.runners.run.directory.run_directory import (
    RunDir,
    await_start,
    existing,
    find,
    has_log,
    is_driven,
)
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.files.stored_names import stored_as
from wfrun.runners.run.requests import AttemptRequests
from wfrun.runners.run.reuse.identities import Identifier, Record
from wfrun.runners.run.reuse.keys import task_keys
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.log_errors import replay

_LOGGER = logging.getLogger(__name__)

MAX_RUNS = 10
"""Maximum number of earlier runs that ``--reuse auto`` offers for reuse, the latest first."""
CHANGED_SLACK_S = 60.0
"""Maximum time from the end of a run to the last change of an output, in seconds. An output that
changed later counts as edited. The tolerance is needed because the clock of a file server may
differ from this machine's."""


class KeptFile(NamedTuple):
    """An output of an earlier run that still exists, as far as this machine can see."""

    size_bytes: int
    path: str
    """Path on this machine, or name in the store of ``site``."""
    site: SiteSpec | None
    """The site that has it; None: this machine."""
    directory: str
    """Name of the earlier run's directory at ``site``; empty for a file on this machine."""
    is_final: bool
    """Whether the file is in ``outputs/`` of the earlier run, where the user may write it. Only
    such a file is linked as a final output of the new run; the read-only file of a store is
    copied."""


class EarlierRun:
    """An earlier run, ended or interrupted, with its state."""

    def __init__(self, run: RunDir, record: Record, state: RunState) -> None:
        self.run, self.record, self.state = run, record, state
        self._specs = [site.spec for site in state.sites]
        self._requests = AttemptRequests(state, run, self._specs)

    def done_tasks(self, identifier: Identifier) -> Iterator[tuple[bytes, tuple[int, int]]]:
        """Yield (content key, (workflow, task)) for each task that is done."""
        for w in self.state.workflows:
            keys = task_keys(w.workflow, self.record, identifier)
            for task, status in enumerate(w.status):
                if status == TaskStatus.DONE:
                    yield keys[task], (w.index, task)

    def was_written(self, workflow: int, file: int) -> bool:
        """Whether the producing task has written a file. A task need not write an optional
        output."""
        w = self.state.workflows[workflow]
        return bool(w.present[file]) or file in w.lost

    def kept(self, workflow: int, file: int, sites: Sequence[SiteSpec]) -> KeptFile | None:
        """Find an output of the run: on this machine, or else at one of ``sites``. At remote sites
        the log decides; whether the site still has the file is not checked. None: the file is
        nowhere."""
        w = self.state.workflows[workflow]
        present, size_bytes = w.present[file], w.sizes[file]
        if present & self.state.network.bit(ORIGIN):
            path = self._requests.output_path(workflow, file)
            is_final = w.workflow.files[file].collect
            if self._is_unchanged(path, size_bytes):
                return KeptFile(size_bytes, str(path), None, "", is_final)
        name, folder = stored_as(w, file), self.state.site_directory
        held = [(i, spec) for i, spec in enumerate(self._specs) if present >> i & 1]
        for _, spec in held:
            if spec.access is None:
                path = self.run.site_directory(spec, folder) / "files" / name
                if self._is_unchanged(path, size_bytes):
                    return KeptFile(size_bytes, str(path), None, "", False)
        for index, spec in held:
            if spec.access is not None and not self.state.removed >> index & 1:
                same = next((site for site in sites if _is_same(site, spec)), None)
                if same is not None:
                    return KeptFile(size_bytes, name, same, folder, False)
        return None

    def _is_unchanged(self, path: Path, size_bytes: int) -> bool:
        try:
            found = os.stat(path)
        except OSError:
            return False
        is_there = path.is_dir() or found.st_size == size_bytes
        return is_there and found.st_mtime <= self.state.now_s + CHANGED_SLACK_S


def _is_same(site: SiteSpec, earlier: SiteSpec) -> bool:
    """Whether the entries of two catalogs name the same site and directory. False for local
    sites."""
    if site.access is None or earlier.access is None:
        return False
    return (site.name, site.directory, site.access.hosts, site.access.user, site.access.port) == (
        earlier.name, earlier.directory, earlier.access.hosts, earlier.access.user,
        earlier.access.port,
    )  # fmt: skip


def earlier_runs(choice: str, workflows: Sequence[Workflow]) -> Iterator[EarlierRun]:
    """Yield the runs whose tasks a new run may reuse, the latest first: the run that ``choice``
    names, or, if ``choice`` is ``auto``, at most `MAX_RUNS` of the user's runs that have a workflow
    with the name of one of ``workflows``.

    Raises InvalidError if the named run cannot be reused. With ``auto`` such a run is skipped, with
    a warning.
    """
    if choice != "auto":
        named = _load(find(choice), None)
        assert named is not None, "it was read whatever its workflows are"
        yield named
        return
    names = {workflow.name for workflow in workflows}
    found = 0
    for run in reversed(existing()):
        try:
            earlier = _load(run, names) if has_log(run.path) else None
        except WfrunError as error:
            _LOGGER.warning("%s is not reused: %s", run.path, error.message)
            continue
        if earlier is not None:
            yield earlier
            found += 1
        if found == MAX_RUNS:
            return


def _load(run: RunDir, names: set[str] | None) -> EarlierRun | None:
    """Read a run; None if none of its workflows is named in ``names`` (None: any name). Raises
    InvalidError if the run cannot be reused, and the errors of `Store`."""
    run = OwnRun(run, None)
    store = Store(run.path, judge=run.judge)
    try:
        record = store.record()
        if names is not None and (record is None or names.isdisjoint(record.names)):
            return None
        if record is None:
            raise InvalidError(
                f"the run {run.name} cannot be reused: its log does not say which files it read",
                hint="logs of emulated and simulated runs do not, nor those of wfrun until 0.1",
            )
        if is_driven(run):
            raise InvalidError(
                f"the run {run.name} is being driven by {driver(run.lock)}",
                hint="wait for its end: its files may be removed meanwhile",
            )
        await_start(run, 0.0)
        core = Core(store.workflows())
        replay(core, store.load(), store.path)
        return EarlierRun(run, record, core.state)
    finally:
        store.close()
