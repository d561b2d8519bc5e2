"""Rules about attempts: where and when they are placed and submitted, and how they end."""

from __future__ import annotations

import msgspec

from tests.engine.model.audit.audit_claims import ClaimRules
from tests.engine.model.audit.audit_files import FileRules
from tests.engine.model.audit.known_run import OpenAttempt
from wfrun.engine import events as ev
from wfrun.engine.capabilities.binding import MAX_COMMITTED_RATIO
from wfrun.engine.core import actions as act
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.fit import fits
from wfrun.engine.model import ORIGIN
from wfrun.engine.policies.placement import throttle_of
from wfrun.engine.tasks.attempts import variant

_COUNTED = frozenset({"exit", "signal", "output", "cancelled"})
"""Causes that cost a retry and have no other consequence."""
_SPECIAL = frozenset({"launch-failed", "memory", "walltime", "refused"})
"""Causes after which a task may fail for good with retries left."""


class AttemptRules(FileRules, ClaimRules):
    """Rules about attempts: where and when they are placed and submitted, and how they end."""

    def on_placed(self, event: ev.AttemptPlaced) -> None:
        task = event.workflow, event.task
        record = self._task(task)
        cores, site, what = event.size or record.resources.cores, event.site, str(event)
        spec = self._specs[site]
        settings, document = self._settings, self._workflows[event.workflow]
        self._require("closing", self.ended is None and not self._cancelled, what)
        self._require("key", event.key not in self._keys, what)
        self._keys.add(event.key)
        self._require("done", task not in self.done, what)
        others = self._open_attempts(task)
        undone = [p for p in document.parents[event.task] if (event.workflow, p) not in self.done]
        is_replica = " (a replica)" if others else ""
        self._require("parents", not undone, f"{what}{is_replica}: {undone} are not done")
        are_away = all(t.placed.site in self._paused for t in others)
        replicas = max(0, self._max_replicas)
        self._require("replicas", len(others) <= replicas or (replicas > 0 and are_away), what)
        if task in self._grown:
            self._asked[task] = self._grown.pop(task)
        self._check_size(event)
        asked = self._request(task, cores)
        self._require("fits", fits(asked, spec), f"{what}: {asked}")
        self._check_destination(event, is_replica=bool(others))
        self._require("refused", (*task, site) not in self._refused, what)
        self._require("paused", site not in self._paused, what)
        self._require("held", site not in self._held, what)
        self._require("left", site not in self._left, what)
        self._require("task-cancelled", task not in self._cancelled_tasks, what)
        if self._queues:
            sites = self._queues[self._queue_of[event.workflow]]
            self._require("queue-site", site in sites, what)
        if settings.place:
            self.check_granted(what, event)
        else:
            self._check_room(what, site, cores)
        one = OpenAttempt(event, cores, is_replica=bool(others))
        self.note_request(one)
        self._open[event.key] = one
        self.check_storage(what, one)
        open_attempts = sum(
            t.task[0] == event.workflow and not t.doubtful for t in self._open.values()
        )
        throttle = throttle_of(settings)
        is_throttled = not isinstance(throttle, int) or open_attempts <= throttle
        self._require("throttle", is_throttled, what)
        if one.is_replica:
            held = sum(
                t.cores
                for t in self._open.values()
                if t.is_replica and not (t.superseded or t.doubtful)
            )
            most = settings.replica_share * sum(s.slots for s in self._specs)
            self._require("replica-share", held <= most, f"{what}: {held} of {most} cores")

    def _check_size(self, event: ev.AttemptPlaced) -> None:
        """Check that a moldable job has one of its sizes, and another job none."""
        moldable = self._workflows[event.workflow].workflow.moldable.get(event.task)
        is_sized = moldable is not None and self._settings.sizing is not None
        sizes = moldable.sizes if moldable is not None and is_sized else (0,)
        self._require("size", event.size in sizes, str(event))
        refused = self._refused_cores.get((event.workflow, event.task, event.site))
        if refused is not None:
            self._require("size", event.size <= refused // 2, f"{event}: {refused} were refused")

    def _check_destination(self, event: ev.AttemptPlaced, *, is_replica: bool) -> None:
        """Check that a job that was moved goes where it was sent, unless that site may not take
        it."""
        task = event.workflow, event.task
        site = self._destinations.pop(task, None)
        if site is None or is_replica or self._is_bounded:
            return
        closed = self._paused | self._held | self._left | self._failed_sites
        has_limits = self._specs[site].storage_bytes is not None or self._has_changed
        takes_it = not (site in closed or has_limits or (*task, site) in self._refused)
        self._require("moved-there", event.site == site or not takes_it, f"{event}: not at {site}")

    def on_reallocated(self, event: ev.JobsReallocated) -> None:
        for key, site in event.moves:
            one = self._open.get(key)
            is_waiting = one is not None and one.submitted and one.started_s is None
            is_free = one is not None and not (one.withdrawn or one.superseded)
            self._require("moved-open", is_waiting and is_free, f"{event}: {key}")
            is_open = site not in self._paused | self._held | self._left
            self._require("moved-open", is_open, f"{event}: {key} to {site}")
            if one is not None:
                one.withdrawn = one.is_moving = True
                self._destinations[one.task] = site

    def _check_room(self, what: str, site: int, cores: int) -> None:
        """Check that the site has room for ``cores`` more cores."""
        committed, spec = self._committed(site), self._specs[site]
        if site in self._launchers:
            live = sum(x.slots for x in self._launchers[site].values() if x.is_live)
            self._require("launcher-room", live > 0, what)
            return
        room = spec.slots + self._ended_cores[site]
        counts = f"{what}: {committed} cores committed, room for {room}"
        if self._is_late:
            self._require("late-room", committed + cores <= room, counts)
        elif self._is_bounded:
            self._require(
                "ahead-room", committed < max(room, MAX_COMMITTED_RATIO * spec.slots), counts
            )

    def _check_submitted(self, action: act.SubmitAttempts) -> None:
        for key, number, task in action.attempts:
            one = self._open.get(key)
            self._require("durable", one is not None, f"{key} is submitted and not open")
            self._require("closing", self.ended is None and not self._cancelled, f"{key} submitted")
            if one is None:
                continue
            self._require("held", not self._sites_of(one) & self._held, f"{key} submitted")
            self._require("left", not self._sites_of(one) & self._left, f"{key} submitted")
            self._require("twice", not one.submitted, key)
            asked = self._request(one.task, one.cores)
            self._require("fits", fits(asked, self._specs[action.site]), f"{key} submitted")
            one.submitted, one.doubtful = True, False
            document = self._workflows[number]
            record = document.tasks[task]
            if self._settings.place:
                self.check_claimed(key, one.task)
            for file in record.inputs:
                producer = document.files[file].producer
                may_lack = producer is not None and (
                    file in record.optional or file in document.tasks[producer].optional
                )
                never_written = (
                    may_lack and (number, producer) in self._once_done and (number, file) not in
                    self._written
                )  # fmt: skip
                for site in self._sites_of(one):
                    self._require(
                        "inputs",
                        self.is_stored((number, file), site) or never_written,
                        f"{key} is submitted, file {file} is not at site {site}",
                    )

    def _found(self, event: ev.AttemptsFound, submitted: set[str]) -> None:
        for key in event.absent:
            one = self._open.get(key)
            if one is None:
                continue
            if one.started_s is not None:
                owner = self._workflows[one.task[0]].owner
                self.absent_s[owner] += one.cores * (self._now_s - one.started_s)
            one.submitted = one.withdrawn = one.is_moving = False
            one.started_s, one.launcher = None, ""
            if key not in submitted:
                del self._open[key]  # The task is placed anew.
        for key in event.active:
            one = self._open.get(key)
            if one is not None:
                one.withdrawn = False  # The order may have been lost, and is given again.

    def on_task_cancelled(self, event: ev.TaskCancelled) -> None:
        task = event.workflow, event.task
        if task in self.done:
            return
        troubled = {t[0] for t in (*self._failures, *self._setbacks, *self._specials)}
        if event.workflow not in troubled:  # Otherwise it may have failed or be blocked already.
            self._cancelled_tasks.add(task)
        self._specials.add(task)
        self._asked_to_cancel.add(task)
        for one in [t for t in self._open.values() if t.task == task]:
            if one.submitted:
                one.superseded = True
            else:
                del self._open[one.key]

    def on_attempt_started(self, event: ev.AttemptStarted) -> None:
        one = self._open.get(event.key)
        if one is not None and one.started_s is None:
            one.started_s = self._now_s
            one.launcher = event.launcher
            if self._settings.place:
                self.check_own(event, one.task)
            one.withdrawn = one.is_moving = False
            self._destinations.pop(one.task, None)

    def on_attempt_ended(self, event: ev.AttemptEnded) -> None:
        one = self._open.pop(event.key, None)
        if one is None:
            return
        outcome = event.outcome
        self._count_usage(one, outcome)
        if one.superseded:
            if outcome.cause == "done":
                self._superseded_done.add((*one.task, variant(one.key)))
            return
        if outcome.cause == "done":
            self._succeeded(one, outcome)
        else:
            self._attempt_failed(one, outcome)

    def _count_usage(self, one: OpenAttempt, outcome: Outcome) -> None:
        owner = self._workflows[one.task[0]].owner
        if outcome.started_s is not None and outcome.ended_s is not None:
            self.used_s[owner] += one.cores * (outcome.ended_s - outcome.started_s)
            self._ended_cores[one.placed.site] += one.cores
        elif one.started_s is not None:
            self.used_s[owner] += one.cores * (self._now_s - one.started_s)

    def _succeeded(self, one: OpenAttempt, outcome: Outcome) -> None:
        site, number = one.placed.site, one.task[0]
        self._require("success", one.task not in self.done, f"{one.key} is done again")
        self.done.add(one.task)
        self._once_done.add(one.task)
        self._refused.discard((*one.task, site))
        self._refused_cores.pop((*one.task, site), None)
        self._destinations.pop(one.task, None)
        for file, size in zip(self._task(one.task).outputs, outcome.sizes, strict=False):
            if size is not None:
                self.present[number, file] = {site}
                self._sizes[number, file] = size
                self._written.add((number, file))
                self._outdated |= {c for c in self._under_way if c[:2] == (number, file)}
                self._redirected.discard((number, file, ORIGIN))  # It is collected anew.
                del self._copy_failures[number, file, ORIGIN]
            elif not self.present.get((number, file)):
                self._written.discard((number, file))  # Done again, it did not write it.
        for other in [t for t in self._open.values() if t.task == one.task]:
            if other.submitted:
                other.superseded = True
            else:
                del self._open[other.key]

    def _attempt_failed(self, one: OpenAttempt, outcome: Outcome) -> None:
        task, cause = one.task, outcome.cause
        place = *task, one.placed.site
        if cause == "refused" and self._is_sized(task):
            self._refused_cores[place] = one.cores
        elif cause == "refused":
            self._refused.add(place)
        if cause == "cancelled" and self._cancelled:
            return
        if cause == "cancelled" and one.started_s is None:
            self._specials.add(task)  # It may have been withdrawn.
            self._doubt_if_stopping()
            return
        if cause == "reclaimed":
            return  # It is neither a failure nor a setback.
        self._failed_sites.add(one.placed.site)
        site, inputs = one.placed.site, self._task(task).inputs
        if cause != "cancelled" and self._settings.keep == "failed":
            self._kept.update((task[0], file, site) for file in inputs)
        if cause in _COUNTED:
            self._failures[task] += 1
        elif cause in _SPECIAL:
            self._specials.add(task)
        else:
            self._setbacks[task] += 1
        if not any(t.task == task and not t.superseded for t in self._open.values()):
            self._grow_request(task, cause)
        self._doubt_if_stopping()

    def _is_sized(self, task: tuple[int, int]) -> bool:
        """Whether the size of a job is chosen when it is submitted."""
        return self._settings.sizing is not None and (
            task[1] in self._workflows[task[0]].workflow.moldable
        )

    def _grow_request(self, task: tuple[int, int], cause: str) -> None:
        """Note that the next attempt may request more than this one did."""
        asked = self._asked.get(task, self._task(task).resources)
        if cause == "memory":
            memory_bytes = asked.memory_bytes + 1
            asked = msgspec.structs.replace(asked, memory_bytes=memory_bytes)
        elif cause == "walltime" and asked.walltime_s is not None:
            walltime_s = asked.walltime_s + 1
            asked = msgspec.structs.replace(asked, walltime_s=walltime_s)
        self._grown[task] = asked
