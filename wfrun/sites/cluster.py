"""A cluster with a batch system, reached over one connection.

Each attempt is a batch job, or an element of an array. On its compute node it is carried out by
``wfrun/sites/job.py``, which claims it and leaves an exit record; nothing else tells that it
succeeded. The queue is asked, once an interval for all attempts, to see which have started and
which are gone from it. Of one that is gone without a record the batch system is asked how it
ended, and when the site's patience is over it is given up: its claim is taken, so that it can
never start, or, where it had started, its outputs are refused.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    BackgroundJob,
    Event,
    SiteObserved,
    SitePaused,
    SiteReopened,
)
from wfrun.engine.model import Access, SiteSpec
from wfrun.engine.records import AttemptRequest, Found, Outcome
from wfrun.parsers.access import DEFAULT_DIRECTORY
from wfrun.sites.batch.system import (
    BackPressureError,
    BatchJob,
    BatchSystem,
    Ending,
    Job,
    QueueUnknownError,
)
from wfrun.sites.batches import Batch, Batches, content, groups
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.directory import make_directory, put_programs
from wfrun.sites.remote.host import Facts, Host, NewFile
from wfrun.sites.tasks import end_tasks

_T = TypeVar("_T")
_LOGGER = logging.getLogger(__name__)

GATHER_S = 1.0
"""Attempts that come within this time are submitted together."""
COMMAND_S = 60.0
"""A batch system's command that takes longer is killed; what it did is then unknown."""
RETRY_DELAYS_S = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""After a failed submission, queue query or refusal for a limit."""
GIVE_UP_S = 600.0
"""A submission that keeps failing is tried for so long, then its attempts are given up here."""
FAILURES_TO_PAUSE = 3
BEGIN_S = 600.0
"""A job that the queue shows as running may take so long to begin: a node boots, a prolog runs."""
CANCEL_AGAIN_S = 30.0
"""Schedulers give a job some seconds between SIGTERM and SIGKILL."""
MARGIN_S = 60.0
"""A job asks for so much more walltime than its task: to start, to commit, to be killed by us
first."""
OBSERVE_S = 60.0
"""Other users' jobs are looked at so often, where the policy wants to know of them."""
UNSTARTED_S = 10.0
"""An attempt whose job has left the queue is given so long to have started."""
CLAIMED_BY_US = Outcome("cancelled", message="was cancelled before it started")
_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ})
_NEVER_STARTED = "its job left the queue without having started"
_PROGRAMS = ("python.sh", "job.sh", "job.py", "launcher.py")


class _Record(msgspec.Struct):
    key: str
    outcome: Outcome


class _Open:
    """An attempt whose end is to be posted."""

    __slots__ = (
        "cancelled_s",
        "doubtful_s",
        "gone_s",
        "missed",
        "record",
        "started",
        "submitted_at_s",
        "submitted_s",
    )

    def __init__(self) -> None:
        self.submitted_s: float | None = None
        """When the batch system took it; None: not yet."""
        self.submitted_at_s: float | None = None
        """Likewise, by the clock of events; None: an engine before this one submitted it."""
        self.started = False
        self.doubtful_s = 0.0
        """When a job that is shown as running ought to have begun; 0: it is not, or has."""
        self.cancelled_s: float | None = None
        """When its job was last told to end."""
        self.missed = 0
        """Answers in a row that showed the queue without it."""
        self.gone_s: float | None = None
        """Since when it is certain that it left the queue."""
        self.record: Outcome | None = None
        """An exit record that does not explain itself."""


class ClusterSite:
    """Implements ``Site``. ``index`` is the site's number in the run's events.

    A cluster that can't be reached is paused, and is set up when it can: work goes on elsewhere.
    ``observes``: tell of other users' jobs too (SiteObserved).
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        run_id: str,
        connection: Connection,
        system: BatchSystem,
        *,
        observes: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert spec.access is not None
        self.spec = spec
        self.connection = connection
        self._access: Access = spec.access
        self._index = index
        self._run_id = run_id
        self._system = system
        self._observes = observes
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._ready = asyncio.Event()
        self._directory = ""
        self._facts: Facts
        self._batches = Batches(run_id)
        self._open: dict[str, _Open] = {}
        self._ended: dict[str, Outcome] = {}
        self._pending: dict[str, AttemptRequest] = {}
        """Not yet handed to the batch system, in order."""
        self._submit_now = asyncio.Event()
        self._poll_now = asyncio.Event()
        self._last_submission_s = -GATHER_S
        self._last_submission_at_s = 0.0
        self._refusals = 0
        """Submissions in a row that were not taken for now."""
        self._bound: int | None = None
        """How many jobs of ours the queue is thought to hold at most; None: no limit was met."""
        self._interval_s = self._access.poll_min_s
        self._observed_s = float("-inf")
        self._others: tuple[BackgroundJob, ...] = ()
        self._refused: dict[str, str] = {}
        """Attempts whose jobs wait for what will never be, with the reason."""
        self._reasons: dict[str, str] = {}
        """Why the site is paused, by what paused it."""
        self._tasks: list[asyncio.Task[None]] = []

    # -- the protocol

    async def open(self, post: Callable[[Event], None]) -> None:
        """Connect and make the run's directory there. Raises InfeasibleError for what no waiting
        mends: an unknown host key, a directory that can't be made. A cluster that can't be
        reached now, or wants a login, is paused (SitePaused)."""
        self._post = post
        try:
            await self.connection.open(self._on_connection)
            await self._set_up()
        except TransientError as error:
            self._pause("connection", str(error))
        self._tasks = [
            asyncio.create_task(self._guarded(self._submit_loop())),
            asyncio.create_task(self._guarded(self._poll_loop())),
        ]

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        for request in batch:
            outcome = self._ended.get(request.key)
            if outcome is not None:
                self._post(AttemptEnded(self._clock(), request.key, outcome))
            elif request.key not in self._open:
                self._open[request.key] = _Open()
                self._pending[request.key] = request
        self._submit_now.set()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        for key in [key for key in keys if key in self._pending]:
            del self._pending[key]
            self._end(key, CLAIMED_BY_US)
        submitted = [key for key in keys if key in self._open]
        if not submitted:
            return
        # Who has the claim decides: what we claim never starts, whatever the queue does with it.
        taken = await self._claim(submitted)
        for key in taken:
            self._end(key, CLAIMED_BY_US)
        running = [key for key in submitted if key in self._open]
        if queued_only:
            running = []
        for key in running:
            self._open[key].cancelled_s = time.monotonic()
        await self._cancel_jobs([*taken, *running])
        self._interval_s = self._access.poll_min_s
        self._poll_now.set()

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found: dict[str, Found] = {}
        unknown = []
        if any(key not in self._open for key in keys):
            await self._ready.wait()  # then all records that there were have been told
        for key in keys:
            if key in self._ended:
                found[key] = Found("ended", self._ended[key])
            elif key in self._open:
                found[key] = Found("active")
            else:
                unknown.append(key)
        if unknown:
            found.update(await self._find_unknown(unknown))
        return found

    async def _find_unknown(self, keys: list[str]) -> dict[str, Found]:
        """Attempts that an engine before this one may have submitted."""
        queued = {self._batches.key_of(job): job for job in await self._queue()}
        paths = [f"{self._directory}/attempts/{key}.out" for key in keys]
        claims = await self._insist(lambda host: host.stat(paths))
        found = {}
        for key, claim in zip(keys, claims, strict=True):
            if key in self._ended:
                found[key] = Found("ended", self._ended[key])
            elif key in queued or claim is not None:
                entry = self._open[key] = _Open()
                entry.submitted_s = time.monotonic()
                found[key] = Found("active")
            else:
                found[key] = Found("absent")
        self._poll_now.set()
        return found

    async def log(self, key: str) -> tuple[bytes, bytes]:
        paths = [f"{self._directory}/attempts/{key}.{name}" for name in ("out", "err")]
        out, err = await self._insist(lambda host: host.read(paths, limit=1 << 30))
        return out or b"", err or b""

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        if not self._ready.is_set():
            return []  # nothing is known of a cluster that can't be reached
        names = list(files)
        stats = await self._insist(lambda host: host.stat([self.store_path(n) for n in names]))
        return [
            name
            for name, stat in zip(names, stats, strict=True)
            if stat is None or (stat.size_bytes != files[name] and not stat.is_directory)
        ]

    async def clean(self) -> None:
        """Remove stored files and sandboxes; logs and records stay."""
        attempts = f"{self._directory}/attempts"
        find = ("find", attempts, "-mindepth", "1", "-maxdepth", "1", "-type", "d")
        await self._insist(
            lambda host: host.run([*find, "-exec", "rm", "-rf", "{}", "+"], timeout_s=COMMAND_S)
        )
        await self._insist(lambda host: host.remove([f"{self._directory}/files"]))
        await self._insist(lambda host: host.make_directories([f"{self._directory}/files"]))

    async def close(self) -> None:
        """Let go of the cluster: what is queued or runs there goes on."""
        await end_tasks(self._tasks)
        await self.connection.close()

    def store_path(self, name: str) -> str:
        """Where the file of this name is in the site's store."""
        return f"{self._directory}/files/{name}"

    # -- the connection

    async def _set_up(self) -> None:
        """Once, on the first connection: the run's directory, what runs there, what was there."""
        host = await self.connection.host()
        self._facts = await host.facts()
        written = self.spec.directory or DEFAULT_DIRECTORY
        self._directory = await make_directory(host, self.spec.name, written, self._run_id)
        await put_programs(host, self._directory, _PROGRAMS)
        await self._load_batches(host)
        await self.connection.watch(f"{self._directory}/exits", self._on_records)
        self._ready.set()
        self._reopen("connection")

    async def _load_batches(self, host: Host) -> None:
        listing = await host.run(["ls", "-1", f"{self._directory}/batches"])
        names = [n.removesuffix(".jsonl") for n in _text(listing.output).split()
                 if n.endswith(".jsonl")]  # fmt: skip
        for start in range(0, len(names), 50):
            some = names[start : start + 50]
            paths = [f"{self._directory}/batches/{name}.jsonl" for name in some]
            for name, found in zip(some, await host.read(paths, limit=1 << 30), strict=True):
                self._batches.load(name, found or b"")

    def _on_connection(self, reason: str | None) -> None:
        """Why the cluster can't be used now; None: it can."""
        if reason is not None:
            self._pause("connection", reason)
        elif self._ready.is_set():
            self._reopen("connection")
        else:
            self._poll_now.set()  # it is set up first

    async def _insist(self, question: Callable[[Host], Awaitable[_T]]) -> _T:
        """Ask until there is an answer, whatever happens to the connection."""
        while True:
            try:
                host = await self.connection.host()
                if not self._ready.is_set():
                    await self._set_up()
                return await question(host)
            except TransientError as error:
                _LOGGER.info("site %s: %s", self.spec.name, error.message)
                await asyncio.sleep(RETRY_DELAYS_S[0])

    async def _insist_on_room(self, question: Callable[[Host], Awaitable[_T]]) -> _T:
        """Also when the disk is full, or has become read-only."""
        failures = 0
        while True:
            try:
                answer = await self._insist(question)
            except InfeasibleError as error:
                self._pause("storage", error.message)
                await asyncio.sleep(_delay_s(failures))
                failures += 1
            else:
                self._reopen("storage")
                return answer

    def _pause(self, what: str, reason: str) -> None:
        if not self._reasons:
            self._post(SitePaused(self._clock(), self._index, reason))
        self._reasons[what] = reason

    def _reopen(self, what: str) -> None:
        if self._reasons.pop(what, None) is not None and not self._reasons:
            self._post(SiteReopened(self._clock(), self._index))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            _LOGGER.exception("site %s", self.spec.name)
            self._pause("defect", f"internal error: {error!r}; wfrun resume may help")

    # -- submission

    async def _submit_loop(self) -> None:
        await self._ready.wait()
        while True:
            await self._submit_now.wait()
            wait_s = self._last_submission_s + GATHER_S - time.monotonic()
            await asyncio.sleep(max(0.05, wait_s))
            self._submit_now.clear()
            waiting = list(self._pending.values())[: self._room()]
            for group in groups(waiting, self._largest()):
                requests = [r for r in group if r.key in self._pending]
                if not requests:
                    continue
                if await self._submit(requests):
                    self._refusals = 0
                else:
                    await asyncio.sleep(_delay_s(self._refusals))
                    self._refusals += 1
                    break
            if self._pending and self._room():
                self._submit_now.set()

    def _room(self) -> int:
        """How many more jobs of ours the queue may hold, as far as we know."""
        bounds = [b for b in (self._access.max_jobs, self._bound) if b is not None]
        if not bounds:
            return len(self._pending)
        return max(0, min(bounds) - self._in_queue())

    def _in_queue(self) -> int:
        return sum(1 for entry in self._open.values() if entry.submitted_s is not None)

    def _largest(self) -> int:
        largest = self._system.max_array
        return min(largest, self._access.max_array or largest)

    async def _submit(self, requests: list[AttemptRequest]) -> bool:
        """Hand one batch to the batch system. False: it takes no more now, or the disk is full,
        and they are pending again."""
        for request in requests:
            del self._pending[request.key]
        batch = self._batches.new(requests)
        job = self._job(batch, requests[0])
        path = f"{self._directory}/batches/{batch.name}"
        script = NewFile(f"{path}.sh", self._system.script(job).encode("utf-8", "surrogateescape"))
        files = [NewFile(f"{path}.jsonl", content(requests)), script]
        try:
            await self._insist(lambda host: host.write(files))
        except InfeasibleError as error:
            self._pause("storage", error.message)
            self._put_back(requests)
            return False
        self._reopen("storage")
        begun_s, failures = time.monotonic(), 0
        while any(key in self._open for key in batch.keys):
            self._last_submission_s = time.monotonic()
            self._last_submission_at_s = self._clock()
            try:
                batch.ids.add(await self._run_submission(job, script.path))
            except BackPressureError as error:
                _LOGGER.info("site %s: %s", self.spec.name, error.message)
                if await self._was_taken(batch):
                    break
                self._bound = self._in_queue() + max(1, len(requests) // 2)
                self._put_back(requests)
                return False
            except InfeasibleError as error:
                for key in batch.keys:
                    self._end(key, Outcome("refused", message=error.message))
                return True
            except TransientError as error:
                if await self._was_taken(batch):
                    break
                if time.monotonic() - begun_s > GIVE_UP_S:
                    await self._give_up_batch(batch, error.message)
                    return True
                if failures + 1 >= FAILURES_TO_PAUSE:
                    self._pause("submission", f"submissions fail: {error.message}")
            else:
                break
            await asyncio.sleep(_delay_s(failures))
            failures += 1
        self._reopen("submission")
        self._taken(batch)
        if self._bound is not None:  # a little more may do
            self._bound = self._in_queue() + max(1, len(requests) // 4)
        return True

    def _put_back(self, requests: Sequence[AttemptRequest]) -> None:
        """They are first in the line again."""
        back = {r.key: r for r in requests if r.key in self._open}
        self._pending = {**back, **self._pending}

    def _job(self, batch: Batch, like: AttemptRequest) -> BatchJob:
        resources, access = like.resources, self._access
        walltime_s = resources.walltime_s
        if walltime_s is not None:
            walltime_s += MARGIN_S
        if self.spec.walltime_s is not None:
            walltime_s = min(walltime_s or self.spec.walltime_s, self.spec.walltime_s)
        return BatchJob(
            name=batch.name,
            count=len(batch.keys),
            cores=resources.cores,
            memory_bytes=resources.memory_bytes,
            gpus=resources.gpus,
            walltime_s=walltime_s,
            queue=access.queue,
            account=access.account,
            options=access.options,
            avoid_nodes=like.avoid_hosts,
            log=f"{self._directory}/batches/{batch.name}.log",
            command=("/bin/sh", f"{self._directory}/bin/job.sh", self._directory, batch.name),
        )

    async def _run_submission(self, job: BatchJob, path: str) -> str:
        host = await self.connection.host()
        argv = self._system.submit(job, path)
        result = await host.run(argv, timeout_s=COMMAND_S)
        return self._system.submitted(result.exit_code, _text(result.output), _text(result.errors))

    async def _was_taken(self, batch: Batch) -> bool:
        """Whether the queue shows a job that seemed to be refused. One that is overlooked here,
        and submitted again, finds its attempts claimed."""
        for _ in range(2):
            for job in await self._queue():
                self._batches.key_of(job)
            if batch.ids:
                return True
            await asyncio.sleep(self._access.poll_min_s)
        return False

    def _taken(self, batch: Batch) -> None:
        now_s = time.monotonic()
        keys = tuple(key for key in batch.keys if key in self._open)
        for key in keys:
            self._open[key].submitted_s = now_s
            self._open[key].submitted_at_s = self._last_submission_at_s
        if keys:
            self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        self._interval_s = self._access.poll_min_s
        self._poll_now.set()

    async def _give_up_batch(self, batch: Batch, message: str) -> None:
        for key in await self._claim([key for key in batch.keys if key in self._open]):
            self._end(key, Outcome("lost", message=f"could not be submitted: {message}"))
        self._taken(batch)  # the rest has started after all

    # -- the queue

    async def _poll_loop(self) -> None:
        failures = 0
        while True:
            await self._until_next_poll()
            while not self._ready.is_set():
                await self._set_up_late()
            asked_s = time.monotonic()
            observes = self._observes and asked_s - self._observed_s >= OBSERVE_S
            try:
                jobs = await self._ask_queue(everybody=observes)
            except (QueueUnknownError, TransientError) as error:
                failures += 1
                _LOGGER.info("site %s: %s", self.spec.name, error.message)
                if failures >= FAILURES_TO_PAUSE:
                    self._pause("queue", f"the queue can't be seen: {error.message}")
                self._interval_s = min(self._interval_s * 2, self._access.poll_max_s)
                continue
            failures = 0
            self._reopen("queue")
            if observes:
                self._observed_s = asked_s
                self._observe(jobs)
            changed = self._compare(jobs, asked_s)
            if await self._judge():
                changed = True
            if self._refused:
                changed = True
                await self._end_refused()
            await self._end_stuck(asked_s)
            await self._cancel_again(asked_s)
            grown_s = self._interval_s * 1.3
            self._interval_s = self._access.poll_min_s if changed else min(
                grown_s, self._access.poll_max_s)  # fmt: skip

    async def _set_up_late(self) -> None:
        try:
            await self._insist(lambda host: host.facts())
        except InfeasibleError as error:
            self._pause("connection", str(error))
            await asyncio.sleep(RETRY_DELAYS_S[-1])

    async def _until_next_poll(self) -> None:
        """Sleep an interval; for as long as nothing is submitted and nothing observed, longer."""
        if not self._ready.is_set():
            return
        self._poll_now.clear()
        wait_s: float | None = self._interval_s
        if not any(entry.submitted_s is not None for entry in self._open.values()):
            wait_s = OBSERVE_S if self._observes else None
            if self._observed_s == float("-inf") and self._observes:
                return
        try:
            await asyncio.wait_for(self._poll_now.wait(), wait_s)
        except asyncio.TimeoutError:
            return
        await asyncio.sleep(self._access.poll_min_s)

    async def _ask_queue(self, *, everybody: bool = False) -> list[Job]:
        """Raises QueueUnknownError where the answer is none."""
        host = await self.connection.host()
        user = None if everybody else self._facts.user
        env = self._system.environment
        result = await host.run(self._system.queue(user), env=env, timeout_s=COMMAND_S)
        return self._system.jobs(result.exit_code, _text(result.output), _text(result.errors))

    async def _queue(self) -> list[Job]:
        """Ask until the batch system answers."""
        failures = 0
        while True:
            try:
                await self._insist(lambda host: host.facts())
                return await self._ask_queue()
            except (QueueUnknownError, TransientError) as error:
                _LOGGER.info("site %s: %s", self.spec.name, error.message)
                await asyncio.sleep(_delay_s(failures))
                failures += 1

    def _compare(self, jobs: Sequence[Job], asked_s: float) -> bool:
        """Hold the queue against what we have there; whether anything changed."""
        changed = False
        shown = set()
        for job in jobs:
            key = self._batches.key_of(job)
            entry = self._open.get(key) if key is not None else None
            if key is None or entry is None:
                continue
            shown.add(key)
            entry.missed, entry.gone_s = 0, None
            if job.state == "refused":
                self._refused[key] = job.reason
                continue
            if job.state in ("running", "ending") and not entry.started:
                changed = True
                entry.doubtful_s = asked_s + BEGIN_S
                self._start(key, entry, job.started_s)
        for key, entry in self._open.items():
            if key in shown or entry.submitted_s is None or entry.submitted_s > asked_s:
                continue
            entry.missed += 1
            if entry.missed > 1 and entry.gone_s is None:
                entry.gone_s = time.monotonic()
                changed = True
        return changed

    async def _end_refused(self) -> None:
        """Jobs that the batch system took and will never start."""
        refused, self._refused = self._refused, {}
        for key in await self._claim(list(refused)):
            text = f"the batch system will never start it: {refused[key]}"
            self._end(key, Outcome("refused", message=text))
        await self._cancel_jobs(list(refused))

    def _observe(self, jobs: Sequence[Job]) -> None:
        """Running jobs first, then the queue in order."""
        background = [
            BackgroundJob(f"{job.id}.{job.element}", job.cores, job.started_s
                          if job.started_s is not None or job.state == "queued" else self._clock())
            for job in jobs
            if self._batches.key_of(job) is None and job.state not in ("held", "refused")
        ]  # fmt: skip
        others = tuple(sorted(background, key=lambda job: job.started_s is None))
        if others != self._others:
            self._others = others
            self._post(SiteObserved(self._clock(), self._index, others))

    async def _end_stuck(self, asked_s: float) -> None:
        """Jobs that are shown as running, and that nobody runs: as of a node whose daemon died
        when it was given them. What has not even been claimed has not begun."""
        doubtful = [k for k, e in self._open.items() if 0 < e.doubtful_s < asked_s]
        if not doubtful:
            return
        for key in doubtful:
            self._open[key].doubtful_s = 0.0
        stuck = await self._claim(doubtful)
        minutes = f"{BEGIN_S / 60:.0f} min"
        for key in stuck:
            text = f"its job was shown as running for {minutes} and has not begun"
            self._end(key, Outcome("lost", message=text))
        await self._cancel_jobs(stuck)

    async def _cancel_again(self, asked_s: float) -> None:
        """Jobs that were told to end long ago, and are still there: they were not told after
        all."""
        deaf = []
        for key, entry in self._open.items():
            told_s = entry.cancelled_s
            if told_s is not None and not entry.missed and asked_s > told_s + CANCEL_AGAIN_S:
                entry.cancelled_s = asked_s
                deaf.append(key)
        await self._cancel_jobs(deaf)

    # -- what became of those that left the queue

    async def _judge(self) -> bool:
        """Attempts that are gone from the queue and have left no record, or one that does not
        say why; whether any was ended."""
        gone = [key for key, entry in self._open.items() if entry.gone_s is not None]
        if not gone:
            return False
        endings = await self._endings(gone)
        for key in gone:
            entry = self._open.get(key)
            if entry is None or entry.gone_s is None:
                continue
            ending = endings.get(key)
            if entry.record is not None:
                self._end(key, _explained(entry.record, ending))
                continue
            waited_s = time.monotonic() - entry.gone_s
            explained = ending is not None and ending.cause not in ("done", "exit", "lost")
            if waited_s > self._access.patience_s or (explained and waited_s > GATHER_S):
                await self._give_up(key, entry, ending)
            elif waited_s > UNSTARTED_S and not entry.started:
                # What can be claimed has not started, and leaves no record to be waited for.
                if await self._claim([key]):
                    self._end(key, Outcome("lost", message=_NEVER_STARTED))
                else:
                    self._start(key, entry, None)
        return any(key not in self._open for key in gone)

    async def _endings(self, keys: Sequence[str]) -> dict[str, Ending]:
        """What the batch system says of these, as far as it says anything."""
        jobs = {}
        for key in keys:
            where = self._batches.where(key)
            if where is not None:
                jobs.update({(job, where[1]): key for job in where[0].ids})
        found: dict[str, Ending] = {}
        ids = sorted({job for job, _ in jobs})
        for argv in self._system.endings(ids) if ids else ():
            try:
                host = await self.connection.host()
                env = self._system.environment
                result = await host.run(argv, env=env, timeout_s=COMMAND_S)
            except TransientError:
                break
            answers = self._system.ended(
                result.exit_code, _text(result.output), _text(result.errors)
            )
            for job, ending in answers.items():
                if job in jobs:
                    found.setdefault(jobs[job], ending)
            if len(found) == len(keys):
                break
        return found

    async def _give_up(self, key: str, entry: _Open, ending: Ending | None) -> None:
        """It has left the queue, and no record came: make certain that it can't start any more,
        or that what it writes is not taken."""
        said = f"{ending.message}; " if ending is not None and ending.message else ""
        if await self._claim([key]):
            text = f"{said}{_NEVER_STARTED}"
        else:
            path = f"{self._directory}/attempts/{key}.revoked"
            await self._insist_on_room(lambda host: host.write([NewFile(path, b"")]))
            text = f"{said}its job ended and left no exit record"
        cause = ending.cause if ending is not None else "lost"
        if entry.cancelled_s is not None:
            cause = "cancelled"
        elif cause in ("done", "exit", "signal", "cancelled"):
            cause = "lost"  # not by us, nor by the task; or its record is lost
        host_name = ending.node if ending is not None else None
        self._end(key, Outcome(cause, message=text, host=host_name))

    async def _claim(self, keys: Sequence[str]) -> list[str]:
        """Those of these attempts that can never start, since we have their claims."""
        paths = [f"{self._directory}/attempts/{key}.out" for key in keys]
        taken = await self._insist_on_room(lambda host: host.claim(paths))
        return [key for key, ours in zip(keys, taken, strict=True) if ours]

    async def _cancel_jobs(self, keys: Sequence[str]) -> None:
        """Tell jobs to end. Where this fails, those that wait end at once when they start, since
        their claims are taken, and those that run are told again."""
        jobs = self._batches.jobs_of(keys)
        if not jobs:
            return
        for argv in self._system.cancel(jobs):
            try:
                host = await self.connection.host()
                await host.run(argv, timeout_s=COMMAND_S)
            except WfrunError as error:
                _LOGGER.info("site %s: %s", self.spec.name, error.message)

    # -- exit records

    def _on_records(self, contents: list[bytes]) -> None:
        for found in contents:
            try:
                record = msgspec.json.decode(found, type=_Record)
            except msgspec.MsgspecError as error:
                _LOGGER.warning(
                    "site %s: an exit record is not to be understood: %s: %r",
                    self.spec.name, error, found[:200],
                )  # fmt: skip
                continue
            self._on_record(record.key, record.outcome)

    def _on_record(self, key: str, outcome: Outcome) -> None:
        entry = self._open.get(key)
        if entry is None:
            self._ended.setdefault(key, outcome)
            return
        if not entry.started:
            self._start(key, entry, outcome.started_s)
        if outcome.cause not in ("lost", "signal", "exit"):
            self._end(key, outcome)
        elif entry.cancelled_s is not None:
            self._end(key, msgspec.structs.replace(outcome, cause="cancelled"))
        elif _is_from_outside(outcome):
            entry.record = outcome  # until the batch system has been asked
            self._interval_s = self._access.poll_min_s
            self._poll_now.set()
        else:
            self._end(key, outcome)

    def _start(self, key: str, entry: _Open, started_s: float | None) -> None:
        entry.started = True
        now_s = self._clock()
        at_s = now_s
        if started_s is not None:
            # The clocks of the scheduler and of the nodes may differ from the head node's.
            earliest_s = entry.submitted_at_s or 0.0
            at_s = min(now_s, max(earliest_s, started_s - self._facts.clock_offset_s))
        self._post(AttemptStarted(at_s, key))

    def _end(self, key: str, outcome: Outcome) -> None:
        if self._open.pop(key, None) is not None:
            self._ended[key] = outcome
            self._post(AttemptEnded(self._clock(), key, outcome))
            if self._pending:
                self._submit_now.set()


def _is_from_outside(outcome: Outcome) -> bool:
    """Whether it may have been ended by the batch system. A shell whose command is killed by a
    signal exits with 128 more than its number."""
    killed = outcome.signal or (outcome.exit_code or 0) - 128
    return outcome.cause == "lost" or killed in _FROM_OUTSIDE


def _explained(record: Outcome, ending: Ending | None) -> Outcome:
    """A record of a task that something else ended, with what the batch system says of it."""
    if ending is None or ending.cause in ("done", "exit", "lost"):
        return record
    message = "; ".join(text for text in (ending.message, record.message) if text)
    cause = "lost" if ending.cause == "cancelled" else ending.cause
    return msgspec.structs.replace(record, cause=cause, message=message)


def _delay_s(failures: int) -> float:
    return RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)]


def _text(output: bytes) -> str:
    return output.decode("utf-8", "surrogateescape")


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")
