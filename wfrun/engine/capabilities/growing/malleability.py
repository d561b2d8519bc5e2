"""Lets malleable jobs grow into idle processors of their sites, and shrink for others.

Source: thesis chapter 3 (KOALA). The decisions are those of `wfrun.engine.jobs.malleable.policies`.
A job grows by placeholders of one node, or one processor, that join its claim. Placeholders are
requested while processors are idle, offered to the program when they are ready, and given back if
the program declines them. When waiting jobs of local users are observed, malleable jobs immediately
give them processors that they have grown by; the thesis polls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.capabilities.claims.claim import Placeholder
from wfrun.engine.capabilities.claims.claims import ProcessorClaims
from wfrun.engine.capabilities.growing.grown import GrownJob, OpenQuestion, SizeChange, is_malleable
from wfrun.engine.core.actions import ResizeAttempt
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import Attempt
from wfrun.engine.jobs.malleable.policies import Change, demands, grow, reclaimable

SETTLE_S = 6.0
"""Maximum time in seconds from the return of processors to a site until the waiting jobs that get
them are observed to run."""

_LOOK = "sizes"

Job = tuple[int, int]
"""(workflow, task)."""


class Malleability(Capability):
    """Grows and shrinks the malleable jobs of a run with claims.

    Cost of a decision: the malleable jobs that run, and their placeholders.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        settings = self.state.settings
        assert settings.malleable is not None, "without it there is no such capability"
        self._policy = settings.malleable
        self._waiting_first = settings.precedence == "pwa"
        self._threshold = settings.threshold
        self.jobs: dict[str, GrownJob] = {}
        """Malleable jobs that run, by key of the claim, in the order of their start."""
        self.sizes: dict[str, list[SizeChange]] = {}
        """The sizes of each attempt of a malleable job so far, by key."""
        self._rigid: set[Job] = set()
        """Jobs whose program violated the protocol. They are not offered processors any more."""
        self._returned: dict[int, deque[tuple[float, int]]] = {}
        """By site: the latest returns of processors, as (time in seconds, number of processors)."""
        self._waits_since_s: dict[int, float] = {}
        """By site where jobs of other users wait: the time since which they wait."""
        self._is_due = False

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.malleable is not None

    def take_over(self, before: Malleability) -> None:
        self.jobs, self.sizes, self._rigid = before.jobs, before.sizes, before._rigid

    @property
    def _claims(self) -> ProcessorClaims:
        return self.state.get(ProcessorClaims)

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.GrowthAsked: self._growth_asked,
            ev.GrowthOffered: self._offered,
            ev.ShrinkAsked: self._shrink_asked,
            ev.JobResized: self._resized,
            ev.GrowthReleased: self._released,
            ev.ClaimsAsked: self._changed,
            ev.ClaimEnded: self._changed,
            ev.PlacementTried: self._tried,
            ev.LauncherStarted: self._changed,
            ev.LauncherEnded: self._changed,
            ev.SiteObserved: self._observed,
            ev.SiteLoadObserved: self._observed,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {_LOOK: self._look}

    # Facts

    def on_started(self, attempt: Attempt, event: ev.AttemptStarted) -> None:
        """Register the job of the attempt if it is malleable."""
        w = self.state.workflows[attempt.workflow]
        claim = self._claims.claim_for(attempt)
        if claim is None or claim.key in self.jobs or not is_malleable(w, attempt.task):
            return
        job = GrownJob(attempt, claim, w.workflow.moldable[attempt.task])
        job.can_join = (attempt.workflow, attempt.task) not in self._rigid
        self.jobs[claim.key] = job
        self.sizes[attempt.key] = job.sizes
        job.start(event.at_s)
        self._is_due = self.run.decision_due = True

    def on_left(self, attempt: Attempt) -> None:
        for key, job in list(self.jobs.items()):
            if job.attempt == attempt.key:
                extra_s = job.end(self.state.now_s)
                self.state.sites[attempt.site].used_core_s += extra_s
                del self.jobs[key]

    def on_absent(self, attempt: Attempt) -> None:
        """Forget a job that had not started and is submitted again."""
        for key, job in list(self.jobs.items()):
            if job.attempt == attempt.key:
                del self.jobs[key]

    def _growth_asked(self, event: ev.GrowthAsked) -> None:
        self._claims.extend(self.jobs[event.claim].claim, event.launchers)

    def _offered(self, event: ev.GrowthOffered) -> None:
        job = self.jobs[event.claim]
        job.question = OpenQuestion(event.number, event.launchers, 0)
        self._ask(job)

    def _shrink_asked(self, event: ev.ShrinkAsked) -> None:
        job = self.jobs[event.claim]
        job.question = OpenQuestion(event.number, (), event.processors)
        self._ask(job)

    def _ask(self, job: GrownJob) -> None:
        """Send the open question, if any, to the program. After a crash it is sent again."""
        asked = job.question
        if asked is not None:
            head = job.claim.parts[0].request.key
            nodes = job.nodes(asked.offered)
            self.run.outbox.append(
                ResizeAttempt(job.site, job.attempt, head, asked.number, nodes, asked.reclaimed)
            )

    def _resized(self, event: ev.JobResized) -> None:
        job = next((each for each in self.jobs.values() if each.attempt == event.key), None)
        if job is None:
            return
        job.has_joined = True
        if event.is_gone or event.failure:
            job.can_join = False
        if event.failure:
            self._rigid.add((job.claim.workflow, job.claim.task))
        job.hear(event)
        self._changed(event)

    def _released(self, event: ev.GrowthReleased) -> None:
        job = self.jobs[event.claim]
        parts = [part for part in job.claim.parts if part.request.key in event.launchers]
        self._claims.give_back_some(job.claim, parts)
        for key in event.launchers:
            job.left.pop(key, None)
        if event.cause == "late":
            job.paused_until_s = event.at_s + self.state.settings.claim_wait_s
        latest = self._returned.setdefault(job.site, deque())
        latest.append((event.at_s, sum(part.processors for part in parts)))
        while latest[0][0] < event.at_s - SETTLE_S:
            latest.popleft()

    def _observed(self, event: ev.SiteObserved | ev.SiteLoadObserved) -> None:
        # The parts after this one have not interpreted the event yet.
        if isinstance(event, ev.SiteLoadObserved):
            waits = event.queued_cores > 0
        else:
            waits = any(job.started_s is None for job in event.background)
        if waits:
            self._waits_since_s.setdefault(event.site, event.at_s)
        else:
            self._waits_since_s.pop(event.site, None)
        self._changed(event)

    def _tried(self, event: ev.PlacementTried) -> None:
        if self._waiting_first and event.failed and self.jobs:
            self.run.has_new_room = True  # decide again in this step: nothing else may happen soon
        self._changed(event)

    def _changed(self, event: ev.Event) -> None:
        self._is_due = self.run.decision_due = bool(self.jobs) or self.run.decision_due

    def _look(self) -> None:
        self._is_due = self.run.decision_due = True

    def on_health_changed(self, site: int) -> None:
        self._is_due = self.run.decision_due = True

    def on_resumed(self, dismissed: bool) -> None:
        """Send the open questions again: the previous engine may not have sent them."""
        for job in self.jobs.values():
            self._ask(job)
        self._returned.clear()
        self._waits_since_s.clear()  # A site reports to a new engine only what is not zero.
        self._is_due = self.run.decision_due = True

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if not self._is_due:
            return
        self._is_due = False
        claims = self._claims
        by_site: dict[int, list[GrownJob]] = {}
        for job in self.jobs.values():
            claim = job.claim
            if claim.reason is None and claims.by_job.get((claim.workflow, claim.task)) is claim:
                by_site.setdefault(job.site, []).append(job)
        look_s = inf
        for site, jobs in by_site.items():
            look_s = min(look_s, self._give_back_unused(decisions, jobs))
            look_s = min(look_s, self._shrink_for_local(decisions, site, jobs))
        kept = self._make_room(decisions, by_site) if self._waiting_first else None
        for site, jobs in by_site.items():
            look_s = min(look_s, self._offer(decisions, jobs))
            if site != kept and not (self._waiting_first and claims.could_place()):
                self._grow(decisions, site, jobs)
        if look_s < inf and self.state.timers.get(_LOOK) != look_s:
            self.run.set_timer(_LOOK, look_s)
        self._is_due = False

    def end_replay(self) -> None:
        """Decide nothing: due decisions are found again when the run is resumed."""
        self._is_due = False

    def _give_back_unused(self, decisions: Decisions, jobs: Sequence[GrownJob]) -> float:
        """Give back processors that programs do not use, and those that were not ready in time.
        Returns the time to decide again; infinite: no need."""
        now_s, look_s = self.state.now_s, inf
        for job in jobs:
            for cause in sorted(set(job.left.values())):
                parts = [p for p in job.spares if job.left.get(p.request.key) == cause]
                self._release(decisions, job, parts, cause)
            free = _not_offered(job)
            if not job.can_grow:
                self._release(decisions, job, free, "unused")
                continue
            due_s = {part.asked_s + self.state.settings.claim_wait_s for part in free
                     if part.started_s is None}  # fmt: skip
            if due_s and min(due_s) <= now_s:
                late = [part for part in free if part.started_s is None]
                self._release(decisions, job, late, "late")
            else:
                look_s = min(look_s, *due_s, inf)
        return look_s

    def _shrink_for_local(self, decisions: Decisions, site: int, jobs: Sequence[GrownJob]) -> float:
        """Give processors back to local users whose jobs wait: first processors that are not
        offered yet, then processors that jobs have grown by. Returns the time to decide again;
        infinite: no need.

        During the first `SETTLE_S` of their wait, idle processors and processors that are being
        returned count as given to the local jobs. If local jobs still wait after `SETTLE_S`, the
        batch system cannot use those processors for them. Then as many processors as they request
        are given back in addition, less those returned within the last `SETTLE_S`.
        """
        queued, now_s = self._claims.foreign_at(site)[1], self.state.now_s
        since_s = self._waits_since_s.get(site)
        if not queued or since_s is None:
            return inf
        for job in jobs:
            self._release(decisions, job, _not_offered(job), "local")
        asked = sum(job.question.reclaimed for job in jobs if job.question is not None)
        if now_s < since_s + SETTLE_S:
            needed = queued - asked - _on_their_way(jobs) - self._claims.free_at(site)
            look_s = since_s + SETTLE_S
        else:
            recent = [each for each in self._returned.get(site, ()) if each[0] + SETTLE_S > now_s]
            needed = queued - asked - sum(count for _, count in recent)
            look_s = min((at_s for at_s, _ in recent), default=now_s) + SETTLE_S
        self._reclaim(decisions, jobs, needed, "local")
        return look_s

    def _make_room(
        self, decisions: Decisions, by_site: Mapping[int, Sequence[GrownJob]]
    ) -> int | None:
        """Shrink jobs for the first waiting job, at the site where this reclaims the fewest
        processors. Returns the site that is kept free for that job; None if no site has enough
        processors."""
        request = self._claims.first_waiting()
        if request is None or self._claims.could_place():
            return None
        rooms: list[tuple[int, int]] = []
        for site, jobs in by_site.items():
            if not request.sites >> site & 1 or self._claims.foreign_at(site)[1]:
                continue
            coming = sum(job.question.reclaimed for job in jobs if job.question is not None)
            missing = request.size - self._claims.idle_at(site) - coming - _on_their_way(jobs)
            free = sum(part.processors for job in jobs for part in _not_offered(job))
            if missing <= free + reclaimable([job.sized for job in _askable(jobs)]):
                rooms.append((missing, site))
        if not rooms:
            return None
        missing, site = min(rooms)
        for job in reversed(by_site[site]):
            parts: list[Placeholder] = []
            for part in _not_offered(job):
                if missing > 0:
                    parts.append(part)
                    missing -= part.processors
            self._release(decisions, job, parts, "waiting")
        self._reclaim(decisions, by_site[site], missing, "waiting")
        return site

    def _reclaim(
        self, decisions: Decisions, jobs: Sequence[GrownJob], needed: int, cause: ev.ShrinkCause
    ) -> None:
        """Reclaim ``needed`` processors by mandatory shrinks of jobs without an open question."""
        askable = _askable(jobs)
        if needed <= 0 or not askable:
            return
        for demand in demands(self._policy, [job.sized for job in askable], needed):
            job = askable[demand.place]
            count = ceil(demand.processors / job.unit) * job.unit
            number = job.answered + 1
            decisions.take(ev.ShrinkAsked(self.state.now_s, job.claim.key, number, count, cause))

    def _offer(self, decisions: Decisions, jobs: Sequence[GrownJob]) -> float:
        """Offer the processors that are ready to the programs. Returns the time to decide again;
        infinite: no need."""
        look_s = inf
        for job in jobs:
            ready, due_s = job.to_offer(self.state.now_s)
            if ready:
                keys = tuple(part.request.key for part in ready)
                number = job.answered + 1
                decisions.take(ev.GrowthOffered(self.state.now_s, job.claim.key, number, keys))
            look_s = min(look_s, inf if due_s is None else due_s)
        return look_s

    def _grow(self, decisions: Decisions, site: int, jobs: Sequence[GrownJob]) -> None:
        """Claim idle processors for the jobs that the policy offers them to."""
        growing = [job for job in jobs if job.can_grow]
        idle = self._claims.idle_at(site) - self._threshold
        if idle <= 0 or not growing:
            return
        unit = max(job.unit for job in growing)
        asked: list[tuple[GrownJob, int]] = []

        def answer(offer: Change) -> int:
            job = growing[offer.place]
            count = job.wanted(offer.processors * unit, self.state.now_s)
            if count:
                asked.append((job, count))
            return ceil(count / unit)

        grow(self._policy, len(growing), idle // unit, answer)
        for job, count in asked:
            w = self.state.workflows[job.claim.workflow]
            decisions.take(job.growth(count, w.asked(job.claim.task), self.state.now_s))

    def _release(
        self, decisions: Decisions, job: GrownJob, parts: Sequence[Placeholder],
        cause: ev.ReleaseCause,
    ) -> None:  # fmt: skip
        if parts:
            keys = tuple(part.request.key for part in parts)
            decisions.take(ev.GrowthReleased(self.state.now_s, job.claim.key, keys, cause))


def _not_offered(job: GrownJob) -> list[Placeholder]:
    """Placeholders for growth that were not offered to the program of a job."""
    offered = () if job.question is None else job.question.offered
    return [part for part in job.spares if part.request.key not in offered]


def _askable(jobs: Sequence[GrownJob]) -> list[GrownJob]:
    """The jobs that can be asked to shrink now, in the order of their start."""
    return [job for job in jobs if job.has_joined and job.question is None]


def _on_their_way(jobs: Sequence[GrownJob]) -> int:
    """Number of processors that were given back and whose placeholders have not ended."""
    return sum(
        part.processors for job in jobs for part in job.claim.parts
        if part.is_returned and not part.is_ended
    )  # fmt: skip
