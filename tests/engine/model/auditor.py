"""Rules that every run keeps, held against its log and the actions given out.

The auditor never looks into a core: it knows the documents of the workflows, the events in their
order, and the actions of each step. Attempts whose inputs are on their way can be taken back
without an event; the auditor derives that where the log implies it, and leaves such an attempt out
of its sums (``doubtful``) where the log leaves it open. Sums are thus lower bounds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from wfrun.engine import actions as act
from wfrun.engine import events as ev
from wfrun.engine.capabilities.binding import (
    BATCH_LATENCY_S,
    LOCAL_LATENCY_S,
    MAX_COMMITTED_RATIO,
    SSH_LATENCY_S,
)
from wfrun.engine.exchange import LauncherRequest, Outcome
from wfrun.engine.fit import fits
from wfrun.engine.model import ORIGIN, File, LauncherSpec, Resources, SiteSpec, Task, Workflow
from wfrun.engine.policies.placement import PLACEMENT
from wfrun.engine.prefetch import prefetch_per_slot

RULES: dict[str, str] = {
    "key": "the key of an attempt is used once",
    "done": "no task is placed that is done",
    "parents": "a task is placed when all its parents are done, again where lost files need it",
    "throttle": "no workflow has more open attempts than the throttle",
    "one-site": "no two open attempts of one task are at one site",
    "replicas": "no task has more open attempts than one and its replicas",
    "replica-share": "replicas hold no more than their share of the cores",
    "fits": "a task is placed at a site that it fits",
    "home": "a task is placed at a site of its resource manager",
    "refused": "a task is not placed at a site that refused it, until the run is resumed",
    "paused": "no task is placed at a site that says that it takes none",
    "closing": "nothing is placed or submitted after a cancellation or the end, until a resume",
    "launcher-room": "a task is placed at a site with launchers while one of them is live",
    "ahead-room": "a site of a run with late binding gets no attempts beyond its prefetch",
    "late-room": "a late policy commits no more cores at a site than its slots and its prefetch",
    "durable": "an attempt is submitted after its placement is durable, while it is open",
    "twice": "an attempt is submitted once, and again after the site said that it is absent",
    "inputs": "an attempt is submitted when its inputs are at the site",
    "success": "the success of a task counts once",
    "copy-source": "a file is copied from where it is",
    "launcher-key": "the key of a launcher is used once",
    "launcher-max": "a site has no more launchers than its catalog entry says",
    "launcher-backlog": "no more launchers than the backlog are queued",
    "launcher-request": "a launcher is asked for as its catalog entry says",
    "withdrawn-open": "an attempt is withdrawn that is open at the site and has not started",
    "withdrawn-again": "no attempt is withdrawn that is withdrawn and not answered",
    "withdrawn-at-once": "no attempt is withdrawn by the decision that places it",
    "withdrawn-room": "one decision takes back no more cores than other sites have idle",
    "withdrawn-owed": "what is withdrawn and not answered never exceeds the idle cores elsewhere",
    "end-open": "a run ends when no attempt that matters is open",
    "end-done": "a run ends done when all tasks are done",
    "end-collected": "a run ends done when all final outputs that were written are collected",
    "end-cancelled": "a run ends cancelled when that was asked for",
    "end-failed": "in a failed run each task is done, has failed, or depends on one that failed",
    "end-retries": "a task fails for good when its retries are used up",
    "end-gave-up": "no run ends because a policy places nothing although its sites are open",
}

MAX_SETBACKS = 10
COPY_FAILURES = 3
"""A transient failure of a copy is tried again this often."""
MIN_WALLTIME_S = 300.0
"""Of a launcher's walltime, unless the catalog allows less."""

_COUNTED = frozenset({"exit", "signal", "output", "cancelled"})
"""Causes that cost a retry and nothing else."""
_SPECIAL = frozenset({"start", "memory", "walltime", "refused"})
"""Causes after which a task may fail for good with retries left."""


class Violation(NamedTuple):
    """A rule that was broken."""

    rule: str
    message: str
    position: int
    """Number of durable events before it."""


class OpenAttempt:
    """An open attempt, as far as the log tells."""

    __slots__ = ("cores", "doubtful", "is_replica", "key", "launcher", "placed", "started_s",
                 "submitted", "superseded", "task", "withdrawn")  # fmt: skip

    def __init__(self, placed: ev.AttemptPlaced, cores: int, *, is_replica: bool) -> None:
        self.placed = placed
        self.key = placed.key
        self.task = placed.workflow, placed.task
        self.cores = cores
        self.is_replica = is_replica
        self.submitted = False
        self.started_s: float | None = None
        self.launcher = ""
        self.superseded = False
        self.withdrawn = False
        """And not answered."""
        self.doubtful = False
        """It may have been taken back before it was submitted."""


class LauncherRecord:
    """A launcher that has not ended."""

    __slots__ = ("is_live", "is_queued", "slots", "stopped")

    def __init__(self) -> None:
        self.is_queued = True
        self.is_live = False
        self.slots = 0
        self.stopped = False


class Document:
    """What the auditor needs of a workflow."""

    def __init__(self, workflow: Workflow) -> None:
        self.owner = workflow.owner
        self.tasks: list[Task] = list(workflow.tasks)
        self.files: list[File] = list(workflow.files)
        self.parents = list(workflow.parents)
        self.is_bag = workflow.bag is not None


class Auditor:
    """Takes a run step by step and notes which rules were broken."""

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.violations: list[Violation] = []
        self.done: set[tuple[int, int]] = set()
        self.present: dict[tuple[int, int], set[int]] = {}
        """(workflow, file) → the places that hold it."""
        self.used_s: defaultdict[str, float] = defaultdict(float)
        """Core seconds by owner, of attempts that ended."""
        self.absent_s: defaultdict[str, float] = defaultdict(float)
        """Of attempts that started and were then said to be absent; whether they count is open."""
        self.ended: str | None = None
        self._documents = documents
        self._workflows: dict[int, Document] = {}
        self._count = 0
        self._now_s = 0.0
        self._settings = ev.Settings(policy="")
        self._specs: tuple[SiteSpec, ...] = ()
        self._queues: tuple[tuple[int, ...], ...] = ()
        self._queue_of: dict[int, int] = {}
        self._is_late = self._is_bounded = False
        self._most_replicas = 0
        self._open: dict[str, OpenAttempt] = {}
        self._keys: set[str] = set()
        self._asked: dict[tuple[int, int], Resources] = {}
        self._grown: dict[tuple[int, int], Resources] = {}
        """What tasks ask for next, if they are tried again before the run is resumed."""
        self._refused: set[tuple[int, int, int]] = set()
        self._paused: set[int] = set()
        self._written: set[tuple[int, int]] = set()
        self._copy_failures: Counter[tuple[int, int, int]] = Counter()
        self._background_cores: Counter[int] = Counter()
        self._shortest_s: dict[int, float] = {}
        """By site: the shortest run of an attempt that was done there."""
        self._launchers: dict[int, dict[str, LauncherRecord]] = {}
        self._launcher_keys: set[str] = set()
        self._failures: Counter[tuple[int, int]] = Counter()
        self._setbacks: Counter[tuple[int, int]] = Counter()
        self._specials: set[tuple[int, int]] = set()
        """Tasks that may fail for good with retries left."""
        self._cancelled = False
        self._had_uncollected = False
        self._submitted_now: set[str] = set()
        """Attempts that this step submits."""

    @property
    def is_anything_running(self) -> bool:
        """Whether an attempt has started and not ended."""
        return any(one.started_s is not None for one in self._open.values())

    # Input

    def step(
        self, event: ev.Event, decided: Sequence[ev.Event], actions: Sequence[act.Action]
    ) -> None:
        """One step of the core, durable: an event, what was decided, the actions given out."""
        submitted = {
            key
            for action in actions
            if isinstance(action, act.SubmitAttempts)
            for key, _, _ in action.attempts
        }
        self._submitted_now = submitted
        self._hear(event, submitted)
        owed = self._owed()
        for one in decided:
            self._hear(one, submitted)
        self._check_withdrawn([d for d in decided if isinstance(d, ev.AttemptsWithdrawn)], owed)
        withdrawn = {key for d in decided if isinstance(d, ev.AttemptsWithdrawn) for key in d.keys}
        for action in actions:
            if isinstance(action, act.SubmitAttempts):
                self._submit(action)
            elif isinstance(action, act.CancelAttempts):
                self._recall(action, withdrawn)
            elif isinstance(action, act.CopyFile):
                places = self.present.get((action.workflow, action.file), set())
                self._require(
                    "copy-source", action.source in places, f"{action} from one of {places}"
                )

    def _hear(self, event: ev.Event, submitted: set[str]) -> None:
        self._count += 1
        self._now_s = max(self._now_s, event.at_s)
        if isinstance(event, ev.AttemptsFound):
            self._found(event, submitted)
            return
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def _require(self, rule: str, holds: bool, message: str) -> None:
        assert rule in RULES
        if not holds:
            self.violations.append(Violation(rule, f"{self._now_s:g} s: {message}", self._count))

    # The run

    def _run_started(self, event: ev.RunStarted) -> None:
        self._settings = settings = event.settings
        self._specs, self._queues = event.sites, event.queues
        policy = PLACEMENT[settings.policy]
        most = settings.replicas
        if most is None:
            most = max(policy.replicas, settings.replication == "stragglers")
        self._most_replicas = min(most, len(event.sites) - 1)
        self._launchers = {i: {} for i, s in enumerate(event.sites) if launcher_spec(s) is not None}
        self._is_late = policy.binds_late
        self._is_bounded = bool(
            policy.binds_late or self._launchers or settings.selection or self._most_replicas > 0
        )

    def _workflow_added(self, event: ev.WorkflowAdded) -> None:
        self._workflows[event.workflow] = document = Document(self._documents[event.digest])
        self._queue_of[event.workflow] = event.queue
        self._is_bounded = self._is_bounded or document.is_bag
        for file, record in enumerate(document.files):
            if record.producer is None:
                self.present[event.workflow, file] = {ORIGIN}

    def _run_resumed(self, event: ev.RunResumed) -> None:
        dismissed, self.ended = self.ended is not None, None
        self._cancelled = self._had_uncollected = False
        self._refused.clear()
        self._grown.clear()
        self._paused.clear()
        self._failures.clear()
        self._setbacks.clear()
        self._specials.clear()
        self._lose(event.lost)
        for one in self._open.values():
            one.withdrawn = False  # The order may have died with the engine.
        for launchers in self._launchers.values():
            for key, launcher in list(launchers.items()):
                launcher.is_live = False
                if dismissed and launcher.is_queued:
                    del launchers[key]
                launcher.stopped = launcher.stopped or dismissed

    def _lose(self, lost: Sequence[tuple[int, int, int]]) -> None:
        gone = set()
        for workflow, file, site in lost:
            places = self.present.get((workflow, file), set())
            places.discard(site)
            if not places:
                gone.add((workflow, file))
        missing = set(lost)
        for one in [t for t in self._open.values() if not t.submitted]:
            workflow = one.task[0]
            for file in self._task(one.task).inputs:
                place = workflow, file, one.placed.site
                if place in missing or (workflow, file) in gone:
                    self._open.pop(one.key, None)
        for number, document in self._workflows.items():
            self._redo(number, document)

    def _redo(self, number: int, document: Document) -> None:
        """Tasks whose files are needed and nowhere are not done any more."""
        while True:
            needed = {f for f, file in enumerate(document.files) if file.collect}
            for task, record in enumerate(document.tasks):
                if (number, task) not in self.done:
                    needed.update(record.inputs)
            again = {
                (number, producer)
                for f in needed
                if (producer := document.files[f].producer) is not None
                and (number, f) in self._written
                and not self.present.get((number, f))
                and (number, producer) in self.done
            }
            if not again:
                return
            self.done -= again

    def _cancel_asked(self, event: ev.CancelAsked) -> None:
        self._cancelled = True
        for one in [t for t in self._open.values() if not t.submitted]:
            del self._open[one.key]

    def _run_ended(self, event: ev.RunEnded) -> None:
        self._require("closing", self.ended is None, f"{event} after the end")
        self.ended = event.outcome
        matter = [t.key for t in self._open.values() if not (t.superseded or t.doubtful)]
        self._require("end-open", not matter, f"ended {event.outcome} with {matter} open")
        undone = [
            (number, task)
            for number, document in self._workflows.items()
            for task in range(len(document.tasks))
            if (number, task) not in self.done
        ]
        if event.outcome == "cancelled":
            self._require("end-cancelled", self._cancelled, "nobody asked for it")
        elif event.outcome == "done":
            self._require("end-done", not undone, f"{undone} are not done")
            for (number, file), places in self.present.items():
                if (number, file) in self._written and self._is_final(number, file):
                    self._require("end-collected", ORIGIN in places, f"file {number}/{file}")
        elif event.reason is not None:
            idle = [i for i in range(len(self._specs)) if i not in self._paused]
            gave_up = event.reason.startswith("policy")
            self._require("end-gave-up", not (gave_up and idle), event.reason)
        else:
            self._failed(undone)

    def _is_final(self, number: int, file: int) -> bool:
        return self._workflows[number].files[file].collect

    def _failed(self, undone: list[tuple[int, int]]) -> None:
        """Why a run that ended failed has tasks that are not done."""
        self._require("end-failed", bool(undone) or self._had_uncollected, "nothing has failed")
        if self._settings.on_failure == "stop":
            return
        not_done = set(undone)
        for number, task in undone:
            if any((number, p) in not_done for p in self._workflows[number].parents[task]):
                continue
            one = number, task
            failed = self._failures[one] + self._setbacks[one] > 0 or one in self._specials
            self._require("end-failed", failed, f"{one} was not tried")
            has_grown = one in self._asked or one in self._grown  # and may fit nowhere any more
            if self._most_replicas <= 0 and one not in self._specials and not has_grown:
                spent = self._failures[one] > self._settings.retries or self._setbacks[one] > max(
                    MAX_SETBACKS, self._settings.retries
                )
                count = self._failures[one], self._setbacks[one]
                self._require("end-retries", not failed or spent, f"{one} failed {count} times")

    # Attempts

    def _task(self, task: tuple[int, int]) -> Task:
        return self._workflows[task[0]].tasks[task[1]]

    def _tries(self, task: tuple[int, int]) -> list[OpenAttempt]:
        """Open attempts of a task that matter."""
        return [
            t for t in self._open.values() if t.task == task and not (t.superseded or t.doubtful)
        ]

    def _committed(self, site: int) -> int:
        return sum(t.cores for t in self._open.values() if t.placed.site == site and not t.doubtful)

    def _placed(self, event: ev.AttemptPlaced) -> None:
        task = event.workflow, event.task
        record = self._task(task)
        cores, site, what = record.resources.cores, event.site, str(event)
        spec = self._specs[site]
        settings, document = self._settings, self._workflows[event.workflow]
        self._require("closing", self.ended is None and not self._cancelled, what)
        self._require("key", event.key not in self._keys, what)
        self._keys.add(event.key)
        self._require("done", task not in self.done, what)
        others = self._tries(task)
        undone = [p for p in document.parents[event.task] if (event.workflow, p) not in self.done]
        is_replica = " (a replica)" if others else ""
        self._require("parents", not undone, f"{what}{is_replica}: {undone} are not done")
        self._require("one-site", all(t.placed.site != site for t in others), what)
        self._require("replicas", len(others) <= max(0, self._most_replicas), what)
        if task in self._grown:
            self._asked[task] = self._grown.pop(task)
        asked = self._asked.get(task, record.resources)
        self._require("fits", fits(asked, spec), f"{what}: {asked}")
        self._require("refused", (*task, site) not in self._refused, what)
        self._require("paused", site not in self._paused, what)
        if self._queues:
            home = self._queues[self._queue_of[event.workflow]]
            self._require("home", site in home, what)
        self._check_room(what, site, cores)
        one = self._open[event.key] = OpenAttempt(event, cores, is_replica=bool(others))
        open_tries = sum(
            t.task[0] == event.workflow and not t.doubtful for t in self._open.values()
        )
        throttle = settings.throttle
        self._require("throttle", throttle is None or open_tries <= throttle, what)
        if one.is_replica:
            held = sum(
                t.cores
                for t in self._open.values()
                if t.is_replica and not (t.superseded or t.doubtful)
            )
            most = settings.replica_share * sum(s.slots for s in self._specs)
            self._require("replica-share", held <= most, f"{what}: {held} of {most} cores")

    def _check_room(self, what: str, site: int, cores: int) -> None:
        """``cores`` are to be placed at the site."""
        committed, spec = self._committed(site), self._specs[site]
        if site in self._launchers:
            live = sum(x.slots for x in self._launchers[site].values() if x.is_live)
            self._require("launcher-room", live > 0, what)
            return
        shortest_s = self._shortest_s.get(site)
        latency_s = {"local": LOCAL_LATENCY_S, "ssh": SSH_LATENCY_S}.get(spec.kind, BATCH_LATENCY_S)
        room = spec.slots * (1 + prefetch_per_slot(latency_s, shortest_s))
        counts = f"{what}: {committed} cores committed, room for {room}"
        if self._is_late:
            self._require("late-room", committed + cores <= room, counts)
        elif self._is_bounded:
            self._require(
                "ahead-room", committed < max(room, MAX_COMMITTED_RATIO * spec.slots), counts
            )

    def _submit(self, action: act.SubmitAttempts) -> None:
        for key, number, task in action.attempts:
            one = self._open.get(key)
            self._require("durable", one is not None, f"{key} is submitted and not open")
            self._require("closing", self.ended is None and not self._cancelled, f"{key} submitted")
            if one is None:
                continue
            self._require("twice", not one.submitted, key)
            one.submitted, one.doubtful = True, False
            document = self._workflows[number]
            record = document.tasks[task]
            for file in record.inputs:
                producer = document.files[file].producer
                may_lack = producer is not None and (
                    file in record.optional or file in document.tasks[producer].optional
                )
                places = self.present.get((number, file), set())
                never_written = (
                    may_lack and (number, producer) in self.done and (number, file) not in
                    self._written
                )  # fmt: skip
                self._require(
                    "inputs",
                    action.site in places or never_written,
                    f"{key} is submitted at site {action.site}, file {file} is at {places}",
                )

    def _found(self, event: ev.AttemptsFound, submitted: set[str]) -> None:
        for key in event.absent:
            one = self._open.get(key)
            if one is None:
                continue
            if one.started_s is not None:
                owner = self._workflows[one.task[0]].owner
                self.absent_s[owner] += one.cores * (self._now_s - one.started_s)
            one.submitted = one.withdrawn = False
            one.started_s, one.launcher = None, ""
            if key not in submitted:
                del self._open[key]  # The task is placed anew.
        for key in event.active:
            one = self._open.get(key)
            if one is not None:
                one.withdrawn = False  # The order may have been lost, and is given again.

    def _attempt_started(self, event: ev.AttemptStarted) -> None:
        one = self._open.get(event.key)
        if one is not None and one.started_s is None:
            one.started_s = self._now_s
            one.launcher = event.launcher
            one.withdrawn = False

    def _attempt_ended(self, event: ev.AttemptEnded) -> None:
        one = self._open.pop(event.key, None)
        if one is None:
            return
        outcome = event.outcome
        self._use(one, outcome)
        if one.superseded:
            return
        if outcome.cause == "done":
            self._succeeded(one, outcome)
        else:
            self._attempt_failed(one, outcome)

    def _use(self, one: OpenAttempt, outcome: Outcome) -> None:
        owner = self._workflows[one.task[0]].owner
        if outcome.started_s is not None and outcome.ended_s is not None:
            self.used_s[owner] += one.cores * (outcome.ended_s - outcome.started_s)
        elif one.started_s is not None:
            self.used_s[owner] += one.cores * (self._now_s - one.started_s)

    def _succeeded(self, one: OpenAttempt, outcome: Outcome) -> None:
        site, number = one.placed.site, one.task[0]
        self._require("success", one.task not in self.done, f"{one.key} is done again")
        self.done.add(one.task)
        if outcome.started_s is not None and outcome.ended_s is not None:
            elapsed_s = outcome.ended_s - outcome.started_s
            self._shortest_s[site] = min(elapsed_s, self._shortest_s.get(site, elapsed_s))
        for file, size in zip(self._task(one.task).outputs, outcome.sizes, strict=False):
            if size is not None:
                self.present[number, file] = {site}
                self._written.add((number, file))
            elif not self.present.get((number, file)):
                self._written.discard((number, file))  # Done again, it did not write it.
        for other in [t for t in self._open.values() if t.task == one.task]:
            if other.submitted:
                other.superseded = True
            else:
                del self._open[other.key]

    def _attempt_failed(self, one: OpenAttempt, outcome: Outcome) -> None:
        task, cause = one.task, outcome.cause
        if cause == "refused":
            self._refused.add((*task, one.placed.site))
        if cause == "cancelled" and self._cancelled:
            return
        if cause == "cancelled" and one.started_s is None:
            self._specials.add(task)  # It may have been withdrawn.
            return
        if cause in _COUNTED:
            self._failures[task] += 1
        elif cause in _SPECIAL:
            self._specials.add(task)
        else:
            self._setbacks[task] += 1
        if not self._tries(task):
            self._learn(task, cause)
        self._may_stop()

    def _learn(self, task: tuple[int, int], cause: str) -> None:
        """The next attempt asks for more than this one did, if there is any."""
        asked = self._asked.get(task, self._task(task).resources)
        if cause == "memory":
            memory_bytes = asked.memory_bytes + 1
            asked = msgspec.structs.replace(asked, memory_bytes=memory_bytes)
        elif cause == "walltime" and asked.walltime_s is not None:
            walltime_s = asked.walltime_s + 1
            asked = msgspec.structs.replace(asked, walltime_s=walltime_s)
        self._grown[task] = asked

    def _may_stop(self) -> None:
        """A failure for good takes back what is staging, if the run is to stop then."""
        if self._settings.on_failure == "stop":
            for one in self._open.values():
                one.doubtful = one.doubtful or not one.submitted

    # Files

    def _transfer_ended(self, event: ev.TransferEnded) -> None:
        self.present.setdefault((event.workflow, event.file), set()).add(event.destination)
        del self._copy_failures[event.workflow, event.file, event.destination]

    def _transfer_failed(self, event: ev.TransferFailed) -> None:
        copy = event.workflow, event.file, event.destination
        self._copy_failures[copy] += 1
        if event.transient and self._copy_failures[copy] <= COPY_FAILURES:
            return
        if event.destination == ORIGIN:
            self._had_uncollected = True
            return
        for one in [t for t in self._open.values() if not t.submitted]:
            workflow, _ = one.task
            waits = (
                workflow == event.workflow
                and one.placed.site == event.destination
                and event.file in self._task(one.task).inputs
            )
            if not waits:
                continue
            self._specials.add(one.task)
            if event.transient:
                one.doubtful = True
            else:
                del self._open[one.key]
        self._may_stop()

    # Sites and launchers

    def _site_observed(self, event: ev.SiteObserved) -> None:
        self._background_cores[event.site] = sum(
            job.cores for job in event.background if job.started_s is not None
        )

    def _site_paused(self, event: ev.SitePaused) -> None:
        self._paused.add(event.site)

    def _site_reopened(self, event: ev.SiteReopened) -> None:
        self._paused.discard(event.site)

    def _launchers_asked(self, event: ev.LaunchersAsked) -> None:
        spec = launcher_spec(self._specs[event.site])
        assert spec is not None
        self._require("closing", self.ended is None and not self._cancelled, str(event))
        launchers = self._launchers[event.site]
        for request in event.launchers:
            self._require("launcher-key", request.key not in self._launcher_keys, request.key)
            self._launcher_keys.add(request.key)
            launchers[request.key] = LauncherRecord()
            self._require("launcher-request", _is_as_asked(request, spec), str(request))
        count, queued = len(launchers), sum(x.is_queued for x in launchers.values())
        self._require("launcher-max", count <= spec.max, f"{event}: {count} of {spec.max}")
        self._require("launcher-backlog", queued <= spec.backlog, f"{event}: {queued} queued")

    def _launcher_started(self, event: ev.LauncherStarted) -> None:
        launcher = self._launchers[event.site].get(event.key)
        if launcher is not None:
            launcher.is_queued = False
            launcher.is_live = not launcher.stopped
            launcher.slots = event.slots

    def _launcher_draining(self, event: ev.LauncherDraining) -> None:
        launcher = self._launchers[event.site].get(event.key)
        if launcher is not None:
            launcher.is_live = False

    def _launchers_stopped(self, event: ev.LaunchersStopped) -> None:
        for key in event.keys:
            launcher = self._launchers[event.site].get(key)
            if launcher is not None:
                launcher.stopped, launcher.is_live = True, False

    def _launcher_ended(self, event: ev.LauncherEnded) -> None:
        self._launchers[event.site].pop(event.key, None)

    # Withdrawals

    def _idle_cores(self) -> list[int]:
        """By site: cores that an attempt would start on at once; an upper bound."""
        return [
            0 if site in self._paused else max(0, self._slots_now(site) - self._committed(site))
            for site in range(len(self._specs))
        ]

    def _slots_now(self, site: int) -> int:
        if site not in self._launchers:
            return self._specs[site].slots - self._background_cores[site]
        launchers = self._launchers[site]
        closed = sum(
            t.cores
            for t in self._open.values()
            if t.placed.site == site and (x := launchers.get(t.launcher)) and not x.is_live
        )
        return closed + sum(x.slots for x in launchers.values() if x.is_live)

    def _owed(self) -> int:
        return sum(t.cores for t in self._open.values() if t.withdrawn)

    def _withdrawn(self, event: ev.AttemptsWithdrawn) -> None:
        for key in event.keys:
            one = self._open.get(key)
            is_waiting = (
                one is not None
                and one.placed.site == event.site
                and (one.submitted or key in self._submitted_now)
                and one.started_s is None
            )
            self._require("withdrawn-open", is_waiting, f"{event}: {key}")
            if one is not None:
                self._require("withdrawn-again", not one.withdrawn, f"{event}: {key}")
                self._require("withdrawn-at-once", one.submitted, f"{event}: {key}")
                one.withdrawn = True

    def _recall(self, action: act.CancelAttempts, withdrawn: set[str]) -> None:
        """``withdrawn``: keys of this decision, which the log names. A site that fails everything
        at once gets its attempts taken back without an event."""
        if not action.queued_only or self._cancelled or self._settings.on_failure == "stop":
            return
        for key in action.keys:
            one = self._open.get(key)
            if one is not None and key not in withdrawn:
                self._require("withdrawn-again", not one.withdrawn, f"{action}: {key}")
                one.withdrawn = one.started_s is None

    def _check_withdrawn(self, events: list[ev.AttemptsWithdrawn], owed: int) -> None:
        """``owed``: cores withdrawn before, and not answered."""
        if not events:
            return
        idle = self._idle_cores()
        total = 0
        for event in events:
            cores = sum(self._open[key].cores for key in event.keys if key in self._open)
            room = sum(idle) - idle[event.site]
            total += cores
            self._require("withdrawn-room", cores <= room, f"{event}: {cores} cores for {room}")
        if len(events) > 1:
            self._require(
                "withdrawn-room", total <= sum(idle), f"{events}: {total} cores for {sum(idle)}"
            )
        self._require(
            "withdrawn-owed",
            owed + total <= sum(idle),
            f"{events}: {owed} and {total} cores for {sum(idle)}",
        )

    _HANDLERS: Mapping[type[ev.Event], Callable[..., None]] = {
        ev.RunStarted: _run_started,
        ev.WorkflowAdded: _workflow_added,
        ev.RunResumed: _run_resumed,
        ev.CancelAsked: _cancel_asked,
        ev.RunEnded: _run_ended,
        ev.AttemptPlaced: _placed,
        ev.AttemptStarted: _attempt_started,
        ev.AttemptEnded: _attempt_ended,
        ev.AttemptsWithdrawn: _withdrawn,
        ev.TransferEnded: _transfer_ended,
        ev.TransferFailed: _transfer_failed,
        ev.SiteObserved: _site_observed,
        ev.SitePaused: _site_paused,
        ev.SiteReopened: _site_reopened,
        ev.LaunchersAsked: _launchers_asked,
        ev.LauncherStarted: _launcher_started,
        ev.LauncherDraining: _launcher_draining,
        ev.LaunchersStopped: _launchers_stopped,
        ev.LauncherEnded: _launcher_ended,
    }


def launcher_spec(site: SiteSpec) -> LauncherSpec | None:
    """The launchers of a site; None: it has none."""
    access = site.access
    return access.launchers if access is not None and access.dispatch == "launchers" else None


def files_at_sites(auditor: Auditor, documents: Mapping[str, Workflow]) -> Iterator[
    tuple[int, int, int]
]:  # fmt: skip
    """(workflow, file, site) of the files that tasks wrote."""
    for (workflow, file), places in sorted(auditor.present.items()):
        if documents[str(workflow)].files[file].producer is not None:
            for site in sorted(places):
                if site != ORIGIN:
                    yield workflow, file, site


def _is_as_asked(request: LauncherRequest, spec: LauncherSpec) -> bool:
    shape = (request.nodes, request.cores, request.memory_bytes, request.gpus)
    least_s = min(MIN_WALLTIME_S, spec.walltime_s)
    return (
        shape == (spec.nodes, spec.cores, spec.memory_bytes, spec.gpus)
        and least_s <= request.walltime_s <= spec.walltime_s
    )
