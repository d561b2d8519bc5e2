"""Carries out actions at real sites; the results are posted as events."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, cast

from wfrun.engine import events as ev
from wfrun.engine.core import actions as act
from wfrun.engine.errors import TransientError, WfrunError
from wfrun.engine.exchange import AttemptRequest, Cause, Outcome
from wfrun.engine.model import ORIGIN
from wfrun.engine.protocols import LauncherSite, Site, Transfer
from wfrun.runners.run.clock import Clock
from wfrun.runners.run.files.lost_data import RecordCheck
from wfrun.runners.run.files.removals import Removals
from wfrun.runners.run.requests import AttemptRequests
from wfrun.sites.tasks import end_tasks
from wfrun.sites.transfers.causes import failure_of

_ORDERS = (
    act.SubmitAttempts,
    act.CancelAttempts,
    act.FindAttempts,
    act.StartLaunchers,
    act.StopLaunchers,
    act.FindLaunchers,
    act.ResizeAttempt,
)
_BAD_ANSWER = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that code raises for unexpected content. Unexpected content from one site or server must
not end the run."""


class Dispatcher:
    """Passes actions to sites and transfers, in asyncio tasks.

    An unexpected error in one of its tasks ends the run: the clock's ``next`` raises the error. In
    a copy the errors of `_BAD_ANSWER` fail only the copy, because the content comes from servers
    and sites.
    """

    def __init__(
        self,
        clock: Clock,
        sites: Sequence[Site],
        transfer: Transfer,
        requests: AttemptRequests,
        records: RecordCheck,
    ) -> None:
        self._clock = clock
        self._sites = sites
        self._transfer = transfer
        self._requests = requests
        self._records = records
        self._recorded: list[list[ev.AttemptEnded]] = [[] for _ in sites]
        """Ends of attempts that wait for a check, by site."""
        self._orders: list[asyncio.Queue[act.Action]] = [asyncio.Queue() for _ in sites]
        self._tasks: set[asyncio.Task[None]] = set()
        self._removals = Removals(sites, self._spawn)
        self._copies: dict[act.CopyFile, asyncio.Task[None]] = {}
        """Copies under way."""
        self._searches: list[set[asyncio.Task[None]]] = [set() for _ in sites]
        """Running searches for attempts, by site."""

    async def __aenter__(self) -> None:
        for index in range(len(self._sites)):
            self._spawn(self._serve(index))

    async def __aexit__(self, *error: object) -> None:
        if error == (None, None, None):
            await self._removals.finish()
        await end_tasks(self._tasks)

    def dispatch(self, action: act.Action) -> None:
        """Start an action; returns at once."""
        if isinstance(action, act.CopyFile):
            task = self._copies[action] = self._spawn(self._copy(action))
            task.add_done_callback(partial(self._copy_ended, action))
        elif isinstance(action, act.CancelCopy):
            ends = (action.workflow, action.file, action.source, action.destination)
            if (copy := self._copies.get(act.CopyFile(*ends))) is not None:
                copy.cancel()
        elif isinstance(action, act.RemoveFiles):
            self._removals.add(action.site, self._requests.stored(action.files))
        elif isinstance(action, act.SetTimer):
            self._clock.call_at(action.at_s, ev.TimerFired(action.at_s, action.timer))
        elif isinstance(action, _ORDERS):
            self._orders[action.site].put_nowait(action)

    def check(self, event: ev.AttemptEnded) -> None:
        """Start to check the end of an attempt, which is posted after the check. Call this for an
        end that was read from an exit record, or whose cause is a missing input. Ignores an attempt
        that has already ended."""
        site = self._requests.site_of(event.key)
        if site is None:
            return  # it has ended
        self._recorded[site].append(event)
        if len(self._recorded[site]) == 1:
            self._spawn(self._check(site))

    async def _check(self, site: int) -> None:
        events, self._recorded[site] = self._recorded[site], []
        recorded = {e.key: e.outcome for e in events if isinstance(e, ev.RecordedEnd)}
        outcomes = {e.key: e.outcome for e in events} | await self._records.checked(site, recorded)
        await self._post_ends(site, outcomes, {e.key: e.at_s for e in events})

    async def _post_ends(
        self, site: int, outcomes: Mapping[str, Outcome], at_s: Mapping[str, float]
    ) -> None:
        """Post the ends of attempts. ``at_s`` has the time of each end by key. If an attempt missed
        inputs that the site has lost, first posts the loss, so that the core does not submit the
        attempt again without these inputs."""
        lost = await self._records.lost_inputs(site, outcomes)
        if lost:
            self._clock.post(ev.FilesLost(self._clock.now(), site, lost))
        for key, outcome in outcomes.items():
            self._clock.post(ev.AttemptEnded(at_s[key], key, outcome))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._clock.fail(error)

    async def _serve(self, index: int) -> None:
        """Carry out the orders to a site one after another. Only a search runs concurrently with
        later orders, because it may wait for an unreachable launcher. Cancellations wait until the
        search ends."""
        site, orders = self._sites[index], self._orders[index]
        searches = self._searches[index]
        while True:
            action = await orders.get()
            if isinstance(action, (act.StartLaunchers, act.StopLaunchers, act.FindLaunchers)):
                # The core sends these orders only to sites with launchers.
                await self._serve_launchers(cast(LauncherSite, site), action)
                continue
            if isinstance(action, act.ResizeAttempt):
                await cast(LauncherSite, site).resize(
                    action.key, action.launcher, action.number, action.nodes, action.shrink
                )
            elif isinstance(action, act.SubmitAttempts):
                await site.submit([self._request(index, a) for a in action.attempts])
            elif isinstance(action, act.CancelAttempts) and searches:
                self._spawn(self._cancel_later(index, action))
            elif isinstance(action, act.CancelAttempts):
                await site.cancel(action.keys, queued_only=action.queued_only)
            elif isinstance(action, act.FindAttempts):
                search = self._spawn(self._find(index, action.keys))
                searches.add(search)
                search.add_done_callback(searches.discard)
                await asyncio.sleep(0)  # so that the search starts before the next submission

    async def _serve_launchers(
        self,
        site: LauncherSite,
        action: act.StartLaunchers | act.StopLaunchers | act.FindLaunchers,
    ) -> None:
        if isinstance(action, act.StartLaunchers):
            await site.start_launchers(action.launchers)
        elif isinstance(action, act.StopLaunchers):
            await site.stop_launchers(action.keys, now=action.now)
        else:
            for key, found in (await site.find_launchers(action.keys)).items():
                if found.state == "active":
                    continue  # it reports itself
                cause: Cause = "cancelled"
                message: str | None = "it was never submitted"
                if found.outcome is not None:
                    cause, message = found.outcome.cause, found.outcome.message
                event = ev.LauncherEnded(self._clock.now(), action.site, key, cause, message)
                self._clock.post(event)

    def _request(self, site: int, attempt: tuple[str, int, int]) -> AttemptRequest:
        key, workflow, task = attempt
        return self._requests.attempt(key, workflow, task, site)

    async def _cancel_later(self, index: int, action: act.CancelAttempts) -> None:
        """Cancel attempts after the running searches, because the site does not know the attempts
        until a search has found them."""
        if searches := list(self._searches[index]):  # they may have just ended
            await asyncio.wait(searches)
        await self._sites[index].cancel(action.keys, queued_only=action.queued_only)

    async def _find(self, index: int, keys: Sequence[str]) -> None:
        found = await self._sites[index].find(keys)
        ended = {key: what.outcome for key, what in found.items() if what.outcome is not None}
        outcomes = await self._records.checked(index, ended)
        now_s = self._clock.now()
        await self._post_ends(index, outcomes, dict.fromkeys(outcomes, now_s))
        absent = tuple(k for k in keys if found[k].state == "absent")
        active = tuple(k for k in keys if found[k].state == "active")
        self._clock.post(ev.AttemptsFound(now_s, index, absent, active))

    def _copy_ended(self, action: act.CopyFile, task: asyncio.Task[None]) -> None:
        """Forget an ended copy. Keeps a new copy for the same action that began while the old copy
        was being cancelled."""
        if self._copies.get(action) is task:
            del self._copies[action]

    async def _copy(self, action: act.CopyFile) -> None:
        path = self._requests.path
        if action.destination != ORIGIN:
            name = path(action.workflow, action.file, action.destination)
            await self._removals.settle(action.destination, name)
        try:
            receipt = await self._transfer.copy(
                action.source,
                self._requests.source_path(action.workflow, action.file, action.source),
                action.destination,
                path(action.workflow, action.file, action.destination),
                self._requests.content(action.workflow, action.file),
                action.avoid,
                partial(self._routed, action),
            )
        except (WfrunError, *_BAD_ANSWER) as error:
            if not isinstance(error, WfrunError):
                error = TransientError(f"an answer to the copy is not understood: {error!r}")
            self._clock.post(
                ev.TransferFailed(
                    self._clock.now(),
                    action.workflow,
                    action.file,
                    action.source,
                    action.destination,
                    str(error),
                    isinstance(error, TransientError),
                    *failure_of(error),
                    avoided=action.avoid,
                )
            )
            return
        self._clock.post(
            ev.TransferEnded(
                self._clock.now(),
                action.workflow,
                action.file,
                action.source,
                action.destination,
                receipt.size_bytes,
                receipt.elapsed_s,
                receipt.digest,
                receipt.method,
                receipt.fallback,
                action.avoid,
                receipt.sent_bytes,
            )
        )

    def _routed(self, action: act.CopyFile, method: str, other: str) -> None:
        file = action.workflow, action.file
        event = ev.CopyRouted(
            self._clock.now(), *file, action.source, action.destination, method, other
        )
        self._clock.post(event)
