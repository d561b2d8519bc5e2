"""A session: one engine that starts or resumes a run in its directory, and drives it to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.state import RunState
from wfrun.engine.errors import InfeasibleError, InvalidError, TransientError, WfrunError
from wfrun.engine.explain.visible import command_line, name_line
from wfrun.engine.model import SiteSpec, Workflow
from wfrun.engine.policies.placement import observed_of
from wfrun.engine.protocols import LauncherSite
from wfrun.runners.run import user_requests
from wfrun.runners.run.additions.submissions import Submissions
from wfrun.runners.run.changes import present_of
from wfrun.runners.run.clock import WallClock
from wfrun.runners.run.directory.lock import BEAT_S, Lock
from wfrun.runners.run.directory.new_run import NewRun
from wfrun.runners.run.directory.run_directory import (
    RunDir,
    has_log,
    is_driven,
    never_started,
    not_started,
)
from wfrun.runners.run.directory.run_index import add_run
from wfrun.runners.run.directory.trust import OwnRun
from wfrun.runners.run.dispatch import Dispatcher
from wfrun.runners.run.files.cleaning import clean_sites, remove_directories
from wfrun.runners.run.files.lost_data import LostFiles, RecordCheck, find_lost
from wfrun.runners.run.history.history_file import HistoryFile
from wfrun.runners.run.history.link_history import add_links, read_links
from wfrun.runners.run.history.runtime_history import (
    add_history,
    harvest_of,
    keep_history,
    read_history,
)
from wfrun.runners.run.loop import Loop, Observer
from wfrun.runners.run.notices.metrics_file import MetricsFile, check_metrics_file
from wfrun.runners.run.notices.notice_targets import check_targets
from wfrun.runners.run.notices.notify import Notifier
from wfrun.runners.run.prepare.deadlines import time_of_day_deadline
from wfrun.runners.run.prepare.prepare import Plan
from wfrun.runners.run.requests import AttemptRequests, make_emulated_inputs
from wfrun.runners.run.reuse.identities import changed_documents
from wfrun.runners.run.reuse.plan import Reuse, plan_reuse
from wfrun.runners.run.reuse.taking import take_over
from wfrun.runners.run.sites.lost_sites import lose_sites, unreachable_of
from wfrun.runners.run.sites.make_sites import (
    connect_claims,
    make_site,
    make_transfer,
    terminal_prompter,
    with_url_inputs,
)
from wfrun.runners.run.sites.stuck_jobs import name_stuck_jobs
from wfrun.runners.run.sites.unusable import raise_unusable, with_unreachable
from wfrun.runners.run.sites.usage import HeadNodeUsage
from wfrun.runners.run.store.checkpoints import CheckpointWriter, read_core
from wfrun.runners.run.store.event_store import Store
from wfrun.runners.run.store.storable import storable
from wfrun.runners.run.user_requests import RequestReader
from wfrun.sites.batch.observation import GUEST_OBSERVE_S, OBSERVE_S
from wfrun.sites.kind import AnySite
from wfrun.sites.local.site import LocalSite
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.local.disk import remove_parts
from wfrun.sites.transfers.router import TransferRouter

if TYPE_CHECKING:
    from wfrun.sites.transfers.urls.url_inputs import UrlInputs

_LOGGER = logging.getLogger(__name__)
REQUEST_POLL_S = 0.5
"""Interval at which the engine looks for requests of the user, in seconds."""
LEAVE_S = 10.0
"""Maximum time from the third interrupt to the end of the process, in seconds. The process ends
even if a site, or a file system without its server, does not answer. The log is then as complete as
after a crash."""
INTERRUPTED = 130
"""Exit status of a process that is ended `LEAVE_S` after the third interrupt."""


class Session:
    """A run that this process drives. Use an instance once: call ``start`` or ``resume``, then
    ``drive``.

    ``state`` is the state of the run after ``start`` or ``resume``. Each of ``observers`` is called
    with each group of events after its commit.
    """

    def __init__(
        self,
        *,
        history: HistoryFile | None = None,
        past_usage: bool = False,
    ) -> None:
        """``history`` is the file that a new run reads and extends. ``past_usage``: the usage of
        owners in earlier runs counts in fair sharing."""
        self.observers: list[Observer] = []
        self.run: RunDir
        self._history, self._past_usage = history, past_usage
        self._clock = WallClock()
        self._lock: Lock
        self._dispatcher: Dispatcher
        self._notifier: Notifier
        self._new: NewRun | None = None
        """The directory of a run that this session starts; None for a resumed run."""
        self._store: Store
        self._core: Core
        self._documents: dict[str, Workflow]
        """The workflows of the run by digest."""
        self._plan: Plan | None = None
        """The checked run to start; None for a resumed run."""
        self._digests: list[str] = []
        self._arrivals_s: Sequence[float] = ()
        self.reuse: Reuse | None = None
        """Tasks that a new run reuses from earlier runs; None for a resumed or emulated run."""
        self._reused: Sequence[tuple[ev.ReusedTasks, ...]] = ()
        """Reused tasks whose outputs were taken over, by workflow."""
        self.change: ev.RunChanged | None = None
        """Change of a resumed run, logged once the sites are open; None: nothing changes."""
        self._unreachable: dict[int, str] = {}
        """Why a site that left the catalog cannot be reached, by number of the site."""
        self._lost: LostFiles = ()
        self._dead_hosts: tuple[str, ...] = ()
        self._run_id = f"r{secrets.token_hex(4)}"
        self._site_directory = f"wfrun-{self._run_id}-{secrets.token_hex(8)}"
        self._begun = False
        self._early: list[ev.Event] = []
        """Events that sites posted before the first event of this session."""
        self._interrupts = 0
        self._signals = 0
        """Number of interrupts so far, including those that the event loop has not handled yet."""
        self._interrupted = asyncio.Event()
        self.opened = asyncio.Event()
        """Set once the sites are open and the terminal is no longer needed for logins."""

    @property
    def state(self) -> RunState:
        return self._core.state

    @property
    def clusters(self) -> list[str]:
        """Names of the sites that need a connection."""
        return [spec.name for spec in self._specs if spec.access is not None]

    @property
    def _specs(self) -> Sequence[SiteSpec]:
        if self._plan is not None:
            return self._plan.catalog.sites
        if self.change is not None:
            return self.change.sites
        return [site.spec for site in self.state.sites]

    @property
    def _settings(self) -> ev.Settings:
        return (self._plan or self.change or self.state).settings

    @property
    def logged(self) -> int:
        """Number of events in the log so far."""
        return self._store.next_seq

    def start(
        self,
        plan: Plan,
        run_dir: Path | None,
        name: str,
        reuse: str = "none",
        arrivals_s: Sequence[float] = (),
    ) -> None:
        """Make the run directory and its log. Nothing is started yet.

        ``reuse``: the earlier run whose tasks are reused, ``auto`` or ``none``. ``arrivals_s``:
        when each workflow is added, in seconds after the start, ascending; empty: all at the start.

        Raises InvalidError if the run directory, the run to reuse, a notification or the metrics
        file cannot be used, and InfeasibleError if files cannot be read or written. After an error
        no file is left behind.
        """
        check_targets(plan.settings)
        check_metrics_file(plan.settings)
        if not plan.settings.emulate:
            self.reuse = plan_reuse(plan, reuse)
        self._new = NewRun(run_dir, name)
        self.run, self._lock = self._new.run, self._new.lock
        try:
            self._store = Store(self.run.path, create=True)
            digests = self._store.put_workflows(plan.workflows)
            if self.reuse is not None:
                self._store.put_record(self.reuse.record)
            if plan.settings.emulate:
                for number, workflow in enumerate(plan.workflows):
                    make_emulated_inputs(workflow, number, self.run)
        except (WfrunError, OSError) as error:
            self._new.abandon()
            if isinstance(error, OSError):
                raise InfeasibleError(
                    f"the run directory cannot be written: {error}", source=str(self.run.path)
                ) from error
            if isinstance(error, TransientError):
                raise not_started(error) from error
            raise
        self._documents = dict(zip(digests, plan.workflows, strict=True))
        self._core = Core(self._documents)
        self._plan, self._digests, self._arrivals_s = plan, digests, arrivals_s

    def resume(
        self,
        run: OwnRun,
        *,
        dead_hosts: Collection[str] = (),
        change: Callable[[RunState], ev.RunChanged | None] | None = None,
        keeps_history: bool = True,
    ) -> None:
        """Take over a run: lock it, and read its state from its log. If the run is done, ``drive``
        only removes files that are left at its sites.

        ``dead_hosts`` are names of hosts that the user states to be down. ``change`` is called with
        the state, unless the run is done, and returns the event that changes the run, or None.
        ``keeps_history``: extend the history file that the run began with.

        Raises InvalidError if another process drives the run, or may drive it on another host, and
        if the run was never started. Raises what ``change`` raises.
        """
        self.run, self._dead_hosts = run, tuple(dead_hosts)
        # A request from before this moment was for an earlier engine. One that is written once the
        # lock is taken is for this one.
        if not is_driven(run):
            run.cancel_request.unlink(missing_ok=True)
            user_requests.discard(run)
        self._lock = Lock(run.lock, dead_hosts=dead_hosts, judge=run.judge)
        try:
            if not has_log(run.path):
                raise never_started(run.path)
            self._store = Store(run.path, write=True, judge=run.judge)
            self._documents = self._store.workflows()
            self._core = read_core(self._store, documents=self._documents)
            if not self.state.run_id:
                raise never_started(run.path)
            self._note_changed_documents()
            if change is not None and self.state.ended != "done":
                self.change = change(self.state)
            if self.change is not None and self.change.settings != self.state.settings:
                check_targets(self.change.settings)
                check_metrics_file(self.change.settings)
        except WfrunError:
            self._lock.release()
            raise
        add_run(run.path)
        if keeps_history and (path := self.state.history or self.state.link_history) is not None:
            self._history = HistoryFile(Path(path))
        self._run_id = self.state.run_id
        self._site_directory = self.state.site_directory
        self._clock.go_on_from(self.state.now_s)

    def _note_changed_documents(self) -> None:
        record = self._store.record()
        changed = changed_documents(record) if record is not None else []
        if changed:
            paths = [os.path.relpath(path) for path in changed]
            goes_on = "" if self.state.ended == "done" else "; it goes on with what it has read"
            command = command_line("wfrun", "run", *paths, "--reuse", self.run.path)
            _LOGGER.warning(
                "%s changed since the run began%s. To run what is edited and reuse what is done: "
                "`%s`, with the options of the run",
                name_line(", ".join(paths)) + (" has" if len(paths) == 1 else " have"), goes_on,
                command,
            )  # fmt: skip

    async def drive(self) -> RunState:
        """Drive the run to its end, and return its state. Raises KeyboardInterrupt after the third
        interrupt, or after an interrupt before the loop begins. Raises InfeasibleError if a site
        cannot be opened, or the start of a new run cannot be logged. If the start is not in the
        log, no task has started, and the directory is removed."""
        sites = self._make_sites()
        links = self._plan.catalog.links if self._plan else (self.change or self.state).links
        router = make_transfer(sites, links, self.run.outputs, self._settings.verifies_copies)
        workflows = (
            self._plan.workflows if self._plan else [w.workflow for w in self.state.workflows]
        )
        transfer = with_url_inputs(router, self.run.inputs, self._settings.allow_urls, workflows)
        far = {n: s.connection for n, s in enumerate(sites) if not isinstance(s, LocalSite)}
        usage = HeadNodeUsage(far, self._clock.now)
        self._notifier = Notifier(self.run, self.state, self._clock.now, far)
        opened: list[AnySite] = []
        abandoned = False
        heart = asyncio.create_task(self._beat())
        try:
            await self._unless_interrupted(self._open(sites, opened))
            self.opened.set()
            if self._plan is None:
                await self._unless_interrupted(self._find_lost(sites))
            else:
                await self._unless_interrupted(self._take_over(sites))
            if self._plan is not None or self.state.ended != "done":
                await self._run_loop(sites, transfer, usage)
            self._notifier.start_due()
            if self.state.ended is not None and not self.state.uncollected:
                remove_parts(self.run.outputs, kept=True)
            if self.state.ended == "done" and self.state.settings.keep != "all":
                await self._clean(sites)
            await self._name_stuck_jobs(sites)
            self._log(await usage.new_counts())
            await self._finish_notifications()
            if self._history is not None:
                add_history(self._history, harvest_of(self.state))
                add_links(self._history, self.state)
        except (InfeasibleError, TransientError, KeyboardInterrupt) as error:
            # Not even the start is in the log.
            abandoned = self._plan is not None and not self._store.next_seq
            if abandoned:
                await remove_directories(sites)
            opened = sites if abandoned else opened
            if abandoned and isinstance(error, TransientError):
                raise not_started(error) from error
            raise
        finally:
            heart.cancel()
            await self._notifier.close()
            transfer.close()
            for site in opened:
                await site.close()
            self._store.close()
            if abandoned and self._new is not None:
                self._new.abandon(self._site_directories())
            else:
                self._lock.release()
        return self.state

    def _make_sites(self) -> list[AnySite]:
        settings = self._settings
        observed = observed_of(settings)
        observe_s = OBSERVE_S
        if settings.reallocate is not None:  # each round knows the queues of that time
            observe_s = min(observe_s, settings.reallocate_every_s)
        if settings.malleable is not None or settings.scavenge is not None:
            observe_s = GUEST_OBSERVE_S
        prompter = terminal_prompter()
        sites = [
            make_site(
                spec, index, self._run_id, self._site_directory, directory, self._clock.now,
                observed=observed, observe_s=observe_s, pack_logs=settings.pack_logs,
                dead_hosts=self._dead_hosts, prompter=prompter,
            )
            for index, (spec, directory) in enumerate(
                zip(self._specs, self._site_directories(), strict=True)
            )
        ]  # fmt: skip
        if settings.place is not None:
            connect_claims(sites)
        return sites

    def _site_directories(self) -> list[Path]:
        return [self.run.site_directory(spec, self._site_directory) for spec in self._specs]

    async def _find_lost(self, sites: Sequence[AnySite]) -> None:
        """Log the change of a resumed run, and the end of everything at its unreachable sites.
        Remove partial copies that an earlier engine left. Find the files that sites have lost. The
        change is logged first, because it numbers the sites."""
        if self.state.ended != "done":
            now_s = self._clock.now()
            if self._unreachable and self.change is None:
                self.change = present_of(self.state)
            if self.change is not None:
                self._log([msgspec.structs.replace(self.change, at_s=now_s)])
            self._log(lose_sites(self.state, self._unreachable, now_s))
        remove_parts(self.run.outputs, kept=False)
        for site in sites:
            if isinstance(site, LocalSite):
                remove_parts(site.store, kept=False)
        requests = AttemptRequests(self.state, self.run, self._specs)
        self._lost = await find_lost(self.state, sites, requests, self._unreachable)

    async def _take_over(self, sites: Sequence[AnySite]) -> None:
        """Link or copy the outputs of reused tasks into the new run."""
        self._reused = [()] * len(self._digests)
        if self.reuse is not None and self.reuse.count:
            self._reused = await take_over(self.reuse, self.run, sites)

    async def _run_loop(
        self,
        sites: Sequence[AnySite],
        transfer: TransferRouter | UrlInputs,
        usage: HeadNodeUsage,
    ) -> None:
        requests = AttemptRequests(self.state, self.run, self._specs)
        records = RecordCheck(sites, requests)
        self._dispatcher = Dispatcher(self._clock, sites, transfer, requests, records)
        self._store.before_commit = self._lock.check
        checkpoints = CheckpointWriter(self._store, self._core)
        asked = RequestReader(self.run, self.state)
        know = None if isinstance(transfer, TransferRouter) else transfer.know
        added = Submissions(self.run, self.state, self._store, self._documents, know)
        observers = [
            *self.observers,
            asked.after_commit,
            added.after_commit,
            self._notifier.after_commit,
            lambda events: checkpoints.after_commit(),
        ]
        loop = Loop(self._core, self._store, self._clock, self._dispatcher, observers)
        gc.collect()
        gc.freeze()  # so that collections do not walk the workflows, which are immutable
        first, *rest = self._first_events(added)
        for event in (first, *self._early, *rest):
            self._clock.post(event)
        self._begun = True
        try:
            await self._watched(loop, usage, asked, added)
        except Exception as error:
            await self._notifier.leave(error)
            raise
        finally:
            gc.unfreeze()
            checkpoints.after_commit(last=True)
        launching = [
            cast(LauncherSite, site)
            for number, (site, spec) in enumerate(zip(sites, self._specs, strict=True))
            if spec.has_launchers and number not in self._unreachable
        ]
        await asyncio.gather(*(site.dismiss() for site in launching))

    async def _name_stuck_jobs(self, sites: Sequence[AnySite]) -> None:
        """Warn of batch jobs that stay in queues after the end of the run, unless the user
        interrupts."""
        reached = [s for number, s in enumerate(sites) if number not in self._unreachable]
        if self.state.ended is not None and not self._interrupts:
            with contextlib.suppress(KeyboardInterrupt):
                await self._unless_interrupted(name_stuck_jobs(reached))

    async def _clean(self, sites: Sequence[AnySite]) -> None:
        """Remove the run's files from the sites, unless interrupted."""
        early = None if self._begun else self._early
        try:
            await self._unless_interrupted(self._clean_sites(sites, early))
            shutil.rmtree(self.run.inputs, ignore_errors=True)
        except KeyboardInterrupt:
            _LOGGER.warning("interrupted: some of the run's files stay at its sites")

    async def _clean_sites(self, sites: Sequence[AnySite], early: list[ev.Event] | None) -> None:
        done = await clean_sites(self.state, sites, early, self._unreachable)
        self._log([ev.FilesRemoved(self._clock.now(), number) for number in done])

    async def _finish_notifications(self) -> None:
        """Wait for notifications, unless the user has interrupted, and log their ends."""
        if not self._interrupts:
            with contextlib.suppress(KeyboardInterrupt):
                await self._unless_interrupted(self._notifier.finish())
        self._log(self._notifier.ended())

    async def _unless_interrupted(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``, which waits for sites, before or after the loop. If the user interrupts,
        cancels ``work`` and raises KeyboardInterrupt."""
        self._interrupted.clear()
        task = asyncio.create_task(work)
        interruption = asyncio.create_task(self._interrupted.wait())
        await asyncio.wait([task, interruption], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await end_tasks([task])
            raise KeyboardInterrupt
        interruption.cancel()
        await task

    async def _open(self, sites: Sequence[AnySite], opened: list[AnySite]) -> None:
        """Open all sites concurrently, add the open ones to ``opened``, and wait until each is open
        or has failed. Then raises InfeasibleError for the sites that failed. An unreachable site
        counts as failed in a new run without the option ``wait``, but never if it has left the
        catalog."""
        results = await asyncio.gather(
            *(site.open(self._post) for site in sites), return_exceptions=True
        )
        if self._plan is not None and not self._plan.settings.wait:
            results = with_unreachable(results, self._early)
        opened += [site for site, error in zip(sites, results, strict=True) if error is None]
        left = self.state.left_sites if self.change is None else self.change.left
        self._unreachable = unreachable_of(left, results, self._early)
        for number in self._unreachable:
            results[number] = None
            await sites[number].close()
        self._early = [e for e in self._early if getattr(e, "site", -1) not in self._unreachable]
        raise_unusable(results, sites, None if self._plan is None else self._plan.catalog)

    def _post(self, event: ev.Event) -> None:
        """Post an event of a site, or keep it until the session's first event is posted."""
        if isinstance(event, ev.RecordedEnd) or (
            self._begun and isinstance(event, ev.AttemptEnded) and event.outcome.cause == "staging"
        ):
            self._dispatcher.check(event)
        elif self._begun:
            self._clock.post(event)
        else:
            self._early.append(event)

    def _first_events(self, added: Submissions) -> list[ev.Event]:
        """The first events of this session, once its sites are open."""
        now_s, plan = self._clock.now(), self._plan
        if plan is None:
            additions = added.read(now_s)
            return [ev.RunResumed(now_s, self._lost, len(additions)), *additions]
        catalog, count = plan.catalog, len(plan.workflows)
        earlier: list[ev.Event] = []
        if (file := self._history) is not None:
            usage = self._past_usage
            earlier = [
                read_history(file, plan.workflows, catalog.sites, now_s, usage=usage),
                *read_links(file, plan.settings, catalog, now_s),
            ]
        begun = [
            ev.RunStarted(
                now_s,
                self._run_id,
                plan.settings,
                catalog.sites,
                catalog.links,
                count,
                site_directory=self._site_directory,
                own_outputs=True,
                wfrun=version("wfrun"),
            ),
            *earlier,
        ]
        if self._arrivals_s:
            due_s = (now_s + after_s for after_s in self._arrivals_s)
            planned = tuple(zip(self._digests, due_s, strict=True))
            return [*begun, ev.ArrivalsPlanned(now_s, planned)]
        return [
            *begun,
            *(
                ev.WorkflowAdded(
                    now_s,
                    number,
                    workflow.name,
                    digest,
                    reused=reused,
                    deadline_s=time_of_day_deadline(workflow, now_s),
                    more=number + 1 < count,
                )
                for number, (workflow, digest, reused) in enumerate(
                    zip(plan.workflows, self._digests, self._reused, strict=True)
                )
            ),
        ]

    def _log(self, events: Sequence[ev.Event]) -> None:
        """Apply events to the state, log them and call the observers, while the loop does not
        run."""
        if events:
            events = [storable(event) for event in events]
            for event in events:
                self._core.apply_undecided(event)
            self._store.append(events)
            self._store.commit()
            for observer in self.observers:
                observer(events)

    async def _watched(
        self, loop: Loop, usage: HeadNodeUsage, asked: RequestReader, added: Submissions
    ) -> None:
        """Run the loop. Concurrently check for requests of the user and for due workflows, count
        head-node load, send notifications, and write the metrics file and the history."""
        watchers = [
            asyncio.create_task(self._watch_requests(asked, added)),
            asyncio.create_task(self._watch_arrivals(added)),
            asyncio.create_task(usage.watch(self._clock.post)),
            asyncio.create_task(self._notifier.watch(self._clock.post)),
            asyncio.create_task(MetricsFile(self.state, self.run.name).watch()),
        ]
        if self._history is not None:
            watchers.append(asyncio.create_task(keep_history(self._history, self.state)))
        try:
            await loop.run()
        finally:
            for watcher in watchers:
                watcher.cancel()

    async def _beat(self) -> None:
        """Send heartbeats by the lock file, so that engines on other hosts see that this engine is
        alive."""
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                self._lock.beat()
            except InvalidError as error:
                self._clock.fail(error)
                return

    async def _watch_requests(self, asked: RequestReader, added: Submissions) -> None:
        while True:
            if self.run.cancel_request.exists():  # it may be older than this session
                mode = self.run.cancel_request.read_text().strip()
                self.run.cancel_request.unlink(missing_ok=True)
                self.cancel("drain" if mode == "drain" else "kill")
            for event in (*asked.read(self._clock.now()), *added.read(self._clock.now())):
                self._post(event)
            await asyncio.sleep(REQUEST_POLL_S)

    async def _watch_arrivals(self, added: Submissions) -> None:
        """Add the workflows that were planned at the start when they are due."""
        while not self.state.run_id:  # the first events of the run come first
            await asyncio.sleep(REQUEST_POLL_S / 10)
        while (due_s := added.next_arrival_s()) is not None:
            await asyncio.sleep(max(0.0, due_s - self._clock.now()))
            for event in added.arrive(self._clock.now()):
                self._post(event)

    def cancel(self, mode: Literal["drain", "kill"]) -> None:
        """Stop dispatching; ``kill`` also ends running tasks."""
        self._post(ev.CancelAsked(self._clock.now(), mode))

    def interrupt(self) -> int:
        """Handle an interrupt: the first drains the run, the second kills running tasks, the third
        ends the session at once. Returns the number of interrupts so far."""
        self._interrupts += 1
        self._interrupted.set()
        if self._interrupts > 2:
            self._clock.fail(KeyboardInterrupt())
        else:
            self.cancel("drain" if self._interrupts == 1 else "kill")
        return self._interrupts

    def listen_to_signals(self, on_interrupt: Callable[[int], None]) -> None:
        """Let SIGINT and SIGTERM interrupt the run; ``on_interrupt`` is called with the number of
        interrupts so far."""
        loop = asyncio.get_running_loop()

        def note(number: int, frame: object) -> None:
            self._signals += 1
            if self._signals == 3:
                leave = threading.Timer(LEAVE_S, os._exit, [INTERRUPTED])
                leave.daemon = True
                leave.start()
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run has ended
                loop.call_soon_threadsafe(lambda: on_interrupt(self.interrupt()))

        # Not through the event loop: at its end it restores the default handlers, which would kill
        # the process before the summary is printed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, note)
