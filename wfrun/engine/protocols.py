"""The seams of the core: policies inside it, sites and transfers around it.

``wfrun.testing`` holds the conformance suite that every implementation passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import ClassVar, Protocol

from wfrun.engine.events import Event
from wfrun.engine.exchange import AttemptRequest, Found, LauncherRequest, Receipt
from wfrun.engine.information import Information
from wfrun.engine.model import SiteSpec


class View(Protocol):
    """What a placement policy sees of one workflow and of the sites: read-only, always the present.

    Sites, tasks and files are indices; times are seconds, sizes bytes. The methods of the first
    group are for every policy. The others raise InvalidError unless the policy has declared the
    information that is named in brackets (`Information`). ``wfrun.testing.FakeView`` is a view to
    test policies with.
    """

    # For every policy

    @property
    def task_count(self) -> int: ...

    @property
    def site_count(self) -> int: ...

    @property
    def parents(self) -> Sequence[tuple[int, ...]]:
        """Per task, the tasks that have to be done before it."""

    @property
    def children(self) -> Sequence[tuple[int, ...]]:
        """Per task, the tasks that wait for it."""

    def inputs(self, task: int) -> tuple[int, ...]:
        """The files that a task reads."""

    def producer(self, file: int) -> int | None:
        """The task that writes a file; None: an initial input."""

    def candidates(self, task: int) -> tuple[int, ...]:
        """The sites that may get this task now, in catalog order: open, large enough, with room for
        it, and not one where it has failed while there is another."""

    def lacks_room(self, task: int, site: int) -> bool:
        """Whether nothing but a lack of room keeps a site from being a candidate for this task."""

    def cores(self, task: int) -> int:
        """Cores that a task asks for."""

    def fits_all(self, site: int) -> bool:
        """Whether every task of the workflow could run there."""

    def last_site(self) -> int:
        """The site that got the last task that was placed in the run, whosever it is; -1: none
        was placed."""

    def random(self) -> Random:
        """A new generator, seeded from the run's seed and the workflow's number."""

    # To be declared

    def idle(self, site: int) -> int:
        """Cores that no job of ours or of others holds, of launchers those that are live; 0 where
        more is dispatched than fits [status]."""

    def load(self, site: int) -> float:
        """Cores asked for by all jobs running or queued there, ours and others', over the site's
        size (thesis section 6.1.3, Single Cluster) [status]."""

    def speed_ratio(self, site: int) -> float:
        """Speed relative to the reference processor [processing_speed=K]."""

    def performance(self, site: int) -> float | None:
        """Recent speed relative to the reference processor, from observed run times; None until a
        task has ended there [processing_speed=H]."""

    def runtime_s(self, task: int) -> float:
        """Run time on the reference processor. Where the document gives none: the mean of the known
        ones of the same kind of task, else of all, else 1 [task_runtime=K]."""

    def runtimes_s(self) -> Sequence[float]:
        """``runtime_s`` of all tasks [task_runtime=K]."""

    def predict_s(self, task: int, site: int) -> float:
        """Expected run time at the site: the documented one, or the prediction by the class of the
        task [task_runtime]."""

    def size_bytes(self, file: int) -> int:
        """Size of a file. Obtained at run time (R) it is known once the file is written, a priori
        (K) before that too. 0 where it is unknown [file_size]."""

    def transfer_s(self, task: int, site: int) -> float:
        """Time to bring all inputs that are not at the site there, one after another, each over
        the fastest link (the serial worst case of thesis section 6.2.1) [link_speed, file_size]."""

    def reference_seconds_per_byte(self) -> float:
        """The mean over all pairs of sites [link_speed]."""

    def estimate_start_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the site's queue would start the task if it joined it now, by the
        expected run times of all jobs there; infinite where it never fits. Where the site's LRM
        backfills, that is the earliest hole in its plan that is long enough for the task and for
        ``staging_s`` before it runs [status, task_runtime]."""

    def estimate_completion_s(self, site: int, task: int, staging_s: float = 0.0) -> float:
        """Seconds from now until the task would have run there: ``estimate_start_s``, ``staging_s``
        and its run time at the site's speed (thesis section 6.1.3, policy 7) [status, task_runtime,
        processing_speed=K]."""

    def earliest_completion(self, task: int, sites: Sequence[int]) -> int:
        """Of these sites the first one with the smallest ``estimate_completion_s`` of the task [as
        there]."""


class Placement(Protocol):
    """Decides which site gets an eligible task. One object serves one workflow of one run, as in
    the decentralized brokers of thesis section 6.1.2.

    It is made from a View that stays the same object and always shows the present: a decision is
    one task, and the next decision sees its effect. It has no clock, no I/O, and no randomness
    but the generator that it is given. The same questions get the same answers.
    """

    name: ClassVar[str]
    information: ClassVar[Information]
    summary: ClassVar[str]
    """One line for ``wfrun policies``."""
    options: ClassVar[Mapping[str, int | float | str]]
    """Names and defaults of its options."""
    binds_late: ClassVar[bool]
    """It assigns tasks to processors that are free, not to queues: sites are candidates only while
    they have some."""
    replicas: ClassVar[int]
    """Most replicas of a task, where the user does not say; 0: it replicates none."""

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        """``options`` holds a value of the default's type for every name in ``options``."""

    def order(self) -> Sequence[float] | None:
        """A key for every task of the workflow, asked once; eligible tasks are placed in
        ascending order of it. None: by priority, then as they became eligible."""

    def place(self, task: int) -> int | None:
        """One of ``view.candidates(task)``; None: leave it, and what comes after it in this
        workflow, unplaced. It is asked again when a further site comes to have room for the task,
        and after later events: after each of them where few workflows wait so, else in turn."""

    def placed(self, task: int, site: int) -> None:
        """Called after every placement, also those that are replayed after a crash."""


class Selection(Protocol):
    """Decides whose eligible tasks are considered next. One object serves one resource manager of
    one run (thesis section 5.1.3).

    The *eligible set* of the thesis is what it has selected and what is not dispatched yet. It is
    renewed when nothing of it can be dispatched, though a site has room.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, queue: Queue) -> None:
        """``queue`` is always the present one."""

    def select(self) -> Iterable[tuple[int, int | None]]:
        """Bags of ``queue``, and how many of the tasks of each are considered; None: all.
        At least one, where one waits."""

    def arrived(self, bag: int) -> bool:
        """Whether the tasks of a bag that has begun to wait join the eligible set at once."""


class Bags(Protocol):
    """Bags by their numbers, which are in the order of their arrival."""

    def first(self) -> int:
        """The earliest; there is one."""

    def __iter__(self) -> Iterator[int]: ...

    def __len__(self) -> int: ...


class Queue(Protocol):
    """What a selection policy sees of the bags that wait at a resource manager: those with eligible
    tasks that are not in the eligible set."""

    @property
    def waiting(self) -> Bags:
        """All of them."""

    @property
    def owners(self) -> Mapping[str, Bags]:
        """The same by owner; those alone of whom a bag waits."""

    def next_owner(self) -> str:
        """In round-robin order, the first of these after the owner of the last task that was
        placed. Owners are in the order of their first bags."""

    def priority(self, owner: str) -> int:
        """The highest of an owner's bags that wait; larger goes first."""

    def usage_s(self, owner: str) -> float:
        """CPU seconds of an owner's tasks, those that run counted up to the present."""


class Site(Protocol):
    """A cluster that runs attempts. One object per site and run."""

    spec: SiteSpec

    async def open(self, post: Callable[[Event], None]) -> None:
        """Connect and make the site ready; events are given to ``post`` from now on.

        Raises InfeasibleError when the site can't be used, and says why.
        """

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        """Queue these attempts. They start in this order as resources become free (FCFS), unless
        the order is a batch system's to decide.

        Returns when they are on their way. AttemptStarted and AttemptEnded follow for each. An
        attempt whose key was started before, by whomever, is not started again: its end is
        posted instead.
        """

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        """End these attempts, or only those that have not started. AttemptEnded (``cancelled``)
        follows for each that this ended; unknown keys are passed over."""

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What became of attempts of this or an earlier connection. Every key is answered."""

    async def log(self, key: str) -> tuple[bytes, bytes]:
        """The attempt's stdout and stderr so far, empty where there is none."""

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        """Of these files of the site's store, with their sizes in bytes, those that are not there
        in that size."""

    async def clean(self) -> None:
        """Remove the run's files from the site; logs stay."""

    async def close(self) -> None:
        """Let go of the site. What runs goes on running, and is found by the next connection."""


class LauncherSite(Site, Protocol):
    """A site whose attempts are run by launchers. It takes attempts at any time, and keeps those
    that no launcher has room for.

    LauncherStarted and LauncherEnded tell of the launchers' lives, AttemptStarted of the launcher
    that runs an attempt. An attempt whose launcher's time was over ends with the cause
    ``expired``; one whose launcher died ends with ``lost``, once it is certain that it has ended
    and left no exit record.
    """

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        """Submit them to the queue. LaunchersSubmitted follows, or LauncherEnded. One whose key
        was submitted before, by whomever, is not submitted again."""

    async def stop_launchers(self, keys: Sequence[str]) -> None:
        """Cancel those that are queued, and let those that run end their running attempts, and
        then themselves; their other attempts are given to others. LauncherEnded follows."""

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What became of launchers of an earlier connection; of those that are active it is told
        from now on."""

    async def dismiss(self) -> None:
        """The run is over: all launchers end, and nobody waits for that."""


class Transfer(Protocol):
    """Copies files between sites (by index; ORIGIN is the submit host)."""

    async def copy(
        self, source: int, source_path: str, destination: int, destination_path: str
    ) -> Receipt:
        """Copy one file. ``source_path`` and ``destination_path`` are names in the sites' file
        stores, or absolute paths at ORIGIN.

        The whole file under its final name, or an error: TransientError, or InfeasibleError
        where trying again is no use (the source is absent, the destination is full).
        """
