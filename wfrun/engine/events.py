"""Facts, in the order in which they became known. The log of a run is a sequence of these.

Every event has ``at_s``, seconds since the epoch in the real world, since the start in a
simulated one. Its sequence number is its position in the log, and the log's schema version is
``SCHEMA_VERSION``: the store keeps both beside the events. Sites, workflows, tasks and files are
indices, attempts are their keys.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.exchange import Cause, LauncherRequest, Outcome
from wfrun.engine.model import LinkSpec, SiteSpec

SCHEMA_VERSION = 2
"""1: without SiteLoadObserved, CoresReserved, ReservationDeclined and SitesDeclined. Logs of all
versions are read."""


class Settings(msgspec.Struct, frozen=True):
    """How one run is to be carried out; a part of its first event."""

    policy: str
    policy_options: dict[str, int | float | str] = {}
    throttle: int | None = None
    """Most tasks of one workflow that are dispatched at once; None: no limit."""
    retries: int = 2
    """Further attempts of a task after its first has failed."""
    retry_delay_s: float = 1.0
    """Before the first retry; doubled for each further one."""
    on_failure: Literal["continue", "stop"] = "continue"
    seed: int = 0
    emulate: bool = False
    time_scale: float = 1.0
    size_scale: float = 1.0
    pack_logs: bool = False
    """What tasks print goes into a file of each launcher's, rather than two of each task's."""
    selection: str = ""
    """The selection policy, for all workflows and bags of the run together. Empty: each workflow's
    tasks are considered for themselves, the workflows in their order (thesis section 6.1.2)."""
    replication: Literal["idle", "stragglers"] = "idle"
    """When a running task gets a replica: as soon as no task waits for the cores (WQR), or if it
    takes much longer than others of its class."""
    replicas: int | None = None
    """Most replicas of a task; None: as many as the placement policy has, of stragglers at least
    one."""
    replica_share: float = 1.0
    """Of all cores, replicas hold no more than this share."""
    straggler_factor: float = 1.5
    straggler_quantile: float = 0.75
    """A straggler has run for longer than the factor times this quantile of its class."""


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    at_s: float


class RunStarted(Event, frozen=True, tag="run-started"):
    run_id: str
    """Begins the key of every attempt, so that keys of different runs never meet at a site."""
    settings: Settings
    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...]
    workflows: int
    """That will be added; -1: until SubmissionEnded."""
    queues: tuple[tuple[int, ...], ...] = ()
    """The sites of each resource manager, of which each has a queue of its own (thesis section
    5.1.2). Empty: one for all sites."""


class WorkflowAdded(Event, frozen=True, tag="workflow-added"):
    workflow: int
    name: str
    digest: str
    """The workflow itself is stored beside the log, under this name."""
    queue: int = 0
    """The resource manager that it was submitted to."""


class SubmissionEnded(Event, frozen=True, tag="submission-ended"):
    """No more workflows will be added."""


class ClassHistory(msgspec.Struct, frozen=True, array_like=True):
    """The latest run times of one class of tasks in earlier runs."""

    owner: str
    application: str
    cores: int
    site: str
    runtimes_s: tuple[float, ...]
    """At that site, the oldest first."""


class HistoryRead(Event, frozen=True, tag="history-read"):
    """What earlier runs have left for predictions and fairness. What this run sees is added to the
    same file when it ends."""

    file: str
    classes: tuple[ClassHistory, ...]
    usage_s: dict[str, float]
    """CPU seconds by owner; empty: those of earlier runs do not count."""


class RunResumed(Event, frozen=True, tag="run-resumed"):
    """A new engine took over the run; failed tasks may be tried again."""

    lost: tuple[tuple[int, int, int], ...] = ()
    """(workflow, file, site) of files that had been written and are not in their sites' stores any
    more, or not whole: somebody removed them, or a site went down before its disk had them."""


class AttemptPlaced(Event, frozen=True, gc=False, tag="attempt-placed"):
    """The core decided; the attempt is dispatched from here on."""

    key: str
    workflow: int
    task: int
    site: int


class AttemptsSubmitted(Event, frozen=True, tag="attempts-submitted"):
    """The site took these."""

    site: int
    keys: tuple[str, ...]


class AttemptStarted(Event, frozen=True, gc=False, omit_defaults=True, tag="attempt-started"):
    key: str
    launcher: str = ""
    """The launcher that runs it; empty: none does."""


class AttemptEnded(Event, frozen=True, gc=False, tag="attempt-ended"):
    key: str
    outcome: Outcome


class AttemptsFound(Event, frozen=True, tag="attempts-found"):
    """What a site answered when asked after a crash. Ended attempts get an AttemptEnded each."""

    site: int
    absent: tuple[str, ...]
    """Never started there: they can be submitted safely."""
    active: tuple[str, ...]


class AttemptsWithdrawn(Event, frozen=True, tag="attempts-withdrawn"):
    """The core decided to take these back from the site, as far as they have not started: there is
    room for them elsewhere."""

    site: int
    keys: tuple[str, ...]


class LaunchersAsked(Event, frozen=True, tag="launchers-asked"):
    """The core decided to start these at the site."""

    site: int
    launchers: tuple[LauncherRequest, ...]


class LaunchersSubmitted(Event, frozen=True, tag="launchers-submitted"):
    """The site's queue has them."""

    site: int
    keys: tuple[str, ...]


class LauncherStarted(Event, frozen=True, tag="launcher-started"):
    """A launcher takes tasks. Told again when it is back after it was away, or what is told here
    has changed."""

    site: int
    key: str
    host: str
    """Of several nodes, the first."""
    slots: int
    """Cores, of all its nodes that take tasks."""
    ends_s: float | None
    """When its walltime is over; None: it does not know."""
    channel: str
    """How it is connected: tcp, ssh or spool."""
    latency_s: float
    """From the end of a task there until the engine's answer to it is there."""


class LauncherDraining(Event, frozen=True, tag="launcher-draining"):
    """It takes no more tasks: its time is nearly over, or it can't be reached."""

    site: int
    key: str
    reason: str


class LaunchersStopped(Event, frozen=True, tag="launchers-stopped"):
    """The core decided to end these, which no work waits for."""

    site: int
    keys: tuple[str, ...]


class LauncherEnded(Event, frozen=True, tag="launcher-ended"):
    """Its job is over, or was never submitted. What became of its attempts is told of each."""

    site: int
    key: str
    cause: Cause
    """``done``: it ended by itself, or was stopped."""
    message: str | None = None


class TransferEnded(Event, frozen=True, gc=False, tag="transfer-ended"):
    workflow: int
    file: int
    source: int
    destination: int
    size_bytes: int
    elapsed_s: float


class TransferFailed(Event, frozen=True, tag="transfer-failed"):
    workflow: int
    file: int
    source: int
    destination: int
    message: str
    transient: bool


class BackgroundJob(msgspec.Struct, frozen=True):
    """A job of somebody else in a site's queue, as the site's information service shows it."""

    id: str
    cores: int
    started_s: float | None = None
    """None: still queued."""
    runtime_s: float | None = None
    """Where the service knows it; None: unknown."""


class SiteObserved(Event, frozen=True, tag="site-observed"):
    """The jobs of others at a site, running ones first, then the queue in order; for policies that
    use the run times of each of them."""

    site: int
    background: tuple[BackgroundJob, ...]


class SiteLoadObserved(Event, frozen=True, tag="site-load-observed"):
    """The background load of a site, for policies that use no more of it than its size."""

    site: int
    running_cores: int
    """Cores that running jobs of others hold."""
    queued_cores: int
    """Cores that their queued jobs ask for."""


class CoresReserved(Event, frozen=True, tag="cores-reserved"):
    """The core decided to keep room at a site for an eligible task that fits nowhere now, so that
    smaller tasks which come after it do not keep it waiting."""

    workflow: int
    task: int
    site: int


class ReservationDeclined(Event, frozen=True, tag="reservation-declined"):
    """The core decided to keep this room no longer: the placement policy was asked, and leaves the
    workflow's tasks unplaced."""

    workflow: int
    task: int
    site: int


class SitesDeclined(Event, frozen=True, tag="sites-declined"):
    """The core decided to ask for no launchers at these sites for a workflow, for a while: its
    placement policy has left a task unplaced that they had room for."""

    workflow: int
    sites: tuple[int, ...]


class SitePaused(Event, frozen=True, tag="site-paused"):
    """The site takes no more work for now."""

    site: int
    reason: str


class SiteReopened(Event, frozen=True, tag="site-reopened"):
    site: int


class SiteCounted(Event, frozen=True, tag="site-counted"):
    """What was done on a cluster's head node since this was last told, or since the engine
    began."""

    site: int
    connections: int
    commands: dict[str, int]
    """By program name."""
    cpu_s: float
    """CPU seconds of our agent there and the commands that it ran."""


class TimerFired(Event, frozen=True, tag="timer-fired"):
    timer: str


class CancelAsked(Event, frozen=True, tag="cancel-asked"):
    """``drain``: dispatch nothing more, let running tasks end. ``kill``: cancel them too."""

    mode: Literal["drain", "kill"]


class RunEnded(Event, frozen=True, tag="run-ended"):
    outcome: Literal["done", "failed", "cancelled"]
    reason: str | None = None
    """For a failed run that ended by something else than its tasks."""


AnyEvent = (
    RunStarted
    | WorkflowAdded
    | SubmissionEnded
    | HistoryRead
    | RunResumed
    | AttemptPlaced
    | AttemptsSubmitted
    | AttemptStarted
    | AttemptEnded
    | AttemptsFound
    | AttemptsWithdrawn
    | LaunchersAsked
    | LaunchersSubmitted
    | LauncherStarted
    | LauncherDraining
    | LaunchersStopped
    | LauncherEnded
    | TransferEnded
    | TransferFailed
    | SiteObserved
    | SiteLoadObserved
    | CoresReserved
    | ReservationDeclined
    | SitesDeclined
    | SitePaused
    | SiteReopened
    | SiteCounted
    | TimerFired
    | CancelAsked
    | RunEnded
)

DECISIONS = (
    AttemptPlaced, AttemptsWithdrawn, CoresReserved, LaunchersAsked, LaunchersStopped, RunEnded,
    ReservationDeclined, SitesDeclined,
)  # fmt: skip
"""Events that are the core's own: they follow the fact that they were decided after."""
