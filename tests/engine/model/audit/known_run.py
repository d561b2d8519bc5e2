"""What the auditor knows of a run from its log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from tests.engine.model.audit.rules import RULES, Violation
from wfrun.engine import events as ev
from wfrun.engine.model import ORIGIN, File, LauncherSpec, Resources, SiteSpec, Task, Workflow


class OpenAttempt:
    """An open attempt, as far as the log tells."""

    __slots__ = ("cores", "doubtful", "is_moving", "is_replica", "key", "launcher", "placed",
                 "reserved_bytes", "started_s", "submitted", "superseded", "task",
                 "withdrawn")  # fmt: skip

    def __init__(self, placed: ev.AttemptPlaced, cores: int, *, is_replica: bool) -> None:
        self.placed = placed
        self.key = placed.key
        self.task = placed.workflow, placed.task
        self.cores = cores
        self.is_replica = is_replica
        self.reserved_bytes = 0
        """Size of its outputs, as far as it was known when it was placed."""
        self.submitted = False
        self.started_s: float | None = None
        self.launcher = ""
        self.superseded = False
        self.withdrawn = False
        """Whether a withdrawal of it is not answered yet."""
        self.is_moving = False
        """Whether it was withdrawn to be submitted elsewhere, or with another size."""
        self.doubtful = False
        """Whether it may have been taken back before it was submitted."""


class LauncherRecord:
    """A launcher that has not ended."""

    __slots__ = ("is_live", "is_queued", "slots", "stopped")

    def __init__(self) -> None:
        self.is_queued = True
        self.is_live = False
        self.slots = 0
        self.stopped = False


class ClaimRecord:
    """A claim that goes on."""

    __slots__ = ("attempt", "first_ready_s", "has_survived", "is_broken", "job", "parts", "ready")

    def __init__(self, job: tuple[int, int], parts: dict[str, ev.ClaimPart]) -> None:
        self.job = job
        self.parts = parts
        """By key of the placeholder."""
        self.ready: set[str] = set()
        """Keys of the placeholders that have started."""
        self.is_broken = False
        """Whether one of them has ended."""
        self.first_ready_s: float | None = None
        self.has_survived = False
        """Whether an engine died after the first one was ready, so that the others may be late."""
        self.attempt = ""

    @property
    def sites(self) -> set[int]:
        """The sites of its parts."""
        return {part.site for part in self.parts.values()}

    @property
    def is_granted(self) -> bool:
        """Whether all placeholders are there."""
        return not self.is_broken and len(self.ready) == len(self.parts)


class Document:
    """The parts of a workflow that the auditor needs."""

    def __init__(self, workflow: Workflow) -> None:
        self.owner = workflow.owner
        self.tasks: list[Task] = list(workflow.tasks)
        self.files: list[File] = list(workflow.files)
        self.parents = list(workflow.parents)
        self.is_bag = workflow.bag is not None
        self.workflow = workflow


class KnownRun:
    """The state of a run as far as its log tells, and the rules that were broken."""

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.violations: list[Violation] = []
        self.done: set[tuple[int, int]] = set()
        self._once_done: set[tuple[int, int]] = set()
        """Tasks that are done, and those that are repeated."""
        self.present: dict[tuple[int, int], set[int]] = {}
        """The places that hold a file, by (workflow, file)."""
        self.used_s: defaultdict[str, float] = defaultdict(float)
        """Core seconds of ended attempts, by owner."""
        self.absent_s: defaultdict[str, float] = defaultdict(float)
        """Core seconds, by owner, of attempts that started and were later reported absent. The core
        may count them or not."""
        self.ended: str | None = None
        self._documents = documents
        self._workflows: dict[int, Document] = {}
        self._count = 0
        self._now_s = 0.0
        self._settings = ev.Settings(policy="")
        self._specs: tuple[SiteSpec, ...] = ()
        self._link_room: dict[tuple[int, int], int] = {}
        """Maximum number of large copies at a time, by link that has a bound."""
        self._queues: tuple[tuple[int, ...], ...] = ()
        self._queue_of: dict[int, int] = {}
        self._is_late = self._is_bounded = False
        self._max_replicas = 0
        self._open: dict[str, OpenAttempt] = {}
        self._keys: set[str] = set()
        self._asked: dict[tuple[int, int], Resources] = {}
        self._grown: dict[tuple[int, int], Resources] = {}
        """The next requests of tasks, if they are retried before the run is resumed."""
        self._refused: set[tuple[int, int, int]] = set()
        self._refused_cores: dict[tuple[int, int, int], int] = {}
        """(workflow, task, site) of moldable jobs that a site refused: their numbers of cores."""
        self._destinations: dict[tuple[int, int], int] = {}
        """The sites that jobs are being moved to."""
        self._has_changed = False
        """Whether the user has changed the run."""
        self._failed_sites: set[int] = set()
        """Sites where anything failed, since the last resume."""
        self._paused: set[int] = set()
        self._written: set[tuple[int, int]] = set()
        self._sizes: dict[tuple[int, int], int] = {}
        """Of files whose size is known, by (workflow, file)."""
        self._large_copies: dict[tuple[int, int, int], int] = {}
        """The sources of large copies under way, by (workflow, file, destination)."""
        self._under_way: set[tuple[int, int, int]] = set()
        """Copies under way (workflow, file, destination), those that nobody waits for included."""
        self._outdated: set[tuple[int, int, int]] = set()
        """Those of files that were written again since."""
        self._kept: set[tuple[int, int, int]] = set()
        """(workflow, file, site) of inputs of failed attempts."""
        self._superseded_done: set[tuple[int, int | None, int]] = set()
        """(workflow, task, variant) of superseded attempts that ended done."""
        self._redirected: set[tuple[int, int, int]] = set()
        """Late copies (workflow, file, destination) that were given up, until one has ended or
        begins anew."""
        self._routed: set[tuple[int, int, int, int]] = set()
        """Copies (workflow, file, destination, source) that a second method can carry."""
        self._copy_failures: Counter[tuple[int, int, int]] = Counter()
        """Failures of copies since they were requested, without those that may not count."""
        self._dropped: set[tuple[int, int, int]] = set()
        """Copies under way whose ends do not matter any more."""
        self._remakes: Counter[tuple[int, int]] = Counter()
        """By file: how often it vanished from its only place, since the last resume."""
        self._catalogued: dict[tuple[int, int], set[int]] = {}
        """Sites that have an initial input outside of the run's store, by the catalog."""
        self._originals: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        """Those of them whose store does not have it."""
        self._background_cores: Counter[int] = Counter()
        self._ended_cores: Counter[int] = Counter()
        """Cores of attempts that ran and ended, by site."""
        self._launchers: dict[int, dict[str, LauncherRecord]] = {}
        self._launcher_keys: set[str] = set()
        self.claims: dict[str, ClaimRecord] = {}
        """Claims that go on, by key."""
        self._placeholders: dict[str, tuple[int, int]] = {}
        """(site, processors) of placeholders that have not ended, by key."""
        self._to_stop: set[str] = set()
        """Placeholders that this step has to stop."""
        self._foreign_cores: dict[int, tuple[int, int]] = {}
        """Processors of other users' running and queued jobs, by site."""
        self._failures: Counter[tuple[int, int]] = Counter()
        self._setbacks: Counter[tuple[int, int]] = Counter()
        self._specials: set[tuple[int, int]] = set()
        """Tasks that may fail for good with retries left."""
        self._cancelled = False
        self._may_stop = False
        """Whether a task may have failed for good in a run that stops on failure."""
        self._doubted: set[tuple[int, int]] = set()
        """Inputs with several sources, one of which may count as absent."""
        self._held: set[int] = set()
        """Sites that the user has paused."""
        self._left: set[int] = set()
        """Sites that are no longer in the catalog."""
        self._asked_to_cancel: set[tuple[int, int]] = set()
        """Tasks that the user may have cancelled."""
        self._cancelled_tasks: set[tuple[int, int]] = set()
        """Tasks that the user has cancelled before anything failed in their workflow."""
        self._had_uncollected = False
        self._retried_now: set[tuple[int, int, int]] = set()
        """The failed copies that this step lets try again later."""
        self._submitted_now: set[str] = set()
        """Keys of the attempts that this step submits."""

    @property
    def is_anything_running(self) -> bool:
        """Whether any attempt is running."""
        return any(one.started_s is not None for one in self._open.values())

    def _require(self, rule: str, holds: bool, message: str) -> None:
        assert rule in RULES
        if not holds:
            self.violations.append(Violation(rule, f"{self._now_s:g} s: {message}", self._count))

    def _task(self, task: tuple[int, int]) -> Task:
        return self._workflows[task[0]].tasks[task[1]]

    def _request(self, task: tuple[int, int], cores: int) -> Resources:
        """Minimum request of an attempt of a task that runs on ``cores`` cores."""
        workflow = self._workflows[task[0]].workflow
        if self._settings.sizing is None or task[1] not in workflow.moldable:
            return self._asked.get(task, self._task(task).resources)
        return workflow.sized(task[1], cores)

    def _size_of(self, workflow: int, file: int) -> int:
        """Size as written, copied or documented; -1 if unknown."""
        documented = self._workflows[workflow].files[file].size_bytes
        return self._sizes.get((workflow, file), -1 if documented is None else documented)

    def _reserve(self, one: OpenAttempt) -> None:
        """Note the size of the outputs of an attempt, as far as it is known now."""
        outputs = self._task(one.task).outputs
        one.reserved_bytes = sum(max(0, self._size_of(one.task[0], f)) for f in outputs)

    def _open_attempts(self, task: tuple[int, int]) -> list[OpenAttempt]:
        """Open attempts of a task, without superseded and doubtful ones."""
        return [
            t for t in self._open.values() if t.task == task and not (t.superseded or t.doubtful)
        ]

    def _sites_of(self, one: OpenAttempt) -> set[int]:
        """The sites that an attempt reads its inputs at."""
        claim = self._claim_of(one.task)
        return {one.placed.site} if claim is None else claim.sites

    def _claim_of(self, job: tuple[int, int]) -> ClaimRecord | None:
        """The claim of a job that goes on."""
        return next((claim for claim in self.claims.values() if claim.job == job), None)

    def _committed(self, site: int) -> int:
        return sum(t.cores for t in self._open.values() if t.placed.site == site and not t.doubtful)

    def _take_back(self, site: int) -> None:
        """Forget the attempts that wait for inputs at a site, which takes no more."""
        for one in [t for t in self._open.values() if t.placed.site == site]:
            if not one.submitted:
                del self._open[one.key]

    def _doubt_if_stopping(self) -> None:
        """Doubt all attempts in staging: a task may have failed for good, and then a run that stops
        on failure takes them back."""
        if self._settings.on_failure == "stop":
            self._may_stop = True
            for one in self._open.values():
                one.doubtful = one.doubtful or not one.submitted

    def is_stored(self, file: tuple[int, int], site: int) -> bool:
        """Whether a file is in the store of a site, so that tasks there can read it."""
        return site in self.present.get(file, ()) and site not in self._originals.get(file, ())

    def _remove(self, file: tuple[int, int], site: int) -> None:
        """Note that a file is at a place no more. Where the store had a copy of an input that the
        site has elsewhere, too, that counts again."""
        was_stored = self.is_stored(file, site)
        places = self.present.get(file, set())
        places.discard(site)
        self._originals[file].discard(site)
        if was_stored and site in self._catalogued.get(file, ()):
            places.add(site)
            self._originals[file].add(site)
        if not places:  # Originals that were given up count again.
            places |= self._catalogued.get(file, set()) - self._left
            self._originals[file] |= places

    def _lose(self, lost: Sequence[tuple[int, int, int]]) -> None:
        gone = set()
        for workflow, file, site in lost:
            places = self.present.get((workflow, file), set())
            self._remove((workflow, file), site)
            if not places:
                gone.add((workflow, file))
                self._outdated |= {c for c in self._under_way if c[:2] == (workflow, file)}
                for copy in [c for c in self._copy_failures if c[:2] == (workflow, file)]:
                    del self._copy_failures[copy]
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
        """Note that tasks must be repeated whose files are needed and lost. What waits for inputs
        of theirs is taken back."""
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
            for one in [t for t in self._open.values() if not t.submitted and t.task[0] == number]:
                if any((number, parent) in again for parent in document.parents[one.task[1]]):
                    del self._open[one.key]

    def _check_left(self) -> None:
        """The run has ended done: what is at the sites is kept on purpose."""
        if self._settings.keep == "outputs":
            running = {  # superseded attempts may outlast a run
                (one.task[0], file)
                for one in self._open.values()
                for file in self._task(one.task).inputs
            }
            for file, places in sorted(self.present.items()):
                elsewhere = {ORIGIN, *self._left, *self._originals.get(file, ())}
                is_known = file not in running and file not in self._doubted
                is_left = is_known and not places <= elsewhere
                self._require("discard-left", not is_left, f"{file} is at {places}")


def launcher_spec(site: SiteSpec) -> LauncherSpec | None:
    """The launchers of a site; None if it has none."""
    access = site.access
    return access.launchers if access is not None and access.dispatch == "launchers" else None
