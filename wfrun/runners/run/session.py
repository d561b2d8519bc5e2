"""One engine on one run directory, from lock to end: starting a run, or resuming one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import shutil
import signal
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

from wfrun.engine import events as ev
from wfrun.engine.capabilities.launchers.launchers import pool_at
from wfrun.engine.core import Core
from wfrun.engine.errors import InfeasibleError, InvalidError, WfrunError
from wfrun.engine.model import SiteSpec
from wfrun.engine.policies.placement import observed_of
from wfrun.engine.protocols import Site
from wfrun.engine.state import RunState
from wfrun.runners.run.clock import WallClock
from wfrun.runners.run.directory import (
    LOCK_NAME,
    RUNS,
    START_WAIT_S,
    Lock,
    RunDir,
    await_start,
    create,
    holds_run,
    never_started,
)
from wfrun.runners.run.dispatch import Dispatcher
from wfrun.runners.run.history import add_history, read_history
from wfrun.runners.run.loop import Loop, Observer
from wfrun.runners.run.prepare import Plan
from wfrun.runners.run.requests import Requests, make_emulated_inputs, stored_as
from wfrun.runners.run.sites import ask_at_terminal, make_site, make_transfer
from wfrun.runners.run.store import FILE_NAME, Store
from wfrun.runners.run.usage import Usage
from wfrun.sites.kind import AnySite
from wfrun.sites.launchers.site import BatchLauncherSite
from wfrun.sites.local.site import LocalSite
from wfrun.sites.transfers.disk import remove_parts

_LOGGER = logging.getLogger(__name__)
CANCEL_POLL_S = 0.5
CLEAN_S = 120.0
"""For a site to remove what a run that is done has left there."""
CLEAN_SOON_S = 5.0
"""Likewise for one that has not ended superseded attempts in all the time that it had."""


class Session:
    """A run that this process drives. Use it once: ``start`` or ``resume``, then ``drive``.

    ``state`` follows the run from then on. Observers see every group of events once it is
    durable.
    """

    def __init__(
        self,
        *,
        keep_files: bool = False,
        history: Path | None = None,
        past_usage: bool = False,
    ) -> None:
        """``history``: the file that a new run with a selection policy reads and adds to; with
        ``past_usage`` what owners have used in earlier runs counts for fairness."""
        self.observers: list[Observer] = []
        self.run: RunDir
        self._keep_files = keep_files
        self._history, self._past_usage = history, past_usage
        self._clock = WallClock()
        self._lock: Lock
        self._store: Store
        self._core: Core
        self._plan: Plan | None = None
        """What is to be started; None: a run that is resumed."""
        self._digests: list[str] = []
        self._lost: tuple[tuple[int, int, int], ...] = ()
        self._run_id = f"r{secrets.token_hex(4)}"
        self._begun = False
        self._early: list[ev.Event] = []
        """What sites have told before this session has begun in the log."""
        self._interrupts = 0
        self._interrupted = asyncio.Event()
        self.opened = asyncio.Event()
        """The sites are open: the terminal is not needed for logins any more."""

    @property
    def state(self) -> RunState:
        return self._core.state

    @property
    def clusters(self) -> list[str]:
        """Names of the sites that are reached over a connection."""
        return [spec.name for spec in self._specs if spec.access is not None]

    @property
    def _specs(self) -> Sequence[SiteSpec]:
        if self._plan is not None:
            return self._plan.catalog.sites
        return [site.spec for site in self.state.sites]

    @property
    def logged(self) -> int:
        """Events in the log so far."""
        return self._store.next_seq

    def start(self, plan: Plan, run_dir: Path | None, name: str) -> None:
        """Make the run directory and its store. Nothing is started yet; on an error nothing is
        left behind."""
        self.run = create(run_dir, name)
        try:
            self._lock = Lock(self.run)
        except WfrunError as error:
            # What another engine that was given the same directory has made there is not ours.
            if not isinstance(error, InvalidError):
                self._abandon()
            raise
        if (self.run.path / FILE_NAME).exists():  # it has run and ended since ``create`` looked
            self._lock.release()
            raise holds_run(self.run.path)
        try:
            self._store = Store(self.run.path, create=True)
            digests = self._store.put_workflows(plan.workflows)
            if plan.settings.emulate:
                for number, workflow in enumerate(plan.workflows):
                    make_emulated_inputs(workflow, number, self.run)
        except (WfrunError, OSError) as error:
            self._abandon()
            if isinstance(error, OSError):
                raise InfeasibleError(
                    f"the run directory can't be written: {error}", source=str(self.run.path)
                ) from error
            raise
        self._core = Core(dict(zip(digests, plan.workflows, strict=True)))
        self._plan, self._digests = plan, digests

    def resume(self, run: RunDir) -> None:
        """Take over a run: replay its log. Raises InvalidError when it is being driven. A run
        that is done may still have files at its sites; driving it removes them."""
        self.run = run
        self._lock = Lock(run)
        # Requests to cancel that come from now on are for this engine.
        self.run.cancel_request.unlink(missing_ok=True)
        try:
            if not (run.path / FILE_NAME).exists():
                raise never_started(run.path)
            self._store = Store(run.path)
            self._core = Core(self._store.workflows())
            self._core.replay(self._store.load())
            if not self.state.run_id:
                raise never_started(run.path)
        except WfrunError:
            self._lock.release()
            raise
        self._run_id = self.state.run_id
        self._clock.go_on_from(self.state.now_s)

    def _abandon(self, sites: Sequence[Path] = ()) -> None:
        """Nothing was started: leave the folder, and the directories of sites, as they were
        found."""
        request = self.run.cancel_request.name
        for name in (FILE_NAME, f"{FILE_NAME}-journal", LOCK_NAME, request):
            with contextlib.suppress(OSError):  # it is not there, or can't be there
                (self.run.path / name).unlink()
        for folder in (self.run.inputs, *sites, self.run.path / "sites"):
            shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.run.path.rmdir()
            if self.run.path.parent == RUNS:
                RUNS.rmdir()  # if this was the first run

    async def drive(self) -> RunState:
        """Run to the end. Raises InfeasibleError when a site can't be opened: nothing was then
        started."""
        specs = self._specs
        links = self._plan.catalog.links if self._plan else self.state.links
        settings = self._plan.settings if self._plan else self.state.settings
        observed = observed_of(settings, len(specs))
        directories = [self.run.site_directory(spec, self._run_id) for spec in specs]
        sites = [
            make_site(
                spec, index, self._run_id, directory, self._clock.now,
                observed=observed, pack_logs=settings.pack_logs, prompter=ask_at_terminal,
            )
            for index, (spec, directory) in enumerate(zip(specs, directories, strict=True))
        ]  # fmt: skip
        transfer = make_transfer(sites, links)
        far = {n: s.connection for n, s in enumerate(sites) if not isinstance(s, LocalSite)}
        usage = Usage(far, self._clock.now)
        opened: list[AnySite] = []
        abandoned = False
        try:
            await self._unless_interrupted(self._open(sites, opened))
            self.opened.set()
            if self._plan is None:
                remove_parts(self.run.outputs)
                for site in sites:
                    if isinstance(site, LocalSite):
                        remove_parts(site.store)
                self._lost = await find_lost(self.state, sites)
            requests = Requests(self.state, self.run, specs)
            dispatcher = Dispatcher(self._clock, sites, transfer, requests)
            loop = Loop(self._core, self._store, self._clock, dispatcher, self.observers)
            if self._plan is not None or self.state.ended != "done":
                first, *rest = self._first()
                for event in (first, *self._early, *rest):
                    self._clock.post(event)
                self._begun = True
                await self._watched(loop, usage)
                await asyncio.gather(
                    *(s.dismiss() for s in sites if isinstance(s, BatchLauncherSite))
                )
            if self.state.ended == "done" and not self._keep_files:
                try:
                    await self._unless_interrupted(self._clean(sites))
                except KeyboardInterrupt:
                    _LOGGER.warning("interrupted: some of the run's files stay at its sites")
            self._log(await usage.new_counts())
            add_history(self.state)
        except (InfeasibleError, KeyboardInterrupt):
            abandoned = self._plan is not None and len(opened) < len(sites)
            opened = sites if abandoned else opened
            raise
        finally:
            transfer.close()
            for site in opened:
                await site.close()
            self._store.close()
            self._lock.release()
            if abandoned:
                self._abandon(directories)
        return self.state

    async def _unless_interrupted(self, work: Coroutine[Any, Any, None]) -> None:
        """What waits for sites, and takes no part in the run. Raises KeyboardInterrupt."""
        self._interrupted.clear()
        task = asyncio.create_task(work)
        interruption = asyncio.create_task(self._interrupted.wait())
        await asyncio.wait([task, interruption], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            raise KeyboardInterrupt
        interruption.cancel()
        await task

    async def _open(self, sites: Sequence[AnySite], opened: list[AnySite]) -> None:
        """All at once, so that one that does not answer holds up the run no longer than itself.
        Raises what the first in order that can't be opened raises; then the others are open or
        have failed."""
        results = await asyncio.gather(
            *(site.open(self._post) for site in sites), return_exceptions=True
        )
        opened += [site for site, error in zip(sites, results, strict=True) if error is None]
        for error in results:
            if error is not None:
                raise error

    def _post(self, event: ev.Event) -> None:
        """What sites tell: the session begins first."""
        if self._begun:
            self._clock.post(event)
        else:
            self._early.append(event)

    def _first(self) -> list[ev.Event]:
        """How this session begins, at the moment when its sites are open."""
        now_s, plan = self._clock.now(), self._plan
        if plan is None:
            return [ev.RunResumed(now_s, self._lost)]
        catalog, count = plan.catalog, len(plan.workflows)
        earlier = []
        if self._history is not None and plan.settings.selection:
            earlier.append(
                read_history(self._history, plan.workflows, now_s, usage=self._past_usage)
            )
        return [
            ev.RunStarted(now_s, self._run_id, plan.settings, catalog.sites, catalog.links, count),
            *earlier,
            *(
                ev.WorkflowAdded(now_s, number, workflow.name, digest)
                for number, (workflow, digest) in enumerate(
                    zip(plan.workflows, self._digests, strict=True)
                )
            ),
        ]

    def _log(self, events: Sequence[ev.Event]) -> None:
        """What is to be told after the run has ended."""
        if events:
            for event in events:
                self._core.apply_after_end(event)
            self._store.append(events)
            self._store.commit()
            for observer in self.observers:
                observer(events)

    async def _watched(self, loop: Loop, usage: Usage) -> None:
        """The loop, while requests to cancel are listened for, and head nodes counted."""
        watchers = [
            asyncio.create_task(self._watch_cancel()),
            asyncio.create_task(usage.watch(self._clock.post)),
        ]
        gc.collect()
        gc.freeze()  # the workflow is immutable: collections need not walk it again and again
        try:
            await loop.run()
        finally:
            for watcher in watchers:
                watcher.cancel()
            gc.unfreeze()

    async def _watch_cancel(self) -> None:
        while True:
            if self.run.cancel_request.exists():  # perhaps since before the sites were open
                mode = self.run.cancel_request.read_text().strip()
                self.run.cancel_request.unlink(missing_ok=True)
                self.cancel("drain" if mode == "drain" else "kill")
            await asyncio.sleep(CANCEL_POLL_S)

    def cancel(self, mode: Literal["drain", "kill"]) -> None:
        """Dispatch nothing more; ``kill`` ends running tasks too."""
        self._post(ev.CancelAsked(self._clock.now(), mode))

    def interrupt(self) -> int:
        """What a Ctrl-C means: the first drains, the second kills, the third leaves at once.
        Returns how many there were."""
        self._interrupts += 1
        self._interrupted.set()
        if self._interrupts > 2:
            self._clock.fail(KeyboardInterrupt())
        else:
            self.cancel("drain" if self._interrupts == 1 else "kill")
        return self._interrupts

    def listen_to_signals(self, told: Callable[[int], None]) -> None:
        """SIGINT and SIGTERM interrupt the run; ``told`` is given how often they came."""
        loop = asyncio.get_running_loop()

        def note(number: int, frame: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run has ended
                loop.call_soon_threadsafe(lambda: told(self.interrupt()))

        # Not by the loop, which at its end would make them deadly before all is said and done.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, note)

    async def _clean(self, sites: Sequence[AnySite]) -> None:
        await asyncio.gather(*(self._clean_site(n, site) for n, site in enumerate(sites)))
        shutil.rmtree(self.run.inputs, ignore_errors=True)

    async def _clean_site(self, number: int, site: AnySite) -> None:
        left = [a.key for a in self.state.attempts.values() if a.site == number]
        reason = self._reported(number)
        if reason is None:
            try:
                patience_s = CLEAN_SOON_S if left and self._begun else CLEAN_S
                await asyncio.wait_for(self._clear(number, site, left), patience_s)
            except (WfrunError, asyncio.TimeoutError) as error:
                reason = str(error) or "it does not answer"
        if reason is not None:
            _LOGGER.warning(
                "site %s: the run's files there are not removed%s: %s; once it answers, `wfrun "
                "resume` does so", site.spec.name,
                ", and superseded attempts are not ended" if left else "", reason,
            )  # fmt: skip

    def _reported(self, number: int) -> str | None:
        """Why a site says that it takes no work; of a run that was done before, what it has told
        this engine."""
        if self._begun:
            return self.state.sites[number].reported
        told = (e for e in self._early if isinstance(e, (ev.SitePaused, ev.SiteReopened)))
        last = [event for event in told if event.site == number][-1:]
        return last[0].reason if last and isinstance(last[0], ev.SitePaused) else None

    async def _clear(self, number: int, site: AnySite, left: Sequence[str]) -> None:
        """Remove the run's files; of a run that was done before, end first what is left of it:
        attempts that did not matter any more and could not be told, and their launchers."""
        if left and not self._begun:
            pool = pool_at(self.state, number)
            if isinstance(site, BatchLauncherSite) and pool is not None:
                await site.find_launchers(list(pool.launchers))
            found = await site.find(left)
            await site.cancel([key for key in left if found[key].state == "active"])
            if isinstance(site, BatchLauncherSite):
                await site.dismiss()
        await site.clean()


async def find_lost(state: RunState, sites: Sequence[Site]) -> tuple[tuple[int, int, int], ...]:
    """(workflow, file, site) of every written file that its site's store does not hold any more,
    or not in its size."""
    lost: list[tuple[int, int, int]] = []
    for index, site in enumerate(sites):
        names: dict[str, tuple[int, int]] = {}
        sizes: dict[str, int] = {}
        for w in state.workflows:
            files = w.workflow.files
            for file in range(len(files)):
                if w.present[file] >> index & 1 and files[file].producer is not None:
                    name = stored_as(w, file)
                    names[name] = (w.index, file)
                    sizes[name] = w.sizes[file]
        lost += [(*names[name], index) for name in await site.absent(sizes)]
    return tuple(lost)


def read_state(run: RunDir, patience_s: float = START_WAIT_S) -> RunState:
    """The state of a run as its log tells it, also while an engine drives it. Raises what
    ``await_start`` raises, and what ``Store`` raises."""
    await_start(run, patience_s)
    store = Store(run.path)
    try:
        core = Core(store.workflows())
        core.replay(store.load())
        return core.state
    finally:
        store.close()
