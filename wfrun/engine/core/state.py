"""The state of a run: what follows from its log, and nothing else.

Only the interpreter (`wfrun.engine.core.interpreter`) and the parts that it calls change it. It is
compact: a few bytes per task in arrays beside the immutable workflow, and objects for open attempts
only. A part keeps its own facts (`RunState.find`). A few facts that a part sets are here
nevertheless, since the core reads them at each placement, which a call would slow down.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import inf
from typing import NamedTuple, TypeVar, cast

import msgspec

from wfrun.engine.events import ReusedTasks, Settings
from wfrun.engine.exchange import Content
from wfrun.engine.files.copy_queue import Copy, CopyQueue
from wfrun.engine.files.network import Network
from wfrun.engine.fitting.information import Information
from wfrun.engine.jobs.sized import Growth
from wfrun.engine.model import LinkSpec, Resources, SiteSpec, Workflow
from wfrun.engine.tasks.bag import BagFiles
from wfrun.engine.tasks.eligible import EligibleSet, Orders, TaskClass
from wfrun.engine.tasks.failures import Failure, FailureGroups

SUPERSEDED = "superseded"
"""Name of the timer that bounds the wait for superseded attempts."""

T = TypeVar("T")


class TaskStatus(IntEnum):
    """Status of a task. Values fit a bytearray."""

    WAITING = 0  # for its predecessors
    ELIGIBLE = 1
    DISPATCHED = 2  # staging, queued or running
    DELAYED = 3  # failed, to be tried again when its timer fires
    DONE = 4
    FAILED = 5
    BLOCKED = 6  # a task that it depends on has failed
    UNNEEDED = 7  # an optional task of a bag that has ended


class Phase(IntEnum):
    """Phase of an open attempt."""

    STAGING = 0
    SUBMITTING = 1
    QUEUED = 2
    RUNNING = 3


class Attempt(msgspec.Struct, eq=False, gc=False):
    """An open attempt of a task at a site."""

    key: str
    workflow: int
    task: int
    site: int
    placed_s: float
    cores: int
    walltime_s: float | None = None
    """Walltime in seconds that the batch job of the attempt requests, if it was learned from
    earlier tasks; None otherwise."""
    phase: Phase = Phase.STAGING
    missing: int = 0
    """Number of inputs that have not arrived yet."""
    ready_s: float | None = None
    """Time when the last input arrived."""
    found_idle: bool = False
    """Whether the site had idle slots for the attempt when the attempt was placed. Set to False by
    a resume, since no engine observed the attempt meanwhile. Kept here for late binding, since a
    hook would cost each placement a call."""
    started_s: float | None = None
    launcher: str = ""
    """Key of the launcher that runs the attempt, as its start was reported; empty if none does."""
    host: str = ""
    """Node that the attempt runs on, as the batch system names it; empty: unknown."""
    withdrawn: bool = False
    """Whether the attempt is being withdrawn: its site was asked to cancel it if it has not started
    (`Run.withdraw`)."""
    is_leaving: bool = False
    """Whether its task is to move to another site or to another size. If the site turns out never
    to have started the attempt, the attempt is not submitted again."""
    is_replica: bool = False
    killed: bool = False
    """Whether the attempt is being cancelled to make room for a mandatory task. Its own task
    becomes eligible again."""
    superseded: bool = False
    """Whether another attempt of the same task was done first. The superseded attempt is being
    cancelled, and its outcome has no effect."""


class Siblings:
    """The open attempts of a dispatched task that has, or has had, replicas."""

    __slots__ = ("attempts", "first_failed")

    def __init__(self, attempts: list[Attempt]) -> None:
        self.attempts = attempts
        """Open attempts, without superseded ones."""
        self.first_failed: bool | None = None
        """Whether the first attempt, which is no replica, failed by the task's own fault; None if
        it has not failed."""


class Condition(NamedTuple):
    """A problem of a site that a capability has found."""

    reason: str
    """Shown to the user."""
    closes: bool
    """Whether the site gets no attempts."""


HELD = "user"
"""The name of the condition of sites that the user has paused."""


def pause_timer(site: int) -> str:
    """The timer that runs while a site reports that it takes no work."""
    return f"paused:{site}"


class SiteState:
    """The state of a site."""

    __slots__ = ("attempts", "bytes_in", "capacity", "commands", "committed_cores", "conditions",
                 "connections", "done", "failed", "foreign_cores", "head_cpu_s", "held_jobs",
                 "holds_prefetch", "is_healthy", "job_limit", "reported", "slots", "slots_now",
                 "spec", "transfers_in", "used_core_s", "wait_reason")  # fmt: skip

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.reported: str | None = None
        """Reason for which the site reports that it takes no work; None if it takes work."""
        self.conditions: dict[str, Condition] = {}
        """Problems that capabilities have found, by capability."""
        self.is_healthy = True
        """Whether the site gets attempts: it reports no problem, and no condition closes it."""
        self.slots = spec.slots
        """Cores that attempts can run on now if other users have no jobs; at a site with launchers,
        the slots of its live launchers."""
        self.slots_now = spec.slots
        """Cores that our attempts hold or could use immediately."""
        self.capacity: float = inf
        """Maximum number of cores of dispatched attempts, running and prefetched. Set by late
        binding, or for launchers by the capability that knows their slots. Kept here since each
        update of `Openings` reads it."""
        self.holds_prefetch = False
        """Whether attempts beyond ``slots_now`` are prefetched; set by late binding. A task is not
        prefetched while another site has idle slots for it."""
        self.committed_cores = 0
        """Cores of all attempts that are dispatched to the site."""
        self.attempts: dict[str, Attempt] = {}
        """Open attempts, by key."""
        self.foreign_cores = 0
        """Cores requested by other users' running and queued jobs, as last observed."""
        self.done = 0
        self.failed = 0
        """Number of attempts that failed here."""
        self.transfers_in = 0
        """Number of files that arrived from elsewhere."""
        self.bytes_in = 0
        self.used_core_s = 0.0
        self.job_limit: int | None = None
        """Number of our jobs in the queue of the site when the queue refused a further job; None
        while it accepts jobs."""
        self.wait_reason = ""
        """Reason that the batch system states for our waiting jobs; empty: unknown."""
        self.held_jobs = 0
        """Number of our waiting jobs that do not start until somebody acts."""
        self.connections = 0
        """Number of connections to the head node of the site so far, as reported."""
        self.commands: Counter[str] = Counter()
        """Number of commands run on the head node of the site, by program name."""
        self.head_cpu_s = 0.0
        """CPU seconds that we have used on the head node of the site."""

    @property
    def phases(self) -> list[int]:
        """Number of open attempts, by Phase. Cost: the open attempts."""
        phases = [0, 0, 0, 0]
        for attempt in self.attempts.values():
            phases[attempt.phase] += 1
        return phases

    def wait_text(self, waiting: int) -> str:
        """Text for users to append to ``waiting``, the number of our jobs that wait in its queue:
        how many are held, and the reason that the batch system states. Empty if nothing is
        known."""
        if not waiting or not (self.wait_reason or self.held_jobs):
            return ""
        if not self.held_jobs:
            return f", batch system: {self.wait_reason}"
        number = "" if self.held_jobs >= waiting else f"{self.held_jobs} of them "
        return f", {number}held" + (f": {self.wait_reason}" if self.wait_reason else "")

    @property
    def others_wait(self) -> bool:
        """Whether jobs of other users wait in the queue of the site."""
        return self.foreign_cores > self.slots - self.slots_now and not self.spec.has_launchers

    @property
    def pause_reason(self) -> str | None:
        """Why the site gets no attempts now, or fewer than usual; None if it has no problem."""
        if HELD in self.conditions:
            return self.conditions[HELD].reason
        if self.reported is not None:
            return self.reported
        conditions = self.conditions.values()
        for condition in sorted(conditions, key=lambda c: not c.closes):
            return condition.reason
        return None

    @property
    def pause_text(self) -> str:
        """``pause_reason`` as a phrase, such as ``paused by the user``; empty if it has no
        problem."""
        reason = (self.pause_reason or "").strip()
        return f"paused: {reason}" if reason and HELD not in self.conditions else reason


class Openings:
    """The sites with room for a task of some number of cores, as masks."""

    __slots__ = ("idle", "open", "prefetching")

    def __init__(self) -> None:
        self.open = 0
        """Sites that take a task of this number of cores now."""
        self.idle = 0
        """Sites in ``open`` with idle slots for the task."""
        self.prefetching = 0
        """Sites in ``open`` that would only prefetch the task."""


class WorkflowState:
    """The state of one workflow. Lists and arrays are indexed by task or by file."""

    __slots__ = ("added_s", "asks", "attempts_of", "avoid", "barred", "cancelled", "children",
                 "class_masks", "deadline_s", "digests", "dispatched", "eligible", "ended_s",
                 "failures", "index", "key_prefix", "lost", "masks", "max_sizes", "order",
                 "originals", "present", "queue", "raised", "refused", "remakes", "resource_class",
                 "reused", "runtimes_s", "serials", "setbacks", "siblings", "sizes", "staging_s",
                 "status", "task_classes", "to_collect", "variants", "waiting", "waiting_s",
                 "workflow", "worn_out")  # fmt: skip

    def __init__(self, index: int, workflow: Workflow, added_s: float) -> None:
        tasks = len(workflow.tasks)
        self.index = index
        self.workflow = workflow
        self.added_s = added_s
        self.deadline_s: float | None = None
        """Deadline of the optional tasks of a bag; None without one."""
        self.ended_s: float | None = None
        self.children = children_of(workflow)
        self.waiting: list[int] | bytearray = bytearray(tasks)
        """Per task: number of predecessors that are not done."""
        if workflow.bag is None:
            self.waiting = [len(p) for p in workflow.parents]
        self.queue = 0
        """Number of the resource manager that the workflow was submitted to."""
        self.status = bytearray(tasks)
        self.key_prefix = ""
        """First part of the keys of the workflow's attempts: the run and the workflow."""
        self.attempts_of = array("I", bytes(4 * tasks))
        """Per task: number of attempts so far, which numbers the next attempt."""
        self.siblings: dict[int, Siblings] = {}
        """By task, for dispatched tasks that have or had replicas: the open attempts."""
        self._init_retries()
        self.eligible = EligibleSet(tasks)
        self.serials = array("q", bytes(8 * tasks))
        """Per task: the serial number that it got when it last became eligible. Numbers are counted
        over all tasks of the run."""
        self.order: Orders | None = None
        """Order of the placement policy, smaller first; None without one."""
        self.raised: set[int] = set()
        """Tasks whose priority the user has raised, with those that they wait for."""
        self.cancelled: set[int] = set()
        """Tasks that the user has cancelled; they count as failed."""
        self.dispatched = 0
        """Number of open attempts, replicas included. Limited by the throttle."""
        self.resource_class: Sequence[int] = ()
        """Per task: its class of equal resource requests."""
        self.class_masks: list[int] = []
        """Per class: the sites that could ever run its tasks."""
        self.task_classes: list[TaskClass] = []
        """Per class of equal requests: the class of its tasks in the eligible set. Valid as long as
        no task of the workflow is limited to other sites than its class."""
        self.present: list[int] = []
        """Per file: the places that hold it, as a mask."""
        self.originals: dict[int, int] = {}
        """By initial input, as a mask: sites that have the file where a replica catalog says,
        outside their store. Tasks read a copy in the store, since a task may damage its inputs."""
        self.lost: set[int] = set()
        """Files that were written and are no longer at any place."""
        self.remakes: dict[int, int] = {}
        """By file: number of times that it vanished and was made again, since the start or the last
        resume."""
        self.worn_out: set[int] = set()
        """Files that are not made again: they were made again `file_events.MAX_REMAKES` times, and
        have vanished since."""
        self.sizes = _sizes(workflow)
        """Size of each file in bytes: the documented size, once the file is written the actual
        size; -1 if unknown."""
        self.digests: dict[int, str] = {}
        """Digest of each file that has one, with the option ``checksums``."""
        self.to_collect = _to_collect(workflow)
        self.reused: Sequence[ReusedTasks] = ()
        """Tasks that earlier runs did."""
        self.staging_s = 0.0
        """File transfer delay (FTD): the sum over attempts of the time from placement to the
        arrival of the last input."""
        self.waiting_s = 0.0
        """Queue waiting time (QWT): the sum over attempts of the time from the arrival of the last
        input to the start."""
        self.variants: dict[int, int] = {}
        """Number of the attempt that succeeded, by task, if it is not the first. It is part of the
        names of the task's files at the sites. Only in runs with ``own_outputs``."""
        self.runtimes_s: Sequence[float] | None = None
        """Expected run times on the reference processor, for policies that know them."""

    def _init_retries(self) -> None:
        """Create the mappings of facts that follow from failures. Each has entries for few
        tasks."""
        self.failures: dict[int, int] = {}
        """By task: number of failures since its retries were last reset."""
        self.setbacks: dict[int, int] = {}
        """Number of failures that were not the fault of the task, by task."""
        self.avoid: dict[int, int] = {}
        """Sites to avoid while there are others, by task; a mask."""
        self.max_sizes: dict[tuple[int, int], int] = {}
        """By (task, site): maximum size of a moldable job at a site that has refused a larger size.
        Set by the retry rules."""
        self.refused: dict[int, int] = {}
        """Sites that never accept the task, by task; a mask."""
        self.barred: dict[int, int] = {}
        """By task, as a mask: sites from which a capability bars it for now, for example since its
        files find no room there. Kept here because the classes of eligible tasks depend on it."""
        self.asks: dict[int, Resources] = {}
        """Requests of tasks that differ from those in the document."""
        self.masks: dict[int, int] = {}
        """By task, as a mask: sites that could ever run it, if they differ from those of its
        class."""

    def count(self, status: TaskStatus) -> int:
        """Number of tasks with a status. Cost: a scan of the bytes of ``status``, about a
        nanosecond for ten tasks. Displays pay this, so that a change of a status does not."""
        return self.status.count(status)

    @property
    def done(self) -> int:
        """Number of tasks that are done."""
        return self.count(TaskStatus.DONE)

    @property
    def failed(self) -> int:
        """Number of tasks that have failed for good."""
        return self.count(TaskStatus.FAILED)

    @property
    def blocked(self) -> int:
        """Number of tasks that depend on a failed one."""
        return self.count(TaskStatus.BLOCKED)

    @property
    def unneeded(self) -> int:
        """Number of optional tasks that were not needed."""
        return self.count(TaskStatus.UNNEEDED)

    @property
    def delayed(self) -> int:
        """Number of tasks that wait to be retried."""
        return self.count(TaskStatus.DELAYED)

    @property
    def open(self) -> bool:
        """Whether any task of the workflow may still run."""
        return self.ended_s is None

    def variant_of(self, file: int) -> int:
        """Number of the attempt whose version of a file is valid; 0 for the first attempt, and for
        a file that no task writes. The file may not exist yet."""
        if not self.variants:
            return 0
        producer = self.workflow.files[file].producer
        return 0 if producer is None else self.variants.get(producer, 0)

    def content(self, file: int) -> Content:
        """The contents that every copy of a file must have, as far as the run knows. Sizes of
        initial inputs are not known."""
        record = self.workflow.files[file]
        is_written = record.producer is not None
        return Content(
            self.sizes[file] if is_written else None,
            self.digests.get(file),
            is_stated=record.sha256 is not None,
        )

    def is_stored(self, file: int, site: int) -> bool:
        """Whether a file is in the store of a site, so that tasks there can read it."""
        if not self.present[file] >> site & 1:
            return False
        return not (self.originals and self.originals.get(file, 0) >> site & 1)

    def asked(self, task: int) -> Resources:
        """The resource request of the next attempt of a task."""
        return self.asks.get(task) or self.workflow.tasks[task].resources

    def choose_size(self, task: int, size: int) -> None:
        """Let a moldable job request one of its sizes. The growth of its walltime and memory by
        retries is kept."""
        self.asks[task] = self.grown(task, size, self.growth(task))

    def growth(self, task: int) -> Growth:
        """The growth of a moldable job's walltime and memory request by retries."""
        asked = self.asks.get(task)
        if asked is None:
            return Growth()
        documented_s = self.workflow.sized(task, asked.cores).walltime_s
        assert documented_s is not None, "moldable jobs have walltimes"
        return Growth((asked.walltime_s or documented_s) / documented_s, asked.memory_bytes)

    def grown(self, task: int, size: int, growth: Growth) -> Resources:
        """The request of a moldable job with this size, increased by the growth from retries."""
        asked = self.workflow.sized(task, size)
        assert asked.walltime_s is not None, "moldable jobs have walltimes"
        return msgspec.structs.replace(
            asked,
            walltime_s=asked.walltime_s * growth.walltimes,
            memory_bytes=max(asked.memory_bytes, growth.memory_bytes),
        )

    def runtime_s(self, task: int) -> float:
        """The documented run time of the next attempt of a task on the reference processor, in
        seconds; 0 if unknown. For a moldable job the document states the run time with the smallest
        size. With another size, run time and walltime keep the same ratio, so that the run time
        stays within the walltime if it does so with the smallest size."""
        runtime_s = self.workflow.tasks[task].runtime_s or 0.0
        moldable = self.workflow.moldable.get(task)
        if moldable is None or task not in self.asks:
            return runtime_s
        chosen = moldable.sizes.index(self.asks[task].cores)
        # In this order: a share of 1 is exact. Rounded up, the time would be above the walltime.
        share = runtime_s / moldable.walltimes_s[0]
        return share * moldable.walltimes_s[chosen]

    def feasible_sites(self, task: int) -> int:
        """The sites that could ever run a task, as a mask."""
        mask = self.masks.get(task) if self.masks else None
        return self.class_masks[self.resource_class[task]] if mask is None else mask

    def task_class(self, task: int) -> TaskClass:
        """The class of a task in the eligible set."""
        if not (self.masks or self.avoid or self.barred):
            return self.task_classes[self.resource_class[task]]
        return TaskClass(self.allowed_sites(task), self.workflow.tasks[task].resources.cores)

    def allowed_sites(self, task: int) -> int:
        """The feasible sites that may get a task now, as a mask: without sites from which it is
        barred, and without sites where it has failed if there are others."""
        if not (self.masks or self.avoid or self.barred):
            return self.class_masks[self.resource_class[task]]
        mask = self.feasible_sites(task) & ~self.barred.get(task, 0)
        avoid = self.avoid.get(task)
        return mask & ~avoid or mask if avoid else mask


def children_of(workflow: Workflow) -> Sequence[tuple[int, ...]]:
    """The successors of each task."""
    if workflow.bag is not None:
        return workflow.parents
    return [tuple(children) for children in workflow.children()]


def _sizes(workflow: Workflow) -> array[int]:
    files = workflow.files
    if not isinstance(files, BagFiles):
        return array("q", [-1 if f.size_bytes is None else f.size_bytes for f in files])
    sizes = array("q", map(files.size_bytes, range(files.input_count)))
    documented = files.output_bytes
    sizes.extend(array("q", [-1 if documented is None else documented])
                 * (len(files) - files.input_count))  # fmt: skip
    return sizes


def _to_collect(workflow: Workflow) -> int:
    files = workflow.files
    if isinstance(files, BagFiles):
        return len(files) - files.input_count
    return len([True for f in files if f.collect and f.producer is not None])


class RunState:
    """The state of a run, as its log implies."""

    __slots__ = ("arrivals", "attempts", "awaited", "binds_late", "copies", "copy_queue", "counts",
                 "documents", "draining", "eligible_serial", "end_reason", "ended", "ended_s",
                 "expected", "failure_groups", "fallbacks", "fitting", "history", "information",
                 "is_bounded", "killed", "last_site", "left", "link_history", "links",
                 "max_replicas", "moved_bytes", "network", "now_s", "open_workflows", "openings",
                 "own_outputs", "parts", "queues", "raised", "recent_failures", "redone", "removed",
                 "requests", "retried", "reused", "run_id", "settings", "site_directory",
                 "sites", "started_s", "stopping", "superseded", "tasks", "throttle", "timers",
                 "transfer_methods", "transfers", "uncollected", "vanished", "version",
                 "workflows")  # fmt: skip

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.documents = documents
        self.run_id = ""
        self.version = ""
        """Version of the wfrun that began the run; empty if unknown."""
        self.site_directory = ""
        """Name of the run's directory at its sites."""
        self.settings = Settings(policy="")
        self.started_s = 0.0
        self.now_s = 0.0
        self.sites: list[SiteState] = []
        self.fitting: dict[Resources, int] = {}
        """The sites that could ever run a task with a request, as a mask. A cache: runs may have
        thousands of workflows with equal requests."""
        self.links: tuple[LinkSpec, ...] = ()
        self.network = Network((), ())
        self.left = 0
        """Sites that are no longer in the catalog, as a mask."""
        self.information = Information()
        """The information that the placement policy declares."""
        self.parts: dict[type, object] = {}
        """The core parts and the capabilities of this run, by class."""
        self.throttle: int | None = None
        """Maximum number of dispatched tasks of each workflow; None: no fixed maximum."""
        self.is_bounded = False
        """Whether sites take only as many attempts as their capacity allows."""
        self.binds_late = False
        """Whether the policy assigns tasks to free processors. If so, a task also counts as
        prefetched at a site where we have no other attempt and other users hold the cores."""
        self.openings: dict[int, Openings] = {}
        """By number of cores of a task: the sites with room for it. It has one entry for each
        different width of tasks, so at most as many as the largest site has cores."""
        self.expected = 1
        """Number of workflows that the run has from the start; -1 if unknown yet."""
        self.arrivals: tuple[tuple[str, float], ...] = ()
        """Digest and time of each workflow of a run whose workflows arrive one after another."""
        self.requests: set[str] = set()
        """Requests of the user that have added a workflow each."""
        self.awaited = 0
        """Lower bound of the number of workflows of the run; includes workflows that wait to be
        added when it is resumed."""
        self.workflows: list[WorkflowState] = []
        self.attempts: dict[str, Attempt] = {}
        """Open attempts by key."""
        self.copies: dict[tuple[int, int, int], Copy] = {}
        """Files that are being copied or wait for room, by (workflow, file, destination)."""
        self.copy_queue = CopyQueue()
        self.timers: dict[str, float] = {}
        self.uncollected: list[str] = []
        """Final outputs that could not be fetched, with the reasons."""
        self.queues: list[int] = []
        """The sites of each resource manager, as masks. Empty in a run without a selection
        policy."""
        self.last_site = -1
        """The site of the last placement; -1 before the first."""
        self.history: str | None = None
        """File that keeps run times and usage across runs; None without one."""
        self.link_history: str | None = None
        """The file in ``history``, if it also keeps link speeds: estimates from the copies of this
        run are added to it. None otherwise."""
        self.max_replicas = 0
        """Maximum number of replicas of a task."""
        self.own_outputs = False
        """Whether the outputs of each attempt have names of their own at the sites."""
        self.removed = 0
        """Sites from which the files of the run were removed, as a mask."""
        self.superseded = 0
        """Number of open attempts that are superseded."""
        self.raised: dict[int, int] = {}
        """Workflows whose priority the user has raised, each with its rank: negative, smaller
        first."""
        self.draining = False
        """The user cancelled the run: nothing more is dispatched."""
        self.killed = False
        """The user also asked to end running attempts; outputs are not collected."""
        self.stopping = False
        """A task failed, and the run stops on failure: nothing more is dispatched."""
        self.ended: str | None = None
        self.ended_s: float | None = None
        self.end_reason: str | None = None
        self._init_counts()

    def _init_counts(self) -> None:
        """Create the counts over all workflows, for decisions and displays."""
        self.tasks = 0
        self.counts = [0] * len(TaskStatus)
        """Number of tasks of all workflows by TaskStatus."""
        self.open_workflows = 0
        self.reused = 0
        """Number of tasks that earlier runs did."""
        self.retried = 0
        self.transfers = 0
        self.transfer_methods: Counter[str] = Counter()
        """Number of files that were copied, by transfer method."""
        self.fallbacks: list[str] = []
        """Why files between two sites were copied by another transfer method than the preferred
        one."""
        self.moved_bytes = 0
        self.vanished: Counter[int] = Counter()
        """Number of files that vanished, by site. A file counts each time that it vanishes."""
        self.redone = 0
        """Number of tasks that were repeated because files that they wrote were lost."""
        self.recent_failures: deque[Failure] = deque(maxlen=8)
        self.failure_groups = FailureGroups()
        self.eligible_serial = 0

    def find(self, kind: type[T]) -> T | None:
        """The part of this class; None if the run has none."""
        return cast("T | None", self.parts.get(kind))

    def get(self, kind: type[T]) -> T:
        """The part of this class: a core part, or a capability that the run must have."""
        return cast("T", self.parts[kind])

    def queue_sites(self, w: WorkflowState) -> int:
        """The sites of the resource manager of a workflow that are in the catalog, as a mask."""
        mask = self.queues[w.queue] if self.queues else (1 << len(self.sites)) - 1
        return mask & ~self.left

    def openings_for(self, cores: int) -> Openings:
        """The sites with room for a task of this number of cores. The record is kept up to date
        from the first call on."""
        openings = self.openings.get(cores)
        if openings is None:
            openings = self.openings[cores] = Openings()
            for index, site in enumerate(self.sites):
                self.update_openings(openings, cores, site, 1 << index)
        return openings

    def update_site(self, index: int) -> bool:
        """Update the masks of sites with room after a change of one site. Returns whether tasks of
        some width got room, or idle slots, there.

        Cost: the number of different widths.
        """
        site, bit = self.sites[index], 1 << index
        opened = False
        for cores, openings in self.openings.items():
            opened |= self.update_openings(openings, cores, site, bit)
        return opened

    def update_openings(self, openings: Openings, cores: int, site: SiteState, bit: int) -> bool:
        """Update the masks of one width after a change of one site. Returns whether tasks of this
        width got room, or idle slots, at the site."""
        was_open, was_idle = openings.open & bit, openings.idle & bit
        openings.open &= ~bit
        openings.idle &= ~bit
        openings.prefetching &= ~bit
        if not site.is_healthy:
            return False
        committed_cores = site.committed_cores
        if committed_cores + cores <= site.slots_now:
            openings.open |= bit
            openings.idle |= bit
            return not (was_open and was_idle)
        # A site without attempts of ours takes one task even if other users hold its cores: only
        # its queue knows when the task can start.
        if committed_cores + cores <= site.capacity or not (committed_cores or cores > site.slots):
            openings.open |= bit
            if site.holds_prefetch and (committed_cores or self.binds_late):
                openings.prefetching |= bit
            return not was_open
        return False

    @property
    def left_sites(self) -> tuple[int, ...]:
        """Sites that are no longer in the catalog."""
        return tuple(n for n in range(len(self.sites)) if self.left >> n & 1)

    @property
    def end_s(self) -> float:
        """Time at which the run ended; the time of its last event if it has not ended."""
        # Events that follow the end, such as the removal of files, are not part of the run's time.
        return self.now_s if self.ended_s is None else self.ended_s

    @property
    def is_any_held(self) -> bool:
        """Whether the user has paused a site."""
        return any(HELD in site.conditions for site in self.sites)

    @property
    def is_placing(self) -> bool:
        """Whether eligible tasks may be placed."""
        return self.ended is None and not (self.draining or self.stopping)

    @property
    def is_complete(self) -> bool:
        """Whether all workflows of the run have been added."""
        count = len(self.workflows)
        return 0 <= self.expected <= count - len(self.requests) and self.awaited <= count

    @property
    def done(self) -> int:
        """Number of tasks that are done."""
        return self.counts[TaskStatus.DONE]

    @property
    def failed(self) -> int:
        """Number of tasks that have failed for good."""
        return self.counts[TaskStatus.FAILED]

    @property
    def blocked(self) -> int:
        """Number of tasks that depend on a failed one."""
        return self.counts[TaskStatus.BLOCKED]

    @property
    def unneeded(self) -> int:
        """Number of optional tasks that were not needed."""
        return self.counts[TaskStatus.UNNEEDED]
