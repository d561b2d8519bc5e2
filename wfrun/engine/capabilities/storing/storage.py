"""Storage limits of sites: no task is placed at a site without room for the files that it needs and
writes.

Counted at a site are the files of the run that are there or on their way, and the declared outputs
of its open attempts. A task without room at a site is set aside there, so that it does not hold up
later tasks, which may need less or free space when they end. It is considered again when the site
has more room.

Outputs of unknown size are expected to be as large as the largest outputs that an ended task of the
same kind has written. Before the first task of the kind has ended, a site gets few of its tasks at
a time (`UNSIZED_SLOTS`). An expected size only delays tasks and never ends a run: while nothing
runs, only known sizes count.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, get_args

from wfrun.engine import events as ev
from wfrun.engine.core.capability import Capability, Run
from wfrun.engine.core.state import Attempt, Phase, TaskStatus, WorkflowState
from wfrun.engine.exchange import Outcome
from wfrun.engine.fitting.sizes import size_text
from wfrun.engine.tasks.status import reclassify

MAX_EXAMINED = 8
"""Maximum number of waiting tasks examined when a site gets more room. Without a limit the cost of
an event would grow with the number of waiting tasks. Half of the examined tasks are the first in
order, so that tasks start in their order: outputs of later tasks could fill the site before a task
that reads them can start. The other half are examined in turn, since later tasks may need less
room."""

MAX_NAMED = 3
"""Maximum number of sites named in a message."""

UNSIZED_SLOTS = 10
"""Until a task of a kind with outputs of unknown size has ended, at most 1/`UNSIZED_SLOTS` of the
slots of a site may run tasks of this kind, but at least one task. There are few of them, since the
total size of their outputs is unknown."""

MAX_UNUSED_OFFERS = 2
"""Maximum number of times that a site gets more room without a placement there; then its offers of
room lapse. A policy may leave tasks unplaced, and offers to them must not keep room from other
tasks."""

TaskKind = tuple[int, str]
"""Workflow, name of the program."""

FileKey = tuple[int, int]
"""Workflow, file."""

HasRoom = Callable[[WorkflowState, int, int, int, "Counter[TaskKind]"], bool]
"""Function that returns whether a site has room for a task. Arguments: workflow, task, site, free
bytes of the site, and number of attempts there, by kind, whose outputs have unknown sizes."""


class SiteStorage:
    """The files of the run at one site, and the tasks that wait for room."""

    __slots__ = ("files", "limit_bytes", "offered", "offered_bytes", "offered_unsized", "staged",
                 "turns", "unsized", "unused_offers", "used_bytes", "waiting")  # fmt: skip

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        """Bytes of the files there or on their way, and of the declared or expected outputs of open
        attempts."""
        self.files: dict[FileKey, int] = {}
        """Bytes of each file that is there or on its way."""
        self.staged: dict[FileKey, int] = {}
        """By file on its way: number of open attempts that wait for it."""
        self.unsized: Counter[TaskKind] = Counter()
        """By kind of task: number of open attempts whose outputs have unknown sizes."""
        self.waiting: OrderedDict[tuple[int, int], None] = OrderedDict()
        """Tasks (workflow, task) that wait for room, in the order in which they get it."""
        self.turns: OrderedDict[tuple[int, int], None] = OrderedDict()
        """The tasks in ``waiting``, in the order in which they are examined in turn."""
        self.offered: OrderedDict[tuple[int, int], tuple[int, TaskKind | None]] = OrderedDict()
        """Tasks (workflow, task) that were offered room and are not placed yet, in the order of the
        offers: the bytes, and the kind if the sizes of outputs are unknown. This room is not
        offered to other tasks, since the first tasks would then have to wait a second time."""
        self.offered_bytes = 0
        self.offered_unsized: Counter[TaskKind] = Counter()
        self.unused_offers = 0
        """Number of times that the site got more room since the last placement there."""

    @property
    def free_bytes(self) -> int:
        """Room that is left; negative if outputs were larger than declared."""
        return self.limit_bytes - self.used_bytes

    def wait(self, key: tuple[int, int]) -> None:
        """Let a task wait for room. A task that has been offered room before goes to the front."""
        self.waiting[key] = self.turns[key] = None
        if key in self.offered:
            self.waiting.move_to_end(key, last=False)

    def end_wait(self, key: tuple[int, int]) -> None:
        """Note that a task no longer waits for room."""
        self.waiting.pop(key, None)
        self.turns.pop(key, None)

    def offer(self, key: tuple[int, int], size_bytes: int, kind: TaskKind | None) -> None:
        """Offer room to a task that waited for it."""
        self.offered[key] = size_bytes, kind
        self.offered_bytes += size_bytes
        if kind is not None:
            self.offered_unsized[kind] += 1

    def got_room(self) -> None:
        """Note that the site has more room. After `MAX_UNUSED_OFFERS` times without a placement,
        all offers lapse."""
        self.unused_offers += 1
        if self.unused_offers > MAX_UNUSED_OFFERS:
            self.offered.clear()
            self.offered_unsized.clear()
            self.offered_bytes = self.unused_offers = 0

    def end_offer(self, key: tuple[int, int]) -> None:
        """Note that a task is no longer offered room."""
        size_bytes, kind = self.offered.pop(key, (0, None))
        self.offered_bytes -= size_bytes
        if kind is not None:
            self.offered_unsized[kind] -= 1

    def take_offer(self, key: tuple[int, int]) -> None:
        """Note that a task is placed here. If the task had an offer, earlier offers lapse: the
        tasks that had them are placed later, or never."""
        self.unused_offers = 0
        while key in self.offered:
            self.end_offer(next(iter(self.offered)))

    def put(self, key: FileKey, size_bytes: int) -> None:
        """Count a file, with its present size."""
        self.used_bytes += size_bytes - self.files.get(key, 0)
        self.files[key] = size_bytes

    def drop(self, key: FileKey) -> bool:
        """Stop counting a file. Returns whether that made room."""
        size_bytes = self.files.pop(key, 0)
        self.used_bytes -= size_bytes
        return size_bytes > 0


class Storage(Capability):
    """Keeps the files at each site within its storage limit.

    Cost: the inputs and outputs of the tasks of an event and of ``MAX_EXAMINED`` others; of a
    resume, the files and the open attempts. Sites without a limit cost nothing.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._limited = 0
        """The sites with a limit, as a mask."""
        self._sites: dict[int, SiteStorage] = {}
        self._reserved: dict[str, int] = {}
        """Bytes of the declared outputs of open attempts, by key."""
        self._unsized: dict[str, TaskKind] = {}
        """Open attempts whose outputs have unknown sizes, by key."""
        self._written: dict[TaskKind, int] = {}
        """By kind: maximum number of bytes that an ended task has written to outputs of unknown
        size."""
        self._offered: dict[tuple[int, int], int] = {}
        """By (workflow, task) of a task that is not placed yet: mask of the sites that have offered
        it room."""
        self._freed = 0
        """Mask of the sites that got more room since waiting tasks were last examined."""
        for index, site in enumerate(self.state.sites):
            if site.spec.storage_bytes is not None:
                self._limited |= 1 << index
                self._sites[index] = SiteStorage(site.spec.storage_bytes)

    @classmethod
    def is_wanted(cls, run: Run, begun: ev.RunStarted) -> bool:
        return any(site.spec.storage_bytes is not None for site in run.state.sites)

    def take_over(self, before: Storage) -> None:
        self._written = before._written  # `on_resumed` counts with it.

    def events(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return dict.fromkeys(get_args(ev.AnyEvent), self._examine) | {
            ev.StorageAwaited: self._storage_awaited,
            ev.TransferEnded: self._transfer_ended,
            ev.TransferFailed: self._transfer_failed,
        }

    # Which sites have room

    def needed_bytes(self, w: WorkflowState, task: int, site: int) -> int:
        """Known number of bytes that a task adds to a site: its outputs, and its inputs that are
        neither at the site nor on their way there. An input whose size has changed while it was on
        its way counts with the difference."""
        files, sizes, index = self._sites[site].files, w.sizes, w.index
        definition = w.workflow.tasks[task]
        needed = self._output_bytes(w, task)
        for file in definition.inputs:
            if w.present[file]:
                size_bytes, counted = max(0, sizes[file]), files.get((index, file), 0)
                if size_bytes != counted and not w.is_stored(file, site):
                    needed += size_bytes - counted
        return needed

    def _output_bytes(self, w: WorkflowState, task: int) -> int:
        return sum(max(0, w.sizes[file]) for file in w.workflow.tasks[task].outputs)

    def _kind(self, w: WorkflowState, task: int) -> TaskKind | None:
        """The kind of a task whose outputs have unknown sizes; None if they are known."""
        definition = w.workflow.tasks[task]
        is_unsized = any(w.sizes[file] < 0 for file in definition.outputs)
        return (w.index, definition.name) if is_unsized else None

    @property
    def _nothing_runs(self) -> bool:
        return len(self.state.attempts) <= self.state.superseded

    def _has_expected_room(
        self, w: WorkflowState, task: int, site: int, free_bytes: int, unsized: Counter[TaskKind]
    ) -> bool:
        """Whether ``free_bytes`` suffice for what a task is expected to add to a site. ``unsized``:
        number of attempts there, by kind, whose outputs have unknown sizes."""
        kind = self._kind(w, task)
        expected = 0 if kind is None else self._written.get(kind)
        if kind is not None and expected is None:
            slots = self.state.sites[site].spec.slots
            if unsized[kind] >= max(1, slots // UNSIZED_SLOTS):
                return False
        return self._has_known_room(w, task, site, free_bytes, unsized, expected or 0)

    def _has_known_room(
        self, w: WorkflowState, task: int, site: int, free_bytes: int, _: object, expected: int = 0
    ) -> bool:
        """Whether ``free_bytes`` suffice for the known bytes that a task adds to a site plus
        ``expected`` bytes. At a site that is over its limit, a task must add no known bytes; if the
        sizes of its outputs are unknown, its end must be able to free files there, since nothing
        else can."""
        needed = self.needed_bytes(w, task, site) + expected
        if needed or free_bytes >= 0:
            return needed <= free_bytes
        return self._kind(w, task) is None or _frees(w, task)

    def _has_known_room_and_frees(
        self, w: WorkflowState, task: int, site: int, free_bytes: int, unsized: Counter[TaskKind]
    ) -> bool:
        return _frees(w, task) and self._has_known_room(w, task, site, free_bytes, unsized)

    def limit_candidates(self, w: WorkflowState, task: int, cores: int, mask: int) -> int:
        return self.with_room(w, task, mask)

    def with_room(self, w: WorkflowState, task: int, mask: int) -> int:
        """The sites of a mask that have room for the files of a task."""
        if mask & self._limited:
            has_room = self._has_known_room if self._nothing_runs else self._has_expected_room
            for index, site in self._sites.items():
                if mask >> index & 1 and not has_room(
                    w, task, index, site.free_bytes, site.unsized
                ):
                    mask &= ~(1 << index)
        return mask

    def awaited(self, w: WorkflowState, task: int, mask: int) -> ev.StorageAwaited:
        """The decision that a task waits for room at the sites in ``mask``, and at all other
        feasible sites without room for its files. Closed sites are included, so that one event
        suffices while the task waits."""
        feasible = w.feasible_sites(task) & ~w.barred.get(task, 0)
        mask |= feasible & ~self.with_room(w, task, feasible)
        sites = tuple(index for index in self._sites if mask >> index & 1)
        return ev.StorageAwaited(self.state.now_s, w.index, task, sites)

    # Tasks that wait for room

    def _storage_awaited(self, event: ev.StorageAwaited) -> None:
        w, key = self.state.workflows[event.workflow], (event.workflow, event.task)
        self._bar(w, event.task, w.barred.get(event.task, 0) | sum(1 << s for s in event.sites))
        for site in event.sites:
            self._sites[site].wait(key)
        self._end_offers(key)

    def _end_offers(self, key: tuple[int, int]) -> int:
        """End all offers of room to a task. Returns the mask of the sites that had made one."""
        mask = self._offered.pop(key, 0)
        for index, site in self._sites.items() if mask else ():
            if mask >> index & 1:
                site.end_offer(key)
        return mask

    def _examine(self, event: ev.Event) -> None:
        """Offer room to waiting tasks at sites that have more room than before. Called after each
        event."""
        if not self._freed:
            return
        freed, self._freed = self._freed, 0
        # Nothing may happen any more that makes room, so all sites get a task if any can.
        nothing_runs = self._nothing_runs
        for index, site in self._sites.items():
            if site.waiting and (nothing_runs or freed >> index & 1):
                site.got_room()
                self._offer(index, site, nothing_runs)

    def _offer(self, index: int, site: SiteStorage, nothing_runs: bool) -> None:
        """Offer the room at a site to the first tasks that wait for it, or to later tasks if none
        of the first ones has room. If no task has room while nothing runs, only known sizes count,
        and tasks whose end may free files come first."""
        if self._offer_in_turn(index, site, self._has_expected_room, all_turns=nothing_runs):
            return
        if nothing_runs:
            for has_room in (self._has_known_room_and_frees, self._has_known_room):
                if self._offer_in_turn(index, site, has_room, all_turns=True):
                    return

    def _offer_in_turn(
        self, index: int, site: SiteStorage, has_room: HasRoom, *, all_turns: bool
    ) -> bool:
        """Offer the room at a site to the first tasks that wait for it. If none of them has room,
        offer it to further tasks in turn: to `MAX_EXAMINED` / 2 tasks, or with ``all_turns`` to
        all. Returns whether a task has room."""
        first = list(islice(site.waiting, MAX_EXAMINED // 2))
        if self._offer_to(index, site, first, has_room):
            return True
        left = len(site.turns)
        while left > 0:
            turn = list(islice(site.turns, MAX_EXAMINED // 2))
            if self._offer_to(index, site, turn, has_room):
                return True
            left -= len(turn)
            for key in turn:
                if key in site.turns:
                    site.turns.move_to_end(key)
            if not all_turns:
                break
        return False

    def _offer_to(
        self, index: int, site: SiteStorage, keys: Sequence[tuple[int, int]], has_room: HasRoom
    ) -> bool:
        """Offer the room at a site to the tasks ``keys`` in their order. Returns whether a task has
        room."""
        free_bytes, unsized, found = site.free_bytes, site.unsized.copy(), False
        if not self._nothing_runs:
            free_bytes -= site.offered_bytes
            unsized.update(site.offered_unsized)
        for key in keys:
            w, task = self.state.workflows[key[0]], key[1]
            if w.status[task] == TaskStatus.ELIGIBLE:
                if not has_room(w, task, index, free_bytes, unsized):
                    continue
                needed, kind = self.needed_bytes(w, task, index), self._kind(w, task)
                if kind is not None:
                    needed += self._written.get(kind, 0)
                    unsized[kind] += 1
                free_bytes -= needed
                site.offer(key, needed, kind)
                self._offered[key] = self._offered.get(key, 0) | 1 << index
                found = True
            site.end_wait(key)
            self._allow(w, task, index)
        return found

    def _allow(self, w: WorkflowState, task: int, site: int) -> None:
        """Let a site be a candidate for a task again."""
        self._bar(w, task, w.barred[task] & ~(1 << site))
        self.run.placement_possible = self.run.has_new_room = True

    def _bar(self, w: WorkflowState, task: int, mask: int) -> None:
        """Bar a task from the sites in ``mask``, which have no room for it, and from no other
        sites."""
        before = w.task_class(task)
        w.barred[task] = mask
        if not mask:
            del w.barred[task]
        if w.status[task] == TaskStatus.ELIGIBLE:
            reclassify(w, task, before)
            for call in self.run.hooks.eligible:
                call(w)

    def waiting_tasks(self, site: int) -> int:
        """Number of tasks that wait for room at a site."""
        return len(self._sites[site].waiting) if site in self._sites else 0

    def is_learning(self, site: int) -> bool:
        """Whether the first task that waits for room at a site has outputs of unknown size, and no
        task of its kind has ended yet."""
        workflow, task = next(iter(self._sites[site].waiting))
        kind = self._kind(self.state.workflows[workflow], task)
        return kind is not None and kind not in self._written

    def describe(self, site: int) -> str:
        """The used and the total storage of a site, as text for users."""
        storage = self._sites[site]
        used, limit = size_text(storage.used_bytes), size_text(storage.limit_bytes)
        return f"{used} of {limit} used or promised"

    def explain_end(self) -> str | None:
        for w in self.state.workflows:
            for kind in w.eligible.counts:
                first = w.eligible.first_of(kind)
                assert first is not None, "the class has tasks"
                mask = w.feasible_sites(first[2])
                room = self.with_room(w, first[2], mask)
                if mask != room:
                    sites = self.state.sites
                    others = [n for n, s in enumerate(sites) if room >> n & 1 and s.is_healthy]
                    return self._explain(w, first[2], mask & ~room, has_others=bool(others))
        return None

    def _explain(self, w: WorkflowState, task: int, full: int, *, has_others: bool) -> str:
        """Why no site gets a task. ``has_others``: sites have room that the policy does not use."""
        sites = [index for index in self._sites if full >> index & 1]
        named = [self.state.sites[index].spec.name for index in sites[:MAX_NAMED]]
        used = [f"{name}: {self.describe(i)}" for name, i in zip(named, sites, strict=False)]
        more = ["…"] * (len(sites) > MAX_NAMED)
        needed = min(self.needed_bytes(w, task, index) for index in sites)
        what = f"needs {size_text(needed)} more" if needed else "writes files of unknown sizes"
        hint = "raise 'storage' in the catalog, or add a site, then `wfrun resume --sites`"
        if has_others:
            hint = (
                f"policy {self.state.settings.policy} uses no other site: choose another with "
                "`wfrun resume --policy`, or raise 'storage', then `wfrun resume --sites`"
            )
        return (
            f"the storage of site{'s' * (len(sites) > 1)} {', '.join(named + more)} is full, and "
            f"nothing is left that frees it: {'; '.join(used + more)}; task "
            f"{w.workflow.tasks[task].id!r} {what}; {hint}"
        )

    # What is at the sites

    def on_workflow_added(self, w: WorkflowState) -> None:
        for file, present in enumerate(w.present):
            if present & self._limited:
                for index, site in self._sites.items():
                    if w.is_stored(file, index):
                        site.put((w.index, file), max(0, w.sizes[file]))

    def on_placed(self, attempt: Attempt) -> None:
        w, key = self.state.workflows[attempt.workflow], (attempt.workflow, attempt.task)
        full = w.barred.pop(attempt.task, 0)
        for index, site in self._sites.items() if full else ():
            if full >> index & 1:
                site.end_wait(key)
        # Others may use the room that this task has found elsewhere.
        own = self._sites.get(attempt.site)
        if own is not None:
            own.take_offer(key)
        self._freed |= self._end_offers(key) & ~(1 << attempt.site)
        if own is None:
            return
        declared = self._reserved[attempt.key] = self._output_bytes(w, attempt.task)
        own.used_bytes += declared
        kind = self._kind(w, attempt.task)
        if kind is not None:
            self._unsized[attempt.key] = kind
            own.unsized[kind] += 1
            own.used_bytes += self._written.get(kind, 0)
        if attempt.phase is Phase.STAGING:
            for file in w.workflow.tasks[attempt.task].inputs:
                if w.present[file] and not w.is_stored(file, attempt.site):
                    self._expect(own, w, file)

    def _expect(self, site: SiteStorage, w: WorkflowState, file: int) -> None:
        """Count a file on its way to a site, for which an attempt waits."""
        key = w.index, file
        site.put(key, max(0, w.sizes[file]))
        site.staged[key] = site.staged.get(key, 0) + 1

    def on_left(self, attempt: Attempt) -> None:
        site = self._sites.get(attempt.site)
        if self._nothing_runs:
            self._freed |= self._limited  # Estimates count no more.
        if site is None:
            return
        site.used_bytes -= self._reserved.pop(attempt.key, 0)
        kind = self._unsized.pop(attempt.key, None)
        if kind is not None:
            site.unsized[kind] -= 1
            site.used_bytes -= self._written.get(kind, 0)
        self._freed |= 1 << attempt.site
        if attempt.phase is Phase.STAGING and site.staged:
            w = self.state.workflows[attempt.workflow]
            for file in w.workflow.tasks[attempt.task].inputs:
                self._expect_no_more(attempt.site, site, (attempt.workflow, file))

    def _expect_no_more(self, index: int, site: SiteStorage, key: FileKey) -> None:
        """Note that an attempt no longer waits for a file. If no other attempt does, the file is
        not counted any more, unless its copy is under way: a copy that was given up goes on until
        it ends."""
        attempts = site.staged.get(key, 0) - 1
        if attempts > 0:
            site.staged[key] = attempts
        elif attempts == 0:
            del site.staged[key]
            if (*key, index) not in self.state.copy_queue.under_way:
                site.drop(key)

    def _learn(self, w: WorkflowState, attempt: Attempt, outcome: Outcome) -> None:
        """Learn how many bytes tasks of a kind write to outputs of unknown size. Called before
        ``w.sizes`` has the sizes of these outputs."""
        kind = self._kind(w, attempt.task)
        if kind is None:
            return
        outputs = w.workflow.tasks[attempt.task].outputs
        written = sum(
            size_bytes or 0
            for file, size_bytes in zip(outputs, outcome.sizes, strict=False)
            if w.sizes[file] < 0
        )
        known = self._written.get(kind)
        if known is None:
            self._freed |= self._limited
        elif written <= known:
            return
        self._written[kind] = written
        for site in self._sites.values():
            site.used_bytes += site.unsized[kind] * (written - (known or 0))

    def on_done(self, attempt: Attempt, outcome: Outcome) -> None:
        w = self.state.workflows[attempt.workflow]
        self._learn(w, attempt, outcome)
        site = self._sites.get(attempt.site)
        if site is None:
            return
        outputs = w.workflow.tasks[attempt.task].outputs
        for file, size_bytes in zip(outputs, outcome.sizes, strict=False):
            if size_bytes is not None:
                site.put((attempt.workflow, file), size_bytes)

    def _transfer_ended(self, event: ev.TransferEnded) -> None:
        site = self._sites.get(event.destination)
        if site is not None:
            key, w = (event.workflow, event.file), self.state.workflows[event.workflow]
            if not w.is_stored(event.file, event.destination):
                self._transfer_failed(event)  # It was written again meanwhile.
                return
            site.staged.pop(key, None)
            before, is_made = site.used_bytes, w.workflow.files[event.file].producer is not None
            # The copy may be of what was there before its task wrote it again, here.
            site.put(key, w.sizes[event.file] if is_made else event.size_bytes)
            if site.used_bytes < before:
                self._freed |= 1 << event.destination
        self._examine(event)

    def _transfer_failed(self, event: ev.TransferFailed | ev.TransferEnded) -> None:
        key = event.workflow, event.file, event.destination
        if key not in self.state.copies:
            self.on_copy_dropped(key)
        self._examine(event)

    def on_copy_dropped(self, copy: tuple[int, int, int]) -> None:
        workflow, file, destination = copy
        site = self._sites.get(destination)
        if site is None or self.state.workflows[workflow].is_stored(file, destination):
            return
        if site.drop((workflow, file)):
            self._freed |= 1 << destination

    def on_file_removed(self, w: WorkflowState, file: int, site: int) -> None:
        storage, key = self._sites.get(site), (w.index, file)
        if storage is None or (*key, site) in self.state.copy_queue.under_way:
            return  # A copy brings it again.
        if storage.drop(key):
            self._freed |= 1 << site

    def on_resumed(self, dismissed: bool) -> None:
        """Count the files at all sites anew: files may be lost, and copies begin anew. No task is
        set aside any more."""
        for index, site in list(self._sites.items()):
            self._sites[index] = SiteStorage(site.limit_bytes)
        self._reserved.clear()
        self._unsized.clear()
        self._offered.clear()
        self._freed = 0
        for w in self.state.workflows:
            self.on_workflow_added(w)
        for attempt in self.state.attempts.values():
            self.on_placed(attempt)
        for workflow, file, destination in self.state.copies:
            if destination in self._sites:
                size_bytes = self.state.workflows[workflow].sizes[file]
                self._sites[destination].put((workflow, file), max(0, size_bytes))


def _frees(w: WorkflowState, task: int) -> bool:
    """Whether the end of a task may free files that other tasks have written."""
    files = w.workflow.files
    return any(files[file].producer is not None for file in w.workflow.tasks[task].inputs)
