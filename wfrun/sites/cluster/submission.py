"""Submission of attempts to a batch system: in batches, within its limits, each once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wfrun.engine.errors import InfeasibleError, TransientError, WfrunError
from wfrun.engine.events import AttemptsSubmitted
from wfrun.engine.exchange import AttemptRequest, Outcome
from wfrun.engine.model import Access, Resources, SiteSpec
from wfrun.sites.batch.system import ArrayTooLargeError, BackPressureError, BatchJob
from wfrun.sites.cluster.attempts import Attempts
from wfrun.sites.cluster.batches import ATTEMPTS_PER_SUBMISSION, Batch, content, groups
from wfrun.sites.cluster.head_node import COMMAND_S, FAILURES_TO_PAUSE, HeadNode, answer, delay_s
from wfrun.sites.cluster.queue_limit import QueueLimit
from wfrun.sites.remote.host import NewFile

_LOGGER = logging.getLogger(__name__)

BATCH_DELAY_S = 1.0
"""Minimum interval between submissions; the attempts of an interval are submitted together."""
GIVE_UP_S = 600.0
"""Maximum time for which a submission is retried; then its attempts end as lost."""
MARGIN_S = 60.0
"""Time by which a job's walltime exceeds that of its task, for start and commit. So wfrun, not the
batch system, kills a task at its walltime."""


MAX_SERIES = 50
"""Maximum number of submissions in one request to the head node, which runs them in turn."""

_ERRORS = (BackPressureError, ArrayTooLargeError, InfeasibleError, TransientError)
"""Errors of a submission."""


class _Submission(NamedTuple):
    """A batch that is being submitted. ``path`` is the path of its files without their endings."""

    batch: Batch
    requests: list[AttemptRequest]
    job: BatchJob
    path: str


def one_node_note(asked: Resources) -> str:
    """Advice to append to the message of a refusal, if the refused parallel job may be too wide for
    a node: batch systems refuse such a job with many different messages. Empty for other jobs."""
    if not asked.parallel or asked.nodes > 1 or asked.cores == 1:
        return ""
    return (
        f"\nthe job asks for its {asked.cores} processors on one node; if no node has as many, "
        "'ppn' of the job spreads them over several"
    )


class Submission:
    """Attempts that are not in the queue yet. ``on_accepted`` is called when the batch system has
    accepted a job."""

    def __init__(
        self, spec: SiteSpec, head: HeadNode, attempts: Attempts, on_accepted: Callable[[], None]
    ) -> None:
        assert spec.access is not None
        self.now = asyncio.Event()
        """Set when an attempt is to be submitted or the queue may accept more."""
        self._spec = spec
        self._access: Access = spec.access
        self._head = head
        self._attempts = attempts
        self._on_accepted = on_accepted
        self._last_submission_s = -BATCH_DELAY_S
        self._last_submission_at_s = 0.0
        self._refusals = 0
        """Number of back-offs (``_hold_off``) since the last series that was submitted."""
        self._limit = QueueLimit()
        self._max_array: int | None = None
        """Maximum number of elements of an array, learned from refusals; None: no array was
        refused."""

    async def run(self) -> None:
        """Submit until cancelled."""
        await self._head.ready.wait()
        while True:
            await self.now.wait()
            wait_s = self._last_submission_s + BATCH_DELAY_S - time.monotonic()
            await asyncio.sleep(max(0.05, wait_s))
            self.now.clear()
            waiting = self._attempts.waiting()
            if not waiting:
                self._head.reopen("submission")  # all that was not accepted was withdrawn
            admitted = waiting[: self._room(len(waiting))]
            for series in self._series(groups(admitted, self.largest())):
                if not await self._submit(series):
                    break
                self._refusals = 0
            left = len(self._attempts.waiting())
            if not left:
                self._head.lift_limit()
            elif self._room(left):
                self.now.set()
            else:
                self._report_limit()

    def _series(
        self, found: Sequence[list[AttemptRequest]]
    ) -> Iterator[list[list[AttemptRequest]]]:
        """Split groups into series of at most MAX_SERIES, to be submitted with one request.
        Attempts that no longer wait are left out."""
        for start in range(0, len(found), MAX_SERIES):
            waiting = [
                [request for request in group if self._attempts.is_waiting(request.key)]
                for group in found[start : start + MAX_SERIES]
            ]
            if any(waiting):
                yield [group for group in waiting if group]

    def _room(self, waiting: int) -> int:
        """Number of jobs to submit now, of ``waiting`` attempts.

        Near the limit of the queue this is 0 until several places are free, since one submission
        for each place would load the head node.
        """
        learned = self._limit.bound(time.monotonic())
        bounds = [b for b in (self._access.max_jobs, learned) if b is not None]
        if not bounds:
            return waiting
        room = max(0, min(bounds) - self._attempts.in_queue())
        worth = min(ATTEMPTS_PER_SUBMISSION, min(bounds) // 10, waiting)
        return room if room >= worth else 0

    def largest(self) -> int:
        """Maximum number of elements of an array."""
        largest = self._head.system.max_array
        return min(largest, self._access.max_array or largest, self._max_array or largest)

    def _report_limit(self) -> None:
        """Report the limit on our jobs in the queue, as far as it is known."""
        limits = [self._access.max_jobs, self._limit.known]
        known = [limit for limit in limits if limit is not None]
        jobs = min(known) if known else self._attempts.in_queue()
        if jobs:
            self._head.reach_limit(jobs)

    async def _submit(self, groups: Sequence[list[AttemptRequest]]) -> bool:
        """Submit each group as a batch, in this order. Returns False if the batch system accepts no
        more now, or the disk is full. Attempts that were not accepted then wait again."""
        waiting = [self._prepare(requests) for requests in groups]
        if not await self._write(waiting):
            return False
        since_s, failures = time.monotonic(), 0
        while waiting := [s for s in waiting if self._is_open(s.batch)]:
            error = await self._run_submissions(waiting)
            accepted = [s for s in waiting if s.batch.ids]
            waiting = [s for s in waiting if not s.batch.ids]
            if accepted:
                await self._accept(accepted)
                since_s, failures = time.monotonic(), 0
            if error is None or not waiting:
                continue
            if isinstance(error, BackPressureError | ArrayTooLargeError):
                self._put_back(waiting)
                return await self._adapt(error, waiting)
            if isinstance(error, InfeasibleError):
                self._refuse(waiting.pop(0), error)
            elif time.monotonic() - since_s > GIVE_UP_S:
                await self._give_up(waiting.pop(0).batch, error.message)
                since_s = time.monotonic()
            else:
                if failures + 1 >= FAILURES_TO_PAUSE:
                    self._head.pause("submission", f"submissions fail: {error.message}")
                await asyncio.sleep(delay_s(failures))
                failures += 1
        return True

    def _prepare(self, requests: list[AttemptRequest]) -> _Submission:
        for request in requests:
            self._attempts.open[request.key].request = None
        batch = self._head.batches.new(requests)
        path = f"{self._head.directory}/batches/{batch.name}"
        return _Submission(batch, requests, self._job(batch, requests[0]), path)

    async def _write(self, submissions: Sequence[_Submission]) -> bool:
        """Record the batches at their site. Returns False if there is no space; their attempts then
        wait again."""
        files = []
        for submission in submissions:
            script = self._head.system.script(submission.job)
            files += [
                NewFile(f"{submission.path}.jsonl", content(submission.requests)),
                NewFile(f"{submission.path}.sh", script.encode("utf-8", "surrogateescape")),
            ]
        try:
            await self._head.retry_until_answered(lambda host: host.write(files))
        except InfeasibleError as error:
            self._head.pause("storage", error.message)
            self._put_back(submissions)
            await self._hold_off()
            return False
        self._head.reopen("storage")
        return True

    def _is_open(self, batch: Batch) -> bool:
        return any(key in self._attempts.open for key in batch.keys)

    async def _run_submissions(self, submissions: Sequence[_Submission]) -> WfrunError | None:
        """Run the commands of submissions until one fails, and add the job's id to each accepted
        batch. Returns the first error, or None if no command failed. Commands after a failed one
        did not run."""
        self._last_submission_s = time.monotonic()
        self._last_submission_at_s = self._attempts.clock()
        commands = [self._head.system.submit(s.job, f"{s.path}.sh") for s in submissions]
        first: WfrunError | None = None
        try:
            host = await self._head.connection.host()
            results = await host.run_series(commands, timeout_s=COMMAND_S)
        except (InfeasibleError, TransientError) as error:
            results, first = [], error
        for submission, result in zip(submissions, results, strict=False):
            try:
                submission.batch.ids.add(self._head.system.submitted(*answer(result)))
            except _ERRORS as error:
                first = first or error
        if isinstance(first, BackPressureError | TransientError):
            # A command that was killed may have submitted its job, which is shown a moment later.
            is_sure = isinstance(first, BackPressureError)
            is_sure = is_sure and all(result.exit_code is not None for result in results)
            await self._find_accepted([s.batch for s in submissions], 1 if is_sure else 2)
        return first

    async def _find_accepted(self, batches: Sequence[Batch], looks: int) -> None:
        """Look in the queue for the jobs of batches whose submissions seemed to fail, at most
        ``looks`` times. If a job is overlooked and submitted again, the second job finds its
        attempts claimed."""
        for look in range(looks):
            if look:
                await asyncio.sleep(self._access.poll_min_s)
            for job in await self._head.queue():
                self._head.batches.key_of(job)
            if all(batch.ids for batch in batches):
                return

    async def _accept(self, submissions: Sequence[_Submission]) -> None:
        """Report batches that were accepted, and record the ids of their jobs for a later engine,
        which may have to ask about a job that has left the queue."""
        self._head.reopen("submission")
        self._report([key for s in submissions for key in s.batch.keys])
        ids = [
            NewFile(f"{s.path}.ids", " ".join(sorted(s.batch.ids)).encode()) for s in submissions
        ]
        with contextlib.suppress(InfeasibleError):  # recovery works without, more slowly
            await self._head.retry_until_answered(lambda host: host.write(ids))
        self._limit.accept(self._attempts.in_queue())

    async def _adapt(
        self, error: BackPressureError | ArrayTooLargeError, refused: Sequence[_Submission]
    ) -> bool:
        """After a refusal, submit fewer jobs or smaller arrays from now on. Returns whether the
        next series may be submitted; if not, its groups are formed anew."""
        _LOGGER.info("site %s: %s", self._head.site, error.message)
        if isinstance(error, ArrayTooLargeError):
            self._max_array = min(self.largest(), max(1, len(refused[0].requests) // 2))
            self.now.set()
            return True
        await self._on_full(len(refused[0].requests), error.message)
        return False

    def _refuse(self, submission: _Submission, error: InfeasibleError) -> None:
        """End the attempts of a batch that can never be accepted."""
        text = error.message + one_node_note(submission.requests[0].resources)
        for key in submission.batch.keys:
            self._attempts.end(key, Outcome("refused", message=text))

    async def _on_full(self, asked: int, reason: str) -> None:
        """Learn the limit of the queue from a refusal of ``asked`` attempts. Returns at once if the
        limit now allows only a smaller submission, else after a delay. After FAILURES_TO_PAUSE such
        delays with none of our jobs in the queue, the site is paused: no end of a job of ours can
        make room."""
        in_queue = self._attempts.in_queue()
        self._limit.refuse(in_queue, asked, time.monotonic())
        if in_queue:
            self._report_limit()
        if self._room(len(self._attempts.waiting())) < asked:
            return
        if not in_queue and self._refusals + 1 >= FAILURES_TO_PAUSE:
            self._head.pause("submission", f"no further job is accepted now: {reason}")
        await self._hold_off()

    async def _hold_off(self) -> None:
        """Wait before a submission that is no smaller than the refused one."""
        await asyncio.sleep(delay_s(self._refusals))
        self._refusals += 1

    def _put_back(self, submissions: Sequence[_Submission]) -> None:
        """Let attempts wait again, before those that came after them."""
        for request in [request for s in submissions for request in s.requests]:
            if request.key in self._attempts.open:
                self._attempts.open[request.key].request = request

    def _job(self, batch: Batch, like: AttemptRequest) -> BatchJob:
        resources, access = like.resources, self._access
        walltime_s = like.job_walltime_s or resources.walltime_s
        if walltime_s is not None:
            walltime_s += MARGIN_S
        if self._spec.walltime_s is not None:
            walltime_s = min(walltime_s or self._spec.walltime_s, self._spec.walltime_s)
        return BatchJob(
            name=batch.name,
            count=len(batch.keys),
            nodes=resources.nodes,
            cores=resources.cores // resources.nodes,
            parallel=resources.parallel,
            memory_bytes=resources.memory_bytes,
            gpus=resources.gpus,
            walltime_s=walltime_s,
            queue=access.queue,
            account=access.account,
            options=access.options,
            avoid_nodes=like.avoid_hosts,
            log=f"{self._head.directory}/batches/{batch.name}.log",
            output=self._head.output_of(batch.name),
            command=(
                "/bin/sh",
                f"{self._head.directory}/bin/job.sh",
                self._head.directory,
                batch.name,
            ),
        )

    def _report(self, keys: Sequence[str]) -> None:
        """Report attempts that are in the queue now."""
        now_s = time.monotonic()
        keys = tuple(key for key in keys if key in self._attempts.open)
        for key in keys:
            self._attempts.open[key].submitted_s = now_s
            self._attempts.open[key].submitted_at_s = self._last_submission_at_s
        if keys:
            self._attempts.post(AttemptsSubmitted(self._attempts.clock(), self._head.index, keys))
        self._on_accepted()

    async def _give_up(self, batch: Batch, message: str) -> None:
        for key in await self._head.claim(
            [key for key in batch.keys if key in self._attempts.open]
        ):
            self._attempts.end(key, Outcome("lost", message=f"could not be submitted: {message}"))
        self._report(batch.keys)  # the others have started
