"""Events: the facts and decisions of a run, in the order in which they became known. The log of a
run is a sequence of events.

Every event has ``at_s``: seconds since the epoch in a real run, since the start in a simulation.
Its sequence number is its position in the log; the store keeps it, and the log's
``SCHEMA_VERSION``, beside the event. Sites, workflows, tasks and files are indices; attempts and
launchers are named by their keys.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from wfrun.engine.exchange import (
    Cause,
    CopyCause,
    Digest,
    LauncherRequest,
    Outcome,
)
from wfrun.engine.model import LinkSpec, SiteSpec
from wfrun.engine.settings import Settings as Settings

SCHEMA_VERSION = 1
"""The version of the logs that wfrun writes since 0.1.0. Logs of all versions can be read."""


class Event(msgspec.Struct, frozen=True, tag_field="event"):
    """Base of all events."""

    at_s: float


class RunStarted(Event, frozen=True, tag="run-started"):
    """A run began: its settings, sites and links."""

    run_id: str
    """Prefix of the keys of all attempts, so that keys of different runs never coincide at a
    site."""
    settings: Settings
    sites: tuple[SiteSpec, ...]
    links: tuple[LinkSpec, ...]
    workflows: int
    """Number of workflows that will be added; -1 if unknown before SubmissionEnded."""
    queues: tuple[tuple[int, ...], ...] = ()
    """The sites of each resource manager, which has its own queue (thesis section 5.1.2). Empty:
    one resource manager with all sites."""
    site_directory: str = ""
    """Name of the run's directory at its sites. A part of the name appears in no job name, so that
    no other user can create the directory first. Empty in logs until version 4, where the name is
    ``wfrun-<run id>``."""
    own_outputs: bool = False
    """Whether the outputs of each attempt have names of their own at the sites. Logs until version
    4 have such names only in runs with replicas."""
    wfrun: str = ""
    """Version of the wfrun that began the run. Empty: unknown, or a simulation."""


class ReusedTasks(msgspec.Struct, frozen=True):
    """Tasks of a workflow that an earlier run did: they are done from the start."""

    run: str
    """Directory of the earlier run."""
    tasks: tuple[int, ...]
    files: tuple[tuple[int, int, int], ...]
    """(file, size in bytes, place) of each output of these tasks that was taken over. The place is
    a site or ORIGIN."""
    lost: tuple[int, ...] = ()
    """Outputs of these tasks that were not taken over, since nothing needs them now."""


class WorkflowAdded(Event, frozen=True, tag="workflow-added"):
    """A workflow or a bag was added to the run."""

    workflow: int
    name: str
    digest: str
    """Digest of the workflow, by which it is stored beside the log."""
    queue: int = 0
    """Number of the resource manager that the workflow was submitted to."""
    reused: tuple[ReusedTasks, ...] = ()
    """The tasks of the workflow that earlier runs did, by run."""
    deadline_s: float | None = None
    """Deadline of the bag, in seconds as ``at_s``, if its document states a time of day. None: a
    deadline, if any, is computed from the bag's `OptionalTasks`."""
    request: str = ""
    """Identifier of the user's request that added the workflow to a run under way, with the
    workflow's number in the request. Empty: the workflow belongs to the run from the start. An
    event with a known identifier, or after the end of the run, adds nothing."""
    more: bool = False
    """Whether the next event adds another workflow. The core decides nothing before it: one
    decision on both workflows is better and cheaper than two decisions."""


class ArrivalsPlanned(Event, frozen=True, tag="arrivals-planned"):
    """The workflows of the run arrive one after another. Each is added when it is due."""

    arrivals: tuple[tuple[str, float], ...]
    """Digest and time of arrival, in seconds as ``at_s``, of each workflow, in order. Workflows
    that are due while no engine drives the run are added when it is resumed."""


class SubmissionEnded(Event, frozen=True, tag="submission-ended"):
    """No more workflows will be added."""


class ClassHistory(msgspec.Struct, frozen=True, array_like=True):
    """The latest run times of one class of tasks at one site, from earlier runs."""

    owner: str
    application: str
    cores: int
    site: str
    runtimes_s: tuple[float, ...]
    """At most 50 run times, the oldest first. Until version 6 of the log, at most two."""
    ended_s: tuple[float, ...] = ()
    """End of each task, in seconds as ``at_s``, to order the run times of several classes. Empty
    until version 6 of the log."""
    requested_s: tuple[float | None, ...] = ()
    """Walltime of each task in seconds, as its document stated it; None: not stated. Empty if no
    document stated one."""
    input_bytes: tuple[float | None, ...] = ()
    """Total size of the inputs of each task in bytes; None: unknown. Empty if no size is known."""


class HistoryRead(Event, frozen=True, tag="history-read"):
    """Run times and usage of earlier runs, for predictions and fairness. The results of this run
    are added to the same file."""

    file: str
    classes: tuple[ClassHistory, ...]
    usage_s: dict[str, float]
    """CPU seconds by owner; empty if the usage of earlier runs does not count."""


class LinkHistory(msgspec.Struct, frozen=True, array_like=True):
    """The speed of a link, estimated from copies of earlier runs. Site ``origin`` is this
    machine."""

    source: str
    destination: str
    bandwidth_bytes_per_s: float | None
    """Bandwidth of the link; None: unknown."""
    latency_s: float | None
    """Latency of the link in seconds; None: unknown."""
    copies: int
    """Number of copies that the estimate is based on."""


class LinksRead(Event, frozen=True, tag="links-read"):
    """Speeds of links, estimated from copies of earlier runs. At the end of this run, estimates
    from its own copies are added to the same file."""

    file: str
    links: tuple[LinkHistory, ...]


class RunResumed(Event, frozen=True, tag="run-resumed"):
    """A new engine took over the run. Failed tasks may be retried."""

    lost: tuple[tuple[int, int, int], ...] = ()
    """(workflow, file, site) of each file that was written, but is missing or incomplete in the
    site's store: it was removed, or the site failed before the file was on disk."""
    additions: int = 0
    """Number of workflows that the user asked to add while no engine drove the run. A WorkflowAdded
    follows for each, and the run does not end before."""


class RunChanged(Event, frozen=True, tag="run-changed"):
    """The user changed options or sites of the run; RunResumed follows. All parts of the run are
    created anew and keep only what `Part.take_over` takes over."""

    settings: Settings
    sites: tuple[SiteSpec, ...]
    """The previous sites of the run in their order, with their new descriptions, followed by new
    sites."""
    links: tuple[LinkSpec, ...]
    left: tuple[int, ...] = ()
    """Sites that are no longer in the catalog. They get no more attempts. Attempts that run there
    may end, and files there are still read."""


class AttemptPlaced(Event, frozen=True, gc=False, omit_defaults=True, tag="attempt-placed"):
    """The core decided to run a task at a site. From here on the attempt is dispatched."""

    key: str
    workflow: int
    task: int
    site: int
    walltime_s: float | None = None
    """Walltime in seconds that the batch job requests, if it was learned from earlier tasks;
    otherwise None. Always None until version 6 of the log."""
    size: int = 0
    """Number of processors chosen for a moldable job; 0: the document states a single size. Always
    0 until version 7 of the log."""


class AttemptsSubmitted(Event, frozen=True, gc=False, tag="attempts-submitted"):
    """The site accepted attempts."""

    site: int
    keys: tuple[str, ...]


class AttemptStarted(Event, frozen=True, gc=False, omit_defaults=True, tag="attempt-started"):
    """An attempt started to run."""

    key: str
    launcher: str = ""
    """Key of the launcher that runs the attempt; empty if none does."""
    host: str = ""
    """The node that runs the attempt, as the batch system names it; empty if the batch system does
    not name it."""


class AttemptEnded(Event, frozen=True, gc=False, tag="attempt-ended"):
    """An attempt ended, with its exit record."""

    key: str
    outcome: Outcome


class RecordedEnd(AttemptEnded, frozen=True, gc=False, tag="attempt-ended"):
    """The end of an attempt that a site did not observe, but read from an exit record. Never in the
    log: the dispatcher compares the outputs with the store, and posts an AttemptEnded."""


class AttemptsFound(Event, frozen=True, tag="attempts-found"):
    """A site answered which attempts it has, after a crash. Each attempt that has ended is reported
    by an AttemptEnded."""

    site: int
    absent: tuple[str, ...]
    """Attempts that never started there and never will, so they can be submitted again."""
    active: tuple[str, ...]
    """Attempts that are queued or running there."""


class AttemptsWithdrawn(Event, frozen=True, tag="attempts-withdrawn"):
    """The core decided to withdraw attempts that have not started, since another site has room for
    them."""

    site: int
    keys: tuple[str, ...]


class AttemptsKilled(Event, frozen=True, tag="attempts-killed"):
    """The core decided to cancel attempts of optional tasks, running ones too, since mandatory
    tasks need their cores. The tasks are eligible again when the attempts have ended."""

    site: int
    keys: tuple[str, ...]


class JobsReallocated(Event, frozen=True, tag="jobs-reallocated"):
    """The core decided to move waiting jobs to the queues of other sites, or to submit them with
    another size. The attempt of each job is cancelled first. A job that has started by then stays
    where it is."""

    moves: tuple[tuple[str, int], ...]
    """For each move: (key of the job's attempt, destination)."""
    expected: tuple[tuple[float, float], ...] = ()
    """For each move: expected end of the job at its old place and at its new place, in seconds as
    ``at_s``, without the transfer of its files. Empty in logs before version 10."""


class LaunchersAsked(Event, frozen=True, tag="launchers-asked"):
    """The core decided to start launchers at the site."""

    site: int
    launchers: tuple[LauncherRequest, ...]


class LaunchersSubmitted(Event, frozen=True, tag="launchers-submitted"):
    """The site's queue accepted launchers."""

    site: int
    keys: tuple[str, ...]


class LauncherStarted(Event, frozen=True, tag="launcher-started"):
    """A launcher began to take tasks. Reported again after it has reconnected, and when one of the
    fields below has changed."""

    site: int
    key: str
    host: str
    """Name of the host of the launcher; with several nodes, of its first node."""
    slots: int
    """Number of cores of all nodes of the launcher that take tasks."""
    ends_s: float | None
    """Time when the walltime of the launcher ends; None if unknown."""
    channel: str
    """The kind of connection of the launcher: tcp, ssh or spool."""
    latency_s: float
    """Time in seconds from the end of a task in the launcher to the arrival of the engine's
    answer."""
    hosts: tuple[str, ...] = ()
    """The names of the hosts of all nodes of the launcher that take tasks, if it has several
    nodes."""


class LauncherDraining(Event, frozen=True, tag="launcher-draining"):
    """A launcher accepts no more tasks: its walltime is nearly over, or it cannot be reached."""

    site: int
    key: str
    reason: str


StopCause = Literal["unneeded", "local", "shared", "late"]
"""Why launchers are stopped. unneeded: no work waits for them. local: their processors go to
other users' jobs. shared: their processors go to another owner. late: they waited too long in
the queue."""


class LaunchersStopped(Event, frozen=True, tag="launchers-stopped"):
    """The core decided to stop launchers."""

    site: int
    keys: tuple[str, ...]
    cause: StopCause = "unneeded"
    now: bool = False
    """Whether the tasks in them are ended, with the cause ``reclaimed``."""


class LauncherEnded(Event, frozen=True, tag="launcher-ended"):
    """The batch job of a launcher ended or was never submitted. The end of each attempt in it is
    reported by an AttemptEnded."""

    site: int
    key: str
    cause: Cause
    """``done`` if the launcher ended by itself or was stopped."""
    message: str | None = None


class ProcessorsShared(Event, frozen=True, tag="processors-shared"):
    """The core decided how many launchers each owner is to hold at each site, on processors that no
    other user's job needs."""

    owners: tuple[int, ...]
    """Numbers of the owners who share, in the order of their first documents."""
    idle: tuple[int, ...]
    """By site: maximum number of launchers of all owners, on idle processors and on those that the
    owners hold already."""
    held: tuple[tuple[int, ...], ...]
    """By owner and site: number of launchers that the owner is to hold."""
    lost: tuple[tuple[int, ...], ...]
    """By owner and site: number of launchers that were reclaimed from the owner. When processors
    become idle there, owners with the most reclaimed launchers get them first."""


class PlacementTried(Event, frozen=True, tag="placement-tried"):
    """The core tried to place the jobs of the placement queue on the idle processors of the
    sites."""

    idle: tuple[int, ...]
    """Number of idle processors of each site."""
    failed: int
    """Number of jobs at the head of the queue that could not be placed. The next job, if any, was
    placed; the jobs behind it were not tried."""


class ClaimPart(msgspec.Struct, frozen=True):
    """A component of a claim."""

    site: int
    launcher: LauncherRequest
    """The request of the placeholder that holds the processors of the component."""


class ClaimsAsked(Event, frozen=True, tag="claims-asked"):
    """The core decided to claim processors for a job: to start a placeholder for each component."""

    key: str
    """Key of the claim. The keys of its placeholders begin with it."""
    workflow: int
    task: int
    parts: tuple[ClaimPart, ...]


ClaimEndCause = Literal[
    "done",  # the attempt that it was for has ended
    "late",  # not all placeholders were ready in time
    "broken",  # a placeholder ended
    "cancelled",  # the job is not to run any more, or a site of the claim gets no work now
]


class ClaimEnded(Event, frozen=True, tag="claim-ended"):
    """The core decided to give all processors of a claim back."""

    key: str
    cause: ClaimEndCause
    message: str = ""


class GrowthAsked(Event, frozen=True, tag="growth-asked"):
    """The core decided to claim further processors for a running malleable job: to start a
    placeholder for each node, or for each processor."""

    claim: str
    """Key of the job's claim."""
    launchers: tuple[LauncherRequest, ...]


class GrowthOffered(Event, frozen=True, tag="growth-offered"):
    """The core decided to offer the processors of ready placeholders to the program of a malleable
    job."""

    claim: str
    number: int
    """Number of the question to the program, counted from 1 for each attempt."""
    launchers: tuple[str, ...]
    """Keys of the placeholders that hold the processors."""


ShrinkCause = Literal[
    "local",  # other users' jobs wait at the site
    "waiting",  # for a job of the run that waits
]


class ShrinkAsked(Event, frozen=True, tag="shrink-asked"):
    """The core decided to reclaim processors of a malleable job."""

    claim: str
    number: int
    """Number of the question to the program, as in `GrowthOffered`."""
    processors: int
    cause: ShrinkCause


class JobResized(Event, frozen=True, omit_defaults=True, tag="job-resized"):
    """The program of a malleable job connected to its launcher, or answered a question. States the
    processors that it has. Repeated after a lost connection."""

    key: str
    """Key of the attempt."""
    number: int
    """Number of the latest question that the program has answered; 0: none was asked."""
    launchers: tuple[str, ...] = ()
    """Keys of the placeholders whose processors the program has in addition to its initial ones."""
    is_gone: bool = False
    """Whether the program has left its launcher: it is ending, or keeps its size from now on."""
    failure: str = ""
    """How the program violated the protocol, for which its attempt is ended; empty: it did not."""


ReleaseCause = Literal[
    "declined",  # offered, and not taken
    "given-back",  # by the program
    "late",  # the placeholder was not ready in time
    "local",  # not offered yet, and other users' jobs wait
    "waiting",  # not offered yet, and a job of the run waits
    "unused",  # not offered yet, and the program takes no more
]


class GrowthReleased(Event, frozen=True, tag="growth-released"):
    """The core decided to give processors that a malleable job does not use back to its site."""

    claim: str
    launchers: tuple[str, ...]
    cause: ReleaseCause


class TransferEnded(Event, frozen=True, gc=False, tag="transfer-ended"):
    """A copy of a file is complete at its destination."""

    workflow: int
    file: int
    source: int
    destination: int
    size_bytes: int
    elapsed_s: float
    digest: Digest | None = None
    """Digest of the copy, equal to that of the source; None without the option ``checksums``."""
    method: str = ""
    """Name of the transfer method. Empty in simulations and in logs until version 5."""
    fallback: str = ""
    """Why a preferred transfer method is no longer used for this pair of sites. Stated once for
    each method; otherwise empty."""
    avoided: tuple[str, ...] = ()
    """Transfer methods that were given up for this file because its copy was late."""
    sent_bytes: int | None = None
    """Bytes sent, if the transfer completed a partial earlier copy. None if the whole file was
    sent."""


class CopyRouted(Event, frozen=True, gc=False, tag="copy-routed"):
    """A transfer method started to copy a large file that another method could carry, too."""

    workflow: int
    file: int
    source: int
    destination: int
    method: str
    other: str
    """The transfer method to try if the copy is late."""


class TransferFailed(Event, frozen=True, tag="transfer-failed"):
    """A copy of a file failed."""

    workflow: int
    file: int
    source: int
    destination: int
    message: str
    transient: bool
    """Whether a retry may succeed, as far as the transfer method knows. Decisive for causes such as
    ``unknown`` or ``connection``; for others, such as ``absent``, the cause decides."""
    cause: CopyCause = "unknown"
    end: Literal["source", "destination", ""] = ""
    """The end that failed, if that is known."""
    avoided: tuple[str, ...] = ()
    """Transfer methods that were given up for this file because its copy was late."""


class BackgroundJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another user's job in the queue of a site, as the site's information service shows it."""

    id: str
    cores: int
    started_s: float | None = None
    """Time when the job started; None while it is queued."""
    runtime_s: float | None = None
    """Run time in seconds; None if the service does not know it."""
    owner: str = ""
    """A label that jobs of the same user share; empty if the service does not name users."""
    application: str = ""
    """A label that jobs of the same name share."""
    requested_s: float | None = None
    """Run time in seconds after which the job is killed; None: unlimited or unknown. Always None
    until version 8 of the log."""
    planned_s: float | None = None
    """Start that the queue plans, in seconds as ``at_s``; None: the job runs, or the queue shows no
    plan."""


class EndedJob(msgspec.Struct, frozen=True, gc=False):
    """Another user's job that has ended, as the site's information service shows it."""

    cores: int
    runtime_s: float
    """Run time in seconds."""
    owner: str = ""
    application: str = ""


class SiteObserved(Event, frozen=True, tag="site-observed"):
    """Other users' jobs at a site, running ones first, then the queue in order. Observed for
    policies that use the run time of each job."""

    site: int
    background: tuple[BackgroundJob, ...]
    ended: tuple[EndedJob, ...] = ()
    """Jobs that ended before the first observation, in the order of their ends, from the history of
    the service. Later ends are inferred: a job that is missing in the next observation has
    ended."""
    planned: tuple[tuple[str, float], ...] = ()
    """Starts of our waiting attempts as the queue plans them: (key, seconds as ``at_s``)."""


class SiteLoadObserved(Event, frozen=True, tag="site-load-observed"):
    """The load of other users' jobs at a site. Observed instead of the jobs for policies that need
    only these two numbers, since the log grows with every observation."""

    site: int
    running_cores: int
    """Cores held by other users' running jobs."""
    queued_cores: int
    """Cores requested by other users' queued jobs."""


class CoresReserved(Event, frozen=True, tag="cores-reserved"):
    """The core reserved cores at a site for an eligible task that no site has room for now.
    Otherwise narrower tasks could take the free cores forever."""

    workflow: int
    task: int
    site: int


class ReservationDeclined(Event, frozen=True, tag="reservation-declined"):
    """The core gave up a reservation, because the placement policy leaves the tasks of the workflow
    unplaced."""

    workflow: int
    task: int
    site: int


class SitesDeclined(Event, frozen=True, tag="sites-declined"):
    """The core decided to request no launchers at some sites for a workflow for some time, because
    its placement policy left a task unplaced that these sites had room for."""

    workflow: int
    sites: tuple[int, ...]


class CopyLate(Event, frozen=True, tag="copy-late"):
    """The core decided to give up a copy that takes much longer than expected, and to copy the file
    from another place, or by another method, if an attempt still waits for it."""

    workflow: int
    file: int
    source: int
    destination: int
    elapsed_s: float
    """Time since the copy started."""
    method: str = ""
    """The transfer method to give up for this file; empty: the file is copied from another place
    instead."""
    other: str = ""
    """The transfer method to try instead; empty if ``method`` is empty."""


class StorageAwaited(Event, frozen=True, gc=False, tag="storage-awaited"):
    """The core decided that an eligible task waits for room in the storage of some sites."""

    workflow: int
    task: int
    sites: tuple[int, ...]


class AvoidanceEnded(Event, frozen=True, tag="avoidance-ended"):
    """The core decided that tasks may return to sites where they have failed. No attempt or copy is
    under way, and no other site will run these tasks."""

    tasks: tuple[tuple[int, int], ...]
    """(workflow, task) of each task."""


class SitePaused(Event, frozen=True, tag="site-paused"):
    """The site reported that it accepts no work for now."""

    site: int
    reason: str


class SiteReopened(Event, frozen=True, tag="site-reopened"):
    """The site reported that it accepts work again."""

    site: int


class LoginNeeded(Event, frozen=True, tag="login-needed"):
    """The connection to a site waits for its user: to log in, to accept a changed host key, or to
    solve another problem that retries cannot solve."""

    site: int
    reason: str
    """What the user has to do."""


class LoginDone(Event, frozen=True, tag="login-done"):
    """The connection to a site no longer waits for its user."""

    site: int


class JobLimitReached(Event, frozen=True, tag="job-limit-reached"):
    """No further job of ours fits into the queue of the site for now: the limit of the batch system
    or the ``max_jobs`` of the catalog is reached. Further attempts wait for room."""

    site: int
    jobs: int
    """Maximum number of our jobs in the queue. While it is unknown, the number of our jobs
    there."""


class JobLimitLifted(Event, frozen=True, tag="job-limit-lifted"):
    """No attempt waits for room in the queue of the site any more."""

    site: int


class JobsWait(Event, frozen=True, tag="jobs-wait"):
    """The reason that the batch system of a site states for our waiting jobs. Reported when it
    changes."""

    site: int
    reason: str
    """Reason in the words of the batch system; if jobs are held, the reason for these. Empty: none
    is stated, or no job waits."""
    held: int = 0
    """Number of our jobs that do not start until somebody acts: they are held, or their queue is
    stopped."""


class SiteCounted(Event, frozen=True, tag="site-counted"):
    """Work on a cluster's head node since the last SiteCounted, or since the engine started."""

    site: int
    connections: int
    commands: dict[str, int]
    """Number of commands by program name."""
    cpu_s: float
    """CPU seconds of our agent there and of the commands that it ran."""


class FilesDiscarded(Event, frozen=True, gc=False, tag="files-discarded"):
    """The core decided to remove files from a site, because nothing needs them there any more. From
    now on they count as absent."""

    site: int
    files: tuple[tuple[int, int], ...]
    """(workflow, file) of each file."""


class FilesLost(Event, frozen=True, tag="files-lost"):
    """Files vanished at a site: an attempt did not find them, and the site says that they are
    absent."""

    site: int
    files: tuple[tuple[int, int], ...]
    """(workflow, file) of each file."""


class FilesRemoved(Event, frozen=True, tag="files-removed"):
    """The run is done, and its files were removed from a site."""

    site: int


class NotificationEnded(Event, frozen=True, omit_defaults=True, tag="notification-ended"):
    """A notification of the user was carried out, or failed."""

    on: str
    """The occurrence that the notification reports, by its name in the option ``on``."""
    site: int | None = None
    """The site concerned; None: the whole run."""
    error: str = ""
    """Why the notification failed; empty: it succeeded."""


class TimerFired(Event, frozen=True, tag="timer-fired"):
    """A timer of the core became due."""

    timer: str


class CancelAsked(Event, frozen=True, tag="cancel-asked"):
    """The user cancelled the run. ``drain``: dispatch nothing more and let running tasks end.
    ``kill``: also cancel running tasks."""

    mode: Literal["drain", "kill"]


class SiteHeld(Event, frozen=True, tag="site-held"):
    """The user paused a site. It gets no attempts until SiteFreed, even after a resume. Attempts
    that run there continue; attempts that wait there are withdrawn."""

    site: int


class SiteFreed(Event, frozen=True, tag="site-freed"):
    """The user ended the pause of a site, which may get attempts again."""

    site: int


class PriorityRaised(Event, frozen=True, tag="priority-raised"):
    """The user raised the priority of a workflow or of a task. A raised workflow goes before all
    others from now on. A raised task, and all tasks that it depends on, go before the other tasks
    of its workflow."""

    workflow: int
    task: int | None = None
    """The raised task; None: the whole workflow."""


class TaskCancelled(Event, frozen=True, tag="task-cancelled"):
    """The user cancelled a task. It counts as failed, and the tasks that depend on it as
    blocked."""

    workflow: int
    task: int


class RunEnded(Event, frozen=True, tag="run-ended"):
    """The core decided that the run is over."""

    outcome: Literal["done", "failed", "cancelled"]
    reason: str | None = None
    """Why a run failed, if the cause is not a task."""


AnyEvent = (
    RunStarted
    | WorkflowAdded
    | ArrivalsPlanned
    | SubmissionEnded
    | HistoryRead
    | LinksRead
    | RunResumed
    | RunChanged
    | AttemptPlaced
    | AttemptsSubmitted
    | AttemptStarted
    | AttemptEnded
    | AttemptsFound
    | AttemptsWithdrawn
    | AttemptsKilled
    | JobsReallocated
    | LaunchersAsked
    | LaunchersSubmitted
    | LauncherStarted
    | LauncherDraining
    | LaunchersStopped
    | LauncherEnded
    | ProcessorsShared
    | PlacementTried
    | ClaimsAsked
    | ClaimEnded
    | GrowthAsked
    | GrowthOffered
    | ShrinkAsked
    | JobResized
    | GrowthReleased
    | TransferEnded
    | TransferFailed
    | CopyRouted
    | SiteObserved
    | SiteLoadObserved
    | CoresReserved
    | ReservationDeclined
    | SitesDeclined
    | StorageAwaited
    | AvoidanceEnded
    | CopyLate
    | SitePaused
    | SiteReopened
    | LoginNeeded
    | LoginDone
    | JobLimitReached
    | JobLimitLifted
    | JobsWait
    | SiteCounted
    | FilesDiscarded
    | FilesLost
    | FilesRemoved
    | NotificationEnded
    | TimerFired
    | CancelAsked
    | SiteHeld
    | SiteFreed
    | PriorityRaised
    | TaskCancelled
    | RunEnded
)

DECISIONS = (
    AttemptPlaced, AttemptsWithdrawn, AttemptsKilled, JobsReallocated, CoresReserved,
    LaunchersAsked, LaunchersStopped, RunEnded, ReservationDeclined, SitesDeclined, StorageAwaited,
    FilesDiscarded, CopyLate, AvoidanceEnded, PlacementTried, ClaimsAsked, ClaimEnded,
    GrowthAsked, GrowthOffered, ShrinkAsked, GrowthReleased, ProcessorsShared,
)  # fmt: skip
"""Events that are decisions of the core. In the log each follows the fact that caused it."""
