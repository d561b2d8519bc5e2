"""Links or copies the outputs of reused tasks into a new run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wfrun.engine.errors import WfrunError
from wfrun.engine.events import ReusedTasks
from wfrun.engine.model import ORIGIN
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.files.output_paths import OutputPaths
from wfrun.runners.run.files.stored_names import stored_name
from wfrun.runners.run.reuse.earlier import KeptFile
from wfrun.runners.run.reuse.plan import ReusableTasks, Reuse
from wfrun.sites.contained import contained
from wfrun.sites.kind import AnySite
from wfrun.sites.local.site import LocalSite
from wfrun.sites.transfers.endpoints.endpoint import part_name
from wfrun.sites.transfers.local.disk import (
    copy_path,
    explain_write,
    make_folders,
    remove,
    replace,
    sync_folder,
)

if TYPE_CHECKING:
    from wfrun.sites.cluster.site import ClusterSite
    from wfrun.sites.launchers.site import BatchLauncherSite
    from wfrun.sites.ssh.site import SshSite

_LOGGER = logging.getLogger(__name__)

_PAIRS = 500
"""Maximum number of files that one command links or copies at a site."""
_COMMAND_S = 300.0
"""Timeout of a command that links or copies up to `_PAIRS` files at a site, in seconds."""
_LINK = (
    "while IFS= read -r from && IFS= read -r to; do "
    'cp -al -- "$from" "$to" 2>/dev/null || cp -a -- "$from" "$to"; done'
)
"""Shell program that hard-links, or else copies, files. Its input has two lines per file: source
and target."""


async def take_over(
    reuse: Reuse, run: RunDir, sites: Sequence[AnySite]
) -> list[tuple[ReusedTasks, ...]]:
    """Link or copy the outputs that a new run needs, into its run directory or within sites.
    Returns the reused tasks of each workflow. If an output no longer exists, its task runs again,
    as do reused tasks whose outputs are then needed but gone. Raises InfeasibleError if a file
    cannot be written."""
    paths = OutputPaths(run, several=len(reuse.workflows) > 1)
    return [
        await _take_over(tasks, number, run, paths, sites)
        for number, tasks in enumerate(reuse.workflows)
    ]


async def _take_over(
    tasks: ReusableTasks, number: int, run: RunDir, paths: OutputPaths, sites: Sequence[AnySite]
) -> tuple[ReusedTasks, ...]:
    places: dict[int, int] = {}
    missing: set[int] = set()
    while wanted := {f: kept for f, kept in tasks.needed().items() if f not in places}:
        here = {file: kept for file, kept in wanted.items() if kept.site is None}
        targets = {file: paths.path(tasks.workflow, number, file) for file in here}
        done = await asyncio.to_thread(_take_here, here, targets, run)
        places.update(dict.fromkeys(done, ORIGIN))
        for index, site in enumerate(sites):
            there = {file: kept for file, kept in wanted.items() if kept.site == site.spec}
            if there and not isinstance(site, LocalSite):
                names = {file: stored_name(tasks.workflow, number, file) for file in there}
                done = await _take_at(site, there, names)
                places.update(dict.fromkeys(done, index))
        if gone := wanted.keys() - places.keys():
            missing |= gone
            tasks.choose(missing)
    return tuple(_records(tasks, places))


def _take_here(
    files: Mapping[int, KeptFile], targets: Mapping[int, Path], run: RunDir
) -> list[int]:
    """Link or copy files of this machine. Returns the files that were found. Raises InfeasibleError
    if one cannot be written."""
    done = []
    folders: set[Path] = set()
    for file, kept in files.items():
        is_final = targets[file].is_relative_to(run.outputs.absolute())
        target = contained(run.outputs if is_final else run.reused, str(targets[file]))
        source = Path(kept.path)
        try:
            if target.parent not in folders:
                if not is_final:  # outputs/ alone is shared by who opens the run
                    run.reused.mkdir(mode=0o700, exist_ok=True)
                make_folders(target.parent)
                folders.add(target.parent)
            # A file of a store is read-only; a final output is the user's to write.
            if is_final and not kept.is_final:
                _copy(source, target)
            else:
                _link(source, target)
        except OSError as error:
            if not source.exists():
                continue
            raise explain_write(error, target) from error
        done.append(file)
    for folder in folders:
        sync_folder(folder)
    return done


def _link(source: Path, target: Path) -> None:
    """Hard-link a file. Copies it if it is a directory, a symbolic link or on another file
    system."""
    if not source.is_symlink():
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    temporary = target.with_name(part_name(f"{os.getpid()}-reused"))
    try:
        copy_path(source, temporary, True, (), links_may_leave=True)
        replace(temporary, target)
    finally:
        remove(temporary)


async def _take_at(
    site: SshSite | ClusterSite | BatchLauncherSite,
    files: Mapping[int, KeptFile],
    names: Mapping[int, str],
) -> list[int]:
    """Link or copy files within a site, from the directory of the earlier run to that of the new
    run. Returns the files that are then there. If the site does not answer, warns, and returns the
    files that were confirmed before."""
    done: list[int] = []
    try:
        store = os.path.dirname(site.store_path("x"))
        root = os.path.dirname(os.path.dirname(store))
        host = await asyncio.wait_for(site.connection.host(), _COMMAND_S)
        numbers = list(files)
        for start in range(0, len(numbers), _PAIRS):
            some = numbers[start : start + _PAIRS]
            to = [f"{store}/{names[file]}" for file in some]
            from_ = [f"{root}/{files[f].directory}/files/{files[f].path}" for f in some]
            lines = "".join(f"{a}\n{b}\n" for a, b in zip(from_, to, strict=True))
            stdin = lines.encode("utf-8", "surrogateescape")
            await host.run(["sh", "-c", _LINK], stdin=stdin, timeout_s=_COMMAND_S)
            for file, found in zip(some, await host.stat(to), strict=True):
                if found and (found.is_directory or found.size_bytes == files[file].size_bytes):
                    done.append(file)
    except (WfrunError, asyncio.TimeoutError) as error:
        _LOGGER.warning(
            "site %s: outputs of earlier runs there are not reused: %s",
            site.spec.name, str(error) or "it does not answer",
        )  # fmt: skip
    return done


def _records(tasks: ReusableTasks, places: Mapping[int, int]) -> Iterator[ReusedTasks]:
    """The reused tasks of a workflow, by earlier run."""
    by_run: dict[str, list[int]] = {}
    for task, (run, _, _) in sorted(tasks.reused.items()):
        by_run.setdefault(str(run.run.path.absolute()), []).append(task)
    for name, numbers in by_run.items():
        files, lost = [], []
        for task in numbers:
            for file in tasks.workflow.tasks[task].outputs:
                if file in places:
                    kept = tasks.kept(task, file)
                    assert kept is not None, "it was taken over"
                    files.append((file, kept.size_bytes, places[file]))
                elif tasks.was_written(task, file):
                    lost.append(file)
        yield ReusedTasks(name, tuple(numbers), tuple(files), tuple(lost))
