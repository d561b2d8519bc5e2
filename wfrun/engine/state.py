"""The state of a run: what follows from its log, and nothing else.

Only the interpreter (`wfrun.engine.interpreter`) and the capabilities that it calls change it. It
is compact: per task a few bytes in arrays beside the immutable workflow, objects only for open
attempts. What single capabilities know of a run they keep themselves (`RunState.find`).
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import inf
from typing import NamedTuple, TypeVar, cast

from wfrun.engine.bag import BagFiles
from wfrun.engine.eligible import EligibleSet, TaskClass
from wfrun.engine.events import Settings
from wfrun.engine.exchange import Cause
from wfrun.engine.information import Information
from wfrun.engine.model import LinkSpec, Resources, SiteSpec, Workflow
from wfrun.engine.network import Network

SUPERSEDED = "superseded"
"""The timer that bounds how long superseded attempts may take to be cancelled."""

T = TypeVar("T")


class TaskStatus(IntEnum):
    """Where a task stands. Small ints, since a bytearray holds them."""

    WAITING = 0  # for its predecessors
    ELIGIBLE = 1
    DISPATCHED = 2  # staging, queued or running
    DELAYED = 3  # failed, to be tried again when its timer fires
    DONE = 4
    FAILED = 5
    BLOCKED = 6  # a task that it depends on has failed


class Phase(IntEnum):
    """Where an open attempt stands."""

    STAGING = 0
    SUBMITTING = 1
    QUEUED = 2
    RUNNING = 3


class Attempt:
    """One open attempt of a task at a site."""

    __slots__ = ("cores", "is_replica", "key", "launcher", "missing", "phase", "placed_s",
                 "ready_s", "site", "started_s", "superseded", "task", "withdrawn",
                 "workflow")  # fmt: skip

    def __init__(
        self, key: str, workflow: int, task: int, site: int, placed_s: float, cores: int
    ) -> None:
        self.key = key
        self.workflow = workflow
        self.task = task
        self.site = site
        self.cores = cores
        self.phase = Phase.STAGING
        self.missing = 0
        """Number of inputs that have not arrived yet."""
        self.placed_s = placed_s
        self.ready_s: float | None = None
        """When the last input had arrived."""
        self.started_s: float | None = None
        self.launcher = ""
        """Key of the launcher that runs it; empty: none does."""
        self.withdrawn = False
        """Its cancellation was ordered, for the case that it has not started."""
        self.is_replica = False
        self.superseded = False
        """Another attempt of its task was done first: it is being cancelled, and its outcome does
        not matter."""


class Siblings:
    """The open attempts of a task that has replicas, or had some since it was dispatched."""

    __slots__ = ("attempts", "first_failed")

    def __init__(self, attempts: list[Attempt]) -> None:
        self.attempts = attempts
        """Superseded ones are not among them."""
        self.first_failed: bool | None = None
        """Whether the failure that ended the first attempt, which was no replica, was the task's
        own; None: it has not failed."""


class Copy:
    """A file on its way to a site."""

    __slots__ = ("failures", "source", "waiting")

    def __init__(self, source: int) -> None:
        self.source = source
        self.waiting: list[str] = []
        """Attempts that need it there."""
        self.failures = 0


class Failure(NamedTuple):
    """A failed attempt, as shown to the user."""

    task: str
    site: str
    key: str
    cause: Cause
    message: str
    final: bool
    """No retry follows."""


class Condition(NamedTuple):
    """What a capability holds against a site."""

    reason: str
    """For the user."""
    closes: bool
    """The site gets no attempts."""


class SiteState:
    """A site as the core knows it."""

    __slots__ = ("bytes_in", "capacity", "commands", "committed_cores", "conditions", "connections",
                 "done", "failed", "foreign_cores", "head_cpu_s",
                 "holds_prefetch", "is_healthy", "is_provisioned", "phases", "reported", "slots",
                 "slots_now", "spec", "transfers_in", "used_core_s")  # fmt: skip

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.reported: str | None = None
        """Why the site says that it takes no work; None: it takes some."""
        self.conditions: dict[str, Condition] = {}
        """What capabilities hold against it, by capability."""
        self.is_healthy = True
        """Neither the site itself nor a capability keeps attempts away."""
        self.is_provisioned = False
        """Its slots are those of launchers, which jobs of others are no load on."""
        self.slots = spec.slots
        """Cores that attempts can run on at present, if others use none: with launchers, those of
        the live ones."""
        self.slots_now = spec.slots
        """Cores that attempts of ours hold or could hold at once."""
        self.capacity: float = inf
        """Maximum number of cores of dispatched attempts: slots and prefetch."""
        self.holds_prefetch = False
        """What exceeds ``slots_now`` is prefetch, which no task joins while another site has idle
        slots for it."""
        self.committed_cores = 0
        """Cores of all attempts of this run that are dispatched to the site."""
        self.phases = [0, 0, 0, 0]
        """Number of open attempts by Phase."""
        self.foreign_cores = 0
        """Cores that all jobs of others ask for, running and queued, as last observed."""
        self.done = 0
        self.failed = 0
        """Attempts that failed here."""
        self.transfers_in = 0
        """Files that arrived from elsewhere."""
        self.bytes_in = 0
        self.used_core_s = 0.0
        self.connections = 0
        """Connections to its head node so far, as reported."""
        self.commands: Counter[str] = Counter()
        """Commands run on its head node, by program name."""
        self.head_cpu_s = 0.0
        """CPU seconds of ours on its head node."""

    @property
    def pause_reason(self) -> str | None:
        """Why it gets no attempts now, or only some; None: it is open."""
        if self.reported is not None:
            return self.reported
        conditions = self.conditions.values()
        for condition in sorted(conditions, key=lambda c: not c.closes):
            return condition.reason
        return None


class Openings:
    """The sites that have room for a task of one number of cores, as masks."""

    __slots__ = ("idle", "open", "prefetching")

    def __init__(self) -> None:
        self.open = 0
        """Sites that take such a task now."""
        self.idle = 0
        """Of these, sites with idle slots for it."""
        self.prefetching = 0
        """Of these, sites that would only hold it in advance."""


class WorkflowState:
    """How far one workflow is. Lists and arrays are indexed by task or by file."""

    __slots__ = ("added_s", "asks", "attempts_of", "avoid", "children", "class_masks", "collected",
                 "counts", "dispatched", "eligible", "ended_s", "failures", "index", "kinds",
                 "lost", "masks", "order", "present", "queue", "ran_s", "refused", "resource_class",
                 "runtimes_s", "serials", "setbacks", "siblings", "sizes", "staging_s", "status",
                 "to_collect", "variants", "waiting", "waiting_s", "workflow")  # fmt: skip

    def __init__(self, index: int, workflow: Workflow, added_s: float) -> None:
        tasks = len(workflow.tasks)
        self.index = index
        self.workflow = workflow
        self.added_s = added_s
        self.ended_s: float | None = None
        self.children: Sequence[tuple[int, ...]] = workflow.parents
        self.waiting: list[int] | bytearray = bytearray(tasks)
        """Predecessors that are not done."""
        if workflow.bag is None:
            self.children = [tuple(c) for c in workflow.children()]
            self.waiting = [len(p) for p in workflow.parents]
        self.queue = 0
        """The resource manager that it was submitted to."""
        self.status = bytearray(tasks)
        self.counts = [tasks, 0, 0, 0, 0, 0, 0]
        """Number of tasks by TaskStatus."""
        self.attempts_of = array("I", bytes(4 * tasks))
        """Attempts so far; numbers the next one."""
        self.siblings: dict[int, Siblings] = {}
        """Dispatched tasks that have replicas, or had some."""
        self.failures: dict[int, int] = {}
        """Failed attempts of tasks since they were last given all their retries."""
        self.setbacks: dict[int, int] = {}
        """Likewise those that failed for no fault of the task."""
        self.avoid: dict[int, int] = {}
        """Sites that a task is not to be tried at again while there are others, as a mask."""
        self.refused: dict[int, int] = {}
        """Sites that will never take a task, as a mask."""
        self.asks: dict[int, Resources] = {}
        """What tasks ask for, where it is not what their document says."""
        self.masks: dict[int, int] = {}
        """The sites that could ever run a task, where they are not those of its class."""
        self.eligible = EligibleSet(tasks)
        self.serials = array("q", bytes(8 * tasks))
        """When each task became eligible for the last time, as a serial number in the run."""
        self.order: Sequence[float] | None = None
        """The placement policy's own order, smaller first."""
        self.dispatched = 0
        """Open attempts, replicas included: what the throttle bounds."""
        self.resource_class: Sequence[int] = ()
        """Per task: its class of like resource requests."""
        self.class_masks: list[int] = []
        """Per class: the sites that could ever run its tasks."""
        self.kinds: list[TaskClass] = []
        """Per class: how its tasks wait for a site, as long as none has failed anywhere."""
        self.present: list[int] = []
        """Per file: the places that hold it, as a mask."""
        self.lost: set[int] = set()
        """Files that were written, and are at no place any more."""
        self.sizes = _sizes(workflow)
        """Bytes of each file; documented first, then as written; -1: unknown."""
        self.to_collect = _to_collect(workflow)
        self.collected = 0
        self.staging_s = 0.0
        """Sum over attempts from placement to the arrival of the last input (FTD)."""
        self.waiting_s = 0.0
        """Sum over attempts from then to the start (QWT)."""
        self.ran_s: dict[int, float] = {}
        """How long tasks have run when the time of their launcher was over."""
        self.variants: dict[int, int] = {}
        """In a run with replicas, tasks that another than their first attempt has done, with its
        number: it is in the names of their files at the sites."""
        self.runtimes_s: Sequence[float] | None = None
        """Expected on the reference processor, for policies that know them."""

    @property
    def done(self) -> int:
        return self.counts[TaskStatus.DONE]

    @property
    def failed(self) -> int:
        return self.counts[TaskStatus.FAILED]

    @property
    def blocked(self) -> int:
        return self.counts[TaskStatus.BLOCKED]

    @property
    def delayed(self) -> int:
        return self.counts[TaskStatus.DELAYED]

    @property
    def waiting_tasks(self) -> int:
        """Tasks whose predecessors are not done."""
        return self.counts[TaskStatus.WAITING]

    @property
    def open(self) -> bool:
        """Whether anything of it may still run."""
        return self.ended_s is None

    def asked(self, task: int) -> Resources:
        """What the next attempt of a task asks for."""
        return self.asks.get(task) or self.workflow.tasks[task].resources

    def feasible_sites(self, task: int) -> int:
        """The sites that could ever run a task, as a mask."""
        mask = self.masks.get(task) if self.masks else None
        return self.class_masks[self.resource_class[task]] if mask is None else mask

    def kind(self, task: int) -> TaskClass:
        """How an eligible task waits for a site."""
        if not (self.masks or self.avoid):
            return self.kinds[self.resource_class[task]]
        return TaskClass(self.allowed_sites(task), self.workflow.tasks[task].resources.cores)

    def allowed_sites(self, task: int) -> int:
        """Of these, the sites that may get it now: not where it has failed, if there is another."""
        if not (self.masks or self.avoid):
            return self.class_masks[self.resource_class[task]]
        mask = self.feasible_sites(task)
        avoid = self.avoid.get(task)
        return mask & ~avoid or mask if avoid else mask


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
    return sum(1 for f in files if f.collect and f.producer is not None)


class RunState:
    """What the log of a run implies."""

    def __init__(self, documents: Mapping[str, Workflow]) -> None:
        self.documents = documents
        self.run_id = ""
        self.settings = Settings(policy="")
        self.started_s = 0.0
        self.now_s = 0.0
        self.sites: list[SiteState] = []
        self.links: tuple[LinkSpec, ...] = ()
        self.network = Network((), ())
        self.information = Information()
        """What the run's policy declares."""
        self.capabilities: dict[type, object] = {}
        """What takes part in this run, by class."""
        self.is_bounded = False
        """Sites take no more attempts than they have capacity for."""
        self.openings: dict[int, Openings] = {}
        """Sites with room, by the number of cores that a task asks for. Grows with the number of
        different widths of tasks, which no site's size can be exceeded by."""
        self.expected = 1
        """Number of workflows that the run will have; -1: that is not known yet."""
        self.workflows: list[WorkflowState] = []
        self.attempts: dict[str, Attempt] = {}
        """Open ones by key."""
        self.copies: dict[tuple[int, int, int], Copy] = {}
        """Files on their way, by (workflow, file, destination)."""
        self.timers: dict[str, float] = {}
        self.uncollected: list[str] = []
        """Final outputs that could not be fetched, with the reason."""
        self.queues: list[int] = []
        """The sites of each resource manager, as masks. Empty: the run has no selection policy."""
        self.last_site = -1
        """The site that got the last task that was placed; -1: none was."""
        self.site_tuples: dict[int, tuple[int, ...]] = {}
        """Masks of sites as tuples, for policies."""
        self.history: str | None = None
        """The file that keeps run times and usage across runs; None: none does."""
        self.max_replicas = 0
        """Maximum number of replicas of a task."""
        self.superseded = 0
        """Open attempts whose outcome does not matter any more."""
        self.draining = False
        """Nothing more is dispatched; the user asked for it."""
        self.killed = False
        """And running attempts are ended, outputs not collected."""
        self.stopping = False
        """Nothing more is dispatched, since a task failed."""
        self.ended: str | None = None
        self.end_reason: str | None = None
        self.tasks = 0
        self.counts = [0, 0, 0, 0, 0, 0, 0]
        """Number of tasks of all workflows by TaskStatus."""
        self.open_workflows = 0
        self.retried = 0
        self.transfers = 0
        self.moved_bytes = 0
        self.recent_failures: deque[Failure] = deque(maxlen=8)
        self.eligible_serial = 0

    def find(self, kind: type[T]) -> T | None:
        """The capability of this class; None: it takes no part in this run."""
        return cast("T | None", self.capabilities.get(kind))

    def get(self, kind: type[T]) -> T:
        """The capability of this class, which the run has."""
        return cast("T", self.capabilities[kind])

    def queue_sites(self, w: WorkflowState) -> int:
        """The sites of the resource manager that a workflow was submitted to, as a mask."""
        return self.queues[w.queue] if self.queues else (1 << len(self.sites)) - 1

    def openings_for(self, cores: int) -> Openings:
        """The sites with room for a task of so many cores."""
        openings = self.openings.get(cores)
        if openings is None:
            openings = self.openings[cores] = Openings()
            for index, site in enumerate(self.sites):
                self.update_openings(openings, cores, site, 1 << index)
        return openings

    def update_site(self, index: int) -> bool:
        """Bring the masks of sites with room up to date with one site; whether it has come to have
        room, or idle slots, for some width of tasks.

        Cost: the number of different widths."""
        site, bit = self.sites[index], 1 << index
        opened = False
        for cores, openings in self.openings.items():
            opened |= self.update_openings(openings, cores, site, bit)
        return opened

    def update_openings(self, openings: Openings, cores: int, site: SiteState, bit: int) -> bool:
        """The same for one width; whether a task of it got a site more, or idle slots."""
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
        # However much others hold, a site takes one task: its queue knows when there is room.
        if committed_cores + cores <= site.capacity or not (committed_cores or cores > site.slots):
            openings.open |= bit
            if site.holds_prefetch:
                openings.prefetching |= bit
            return not was_open
        return False

    @property
    def is_placing(self) -> bool:
        """Whether eligible tasks are placed."""
        return self.ended is None and not (self.draining or self.stopping)

    @property
    def is_complete(self) -> bool:
        """Whether all workflows that the run will have are there."""
        return 0 <= self.expected <= len(self.workflows)

    @property
    def done(self) -> int:
        return self.counts[TaskStatus.DONE]

    @property
    def failed(self) -> int:
        return self.counts[TaskStatus.FAILED]

    @property
    def blocked(self) -> int:
        return self.counts[TaskStatus.BLOCKED]
