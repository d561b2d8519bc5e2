"""Requests to a cluster's head node and batch system, with retries."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.events import JobLimitLifted, JobLimitReached, SitePaused, SiteReopened
from wfrun.sites.batch.system import BatchSystem, Ending, JobInQueue, QueueUnknownError
from wfrun.sites.cluster.attempts import Attempts
from wfrun.sites.cluster.batches import Batches
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.host import CommandResult, Facts, Host

_T = TypeVar("_T")
_LOGGER = logging.getLogger(__name__)

COMMAND_S = 60.0
"""Timeout of a batch system's command. The effect of a killed command is unknown."""
RETRY_DELAYS_S = (1.0, 2.0, 5.0, 15.0, 30.0, 60.0)
"""Delays after consecutive failures of submissions and queue queries."""
MAX_OUTPUTS = 200
"""Maximum number of jobs whose output is read at once."""
OUTPUT_BYTES = 2000
"""Maximum bytes that are read of the output of a job."""
FAILURES_TO_PAUSE = 3
"""Number of consecutive failures after which the site gets no work."""


class HeadRequests(Protocol):
    """Requests of a cluster's launchers to its head node; `HeadNode` describes each."""

    @property
    def site(self) -> str: ...

    @property
    def ready(self) -> asyncio.Event: ...

    @property
    def directory(self) -> str: ...

    async def claim(self, keys: Sequence[str]) -> list[str]: ...

    async def retry_until_answered(self, request: Callable[[Host], Awaitable[_T]]) -> _T: ...

    async def retry_until_space(self, request: Callable[[Host], Awaitable[_T]]) -> _T: ...

    def pause(self, what: str, reason: str) -> None: ...

    def reopen(self, what: str) -> None: ...


class HeadNode:
    """A cluster's head node, with its batch system, for one run.

    ``set_up`` is called on the first connection, before the first request. It sets ``directory``
    and ``facts``, and then ``ready``.
    """

    def __init__(
        self,
        site: str,
        index: int,
        connection: Connection,
        system: BatchSystem,
        batches: Batches,
        attempts: Attempts,
        set_up: Callable[[], Awaitable[None]],
    ) -> None:
        self.site = site
        self.connection = connection
        self.system = system
        self.batches = batches
        self.ready = asyncio.Event()
        self.directory = ""
        self.facts: Facts
        self.index = index
        self._attempts = attempts
        self._set_up = set_up
        self._unsure: set[str] = set()
        """Ids of arrays that, at the last look at the queue, had elements that may have ended."""
        self._limit: int | None = None
        """The reported limit on our jobs in the queue; None: no limit is reported."""
        self._reasons: dict[str, str] = {}
        """Reasons why the site is paused, by cause, such as ``storage``."""

    def start(self, key: str, started_s: float | None, host: str = "") -> None:
        """Post the start of an attempt; ``started_s`` is by the cluster's clock (None: unknown)."""
        if started_s is not None:
            started_s -= self.facts.clock_offset_s
        self._attempts.start(key, started_s, host)

    async def retry_until_answered(self, request: Callable[[Host], Awaitable[_T]]) -> _T:
        """Repeat a request through losses of the connection until it is answered.

        The request must be safe to repeat: the connection may be lost after the host has carried it
        out. Raises the InfeasibleError of the request or of the set-up.
        """
        while True:
            try:
                host = await self.connection.host()
                if not self.ready.is_set():
                    await self._set_up()
                return await request(host)
            except TransientError as error:
                _LOGGER.info("site %s: %s", self.site, error.message)
                await asyncio.sleep(RETRY_DELAYS_S[0])

    async def retry_until_space(self, request: Callable[[Host], Awaitable[_T]]) -> _T:
        """Repeat a request like `retry_until_answered`, and also after each InfeasibleError, for
        example of a full or read-only disk. The site is paused meanwhile."""
        failures = 0
        while True:
            try:
                answer = await self.retry_until_answered(request)
            except InfeasibleError as error:
                self.pause("storage", error.message)
                await asyncio.sleep(delay_s(failures))
                failures += 1
            else:
                self.reopen("storage")
                return answer

    def pause(self, what: str, reason: str) -> None:
        """Pause the site for the cause ``what``. The pause lasts until ``reopen`` was called for
        each cause."""
        if not self._reasons:
            self._attempts.post(SitePaused(self._attempts.clock(), self.index, reason))
        self._reasons[what] = reason

    def reach_limit(self, jobs: int) -> None:
        """Report that the queue takes at most ``jobs`` jobs of ours. A change of the limit by at
        most a tenth is not reported."""
        if self._limit is None or abs(jobs - self._limit) * 10 > self._limit:
            self._limit = jobs
            self._attempts.post(JobLimitReached(self._attempts.clock(), self.index, jobs))

    def lift_limit(self) -> None:
        """Report that no attempt waits for room in the queue."""
        if self._limit is not None:
            self._limit = None
            self._attempts.post(JobLimitLifted(self._attempts.clock(), self.index))

    def reopen(self, what: str) -> None:
        """Withdraw the cause ``what`` of a pause. The site is reopened when no cause is left."""
        if self._reasons.pop(what, None) is not None and not self._reasons:
            self._attempts.post(SiteReopened(self._attempts.clock(), self.index))

    async def ask_queue(self, *, everybody: bool = False) -> list[JobInQueue]:
        """List the jobs of this user, or of everybody. Raises QueueUnknownError if the command
        fails or its answer cannot be understood, and TransientError if the connection is lost."""
        user = None if everybody else self.facts.user
        jobs = await self._ask_jobs(self.system.queue(user))
        if not any(job.state == "begun" for job in jobs):
            return jobs
        unsure = self._unsure_arrays(jobs)
        # An element that has just ended is unsure until its exit record is here.
        asked, self._unsure = unsure & self._unsure, unsure
        for argv in self.system.elements(sorted(asked)) if asked else ():
            try:
                elements = await self._ask_jobs(argv)
            except QueueUnknownError:
                continue  # an array that has just ended; the next look shows it
            shown = {job.id for job in elements}
            jobs = [job for job in jobs if job.id not in shown] + elements
        return [
            msgspec.structs.replace(job, state="running")
            if job.state == "begun" and job.id not in unsure
            else job
            for job in jobs
        ]

    async def empty_arrays(self) -> list[str]:
        """Ids of arrays of the run that are in the queue although none of their elements runs or
        waits. Raises the errors of `ask_queue`."""
        jobs = await self._ask_jobs(self.system.queue(self.facts.user))
        ours = [job for job in jobs if self.batches.key_of(job) is not None]
        busy = {job.id for job in ours if job.state != "begun" or job.running_elements}
        return sorted({job.id for job in ours} - busy)

    def _unsure_arrays(self, jobs: Sequence[JobInQueue]) -> set[str]:
        """Ids of arrays with fewer running elements than begun open attempts, so that some of the
        attempts may have ended."""
        running: dict[str, int] = {}
        begun: Counter[str] = Counter()
        for job in jobs:
            if job.state == "begun" and self.batches.key_of(job) in self._attempts.open:
                running[job.id] = job.running_elements
                begun[job.id] += 1
        return {array for array, number in begun.items() if number > running[array]}

    async def _ask_jobs(self, argv: Sequence[str]) -> list[JobInQueue]:
        found = answer(await self._look(argv))
        return parsed(lambda: self.system.jobs(*found))

    async def _look(self, argv: Sequence[str]) -> CommandResult:
        """Run a command that only queries the batch system."""
        host = await self.connection.host()
        return await host.run(argv, env=self.system.environment, timeout_s=COMMAND_S)

    async def queue(self) -> list[JobInQueue]:
        """List the jobs of this user; repeats the query until the batch system answers."""
        failures = 0
        while True:
            try:
                await self.retry_until_answered(lambda host: host.facts())
                return await self.ask_queue()
            except (QueueUnknownError, TransientError) as error:
                _LOGGER.info("site %s: %s", self.site, error.message)
                await asyncio.sleep(delay_s(failures))
                failures += 1

    async def endings(self, keys: Sequence[str]) -> dict[str, Ending]:
        """Ask the batch system how attempts ended. Attempts that it does not know are left out."""
        jobs = {}
        for key in keys:
            where = self.batches.where(key)
            if where is not None:
                jobs.update({(job, where[1]): key for job in where[0].ids})
        found: dict[str, Ending] = {}
        ids = sorted({job for job, _ in jobs})
        for argv in self.system.endings(ids) if ids else ():
            try:
                found_there = answer(await self._look(argv))
                answers = parsed(lambda said=found_there: self.system.ended(*said))  # type: ignore[misc]
            except QueueUnknownError:
                continue
            except TransientError:
                break
            for job, ending in answers.items():
                if job in jobs:
                    found.setdefault(jobs[job], ending)
            if len(found) == len(keys):
                break
        return found

    def output_of(self, batch: str) -> str:
        """Path of the file in which the batch system collects the output of a batch's job; see
        `BatchJob.output`."""
        return f"{self.directory}/output/{batch}"

    async def printed(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the last OUTPUT_BYTES of the output of each attempt's job, as the batch system has
        collected it. Leaves out attempts without output, and all after the first MAX_OUTPUTS."""
        paths = {}
        for key in keys[:MAX_OUTPUTS]:
            where = self.batches.where(key)
            if where is not None:
                batch, element = where
                of_array = element if len(batch.keys) > 1 else None
                path = self.system.output_path(self.output_of(batch.name), of_array)
                if path is not None:
                    paths[key] = path
        if not paths:
            return {}
        found = await self.retry_until_answered(
            lambda host: host.read(list(paths.values()), limit=OUTPUT_BYTES)
        )
        return {
            key: text(content)
            for key, content in zip(paths, found, strict=True)
            if content is not None
        }

    async def claim(self, keys: Sequence[str]) -> list[str]:
        """Claim attempts. Returns the keys that this engine or an earlier one has claimed; these
        attempts can never start."""
        paths = [f"{self.directory}/attempts/{key}.out" for key in keys]
        created = await self.retry_until_space(lambda host: host.claim(paths))
        return [key for key, ours in zip(keys, created, strict=True) if ours]

    async def cancel_jobs(self, keys: Sequence[str]) -> None:
        """Cancel the jobs of attempts. Failures are ignored: a waiting job ends as soon as it
        starts, because its attempt is claimed, and a running one is cancelled again later."""
        jobs = self.batches.jobs_of(keys)
        if not jobs:
            return
        for argv in self.system.cancel(jobs):
            try:
                host = await self.connection.host()
                await host.run(argv, timeout_s=COMMAND_S)
            except WfrunError as error:
                _LOGGER.info("site %s: %s", self.site, error.message)


def parsed(parse: Callable[[], _T]) -> _T:
    """Parse what a batch system printed. Raises QueueUnknownError for any output that ``parse``
    fails on, for example numbers that are too large or documents that are nested too deeply."""
    try:
        return parse()
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        text = f"the answer of the batch system cannot be read: {str(error)[:200]}"
        raise QueueUnknownError(text) from error


def delay_s(failures: int) -> float:
    """Return the delay in seconds before the next try, after this number of failures."""
    return RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)]


def text(output: bytes) -> str:
    """Decode the output of a command."""
    return output.decode("utf-8", "surrogateescape")


def answer(result: CommandResult) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr, as ``BatchSystem`` takes them."""
    return result.exit_code, text(result.output), text(result.errors)
