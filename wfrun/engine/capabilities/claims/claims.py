"""Claims of processors for jobs, and the queue of jobs that wait for them.

Source: thesis section 2.2 (KOALA). A job runs on processors of one or several sites. Placeholders,
which are launchers that run nothing else, hold these processors for the job. The job starts when
all its placeholders are ready, and gives all of them back together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claim import (
    Job,
    Phases,
    Placeholder,
    ProcessorClaim,
    TriedPlacement,
    by_site,
    number_of,
    part_of,
)
from wfrun.engine.capabilities.claims.requests import node_links_of, placeholder_of, request_of
from wfrun.engine.capabilities.health import FIRST_PAUSE_S, MAX_PAUSE_S, MAX_PAUSES
from wfrun.engine.core.actions import FindLaunchers, StartLaunchers, StopLaunchers
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import HELD, Attempt, Phase, WorkflowState
from wfrun.engine.exchange import LauncherRequest, claim_of
from wfrun.engine.files.copies import request_inputs
from wfrun.engine.jobs.coallocation import (
    IdleProcessors,
    Placement,
    PlacementQueue,
    PlacementRequest,
)
from wfrun.engine.tasks.attempts import fail_task, undispatch
from wfrun.engine.tasks.status import ELIGIBLE, settle

POLL_S = 60.0
"""Interval in seconds at which the queue is scanned although nothing has changed, and at which
other users' jobs are observed. A scan counts as a try of each job that it cannot place."""
MAX_KEPT_TRIES = 100
"""Maximum number of scans of the queue that are kept to be shown to the user; the latest are
kept."""

_POLL, _WAIT, _PAUSE = "placement", "claim", "claims"


class ProcessorClaims(Capability):
    """Places jobs, claims their processors, and gives these back.

    A job that cannot be placed waits in a queue, which is scanned when processors become idle, when
    a job arrives, and every `POLL_S`. Until a claim is granted or has ended, no other job is
    placed. So two jobs never each hold processors that the other needs.

    Cost: constant; of a decision, the waiting jobs; when jobs become eligible, the tasks of their
    workflow.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        settings = self.state.settings
        assert settings.place is not None, "without it there is no such capability"
        links = None
        if settings.place == "ca":
            links = node_links_of([site.spec for site in self.state.sites], settings.metric)
        self.queue: PlacementQueue[Job] = PlacementQueue(settings.place, links, settings.tries)
        self.claims: dict[str, ProcessorClaim] = {}
        """Claims with a placeholder that has not ended, by key. Includes claims that are being
        given back."""
        self.by_job: dict[Job, ProcessorClaim] = {}
        """The claim of each job that has one."""
        self.made = 0
        """Number of claims so far."""
        self.phases = Phases()
        self._queued_s: dict[Job, float] = {}
        """When each job joined the placement queue."""
        self.given_up: list[Job] = []
        """Jobs that failed because they were tried too often."""
        self.tried: deque[TriedPlacement] = deque(maxlen=MAX_KEPT_TRIES)
        """The latest scans of the queue."""
        sites = len(self.state.sites)
        self._idle = IdleProcessors([0] * sites)
        self._foreign = [(0, 0)] * sites
        """By site: processors of other users' jobs, as (running, queued)."""
        self._held = [0] * sites
        """By site: processors of placeholders that have not ended."""
        self._pauses: dict[int, tuple[int, float]] = {}
        """By site where a placeholder ended before it was ready: number of consecutive pauses of
        the site, and the end of the last pause."""
        self._refused: dict[Job, int] = {}
        """By job: mask of the sites that refused a placeholder of the job."""
        self._changed: set[int] = set()
        """Workflows whose eligible tasks have changed."""
        self._pending: ProcessorClaim | None = None
        """The claim that is not granted yet, since its placeholders are not all ready."""
        self._is_due = False
        self._is_scan_due = False

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.place is not None

    def take_over(self, before: ProcessorClaims) -> None:
        self.claims, self.by_job, self.made = before.claims, before.by_job, before.made
        self._pending = before._pending
        self.phases, self._queued_s = before.phases, before._queued_s
        for job in before.queue:
            self.queue.add(job, self._request_of(job), before.queue.tries(job))
        for claim in self.claims.values():
            for part in claim.parts:
                self._held[part.site] += 0 if part.is_ended else part.processors
        self._foreign[: len(before._foreign)] = before._foreign

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.PlacementTried: self._placement_tried,
            ev.ClaimsAsked: self._asked,
            ev.ClaimEnded: self._ended,
            ev.LaunchersSubmitted: self._submitted,
            ev.LauncherStarted: self._launcher_started,
            ev.LauncherEnded: self._launcher_ended,
            ev.SiteObserved: self._observed,
            ev.SiteLoadObserved: self._load_observed,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {_POLL: self._scan_soon, _WAIT: self._give_up_waiting, _PAUSE: self._pause_ended}

    # Jobs

    def on_eligible(self, w: WorkflowState) -> None:
        self._changed.add(w.index)
        self._scan_soon()

    def _sync(self) -> None:
        """Bring the queue up to date: add jobs that have become eligible, by priority and then in
        the order in which they became eligible, and remove jobs that are no longer eligible. Called
        only when the queue is used by an event or a decision, so that a replay has the same
        queue."""
        for index in sorted(self._changed):
            w = self.state.workflows[index]
            fresh = []
            for task, status in enumerate(w.status):
                job = index, task
                if status != ELIGIBLE:
                    if job in self.queue:
                        self.queue.remove(job)
                elif job not in self.queue and job not in self.by_job:
                    fresh.append((-w.workflow.tasks[task].priority, w.serials[task], job))
            for _, _, job in sorted(fresh):
                self.queue.add(job, self._request_of(job))
                is_new = not w.attempts_of[job[1]]
                self._queued_s[job] = w.added_s if is_new else self.state.now_s
        self._changed.clear()

    def _request_of(self, job: Job) -> Any:
        w = self.state.workflows[job[0]]
        sites = w.feasible_sites(job[1]) & ~self._refused.get(job, 0)
        return request_of(w, job[1], self.state.sites, sites)

    def _placement_tried(self, event: ev.PlacementTried) -> None:
        self._is_scan_due = False
        self._sync()
        is_in_vain = event.failed == len(self.queue)
        failed = self.queue.first(event.failed)
        self.tried.append(TriedPlacement(event.at_s, event.idle, failed))
        for workflow, task in self.queue.count_tries(0, event.failed):
            w = self.state.workflows[workflow]
            w.eligible.remove(task, w.task_class(task))
            fail_task(self.run, w, task)
            self.given_up.append((workflow, task))
            settle(self.state, w, event.at_s)
        if is_in_vain and len(self.queue) and self._may_get_room():
            self.run.set_timer(_POLL, event.at_s + POLL_S)

    # Claims

    def _asked(self, event: ev.ClaimsAsked) -> None:
        self._sync()
        job = event.workflow, event.task
        self.queue.remove(job)
        parts = [Placeholder(part.site, part.launcher, event.at_s) for part in event.parts]
        claim = ProcessorClaim(event.key, *job, parts, event.at_s)
        self.made += 1
        self.phases.placed += 1
        self.phases.queue_s += event.at_s - self._queued_s.pop(job, event.at_s)
        self.claims[event.key] = self.by_job[job] = self._pending = claim
        for part in parts:
            self._held[part.site] += part.processors
        for site, some in by_site(parts).items():
            requests = tuple(part.request for part in some)
            self.run.outbox.append(StartLaunchers(site, requests))
        self._wait_until(claim, event.at_s + self.state.settings.claim_wait_s)

    def _wait_until(self, claim: ProcessorClaim, at_s: float) -> None:
        self.run.set_timer(f"{_WAIT}:{number_of(claim)}", at_s)

    def _ended(self, event: ev.ClaimEnded) -> None:
        self._sync()
        claim = self.claims[event.key]
        job = claim.workflow, claim.task
        del self.by_job[job]
        self.phases.ended[event.cause] += 1
        was_pending = claim is self._pending
        if was_pending:
            self._pending = None
        self.state.timers.pop(f"{_WAIT}:{number_of(claim)}", None)
        self._give_back(claim)
        attempt = self.state.attempts.get(claim.attempt)
        if attempt is not None:
            self._take_back(attempt)
        w = self.state.workflows[claim.workflow]
        if w.status[claim.task] == ELIGIBLE and job not in self.queue:
            self.queue.add(job, self._request_of(job))
            self._queued_s[job] = event.at_s
            was_pending = True
        if was_pending:
            self._scan_soon()

    def _give_back(self, claim: ProcessorClaim) -> None:
        """End the placeholders of a claim, and whatever runs in them."""
        left = [part for part in claim.parts if not part.is_ended]
        for site, some in by_site(left).items():
            keys = tuple(part.request.key for part in some)
            self.run.outbox.append(StopLaunchers(site, keys, now=True))
        if not left:
            self.claims.pop(claim.key, None)

    def extend(self, claim: ProcessorClaim, requests: Sequence[LauncherRequest]) -> None:
        """Request further placeholders at the site of a claim, into which the job of the claim may
        grow."""
        site, now_s = claim.parts[0].site, self.state.now_s
        for request in requests:
            part = Placeholder(site, request, now_s, is_spare=True)
            claim.parts.append(part)
            self._held[site] += part.processors
        claim.made += len(requests)
        self.run.outbox.append(StartLaunchers(site, tuple(requests)))

    def give_back_some(self, claim: ProcessorClaim, parts: Sequence[Placeholder]) -> None:
        """End placeholders of a claim that its job can do without."""
        for part in parts:
            part.is_spare = part.is_returned = True
        keys = tuple(part.request.key for part in parts if not part.is_ended)
        if keys:
            self.run.outbox.append(StopLaunchers(claim.parts[0].site, keys, now=True))

    def _take_back(self, attempt: Attempt) -> None:
        """Take back the attempt of an ended claim if the attempt has not started. Otherwise it ends
        with its placeholder."""
        attempt.is_leaving = True
        if attempt.phase is Phase.STAGING:
            undispatch(self.run, attempt)
        elif attempt.started_s is None:
            self.run.withdraw(attempt.site, [attempt])

    def _submitted(self, event: ev.LaunchersSubmitted) -> None:
        for key in event.keys:
            claim = self.claims.get(claim_of(key))
            part = None if claim is None else part_of(claim, key)
            if part is not None:
                part.is_submitted = True

    def _launcher_started(self, event: ev.LauncherStarted) -> None:
        claim = self.claims.get(claim_of(event.key))
        part = None if claim is None else part_of(claim, event.key)
        if claim is None or part is None or part.is_ended:
            return
        if self.by_job.get((claim.workflow, claim.task)) is not claim:
            # It started after it was given up, or the previous engine died before it said so.
            self.run.outbox.append(StopLaunchers(event.site, (event.key,), now=True))
            return
        if part.is_returned:
            self.give_back_some(claim, [part])
            return
        if part.started_s is not None or event.slots < part.processors:
            return
        part.started_s = event.at_s
        part.hosts = event.hosts or (event.host,)
        if claim.granted_s is not None:
            return
        if all(each.started_s is not None for each in claim.parts):
            claim.granted_s = event.at_s
            self.phases.granted += 1
            self.phases.claim_s += event.at_s - claim.asked_s
            self.state.timers.pop(f"{_WAIT}:{number_of(claim)}", None)
            for each in claim.parts:
                self._pauses.pop(each.site, None)
            if claim is self._pending:
                self._pending = None
            self._scan_soon()
        elif sum(each.started_s is not None for each in claim.parts) == 1:
            self._wait_until(claim, event.at_s + self.state.settings.claim_wait_s)

    def _launcher_ended(self, event: ev.LauncherEnded) -> None:
        claim = self.claims.get(claim_of(event.key))
        part = None if claim is None else part_of(claim, event.key)
        if claim is None or part is None or part.is_ended:
            return
        part.is_ended = True
        self._held[part.site] -= part.processors
        job = claim.workflow, claim.task
        if part.is_spare:
            claim.parts.remove(part)
            if part.started_s is None and not part.is_returned:
                self._note_failure(part.site, job, event)
            if not claim.is_held and self.by_job.get(job) is not claim:
                del self.claims[claim.key]
        elif self.by_job.get(job) is claim:
            name = self.state.sites[part.site].spec.name
            text = f"the placeholder at {name} ended: {event.cause}"
            claim.reason = claim.reason or ("broken", f"{text} {event.message or ''}".strip())
            # An engine that dies before it submits a placeholder says nothing about the site.
            was_there = part.is_submitted or event.cause != "cancelled"
            if part.started_s is None and was_there:
                self._note_failure(part.site, job, event)
        elif not claim.is_held:
            del self.claims[claim.key]
        self._scan_soon()

    def _note_failure(self, site: int, job: Job, event: ev.LauncherEnded) -> None:
        """Claim nothing at a site for a while after a placeholder has failed there. If the site
        refused the placeholder, it gets no other placeholder of the same job."""
        if event.cause == "refused":
            self._refused[job] = self._refused.get(job, 0) | 1 << site
            return
        count, paused_until_s = self._pauses.get(site, (0, 0.0))
        if paused_until_s > event.at_s:
            return  # Others that were asked for before the pause fail by the same cause.
        count += 1
        until_s = event.at_s + min(FIRST_PAUSE_S * 2.0 ** (count - 1), MAX_PAUSE_S)
        if count > MAX_PAUSES:
            until_s = inf
        else:
            self.run.set_timer(f"{_PAUSE}:{site}", until_s)
        self._pauses[site] = count, until_s

    def _pause_ended(self, site: int) -> None:
        self._scan_soon()

    def _give_up_waiting(self, number: int) -> None:
        claim = self.claims.get(f"{self.state.run_id}.C{number}")
        if claim is not None and claim.granted_s is None and claim.reason is None:
            ready = sum(part.started_s is not None for part in claim.parts)
            text = f"{ready} of {len(claim.parts)} placeholders were ready in time"
            claim.reason = "late", text
            self._is_due = self.run.decision_due = True

    # Attempts

    def claim_for(self, attempt: Attempt) -> ProcessorClaim | None:
        """The claim that an open attempt runs in; None if the claim has ended."""
        return self.by_job.get((attempt.workflow, attempt.task))

    def on_placed(self, attempt: Attempt) -> None:
        """Request the inputs at all sites of the claim: each component reads them at its own
        site."""
        claim = self.by_job.get((attempt.workflow, attempt.task))
        if claim is not None:
            claim.attempt = attempt.key
            w = self.state.workflows[attempt.workflow]
            for site in sorted({part.site for part in claim.parts} - {attempt.site}):
                request_inputs(self.run, w, attempt, site)

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        claim = self.claim_for(attempt)
        if claim is not None and claim.granted_s is not None:
            self.phases.started += 1
            self.phases.start_s += event.at_s - claim.granted_s

    def on_file_removed(self, w: WorkflowState, file: int, site: int) -> None:
        """End a claim if its attempt has not started, and one of the attempt's inputs was removed
        at a site of the claim."""
        for claim in self.by_job.values():
            attempt = self.state.attempts.get(claim.attempt)
            if (
                attempt is not None
                and attempt.started_s is None
                and claim.workflow == w.index
                and file in w.workflow.tasks[claim.task].inputs
                and any(part.site == site for part in claim.parts)
            ):
                name = self.state.sites[site].spec.name
                text = f"{w.workflow.files[file].name} is not at {name} any more"
                claim.reason = claim.reason or ("cancelled", text)
                self._is_due = self.run.decision_due = True

    def on_left(self, attempt: Attempt) -> None:
        if attempt.started_s is not None:
            self.phases.execution_s += self.state.now_s - attempt.started_s
        claim = self.by_job.get((attempt.workflow, attempt.task))
        if claim is not None and claim.attempt == attempt.key:
            claim.reason = claim.reason or ("done", "")
            self._is_due = self.run.decision_due = True

    # Sites

    def _observed(self, event: ev.SiteObserved) -> None:
        running = sum(job.cores for job in event.background if job.started_s is not None)
        queued = sum(job.cores for job in event.background) - running
        self._set_foreign(event.site, running, queued)

    def _load_observed(self, event: ev.SiteLoadObserved) -> None:
        self._set_foreign(event.site, event.running_cores, event.queued_cores)

    def _set_foreign(self, site: int, running: int, queued: int) -> None:
        if self._foreign[site] != (running, queued):
            self._foreign[site] = running, queued
            self._scan_soon()

    def on_health_changed(self, site: int) -> None:
        self._scan_soon()

    def idle_at(self, index: int) -> int:
        """Number of idle processors of a site that can be claimed. 0 at sites that get no work, and
        at sites where other users' jobs wait: these jobs would start before a placeholder."""
        site = self.state.sites[index]
        queued = self._foreign[index][1]
        is_paused = self._pauses.get(index, (0, 0.0))[1] > self.state.now_s
        if not site.is_healthy or queued or is_paused or self.state.left >> index & 1:
            return 0
        return self.free_at(index)

    def free_at(self, index: int) -> int:
        """Number of processors of a site that neither running jobs of other users nor placeholders
        hold."""
        slots, running = self.state.sites[index].spec.slots, self._foreign[index][0]
        return max(0, slots - running - self._held[index])

    def on_resumed(self, dismissed: bool) -> None:
        """Look for the placeholders of the previous engine, and give back again the placeholders
        that it had given back. If it dismissed its launchers at the end of the run, end all
        claims."""
        self._pauses.clear()
        self._refused.clear()
        self.queue.renew(self._request_of)
        self.given_up.clear()
        # A site reports to a new engine only what is not zero.
        self._foreign = [(0, 0)] * len(self._foreign)
        for claim in list(self.claims.values()):
            keys = by_site([part for part in claim.parts if not part.is_ended])
            if dismissed and self.by_job.get((claim.workflow, claim.task)) is claim:
                claim.reason = "cancelled", "dismissed with the run"
            for site, parts in keys.items():
                self.run.outbox.append(FindLaunchers(site, tuple(p.request.key for p in parts)))
            if self.by_job.get((claim.workflow, claim.task)) is not claim:
                self._give_back(claim)
            else:
                self.give_back_some(claim, [part for part in claim.parts if part.is_returned])
        self._scan_soon()

    def foreign_at(self, index: int) -> tuple[int, int]:
        """Processors of other users' running and queued jobs at a site, as last observed."""
        return self._foreign[index]

    def first_waiting(self) -> PlacementRequest | None:
        """The request of the first job that the last scan left in the queue; None if there is none,
        or if a job is being placed."""
        if self._pending is not None or not len(self.queue):
            return None
        return self.queue.request(self.queue.first(1)[0])

    def could_place(self) -> bool:
        """Whether a scan could place a job now. True if jobs have arrived since the last scan: they
        enter the queue at the next scan, so that a replay has the same queue."""
        if self._changed:
            return True
        self._idle.set([self.idle_at(index) for index in range(len(self.state.sites))])
        return self.queue.find(self._idle) is not None

    def expects(self) -> bool:
        """Whether a job has a claim, or processors may become idle for a queued job without an
        event of this run."""
        if not self.state.open_workflows:
            return False
        return bool(self.by_job) or (bool(len(self.queue)) and self._may_get_room())

    def _may_get_room(self) -> bool:
        """Whether idle processors may appear at a site: jobs of other users or placeholders may end
        there, or a pause ends."""
        return any(
            (site.is_healthy and (any(self._foreign[index]) or self._held[index]))
            or self.state.now_s < self._pauses.get(index, (0, 0.0))[1] < inf
            for index, site in enumerate(self.state.sites)
        )

    def explain_end(self) -> str | None:
        if self.given_up:
            workflow, task = self.given_up[0]
            name = self.state.workflows[workflow].workflow.tasks[task].id
            others = len(self.given_up) - 1
            more = f", and {others} more" if others else ""
            most = self.state.settings.tries
            return f"the job {name!r}{more} could not be placed in {most} tries"
        if len(self.queue):
            workflow, task = next(iter(self.queue))
            name = self.state.workflows[workflow].workflow.tasks[task].id
            return f"the job {name!r} cannot be placed although all sites are idle"
        return None

    # Decisions

    def _scan_soon(self) -> None:
        self._is_due = self._is_scan_due = self.run.decision_due = True

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._is_due:
            return
        self._is_due = False
        now_s = self.state.now_s
        for claim in list(self.by_job.values()):
            reason = claim.reason or self._reason_to_end(claim)
            if reason is not None:
                decisions.take(ev.ClaimEnded(now_s, claim.key, *reason))
            elif claim.granted_s is not None and not claim.attempt:
                w = self.state.workflows[claim.workflow]
                head = claim.parts[0].site
                decisions.place(w, claim.task, head, 1 << head)
        if self._is_scan_due and self._pending is None:
            self._scan(decisions)
        self._is_due = False

    def _reason_to_end(self, claim: ProcessorClaim) -> tuple[ev.ClaimEndCause, str] | None:
        """Cause and message for ending a claim if its job or one of its sites no longer allows
        an attempt; None: the claim continues. A claim whose attempt was already submitted
        continues."""
        w = self.state.workflows[claim.workflow]
        attempt = self.state.attempts.get(claim.attempt)
        if claim.attempt and (attempt is None or attempt.phase is not Phase.STAGING):
            return None
        if attempt is None and w.status[claim.task] != ELIGIBLE:
            return "cancelled", "the job is not to run any more"
        takes = w.feasible_sites(claim.task) & ~self.state.left
        for part in claim.parts:
            site = self.state.sites[part.site]
            is_open = takes >> part.site & 1 and HELD not in site.conditions
            if not is_open or not (site.is_healthy or claim.attempt):
                return "cancelled", f"{site.spec.name} gets no work now"
        return None

    def _scan(self, decisions: Decisions) -> None:
        """Place the first job of the queue that the idle processors can hold."""
        self._is_scan_due = False
        self._sync()
        if not len(self.queue):
            return
        self._idle.set([self.idle_at(index) for index in range(len(self.state.sites))])
        found = self.queue.find(self._idle)
        now_s, counts = self.state.now_s, self._idle.counts
        if found is None:
            decisions.take(ev.PlacementTried(now_s, counts, len(self.queue)))
            return
        position, placement = found
        job = self.queue.first(position + 1)[-1]
        decisions.take(ev.PlacementTried(now_s, counts, position))
        if self.state.is_placing:  # A job that was tried too often may have stopped the run.
            decisions.take(self._claims_for(job, placement))

    def _claims_for(self, job: Job, placement: Placement) -> ev.ClaimsAsked:
        workflow, task = job
        w = self.state.workflows[workflow]
        key = f"{self.state.run_id}.C{self.made + 1}"
        parts = [
            ev.ClaimPart(site, placeholder_of(w, task, f"{key}.{number}", size, self.state, site))
            for number, (site, size) in enumerate(placement)
        ]
        return ev.ClaimsAsked(self.state.now_s, key, workflow, task, tuple(parts))

    def end_replay(self) -> None:
        """Make no decision: past decisions are in the log, and decisions that are due are found
        again when the run is resumed."""
        self._is_due = False
