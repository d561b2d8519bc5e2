"""Submission of attempts to a batch system: in batches, within its limits, each once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.events import AttemptsSubmitted
from wfrun.engine.exchange import AttemptRequest, Outcome
from wfrun.engine.model import Access, Resources, SiteSpec
from wfrun.sites.batch.system import ArrayTooLargeError, BackPressureError, BatchJob
from wfrun.sites.cluster.attempts import Attempts
from wfrun.sites.cluster.batches import ATTEMPTS_PER_SUBMISSION, Batch, content, groups
from wfrun.sites.cluster.head_node import COMMAND_S, FAILURES_TO_PAUSE, HeadNode, answer, delay_s
from wfrun.sites.remote.host import NewFile

_LOGGER = logging.getLogger(__name__)

BATCH_DELAY_S = 1.0
"""Minimum interval between submissions; the attempts of an interval are submitted together."""
GIVE_UP_S = 600.0
"""Maximum time of retries of a submission; then its attempts end as lost."""
MARGIN_S = 60.0
"""Walltime of a job beyond that of its task: time to start and to commit, so that the job is killed
by wfrun rather than by the batch system."""


def one_node_note(asked: Resources) -> str:
    """What to do if a parallel job is too wide for a node, for the message of a refusal: systems
    refuse it in many words."""
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
        self.pending: dict[str, AttemptRequest] = {}
        """Attempts to be submitted, in order."""
        self.now = asyncio.Event()
        """Set when an attempt is pending or the queue may accept more."""
        self._spec = spec
        self._access: Access = spec.access
        self._head = head
        self._attempts = attempts
        self._on_accepted = on_accepted
        self._last_submission_s = -BATCH_DELAY_S
        self._last_submission_at_s = 0.0
        self._refusals = 0
        """Number of consecutive submissions that were turned back."""
        self._bound: int | None = None
        """Estimated maximum number of our jobs in the queue; None until a limit was met."""
        self._max_array: int | None = None
        """Maximum number of elements of an array, found by refusals; None: none was refused."""

    async def run(self) -> None:
        """Submit until cancelled."""
        await self._head.ready.wait()
        while True:
            await self.now.wait()
            wait_s = self._last_submission_s + BATCH_DELAY_S - time.monotonic()
            await asyncio.sleep(max(0.05, wait_s))
            self.now.clear()
            if not self.pending:
                self._head.reopen("submission")  # all that was not accepted was withdrawn
            waiting = list(self.pending.values())[: self._room()]
            for group in groups(waiting, self.largest()):
                requests = [r for r in group if r.key in self.pending]
                if not requests:
                    continue
                if await self._submit(requests):
                    self._refusals = 0
                else:
                    await asyncio.sleep(delay_s(self._refusals))
                    self._refusals += 1
                    break
            if not self.pending:
                self._head.lift_limit()
            elif self._room():
                self.now.set()
            else:
                self._head.reach_limit()

    def _room(self) -> int:
        """Number of jobs to submit now.

        Near the limit of the queue this is 0 until several places are free: a submission for each
        would load the head node.
        """
        bounds = [b for b in (self._access.max_jobs, self._bound) if b is not None]
        if not bounds:
            return len(self.pending)
        room = max(0, min(bounds) - self._attempts.in_queue())
        worth = min(ATTEMPTS_PER_SUBMISSION, min(bounds) // 10, len(self.pending))
        return room if room >= worth else 0

    def largest(self) -> int:
        """Maximum number of elements of an array."""
        largest = self._head.system.max_array
        return min(largest, self._access.max_array or largest, self._max_array or largest)

    async def _submit(self, requests: list[AttemptRequest]) -> bool:
        """Submit one batch. Returns False if the batch system accepts no more now, or the disk is
        full; its attempts are pending again then."""
        for request in requests:
            del self.pending[request.key]
        batch = self._head.batches.new(requests)
        job = self._job(batch, requests[0])
        path = f"{self._head.directory}/batches/{batch.name}"
        script = NewFile(
            f"{path}.sh", self._head.system.script(job).encode("utf-8", "surrogateescape")
        )
        files = [NewFile(f"{path}.jsonl", content(requests)), script]
        try:
            await self._head.retry_until_answered(lambda host: host.write(files))
        except InfeasibleError as error:
            self._head.pause("storage", error.message)
            self._return_to_pending(requests)
            return False
        self._head.reopen("storage")
        begun_s, failures = time.monotonic(), 0
        while any(key in self._attempts.open for key in batch.keys):
            self._last_submission_s = time.monotonic()
            self._last_submission_at_s = self._attempts.clock()
            try:
                batch.ids.add(await self._run_submission(job, script.path))
            except BackPressureError as error:
                _LOGGER.info("site %s: %s", self._head.site, error.message)
                self._head.reach_limit()
                if await self._was_accepted(batch):
                    break
                self._wait_for_places(len(requests), error.message)
                self._return_to_pending(requests)
                return False
            except ArrayTooLargeError as error:
                _LOGGER.info("site %s: %s", self._head.site, error.message)
                self._max_array = min(self.largest(), max(1, len(requests) // 2))
                self._return_to_pending(requests)
                self.now.set()
                return True
            except InfeasibleError as error:
                text = error.message + one_node_note(requests[0].resources)
                for key in batch.keys:
                    self._attempts.end(key, Outcome("refused", message=text))
                return True
            except TransientError as error:
                if await self._was_accepted(batch):
                    break
                if time.monotonic() - begun_s > GIVE_UP_S:
                    await self._give_up_batch(batch, error.message)
                    return True
                if failures + 1 >= FAILURES_TO_PAUSE:
                    self._head.pause("submission", f"submissions fail: {error.message}")
            else:
                break
            await asyncio.sleep(delay_s(failures))
            failures += 1
        self._head.reopen("submission")
        self._accepted(batch)
        await self._record_ids(batch, f"{path}.ids")
        if self._bound is not None:  # probe for a higher limit
            self._bound = self._attempts.in_queue() + max(1, len(requests) // 4)
        return True

    def _wait_for_places(self, refused: int, reason: str) -> None:
        """Submit fewer attempts than those that were refused, later. While none of ours is in the
        queue, no end of ours makes place, so the site is paused."""
        in_queue = self._attempts.in_queue()
        self._bound = in_queue + max(1, refused // 2)
        if not in_queue and self._refusals + 1 >= FAILURES_TO_PAUSE:
            self._head.pause("submission", f"no further job is accepted now: {reason}")

    async def _record_ids(self, batch: Batch, path: str) -> None:
        """Record the job's ids for a later engine, which may have to ask about a job that has left
        the queue."""
        note = NewFile(path, " ".join(sorted(batch.ids)).encode())
        with contextlib.suppress(InfeasibleError):  # recovery works without, more slowly
            await self._head.retry_until_answered(lambda host: host.write([note]))

    def _return_to_pending(self, requests: Sequence[AttemptRequest]) -> None:
        """Put attempts back to the front of the pending ones."""
        back = {r.key: r for r in requests if r.key in self._attempts.open}
        self.pending = {**back, **self.pending}

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

    async def _run_submission(self, job: BatchJob, path: str) -> str:
        host = await self._head.connection.host()
        argv = self._head.system.submit(job, path)
        result = await host.run(argv, timeout_s=COMMAND_S)
        return self._head.system.submitted(*answer(result))

    async def _was_accepted(self, batch: Batch) -> bool:
        """Whether the queue shows a job whose submission seemed to fail. If it is overlooked and
        submitted again, the second job finds its attempts claimed."""
        for _ in range(2):
            for job in await self._head.queue():
                self._head.batches.key_of(job)
            if batch.ids:
                return True
            await asyncio.sleep(self._access.poll_min_s)
        return False

    def _accepted(self, batch: Batch) -> None:
        now_s = time.monotonic()
        keys = tuple(key for key in batch.keys if key in self._attempts.open)
        for key in keys:
            self._attempts.open[key].submitted_s = now_s
            self._attempts.open[key].submitted_at_s = self._last_submission_at_s
        if keys:
            self._attempts.post(AttemptsSubmitted(self._attempts.clock(), self._head.index, keys))
        self._on_accepted()

    async def _give_up_batch(self, batch: Batch, message: str) -> None:
        for key in await self._head.claim(
            [key for key in batch.keys if key in self._attempts.open]
        ):
            self._attempts.end(key, Outcome("lost", message=f"could not be submitted: {message}"))
        self._accepted(batch)  # the others have started
