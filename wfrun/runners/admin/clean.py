"""``wfrun clean``: removes the files, attempts and launchers of a run, at every site and on this
machine.

A directory is removed only under two conditions. Its name is that of the run's directory at its
sites, which has the run's id and a random part. It is a directory of the user, not a link.
Directories that runs share, such as images of containers, stay.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, WfrunError
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.checks.trial_job import until_gone
from wfrun.runners.run.directory.lock import Lock
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.sites.make_sites import make_site, terminal_prompter
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import FILE_NAME
from wfrun.sites.kind import AnySite, RemoteSite
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.sites.local.site import LocalSite
from wfrun.sites.remote.agent import remove
from wfrun.sites.remote.files.directory import find_directory
from wfrun.sites.remote.host import Host
from wfrun.sites.transfers.local.disk import remove_parts

SITE_S = 1800.0
"""Maximum time to clean a site, in seconds: enough to remove directories of many files. A site that
does not answer fails earlier, by the timeouts of its connection."""
END_S = 30.0
"""Maximum time for cancelled attempts to end, in seconds."""
_REMOVE_INTERVAL_S = 0.5
_OWN = 'if [ -L "$1" ]; then exit 1; elif [ -e "$1" ]; then [ -d "$1" ] && [ -O "$1" ]; fi'
"""Shell test: the path is a directory of the user, or absent."""


class Left(NamedTuple):
    """A site that could not be cleaned."""

    site: str
    directory: str
    """The directory that is left, in the notation of the catalog."""
    reason: str


async def clean_run(run: OwnRun, *, keep_outputs: bool) -> list[Left]:
    """Remove a run that no process drives, at its sites and then on this machine. Returns the sites
    that could not be cleaned. If there are any, the run's directory stays, so that a further call
    can continue. Raises InvalidError for a run that is driven or was never started."""
    lock = Lock(run.lock, judge=run.judge)
    try:
        state = read_state(run)
        results = await asyncio.gather(
            *(_clean_site(run, state, number) for number in range(len(state.sites)))
        )
        left = [one for one in results if one is not None]
        if not left:
            _remove_here(run, keep_outputs=keep_outputs)
    finally:
        lock.release()
    if not left:
        run.lock.unlink(missing_ok=True)
        if not keep_outputs or not run.outputs.exists():
            _remove_folder(run.path)
    return left


def _remove_here(run: RunDir, *, keep_outputs: bool) -> None:
    """Remove the content of the run's directory, except the lock and, with ``keep_outputs``, the
    outputs. The log is removed last, because a further call needs it to continue."""
    last = (FILE_NAME, f"{FILE_NAME}-journal")
    remove_parts(run.outputs, kept=True)
    kept = {run.lock.name, *([run.outputs.name] if keep_outputs else ())}
    names = sorted((entry.name for entry in os.scandir(run.path)), key=lambda name: name in last)
    for name in names:
        if name not in kept:
            _remove(run.path / name)


def _remove(path: Path) -> None:
    remove(os.fsencode(path.absolute()), os.fsencode(Path.home()))


def _remove_folder(path: Path) -> None:
    """Remove the empty directory of the run. If ``path`` is a link, its target is removed and the
    link stays."""
    path.resolve().rmdir()


async def _clean_site(run: RunDir, state: RunState, number: int) -> Left | None:
    spec = state.sites[number].spec
    here = run.site_directory(spec, state.site_directory)
    site = make_site(
        spec, number, state.run_id, state.site_directory, here, time.time,
        prompter=terminal_prompter(),
    )  # fmt: skip
    try:
        await asyncio.wait_for(_clean(state, number, site, here), SITE_S)
    except (WfrunError, OSError, asyncio.TimeoutError) as error:
        reason = str(error) or f"it does not answer within {SITE_S:.0f} s"
        return Left(spec.name, _written(spec, state, here), reason)
    return None


def _written(spec: SiteSpec, state: RunState, here: Path) -> str:
    """The directory of the run at a site, in the notation of the catalog."""
    if spec.access is None:
        return str(here)
    return f"{spec.directory or DEFAULT_DIRECTORY}/{state.site_directory}"


async def _clean(state: RunState, number: int, site: AnySite, here: Path) -> None:
    keys = [attempt.key for attempt in state.attempts.values() if attempt.site == number]
    pool = pool_at(state, number)
    launchers = list(pool.launchers) if pool is not None else []
    is_open = False
    try:
        if keys or launchers:
            is_open = True
            await _end_work(site, keys, launchers)
        if not isinstance(site, LocalSite):
            if not is_open:
                is_open = True
                await site.connection.open(lambda _: None)
            await _remove_there(state, site)
    finally:
        if is_open:
            await site.close()
    if isinstance(site, LocalSite) and site.spec.directory is not None:
        await asyncio.to_thread(_remove_local, here)


async def _end_work(site: AnySite, keys: Sequence[str], launchers: Sequence[str]) -> None:
    """Cancel the open attempts of the run at a site, end its launchers, and wait for both. Raises
    InfeasibleError if they do not end."""
    ended = asyncio.Event()
    waiting = set(keys)

    def post(event: ev.Event) -> None:
        if isinstance(event, (ev.AttemptEnded, ev.RecordedEnd)):
            waiting.discard(event.key)
            if not waiting:
                ended.set()

    await site.open(post)
    if isinstance(site, BatchLauncherSite):
        await site.find_launchers(launchers)
    found = await site.find(keys)
    waiting.intersection_update(key for key in keys if found[key].state == "active")
    if waiting:
        await site.cancel(list(waiting))
        try:
            await asyncio.wait_for(ended.wait(), END_S)
        except asyncio.TimeoutError:
            raise InfeasibleError(f"{len(waiting)} attempts do not end") from None
    if isinstance(site, BatchLauncherSite):
        await site.dismiss()
        try:  # A job whose directory is gone cannot leave its exit record, and waits for it.
            await asyncio.wait_for(site.end_jobs(), END_S)
        except asyncio.TimeoutError:
            raise InfeasibleError("jobs of launchers do not end") from None
    await until_gone(site)


async def _remove_there(state: RunState, site: RemoteSite) -> None:
    host: Host = await site.connection.host()
    written = site.spec.directory or DEFAULT_DIRECTORY
    path = await find_directory(host, site.spec.name, written, state.site_directory)
    _check_name(state, path)
    if (await host.run(["sh", "-c", _OWN, "sh", path])).exit_code != 0:
        raise InfeasibleError(f"{path} is not a directory of yours")
    await remove_when_quiet(host, path)


async def remove_when_quiet(host: Host, path: str) -> None:
    """Remove a directory with its content. If it is not empty because something writes into it, try
    again for END_S seconds. Cancelled work writes until it has ended: a launcher writes exit
    records until the batch system signals its job."""
    deadline_s = time.monotonic() + END_S
    while True:
        try:
            await host.remove([path])
            return
        except InfeasibleError as error:
            if os.strerror(errno.ENOTEMPTY) not in error.message or time.monotonic() > deadline_s:
                raise
        await asyncio.sleep(_REMOVE_INTERVAL_S)


def _check_name(state: RunState, path: str) -> None:
    """Raise InfeasibleError if the name of the directory lacks the id of the run. Logs until
    version 5 may name any directory."""
    if state.run_id not in os.path.basename(path):
        raise InfeasibleError(f"{path} does not have the name of this run")


def _remove_local(path: Path) -> None:
    """Remove the run's directory at a local site whose catalog entry states a directory. Raises
    InfeasibleError if it is a link or belongs to another user."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise InfeasibleError(f"{path} is not a directory of yours")
    _remove(path)
