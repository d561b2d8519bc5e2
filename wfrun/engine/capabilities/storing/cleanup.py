"""Cleanup: files leave the sites while the run goes on.

Reference counts tell which files no task will read any more. Such a file is removed from all sites.
A final output is removed only after its copy has arrived at ORIGIN. Files at ORIGIN, such as
initial inputs, are never removed. Removals are decided in batches, since each removal is an event
of the log and a message to a site.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wfrun.engine import events as ev
from wfrun.engine.core.actions import RemoveFiles
from wfrun.engine.core.capability import Capability, Decisions, Run
from wfrun.engine.core.state import Attempt, TaskStatus, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import ORIGIN
from wfrun.engine.tasks.attempts import variant
from wfrun.engine.tasks.bag import BagFiles

BATCH_FILES = 32
BATCH_BYTES = 64 * 1024 * 1024
"""A batch is full with this number of files, or with this total size in bytes. A smaller batch
waits for further files until nothing of the run is open except superseded attempts."""
STORAGE_SHARE = 32
"""Maximum size of the files that wait for a batch, as a fraction 1/STORAGE_SHARE of the smallest
storage limit."""


class Cleanup(Capability):
    """Removes files of the run from the sites at which nothing needs them any more."""

    dormant = frozenset({"on_left", "on_ended"})
    """These hooks are needed only after an attempt was superseded."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._readers: list[array[int]] = []
        """By workflow and file: number of readers. Readers are tasks that are not done, and
        superseded attempts, which may still be submitted."""
        self._due: dict[tuple[int, int], int] = {}
        """Sizes in bytes of the files that can be removed from at least one site, by (workflow,
        file). The log alone determines them, so that a replay restores the batch."""
        self._due_bytes = 0
        limits = [site.spec.storage_bytes for site in self.state.sites]
        self._batch_bytes = min(
            [BATCH_BYTES, *(limit // STORAGE_SHARE for limit in limits if limit is not None)]
        )
        self._origin = self.state.network.bit(ORIGIN)
        self._sites = (self._origin - 1) & ~self.state.left
        """The sites of the catalog, as a mask."""
        self._kept: set[tuple[int, int, int]] = set()
        """Inputs of failed attempts that stay at a site, as (workflow, file, site)."""

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        """Wanted unless all files are kept: in real runs, and where a site has a storage limit."""
        state = run.state
        return begun.settings.keep != "all" and (
            state.own_outputs or any(site.spec.storage_bytes is not None for site in state.sites)
        )

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.TransferEnded: self._on_copy_ended,
            ev.TransferFailed: self._on_copy_ended,
            ev.FilesDiscarded: self._on_discarded,
        }

    def timers(self) -> Mapping[str, Callable[..., None]]:
        return {"room": self._place_again}

    def take_over(self, before: Cleanup) -> None:
        if self.state.settings.keep == "failed":
            self._kept = before._kept

    def is_kept(self, workflow: int, file: int, site: int) -> bool:
        """Whether a file stays at a site because an attempt there that read it has failed."""
        return (workflow, file, site) in self._kept

    # Facts

    def on_workflow_added(self, w: WorkflowState) -> None:
        files = w.workflow.files
        is_fresh = TaskStatus.DONE not in w.status
        if isinstance(files, BagFiles) and is_fresh:
            readers = files.readers()
            readers.extend(array("I", bytes(4 * (len(files) - len(readers)))))
        else:
            readers = array("I", bytes(4 * len(files)))
            for task, status in zip(w.workflow.tasks, w.status, strict=True):
                if status != TaskStatus.DONE:
                    for file in task.inputs:
                        readers[file] += 1
        self._readers.append(readers)
        if not is_fresh:
            self._add_all(w)

    def on_resumed(self, dismissed: bool) -> None:
        """Find the files to remove anew: some may be lost, and copies were given up."""
        self._forget_due()
        for w in self.state.workflows:
            self._add_all(w)

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        """Release the inputs of a task, and add files without readers to the batch: its inputs, and
        outputs that no task reads. An output that is collected is added after its copy to ORIGIN
        has ended."""
        w = self.state.workflows[attempt.workflow]
        files, readers = w.workflow.files, self._readers[w.index]
        task = w.workflow.tasks[attempt.task]
        for file in task.inputs:
            readers[file] -= 1
            if not readers[file]:
                self._add(w, file, w.present[file])
        for number, file in enumerate(task.outputs):
            if (
                task.optional
                and file in task.optional
                and not any(size is not None for size in outcome.sizes[number : number + 1])
            ):
                continue  # The attempt did not write it. A file of an earlier attempt stays.
            # If the task was repeated, earlier copies of its output are out of date.
            self._due_bytes -= self._due.pop((w.index, file), 0)
            if not readers[file] and not files[file].collect:
                self._add(w, file, 1 << attempt.site)

    def on_redone(self, w: WorkflowState, task: int) -> None:
        self._hold(w, task)

    def on_superseded(self, attempt: Attempt) -> None:
        if self.dormant:
            self.run.hooks.wake(self)
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
            w = self.state.workflows[workflow]
            self._add(w, file, w.present[file])

    def _on_copy_ended(self, event: ev.TransferEnded | ev.TransferFailed) -> None:
        """Add a file that could not be removed while it was copied."""
        if not self._readers[event.workflow][event.file]:
            self.on_copy_dropped((event.workflow, event.file, event.destination))

    def _on_discarded(self, event: ev.FilesDiscarded) -> None:
        self._forget_due()  # a decision takes all
        if self.state.sites[event.site].spec.storage_bytes is not None:
            # Placements of this step came before the removal, and no later event is certain.
            self.run.set_timer("room", event.at_s)

    def _place_again(self) -> None:
        """Place tasks that waited for storage. Called when files have left a site."""
        self.run.placement_possible = True

    def _hold(self, w: WorkflowState, task: int) -> None:
        readers = self._readers[w.index]
        for file in w.workflow.tasks[task].inputs:
            readers[file] += 1
            self._due_bytes -= self._due.pop((w.index, file), 0)

    def _release(self, w: WorkflowState, task: int) -> None:
        readers = self._readers[w.index]
        for file in w.workflow.tasks[task].inputs:
            readers[file] -= 1
            if not readers[file]:
                self._add(w, file, w.present[file])

    def _add_all(self, w: WorkflowState) -> None:
        readers = self._readers[w.index]
        for file, present in enumerate(w.present):
            if present & self._sites and not readers[file]:
                self._add(w, file, present)

    def _add(self, w: WorkflowState, file: int, present: int) -> None:
        """Add a file without readers to the batch, if it can be removed from at least one site.
        Otherwise a later event, such as the end of a copy, calls this method again. ``present``:
        mask of the places that hold the file."""
        key, due = (w.index, file), self._due
        if not present & self._sites or key in due:
            return
        if present < self._origin and w.workflow.files[file].collect:
            return  # a final output that has not been collected
        if ((self._kept or w.originals) and not self._places(key, present)) or self._is_copied(key):
            return
        size_bytes = due[key] = max(0, w.sizes[file])
        self._due_bytes += size_bytes
        if len(due) >= BATCH_FILES or self._due_bytes >= self._batch_bytes:
            self.run.decision_due = True

    def _forget_due(self) -> None:
        self._due.clear()
        self._due_bytes = 0

    def _places(self, key: tuple[int, int], present: int) -> int:
        """Mask of the sites from which a file without readers can be removed."""
        workflow, file = key
        originals = self.state.workflows[workflow].originals
        places = present & self._sites & ~(originals.get(file, 0) if originals else 0)
        for site in range(len(self.state.sites)) if self._kept else ():
            if (workflow, file, site) in self._kept:
                places &= ~(1 << site)
        return places

    def _is_copied(self, key: tuple[int, int]) -> bool:
        """Whether a file without readers is being copied. A copy to a site does not count while it
        waits in the queue of copies: it will not start."""
        copies = self.state.copies
        for place in range(ORIGIN, len(self.state.sites)) if copies else ():
            copy = copies.get((*key, place))
            if copy is not None and (copy.rank is None or place == ORIGIN):
                return True
        return False

    # Decisions

    def decide(self, decisions: Decisions, possible: bool) -> None:
        if len(self._due) >= BATCH_FILES or (self._due and self._due_bytes >= self._batch_bytes):
            self.settle(decisions)

    def settle(self, decisions: Decisions) -> None:
        """Remove the files of the batch, full or not. The core calls this when nothing is open
        except superseded attempts, since the run may then end without another event."""
        workflows = self.state.workflows
        by_places: dict[int, list[tuple[int, int]]] = {}
        for key in self._due:
            places = self._places(key, workflows[key[0]].present[key[1]])
            by_places.setdefault(places, []).append(key)
        by_site: dict[int, list[tuple[int, int]]] = {}
        for places, keys in by_places.items():
            while places:
                site = places.bit_length() - 1
                by_site.setdefault(site, []).extend(keys)
                places ^= 1 << site
        for site, files in sorted(by_site.items()):
            decisions.take(ev.FilesDiscarded(self.state.now_s, site, tuple(files)))
            self.run.outbox.append(RemoveFiles(site, self._named(files)))

    def _named(self, files: Sequence[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
        """Return each file as (workflow, file, variant), with the variant that is stored at the
        sites."""
        workflows = self.state.workflows
        return tuple([(n, file, workflows[n].variant_of(file)) for n, file in files])
