"""The interfaces of the core: to policies inside it, to sites and transfers outside.

``wfrun.testing`` has the conformance suite that every implementation passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar, Literal, Protocol

from wfrun.engine.events import Event
from wfrun.engine.exchange import (
    ANYTHING,
    AttemptRequest,
    ClaimedNode,
    Content,
    Found,
    LauncherRequest,
    Receipt,
)
from wfrun.engine.fitting.information import Information
from wfrun.engine.jobs.open_sums import Weight
from wfrun.engine.model import SiteSpec
from wfrun.engine.prediction.job import Prediction


class View(Protocol):
    """What a placement policy sees of one workflow and of the sites: read-only, always current.

    Sites, tasks and files are indices; times are in seconds, sizes in bytes. The methods of the
    first group are for every policy. The others raise InvalidError unless the policy declares the
    information in brackets (`Information`). ``wfrun.testing.FakeView`` is a view for tests of
    policies.
    """

    # For every policy

    @property
    def task_count(self) -> int:
        """Number of tasks of the workflow."""

    @property
    def site_count(self) -> int:
        """Number of sites of the run."""

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        """Per task, its predecessors."""

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        """Per task, its successors."""

    def inputs(self, task: int) -> tuple[int, ...]:
        """The files that a task reads."""

    def producer(self, file: int) -> int | None:
        """The task that writes a file; None for an initial input."""

    def candidates(self, task: int) -> tuple[int, ...]:
        """The sites that may get this task now, in catalog order: healthy, large enough and with
        room for it. A site where the task has failed is left out as long as there are others."""

    def lacks_room(self, task: int, site: int) -> bool:
        """For a site that is no candidate for this task: whether only a lack of room is the
        reason."""

    def cores(self, task: int) -> int:
        """Number of cores that a task requests."""

    def fits_all(self, site: int) -> bool:
        """Whether every task of the workflow could run there."""

    def slots(self, site: int) -> int:
        """Number of cores of a site, at least 1."""

    def last_site(self) -> int:
        """The site of the last placement in the run, of whichever workflow; -1 before the first."""

    def random(self) -> Random:
        """A new generator, seeded from the run's seed and the number of the workflow."""

    # To be declared

    def idle(self, site: int) -> int:
        """Number of free cores: cores that no job of any user holds. At a site with launchers only
        the cores of live launchers count. 0 if more is dispatched than fits. Also 0 at a site whose
        queue is strictly first come, first served while jobs of other users wait there: a task
        would wait behind them [status]."""

    def load(self, site: int) -> float:
        """Cores requested by all running and queued jobs of all users, relative to the size of the
        site (thesis section 6.1.3, Single Cluster) [status]."""

    def speed_ratio(self, site: int) -> float:
        """Speed relative to the reference processor [processing_speed=K]."""

    def performance(self, site: int) -> float | None:
        """Recent speed relative to the reference processor, from observed run times; None until a
        task has ended there [processing_speed=H]."""

    def runtime_s(self, task: int) -> float:
        """Run time on the reference processor. Without one in the document: the mean of tasks with
        the same name, else of all tasks, else 1 [task_runtime=K]."""

    def runtimes_s(self) -> Sequence[float]:
        """``runtime_s`` of all tasks [task_runtime=K]."""

    def predict_s(self, task: int, site: int) -> float:
        """Expected run time at the site: the documented one, or a prediction from tasks of the same
        class [task_runtime]."""

    def predict(self, task: int, site: int) -> Prediction | None:
        """``predict_s`` with an interval, the method, and the number of run times that it was made
        from. None if the run time is unknown; ``predict_s`` then assumes one hour on the reference
        processor [task_runtime]."""

    def size_bytes(self, file: int) -> int:
        """Size of a file; 0 if unknown. With file_size=R it is known once the file has been
        written, with K from the beginning [file_size]."""

    def transfer_s(self, task: int, site: int) -> float:
        """Time to transfer all inputs that are not at the site, one after another, each over the
        fastest link (the serial worst case of thesis section 6.2.1) [link_speed, file_size]."""

    def reference_seconds_per_byte(self) -> float:
        """Mean transfer time per byte over all pairs of sites [link_speed]."""

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the queue of the site would start the task if it were submitted
        now, from the expected run times of all jobs there; infinite if it never fits. With a
        backfilling LRM: the earliest hole in the plan that is long enough for ``staging_s`` and the
        task [status, task_runtime]."""

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the task would end there: ``estimate_start_s``, ``staging_s`` and
        its run time at the speed of the site (thesis section 6.1.3, policy 7) [status,
        task_runtime, processing_speed=K]."""

    def open_tasks(self, site: int) -> int:
        """Number of attempts of the run that are dispatched to a site and have not ended
        [status]."""

    def open_time_s(self, site: int) -> float:
        """Sum of the expected run times of the open tasks of the run at a site [status,
        task_runtime]."""

    def open_work_s(self, site: int) -> float:
        """Sum over the open tasks of the run at a site of cores multiplied by expected run time, in
        core-seconds [status, task_runtime]."""

    def mean_wait(self, site: int, weight: Weight = "one") -> float:
        """Mean over the open tasks of the run at a site of the product of wait and ``weight``; 0
        without open tasks. The wait of a task lasts from its submission to its start, or to its
        planned start if it has not started. Unit: seconds times the unit of the weight [status,
        task_runtime, processing_speed]."""

    def last_end_s(self, site: int) -> float:
        """Seconds from now until all jobs at a site are expected to have ended, other users' jobs
        included; 0 without jobs [status, task_runtime, processing_speed]."""

    def weighted_completion(self, site: int) -> float:
        """Sum over the run's open tasks at a site: the expected end, in seconds from the start of
        the run, multiplied by the work (cores times run time) [status, task_runtime,
        processing_speed]."""

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        """The site of ``sites`` with the smallest ``estimate_completion_s`` of the task; of equal
        sites, the first [status, task_runtime, processing_speed=K]."""

    def earliest_staged_completion(self, task: int, sites: Sequence[int]) -> int:
        """The site of ``sites`` with the smallest ``estimate_completion_s`` of the task if its
        ``staging_s`` is the task's ``transfer_s`` to the site; of equal sites, the first [status,
        task_runtime, processing_speed=K, link_speed, file_size]."""


class Placement(Protocol):
    """Decides which site gets an eligible task. One object serves one workflow of one run, as in
    the decentralized brokers of thesis section 6.1.2.

    Its View is always current: a decision concerns one task, and the next decision sees its effect.
    A policy has no clock, no I/O, and no randomness except ``View.random``. In equal states it
    gives equal answers.
    """

    name: ClassVar[str]
    information: ClassVar[Information]
    summary: ClassVar[str]
    """Description of the policy in ``wfrun policies``."""
    options: ClassVar[Mapping[str, int | float | str]]
    """Names and default values of the policy's options."""
    binds_late: ClassVar[bool]
    """Whether the policy assigns tasks to free processors, not to queues. Sites are then candidates
    only while they have enough free processors for the task."""
    replans: ClassVar[bool]
    """Whether the engine keeps a task while the site that the policy prefers is busy. Such a task
    is planned again at each decision, with any throttle."""
    completes_earliest: ClassVar[bool]
    """Whether the policy places each task at the site where the task completes first. Its answer
    for a task then stays the same while only other sites get more work, so the engine keeps its
    answers."""
    replicas: ClassVar[int]
    """Maximum number of replicas of a task, unless the user sets it; 0: no replication."""
    throttle: ClassVar[Literal["auto", "none"]]
    """Default throttle; the user may set another one. A policy with an ``order`` of its own needs
    ``auto`` unless it binds late: the queues of sites are first come, first served, and would not
    keep its order."""

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        """``options`` has a value for every name in the class attribute ``options``, of the type of
        its default."""

    def order(self) -> Sequence[float] | None:
        """A key for every task of the workflow; eligible tasks are placed in ascending order of
        their keys. Called once. None: by priority, then in the order in which they became
        eligible."""

    def place(self, task: int) -> int | None:
        """Return one of ``view.candidates(task)``, or None to leave the task and those behind it in
        the workflow unplaced.

        After None the policy is asked again when a further site has room for the task, and after
        later events: after every event while few workflows wait in this way, otherwise in turn.
        """

    def placed(self, task: int, site: int) -> None:
        """Called after every placement, including those replayed after a crash."""


class Selection(Protocol):
    """Decides whose eligible tasks are considered next. One object serves one resource manager of
    one run (thesis section 5.1.3).

    The *eligible set* of the thesis contains the tasks that were selected and are not dispatched
    yet. It is renewed when none of its tasks can be dispatched although a site has room.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, queue: Queue) -> None:
        """``queue`` is always current."""

    def select(self) -> Iterable[tuple[int, int | None]]:
        """Return bags of ``queue``, each with the number of its tasks to consider (None: all). At
        least one bag if any bag waits."""

    def arrived(self, bag: int) -> bool:
        """Whether the tasks of a bag that starts to wait join the eligible set immediately."""


class Bags(Protocol):
    """A set of bag numbers. Bags are numbered in the order of arrival."""

    def first(self) -> int:
        """The bag that arrived first. The set must not be empty."""

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...


class Queue(Protocol):
    """What a selection policy sees of the bags that wait at a resource manager: those with eligible
    tasks outside the eligible set."""

    @property
    def waiting(self) -> Bags:
        """All waiting bags."""

    @property
    def owners(self) -> Mapping[str, Bags]:
        """The waiting bags by owner; owners without waiting bags are absent."""

    def next_owner(self) -> str:
        """The owner with waiting bags that follows, in round-robin order, the owner of the last
        placed task. Owners are in the order of their first bags."""

    def priority(self, owner: str) -> int:
        """The highest priority of the waiting bags of an owner; larger goes first."""

    def usage_s(self, owner: str) -> float:
        """CPU seconds of the tasks of an owner, running ones up to now."""

    def expected_s(self, owner: str) -> float:
        """CPU seconds that the tasks of an owner will have used when the dispatched tasks of the
        owner's waiting bags have ended, estimated from the mean of ended tasks; at least
        `usage_s`."""

    def dispatched(self, owner: str) -> int:
        """Number of dispatched tasks of the waiting bags of an owner."""

    def mandatory(self, bag: int) -> int:
        """Number of mandatory tasks among the eligible tasks of a bag; all of them if the bag has
        no optional tasks."""

    def draw(self, owners: Sequence[str]) -> str:
        """One of ``owners``, drawn at random. The choice depends only on the run's seed and id, the
        time, and the owner of the last placed task."""


class Site(Protocol):
    """A cluster that runs attempts. One object per site and run."""

    spec: SiteSpec

    async def open(self, post: Callable[[Event], None]) -> None:
        """Connect and prepare the site. From now on events are passed to ``post``.

        Raises InfeasibleError, which says why, if the site cannot be used.
        """

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        """Queue attempts. They start in the order of ``batch`` as resources become free (FCFS),
        unless a batch system decides the order.

        Returns when they are on their way. AttemptStarted and AttemptEnded follow for each. An
        attempt whose key was ever started, by any engine, is not started again; its end is posted
        instead.
        """

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        """Cancel attempts; with ``queued_only`` only those that have not started. AttemptEnded
        (``cancelled``) follows for each attempt that this ends; unknown keys are ignored."""

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """The state of attempts of this or an earlier connection. The answer has every key."""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """The stdout and stderr of an attempt so far; empty if there is none."""

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        """Names of the given files and directories that are missing in the store of the site, or
        whose contents differ from the given ones. Raises TransientError if the site cannot be asked
        now."""

    async def remove(self, names: Sequence[str]) -> None:
        """Remove files and directories from the store of the site; absent ones are ignored. Raises
        TransientError if the site cannot be asked now."""

    async def clean(self) -> None:
        """Remove the files of the run from the site; logs stay."""

    async def close(self) -> None:
        """Disconnect. Running attempts continue, and the next connection finds them."""


class LauncherSite(Site, Protocol):
    """A site whose attempts are run by launchers. It accepts attempts at any time, and keeps those
    that no launcher has room for.

    LauncherStarted, LauncherDraining and LauncherEnded report the states of launchers;
    AttemptStarted names the launcher that runs an attempt. An attempt that is cut off by the end of
    its launcher's walltime ends with the cause ``expired``. An attempt whose launcher died ends
    with the cause ``lost`` as soon as it is certain that the attempt ended without an exit record.
    """

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        """Submit launchers to the queue. LaunchersSubmitted or LauncherEnded follows. A launcher
        whose key was ever submitted, by any engine, is not submitted again."""

    async def stop_launchers(self, keys: Sequence[str], *, now: bool = False) -> None:
        """Cancel queued launchers, and end live launchers after their running attempts; attempts
        that have not started go to other launchers. With ``now``, running attempts are ended, too,
        with the cause ``reclaimed``. LauncherEnded follows."""

    async def resize(
        self, key: str, launcher: str, number: int, nodes: Sequence[ClaimedNode], shrink: int
    ) -> None:
        """Offer nodes to the program of an attempt in this launcher, or reclaim processors.
        JobResized follows, unless the attempt ends."""

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """The state of launchers of an earlier connection. From now on the site reports the active
        ones by events."""

    async def dismiss(self) -> None:
        """End all launchers, since the run is over. Does not wait for them."""


OnRoute = Callable[[str, str], None]
"""Callback with two arguments: the transfer method that copies a file, and the method to try if the
copy is late."""


class Transfer(Protocol):
    """Copies files between sites. Sites are indices; ORIGIN is the machine that wfrun runs on."""

    async def copy(
        self,
        source: int,
        source_path: str,
        destination: int,
        destination_path: str,
        expected: Content = ANYTHING,
        avoid: Sequence[str] = (),
        on_route: OnRoute | None = None,
    ) -> Receipt:
        """Copy one file. ``source_path`` and ``destination_path`` are names in the file stores of
        the sites, or absolute paths at ORIGIN. ``expected``: the contents that the file must have.

        Methods in ``avoid`` are used only if no other method carries the file. ``on_route`` is
        called when a method starts to copy a large file that another method could carry, too.

        On return the whole file exists under its final name. Raises TransientError if a retry may
        succeed or the contents differ from ``expected``, and InfeasibleError if a retry is
        pointless (the source is absent, the destination is full).
        """
