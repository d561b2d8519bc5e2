"""Rules about the run as a whole: workflows, resumes, cancellation, the end."""

from __future__ import annotations

from tests.engine.model.audit.audit_claims import ClaimRules
from tests.engine.model.audit.known_run import (
    Document,
    launcher_spec,
)
from tests.engine.model.audit.rules import MAX_SETBACKS
from wfrun.engine import events as ev
from wfrun.engine.fitting.fit import fits
from wfrun.engine.model import ORIGIN, LinkSpec, SiteSpec
from wfrun.engine.policies.placement import PLACEMENT


class RunRules(ClaimRules):
    """Rules about the run as a whole: workflows, resumes, cancellation, the end."""

    def on_run_started(self, event: ev.RunStarted) -> None:
        self._queues = event.queues
        self._configure(event.settings, event.sites, event.links)

    def on_run_changed(self, event: ev.RunChanged) -> None:
        """The options and sites of the run have changed. What waits for inputs at a site that left,
        or that it does not fit any more, is taken back. New sites belong to all resource
        managers."""
        if event.settings.keep != "failed":
            self._kept.clear()
        new = range(len(self._specs), len(event.sites))
        self._queues = tuple((*sites, *new) for sites in self._queues)
        self._configure(event.settings, event.sites, event.links)
        self._has_changed = True
        self._left = set(event.left)
        for site in event.left:
            self._take_back(site)
        for one in [t for t in self._open.values() if not t.submitted]:
            asked = self._request(one.task, one.cores)
            if not fits(asked, event.sites[one.placed.site]):
                del self._open[one.key]

    def _configure(
        self, settings: ev.Settings, sites: tuple[SiteSpec, ...], links: tuple[LinkSpec, ...]
    ) -> None:
        self._settings, self._specs = settings, sites
        index = {spec.name: site for site, spec in enumerate(sites)} | {"origin": ORIGIN}
        self._link_room = {
            (index[link.source], index[link.destination]): link.max_transfers
            for link in links
            if link.max_transfers is not None
        }
        policy = PLACEMENT[settings.policy]
        most = settings.replicas
        if most is None:
            most = max(policy.replicas, settings.replication == "stragglers")
        self._max_replicas = 0 if settings.plans_queues else most
        for site, spec in enumerate(sites):
            if launcher_spec(spec) is not None:
                self._launchers.setdefault(site, {})
        self._is_late = policy.binds_late
        self._is_bounded = bool(
            policy.binds_late
            or self._launchers
            or settings.selection
            or self._max_replicas > 0
            or any(document.is_bag for document in self._workflows.values())
        )

    def on_workflow_added(self, event: ev.WorkflowAdded) -> None:
        self._workflows[event.workflow] = document = Document(self._documents[event.digest])
        self._queue_of[event.workflow] = event.queue
        self._is_bounded = self._is_bounded or document.is_bag
        for file, record in enumerate(document.files):
            if record.producer is None:
                names = {source.site for source in record.sources}
                sites = {site for site, spec in enumerate(self._specs) if spec.name in names}
                self._catalogued[event.workflow, file] = sites
                self._originals[event.workflow, file] = set(sites)
                is_here = not sites or record.url is not None
                self.present[event.workflow, file] = {ORIGIN, *sites} if is_here else set(sites)
                if record.size_bytes is not None:
                    self._sizes[event.workflow, file] = record.size_bytes
        for part in event.reused:
            self.done |= {(event.workflow, task) for task in part.tasks}
            self._once_done |= self.done
            for file, size_bytes, place in part.files:
                self.present[event.workflow, file] = {place}
                self._sizes[event.workflow, file] = size_bytes
                self._written.add((event.workflow, file))
            self._written |= {(event.workflow, file) for file in part.lost}

    def on_run_resumed(self, event: ev.RunResumed) -> None:
        ended, self.ended = self.ended, None
        dismissed = ended is not None
        self._cancelled = self._had_uncollected = self._may_stop = False
        self._refused.clear()
        self._refused_cores.clear()
        self._failed_sites.clear()
        self._grown.clear()
        self._paused.clear()
        self._failures.clear()
        self._setbacks.clear()
        if ended == "failed":
            self._asked_to_cancel.clear()
            self._cancelled_tasks.clear()
        self._specials = set(self._asked_to_cancel)
        self._large_copies.clear()
        self._under_way.clear()
        self._outdated.clear()
        self._dropped.clear()
        self._copy_failures.clear()
        self._remakes.clear()
        self._redirected.clear()
        self._routed.clear()
        self._lose(event.lost)
        self.claims_resumed()
        for one in self._open.values():
            one.withdrawn = False  # The order may be lost with the engine.
            self._reserve(one)  # The next engine counts again.
        for launchers in self._launchers.values():
            for key, launcher in list(launchers.items()):
                launcher.is_live = False
                if dismissed and launcher.is_queued:
                    del launchers[key]
                launcher.stopped = launcher.stopped or dismissed

    def on_cancel_asked(self, event: ev.CancelAsked) -> None:
        self._cancelled = True
        self._dropped |= {c for c in self._under_way if c[2] != ORIGIN or event.mode == "kill"}
        for one in [t for t in self._open.values() if not t.submitted]:
            del self._open[one.key]

    def on_run_ended(self, event: ev.RunEnded) -> None:
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
            self._require("end-cancelled", self._cancelled, "the user did not cancel it")
        elif event.outcome == "done":
            self._require("claim-left", not self.claims, f"{list(self.claims)} go on")
            self._require("end-done", not undone, f"{undone} are not done")
            self._check_left()
            for (number, file), places in self.present.items():
                if (number, file) in self._written and self._is_final(number, file):
                    self._require("end-collected", ORIGIN in places, f"file {number}/{file}")
        elif event.reason is not None:
            idle = set(range(len(self._specs))) - self._paused - self._left
            gave_up = event.reason.startswith("policy")
            self._require("end-gave-up", not (gave_up and idle), event.reason)
        else:
            self._check_failed(undone)

    def _is_final(self, number: int, file: int) -> bool:
        return self._workflows[number].files[file].collect

    def _check_failed(self, undone: list[tuple[int, int]]) -> None:
        """Check that a failed run has a reason for each task that is not done."""
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
            if self._max_replicas <= 0 and one not in self._specials and not has_grown:
                spent = self._failures[one] > self._settings.retries or self._setbacks[one] > max(
                    MAX_SETBACKS, self._settings.retries
                )
                count = self._failures[one], self._setbacks[one]
                self._require("end-retries", not failed or spent, f"{one} failed {count} times")
