"""The state of a run: what follows from its log, and nothing else.

Only ``wfrun.engine.apply`` changes it. It is compact: per task a few bytes in arrays beside the
immutable workflow, objects only for attempts that are open.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from math import inf
from typing import NamedTuple

from wfrun.engine.actions import Action
from wfrun.engine.bag import BagFiles
from wfrun.engine.eligible import EligibleSet
from wfrun.engine.events import BackgroundJob, Settings
from wfrun.engine.information import Information
from wfrun.engine.lengths import Lengths
from wfrun.engine.model import LinkSpec, Resources, SiteSpec, Workflow
from wfrun.engine.network import Network
from wfrun.engine.pool import Pool
from wfrun.engine.predictors import JobClass, Last2, RunTimes
from wfrun.engine.protocols import Placement
from wfrun.engine.queue_model import QueueModel
from wfrun.engine.records import Cause
from wfrun.engine.replicas import Replicas
from wfrun.engine.usage import Usage

SUPERSEDED = "superseded"
"""The timer until which attempts that others were done before may take to be cancelled."""


class TaskStatus(IntEnum):
    """Where a task stands. Small ints, since a bytearray holds them."""

    WAITING = 0  # for its predecessors
    ELIGIBLE = 1
    DISPATCHED = 2  # staging, queued or running
    DELAYED = 3  # failed, to be tried again when its timer fires
    DONE = 4
    FAILED = 5
    BLOCKED = 6  # something that it depends on has failed


class Phase(IntEnum):
    """Where an open attempt stands."""

    STAGING = 0
    SUBMITTING = 1
    QUEUED = 2
    RUNNING = 3


class Attempt:
    """One open try of a task at a site."""

    __slots__ = ("is_replica", "key", "launcher", "missing", "phase", "placed_s", "ready_s", "site",
                 "started_s", "superseded", "task", "unclear", "withdrawn",
                 "workflow")  # fmt: skip

    def __init__(self, key: str, workflow: int, task: int, site: int, placed_s: float) -> None:
        self.key = key
        self.workflow = workflow
        self.task = task
        self.site = site
        self.phase = Phase.STAGING
        self.missing = 0
        """Inputs that are still on their way."""
        self.placed_s = placed_s
        self.ready_s: float | None = None
        """When the last input had arrived."""
        self.started_s: float | None = None
        self.launcher = ""
        """That runs it; empty: none does."""
        self.unclear = False
        """It was given to a launcher by the engine before this one, and has not started as far as
        is known."""
        self.withdrawn = False
        """It is being taken back, unless it has started."""
        self.is_replica = False
        self.superseded = False
        """Another one of its task was done first: it is being cancelled, and how it ends does not
        matter."""


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


class BreakerPhase(IntEnum):
    """Whether a site that has failed gets attempts."""

    WATCHED = 0  # as many as ever
    PAUSED = 1  # none until its timer fires
    ON_TRIAL = 2  # one at a time
    GIVEN_UP = 3  # none until the run is resumed


class Breaker:
    """The failures of a site in a row, since its last success."""

    __slots__ = ("counted_s", "failures", "pause_s", "pauses", "phase", "probe", "reason",
                 "since_s")  # fmt: skip

    def __init__(self) -> None:
        self.phase = BreakerPhase.WATCHED
        self.failures = 0
        """Since the last pause."""
        self.counted_s: dict[str | None, float] = {}
        """When the last of them was, by host."""
        self.pauses = 0
        self.pause_s = 0.0
        """How long the last one was."""
        self.since_s = float("-inf")
        """Only attempts placed since then count."""
        self.probe: str | None = None
        """The one attempt of a trial."""
        self.reason = ""

    @property
    def lets_in(self) -> bool:
        """Whether the site may get an attempt now."""
        if self.phase is BreakerPhase.ON_TRIAL:
            return self.probe is None
        return self.phase is BreakerPhase.WATCHED


class HostStreak:
    """Failures of one host in a row."""

    __slots__ = ("done_before", "failures", "last_s")

    def __init__(self, done_before: int) -> None:
        self.failures = 0
        self.done_before = done_before
        """What the site had done when they began."""
        self.last_s = 0.0


class SiteState:
    """A site as the core knows it."""

    __slots__ = ("background", "breaker", "bytes_in", "commands", "committed_cores", "connections",
                 "done", "failed", "failing_hosts", "good_hosts", "head_cpu_s", "last2",
                 "late", "most_cores", "performance", "phases", "pool", "queue_model",
                 "quick_failures", "reported", "spec", "stock", "task_s", "transfers_in",
                 "used_core_s")  # fmt: skip

    def __init__(self, spec: SiteSpec) -> None:
        self.spec = spec
        self.reported: str | None = None
        """Why the site says that it takes no work; None: it takes some."""
        self.breaker: Breaker | None = None
        """None: nothing is held against it."""
        self.failing_hosts: dict[str, HostStreak] = {}
        self.good_hosts: set[str] = set()
        """Whose last attempt was done."""
        self.committed_cores = 0
        """Cores of all attempts of this run that are dispatched to the site."""
        self.phases = [0, 0, 0, 0]
        """Open attempts by Phase."""
        self.background: dict[str, BackgroundJob] = {}
        self.last2 = Last2()
        access = spec.access
        launchers = access.launchers if access and access.dispatch == "launchers" else None
        self.pool = None if launchers is None else Pool(launchers)
        """Its launchers; None: it has none."""
        self.most_cores = inf
        """Of attempts that it takes without launchers; ``apply`` bounds it in a run with bags, or
        where other sites have launchers."""
        self.late = False
        """Without launchers it takes attempts only while slots are free, beside its stock."""
        self.stock = 0
        """So many cores more than its slots it takes at any rate, so that these don't wait for the
        engine when an attempt ends."""
        self.task_s: float | None = None
        """What attempts took lately; None: none has ended."""
        self.performance: float | None = None
        """How fast it was lately, beside the reference processor, by what is known of the run times
        of tasks; None: nothing has been seen."""
        self.quick_failures = 0
        """Attempts in a row that failed as soon as they had started."""
        self.queue_model: QueueModel | None = None
        self.done = 0
        self.failed = 0
        """Attempts that failed here."""
        self.transfers_in = 0
        """Files that arrived from elsewhere."""
        self.bytes_in = 0
        self.used_core_s = 0.0
        self.connections = 0
        """To its head node, as far as told of; likewise the next two."""
        self.commands: Counter[str] = Counter()
        """Run on its head node, by program name."""
        self.head_cpu_s = 0.0
        """CPU seconds of ours on its head node."""

    @property
    def pause_reason(self) -> str | None:
        """Why it gets no attempts now, or only one at a time; None: it is open."""
        if self.reported is not None:
            return self.reported
        breaker = self.breaker
        if breaker is None or breaker.phase is BreakerPhase.WATCHED:
            return None if self.pool is None else self.pool.reason
        return breaker.reason

    @property
    def is_well(self) -> bool:
        """Whether nothing is held against it that keeps attempts away now."""
        return self.reported is None and (self.breaker is None or self.breaker.lets_in)

    @property
    def has_room(self) -> bool:
        """Whether it takes another attempt: always, unless the run has bags or launchers."""
        if self.pool is not None:
            return self.committed_cores < self.pool.capacity
        if self.late:
            return self.committed_cores < self.slots_now + self.stock
        return self.committed_cores < max(self.most_cores, self.slots_now + self.stock)

    @property
    def slots_now(self) -> int:
        """Cores that attempts would start on at once if nothing of ours were there; beside them
        those that ours hold in launchers that take no more."""
        if self.pool is not None:
            return self.pool.live_slots + self.pool.closed_cores
        return self.spec.slots - self.background_cores

    @property
    def background_cores(self) -> int:
        if not self.background:
            return 0
        return sum(job.cores for job in self.background.values() if job.started_s is not None)

    @property
    def background_demand(self) -> int:
        return sum(job.cores for job in self.background.values())


class WorkflowState:
    """How far one workflow is. Lists and arrays are indexed by task or by file."""

    __slots__ = ("added_s", "asks", "attempts_of", "avoid", "blocked", "children",
                 "class_masks", "collected", "delayed", "dispatched", "done", "eligible",
                 "ended_s", "failed", "failures", "index", "last_class", "masks",
                 "order", "placement", "present", "queue", "ran_s", "refused", "resource_class",
                 "runtimes_s", "serials", "setbacks", "sizes", "staging_s", "status",
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
        self.attempts_of = array("H", bytes(2 * tasks))
        """Attempts so far; numbers the next one."""
        self.failures: dict[int, int] = {}
        """Failed attempts of tasks since they were last given all their retries."""
        self.setbacks: dict[int, int] = {}
        """Likewise those that failed for no fault of the task."""
        self.avoid: dict[int, int] = {}
        """Sites that a task is not to be tried at again as long as there are others, as a mask."""
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
        self.delayed = 0
        self.dispatched = 0
        self.done = 0
        self.failed = 0
        self.blocked = 0
        self.resource_class = array("H")
        self.class_masks: list[int] = []
        """Per class of like resource requests: the sites that could ever run them."""
        self.present: list[int] = []
        """Per file: the places that hold it, as a mask."""
        self.sizes = _sizes(workflow)
        """Bytes of each file; documented first, then as written; -1: unknown."""
        self.to_collect = _to_collect(workflow)
        self.collected = 0
        self.staging_s = 0.0
        """Sum over attempts from placement to the arrival of the last input (FTD)."""
        self.waiting_s = 0.0
        """Sum over attempts from then to the start (QWT)."""
        self.ran_s: dict[int, float] = {}
        """How long tasks have run until their launcher's time was over."""
        self.variants: dict[int, int] = {}
        """In a run with replicas, tasks that another than their first attempt has done, with its
        number: it is in the names of their files at the sites."""
        self.last_class: tuple[int, JobClass] | None = None
        """Of the task that was asked for last."""
        self.runtimes_s: Sequence[float] | None = None
        """Expected on the reference processor, for policies that know them."""
        self.placement: Placement

    def asked(self, task: int) -> Resources:
        """What the next attempt of a task asks for."""
        return self.asks.get(task) or self.workflow.tasks[task].resources

    def sites_of(self, task: int) -> int:
        """The sites that could ever run a task, as a mask."""
        mask = self.masks.get(task)
        return self.class_masks[self.resource_class[task]] if mask is None else mask

    def choice(self, task: int) -> int:
        """Likewise those that may get it now: none where it has failed as long as there is
        another."""
        mask = self.sites_of(task)
        avoid = self.avoid.get(task) if self.avoid else None
        return mask & ~avoid or mask if avoid else mask

    def candidates(self, task: int, state: RunState) -> int:
        """The sites that may get a task now, as a mask: open, and where others have idle slots,
        not those that would only hold it in advance. A replica: those that have idle slots, and no
        attempt of the task."""
        mask = self.choice(task) & state.open_sites
        if state.replicas is not None and self.status[task] == TaskStatus.DISPATCHED:
            return mask & state.idle_sites & ~state.replicas.sites((self.index, task))
        if mask & state.stocked_sites and mask & state.idle_sites:
            mask &= ~state.stocked_sites
        return mask

    @property
    def waiting_tasks(self) -> int:
        """Tasks whose predecessors are not done."""
        rest = len(self.workflow.tasks) - self.done - self.failed - self.blocked
        return rest - self.eligible.count - self.delayed - self.dispatched

    @property
    def open(self) -> bool:
        """Whether anything of it may still run."""
        return self.ended_s is None


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
    """Everything about a run that its log implies."""

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
        self.open_sites = 0
        """Sites that take work now, as a mask."""
        self.idle_sites = 0
        """Of these, in a run with launchers, those that have idle slots."""
        self.stocked_sites = 0
        """And those that would hold an attempt in advance."""
        self.expected = 1
        """Workflows that the run will have; -1: that is not known yet."""
        self.workflows: list[WorkflowState] = []
        self.attempts: dict[str, Attempt] = {}
        """Open ones by key."""
        self.copies: dict[tuple[int, int, int], Copy] = {}
        """Files on their way, by (workflow, file, destination)."""
        self.timers: dict[str, float] = {}
        self.uncollected: list[str] = []
        """Final outputs that could not be fetched, with the reason."""
        self.lengths = Lengths()
        self.bounded = False
        """Sites take no more than they have room for: there are launchers, or bags."""
        self.queues: list[int] = []
        """The sites of each resource manager, as masks. Empty: the run has no selection policy."""
        self.last_owners: list[str] = []
        """Of each resource manager: whose task it placed last."""
        self.last_site = -1
        """That the last placed task of the run got; -1: none was placed."""
        self.usage: dict[str, Usage] = {}
        """By owner."""
        self.run_times = RunTimes()
        self.predicts = False
        """Run times are observed: the policy predicts, or later runs may want to."""
        self.site_tuples: dict[int, tuple[int, ...]] = {}
        """Masks of sites as tuples, for policies."""
        self.history: str | None = None
        """The file that keeps run times and usage across runs; None: none does."""
        self.replicas: Replicas | None = None
        """None: no task gets any."""
        self.pools: list[int] = []
        """Sites with launchers."""
        self.allocation_due = False
        """Something has changed that launchers may have to be started or ended for."""
        self.draining = False
        """Nothing more is dispatched; the user asked for it."""
        self.killed = False
        """And running attempts are ended, outputs not collected."""
        self.stopping = False
        """Nothing more is dispatched, since a task failed."""
        self.ended: str | None = None
        self.end_reason: str | None = None
        self.retried = 0
        self.transfers = 0
        self.moved_bytes = 0
        self.recent_failures: deque[Failure] = deque(maxlen=8)
        self.eligible_serial = 0
        self.chance = False
        """Something has happened since the core placed tasks last, after which another placement
        may be possible."""
        self.dirty: set[int] = set()
        """Workflows for which a placement may be possible now."""
        self.outbox: list[Action] = []
        """What ``apply`` found out is to be done; taken away by the core."""

    def home(self, w: WorkflowState) -> int:
        """The sites of the resource manager that a workflow was submitted to, as a mask."""
        return self.queues[w.queue] if self.queues else (1 << len(self.sites)) - 1

    @property
    def is_placing(self) -> bool:
        """Whether eligible tasks are placed."""
        return self.ended is None and not (self.draining or self.stopping)

    @property
    def is_complete(self) -> bool:
        """Whether all workflows that the run will have are there."""
        return 0 <= self.expected <= len(self.workflows)

    @property
    def tasks(self) -> int:
        return sum(len(w.workflow.tasks) for w in self.workflows)

    @property
    def done(self) -> int:
        return sum(w.done for w in self.workflows)

    @property
    def failed(self) -> int:
        return sum(w.failed for w in self.workflows)

    @property
    def blocked(self) -> int:
        return sum(w.blocked for w in self.workflows)
