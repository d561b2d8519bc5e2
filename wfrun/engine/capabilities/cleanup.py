"""Cleanup: files leave the sites while the run goes on.

Reference counts say which files no task will read any more. Such a file is removed from all sites;
a final output only once it is at ORIGIN, where initial inputs are, too. Removals are decided in
batches, since each is an event of the log and a message to a site.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.actions import RemoveFiles
from wfrun.engine.attempts import variant
from wfrun.engine.bag import BagFiles
from wfrun.engine.capability import Capability, Decisions, Run
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN
from wfrun.engine.state import Attempt, RunState, TaskStatus, WorkflowState

BATCH_FILES = 32
BATCH_BYTES = 1024 * 1024
"""Number and total size of files that are removed without waiting for others. Fewer and smaller
ones wait, at most until nothing else of the run is under way."""


class Cleanup(Capability):
    """Removes files from sites where nothing needs them any more."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._readers: list[array[int]] = []
        """Per workflow and file: the number of tasks that are not done and read it, and of
        superseded attempts that do, since a site may still make their requests."""
        self._due: dict[tuple[int, int], int] = {}
        """The files that can be removed from some site, by (workflow, file), with their sizes. They
        follow from the log alone, so that a replay knows which ones wait."""
        self._due_bytes = 0
        self._done: Attempt | None = None
        """The attempt that the present event has found done."""
        self._kept: set[tuple[int, int, int]] = set()
        """(workflow, file, site) of inputs of failed attempts that stay."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return begun.settings.keep != "all"

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.AttemptEnded: self._on_attempt_ended,
            ev.TransferEnded: self._on_copy_ended,
            ev.TransferFailed: self._on_copy_ended,
            ev.FilesDiscarded: self._on_discarded,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"room": self._place_again}

    def take_over(self, before: Cleanup) -> None:
        self._kept = before._kept

    def is_kept(self, workflow: int, file: int, site: int) -> bool:
        """Whether a file stays at a site because an attempt there that read it has failed."""
        return (workflow, file, site) in self._kept

    # Facts

    def on_workflow_added(self, w: WorkflowState) -> None:
        files = w.workflow.files
        is_fresh = not w.counts[TaskStatus.DONE]
        if isinstance(files, BagFiles) and is_fresh:
            readers = files.readers()
            readers.extend(array("I", bytes(4 * (len(files) - len(readers)))))
        else:
            readers = array("I", bytes(4 * len(files)))
            for task, status in enumerate(w.status):
                if status != TaskStatus.DONE:
                    for file in w.workflow.tasks[task].inputs:
                        readers[file] += 1
        self._readers.append(readers)
        if not is_fresh:
            self._update_all(w)

    def on_resumed(self, dismissed: bool) -> None:
        """Look at all files again: some may be lost, and copies were given up."""
        for w in self.state.workflows:
            self._update_all(w)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        self._done = attempt

    def _on_attempt_ended(self, event: ev.AttemptEnded) -> None:
        """Release the inputs of a task that is done. Called when its outputs have their places."""
        attempt, self._done = self._done, None
        if attempt is None:
            return
        w = self.state.workflows[attempt.workflow]
        self._release(w, attempt.task)
        readers = self._readers[w.index]
        for file in w.workflow.tasks[attempt.task].outputs:
            if not readers[file]:
                self._update(w, file)

    def on_redone(self, w: WorkflowState, task: int) -> None:
        self._hold(w, task)

    def on_superseded(self, attempt: Attempt) -> None:
        self._hold(self.state.workflows[attempt.workflow], attempt.task)

    def on_left(self, attempt: Attempt) -> None:
        if attempt.superseded:
            self._release(self.state.workflows[attempt.workflow], attempt.task)

    def on_ended(self, attempt: Attempt, outcome: Outcome, core_s: float | None) -> None:
        """Remove the outputs of a superseded attempt, which have names of their own."""
        if attempt.superseded and outcome.cause == "done" and self.state.own_outputs:
            number = variant(attempt.key)
            outputs = self.state.workflows[attempt.workflow].workflow.tasks[attempt.task].outputs
            files = tuple((attempt.workflow, file, number) for file in outputs)
            if files:
                self.run.outbox.append(RemoveFiles(attempt.site, files))

    def on_failed(self, attempt: Attempt, outcome: Outcome) -> None:
        if self.state.settings.keep == "failed":
            task = self.state.workflows[attempt.workflow].workflow.tasks[attempt.task]
            self._kept.update((attempt.workflow, file, attempt.site) for file in task.inputs)

    def on_copy_dropped(self, copy: tuple[int, int, int]) -> None:
        workflow, file, _ = copy
        if not self._readers[workflow][file]:
            self._update(self.state.workflows[workflow], file)

    def _on_copy_ended(self, event: ev.TransferEnded | ev.TransferFailed) -> None:
        """Look again at a file that was needed while it was copied."""
        self.on_copy_dropped((event.workflow, event.file, event.destination))
        if self._due and self._is_idle:
            self.run.decision_due = True

    def _on_discarded(self, event: ev.FilesDiscarded) -> None:
        for workflow, file in event.files:
            self._update(self.state.workflows[workflow], file)
        if self.state.sites[event.site].spec.storage_bytes is not None:
            # Placements were decided before the removal, and nothing else may happen any more.
            self.run.set_timer("room", event.at_s)

    def _place_again(self) -> None:
        """Place tasks that waited for storage. Called when files have left a site."""
        self.run.placement_possible = True

    def _hold(self, w: WorkflowState, task: int) -> None:
        readers = self._readers[w.index]
        for file in w.workflow.tasks[task].inputs:
            readers[file] += 1
            if readers[file] == 1:
                self._update(w, file)

    def _release(self, w: WorkflowState, task: int) -> None:
        readers = self._readers[w.index]
        for file in w.workflow.tasks[task].inputs:
            readers[file] -= 1
            if not readers[file]:
                self._update(w, file)

    def _update_all(self, w: WorkflowState) -> None:
        sites = (1 << len(self.state.sites)) - 1
        readers = self._readers[w.index]
        for file, present in enumerate(w.present):
            if (present & sites and not readers[file]) or (w.index, file) in self._due:
                self._update(w, file)

    def _update(self, w: WorkflowState, file: int) -> None:
        """Note whether a file can be removed from some site."""
        key = (w.index, file)
        self._due_bytes -= self._due.pop(key, 0)
        if self._removable(w, file):
            size_bytes = self._due[key] = max(0, w.sizes[file])
            self._due_bytes += size_bytes
            self.run.decision_due = True

    def _removable(self, w: WorkflowState, file: int) -> int:
        """The sites from which a file can be removed, as a mask. A file that is copied somewhere
        can be removed when the copy has ended."""
        state = self.state
        origin, present = state.network.bit(ORIGIN), w.present[file]
        places = present & ~origin & ~state.left & ~w.originals.get(file, 0)
        if not places or self._readers[w.index][file]:
            return 0
        if not present & origin and w.workflow.files[file].collect:
            return 0
        if state.copies and _is_copied(state, w.index, file):
            return 0
        for site in range(len(state.sites)) if self._kept else ():
            if (w.index, file, site) in self._kept:
                places &= ~(1 << site)
        return places

    # Decisions

    @property
    def _is_idle(self) -> bool:
        return not (self.state.attempts or self.state.copies)

    def decide(self, decisions: Decisions, possible: bool) -> None:
        due = self._due
        if not due or not (
            len(due) >= BATCH_FILES or self._due_bytes >= BATCH_BYTES or self._is_idle
        ):
            return
        by_site: dict[int, list[tuple[int, int]]] = {}
        for workflow, file in due:
            places = self._removable(self.state.workflows[workflow], file)
            while places:
                site = places.bit_length() - 1
                by_site.setdefault(site, []).append((workflow, file))
                places ^= 1 << site
        for site, files in sorted(by_site.items()):
            named = tuple(map(self._named, files))
            decisions.take(ev.FilesDiscarded(self.state.now_s, site, tuple(files)))
            self.run.outbox.append(RemoveFiles(site, named))

    def _named(self, key: tuple[int, int]) -> tuple[int, int, int]:
        """A file with the variant that is stored."""
        workflow, file = key
        w = self.state.workflows[workflow]
        producer = w.workflow.files[file].producer if w.variants else None
        return workflow, file, 0 if producer is None else w.variants.get(producer, 0)


def _is_copied(state: RunState, workflow: int, file: int) -> bool:
    """Whether a file that no task reads any more is being copied. A copy to a site that still waits
    for room will not start."""
    for place in (ORIGIN, *range(len(state.sites))):
        copy = state.copies.get((workflow, file, place))
        if copy is not None and (copy.rank is None or place == ORIGIN):
            return True
    return False
