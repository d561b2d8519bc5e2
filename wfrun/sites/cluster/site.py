"""A cluster with a batch system, reached over one connection.

Each attempt is a batch job, or an element of an array. On its compute node it is carried out by
``wfrun/sites/node/job.py``, which claims it and leaves an exit record; nothing else tells that it
succeeded. The queue is asked, once an interval for all attempts, to see which have started and
which are gone from it. Of one that is gone without a record the batch system is asked how it
ended, and when the site's patience is over it is given up: its claim is taken, so that it can
never start, or, where it had started, its outputs are refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.events import AttemptEnded, Event
from wfrun.engine.exchange import AttemptRequest, Found, Outcome
from wfrun.engine.information import Observed
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.sites.batch.system import BatchSystem
from wfrun.sites.cluster.attempts import Attempts, OpenAttempt
from wfrun.sites.cluster.batches import Batches
from wfrun.sites.cluster.head_node import COMMAND_S, HeadNode, text
from wfrun.sites.cluster.queue_watch import QueueWatch, is_from_outside
from wfrun.sites.cluster.submission import Submission
from wfrun.sites.node import JOB_PROGRAMS
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.directory import make_directory, put_programs
from wfrun.sites.remote.host import Host
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)

CLAIMED_BY_US = Outcome("cancelled", message="was cancelled before it started")


class _Record(msgspec.Struct):
    key: str
    outcome: Outcome


class ClusterSite:
    """Implements ``Site``. ``index`` is the site's number in the run's events.

    A cluster that can't be reached is paused, and is set up when it can: work goes on elsewhere.
    ``observed``: what to tell of other users' jobs. ``programs`` are further files of
    ours that its jobs need. ``connected`` is called whenever the head node can be asked anew.
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        run_id: str,
        connection: Connection,
        system: BatchSystem,
        *,
        observed: Observed = "nothing",
        programs: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert spec.access is not None
        self.spec = spec
        self.connection = connection
        self.connected: Callable[[], None] = _ignore
        self._programs = (*JOB_PROGRAMS, *programs)
        self._run_id = run_id
        self._attempts = Attempts(clock)
        self.head = HeadNode(
            spec.name, index, connection, system, Batches(run_id), self._attempts, self._set_up
        )
        self._watch = QueueWatch(index, spec.access, self.head, self._attempts, observed=observed)
        self._submission = Submission(spec, self.head, self._attempts, self._watch.poll_soon)
        self._attempts.told = self._submission.now.set
        self._tasks: list[asyncio.Task[None]] = []

    # -- the protocol

    async def open(self, post: Callable[[Event], None]) -> None:
        """Connect and make the run's directory there. Raises InfeasibleError for what no waiting
        mends: an unknown host key, a directory that can't be made. A cluster that can't be
        reached now, or wants a login, is paused (SitePaused)."""
        self._attempts.post = post
        try:
            await self.connection.open(self._on_connection)
            await self._set_up()
        except TransientError as error:
            self.head.pause("connection", str(error))
        self._tasks = [
            asyncio.create_task(self._guarded(self._submission.run())),
            asyncio.create_task(self._guarded(self._watch.run())),
        ]

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        for request in batch:
            outcome = self._attempts.ended.get(request.key)
            if outcome is not None:
                self._attempts.post(AttemptEnded(self._attempts.clock(), request.key, outcome))
            elif request.key not in self._attempts.open:
                self._attempts.open[request.key] = OpenAttempt()
                self._submission.pending[request.key] = request
        self._submission.now.set()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        for key in [key for key in keys if key in self._submission.pending]:
            del self._submission.pending[key]
            self._attempts.end(key, CLAIMED_BY_US)
        submitted = [key for key in keys if key in self._attempts.open]
        if queued_only:
            # The queue shows a job as running a moment before it claims its attempt. What was
            # reported as started must not be taken from it in between.
            submitted = [key for key in submitted if not self._attempts.open[key].started]
        if not submitted:
            return
        # Who has the claim decides: what we claim never starts, whatever the queue does with it.
        taken = await self.head.claim(submitted)
        for key in taken:
            self._attempts.end(key, CLAIMED_BY_US)
        running = [key for key in submitted if key in self._attempts.open]
        if queued_only:
            running = []
        for key in running:
            self._attempts.open[key].cancelled_s = time.monotonic()
        await self.head.cancel_jobs([*taken, *running])
        self._watch.poll_soon()

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found: dict[str, Found] = {}
        unknown = []
        if any(key not in self._attempts.open for key in keys):
            await self.head.ready.wait()  # then all records that there were have been told
        for key in keys:
            if key in self._attempts.ended:
                found[key] = Found("ended", self._attempts.ended[key])
            elif key in self._attempts.open:
                found[key] = Found("active")
            else:
                unknown.append(key)
        if unknown:
            found.update(await self._find_unknown(unknown))
        return found

    async def _find_unknown(self, keys: list[str]) -> dict[str, Found]:
        """Attempts that an engine before this one may have submitted."""
        queued = {self.head.batches.key_of(job): job for job in await self.head.queue()}
        paths = [f"{self.head.directory}/attempts/{key}.out" for key in keys]
        claims = await self.head.retry_until_answered(lambda host: host.stat(paths))
        found = {}
        for key, claim in zip(keys, claims, strict=True):
            if key in self._attempts.ended:
                found[key] = Found("ended", self._attempts.ended[key])
            elif key in queued or claim is not None:
                entry = self._attempts.open[key] = OpenAttempt()
                entry.submitted_s = time.monotonic()
                entry.missed = 0 if key in queued else 1
                found[key] = Found("active")
            else:
                found[key] = Found("absent")
        self._watch.now.set()
        return found

    async def log(self, key: str) -> tuple[bytes, bytes]:
        paths = [f"{self.head.directory}/attempts/{key}.{name}" for name in ("out", "err")]
        out, err = await self.head.retry_until_answered(
            lambda host: host.read(paths, limit=1 << 30)
        )
        return out or b"", err or b""

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        if not self.head.ready.is_set():
            return []  # nothing is known of a cluster that can't be reached
        names = list(files)
        stats = await self.head.retry_until_answered(
            lambda host: host.stat([self.store_path(n) for n in names])
        )
        return [
            name
            for name, stat in zip(names, stats, strict=True)
            if stat is None or (stat.size_bytes != files[name] and not stat.is_directory)
        ]

    async def clean(self) -> None:
        """Remove stored files and sandboxes; logs and records stay."""
        attempts = f"{self.head.directory}/attempts"
        find = ("find", attempts, "-mindepth", "1", "-maxdepth", "1", "-type", "d")
        await self.head.retry_until_answered(
            lambda host: host.run([*find, "-exec", "rm", "-rf", "{}", "+"], timeout_s=COMMAND_S)
        )
        await self.head.retry_until_answered(
            lambda host: host.remove([f"{self.head.directory}/files"])
        )
        await self.head.retry_until_answered(
            lambda host: host.make_directories([f"{self.head.directory}/files"])
        )

    async def close(self) -> None:
        """Let go of the cluster: what is queued or runs there goes on."""
        await end_tasks(self._tasks)
        await self.connection.close()

    def poll_soon(self) -> None:
        """Look at the queue soon."""
        self._watch.poll_soon()

    def has_left(self, key: str) -> bool:
        """Whether the queue did not show it any more when it was seen last, so that it has ended,
        and is waited for no longer than its record takes to be seen."""
        entry = self._attempts.open.get(key)
        return entry is None or entry.missed > 0

    def store_path(self, name: str) -> str:
        """Where the file of this name is in the site's store."""
        return f"{self.head.directory}/files/{name}"

    # -- the connection

    async def _set_up(self) -> None:
        """Once, on the first connection: the run's directory, what runs there, what was there."""
        host = await self.connection.host()
        self.head.facts = await host.facts()
        written = self.spec.directory or DEFAULT_DIRECTORY
        self.head.directory = await make_directory(host, self.spec.name, written, self._run_id)
        await put_programs(host, self.head.directory, self._programs)
        await self._load_batches(host)
        await self.connection.watch(f"{self.head.directory}/exits", self._on_records)
        self.head.ready.set()
        self.head.reopen("connection")
        self.connected()

    async def _load_batches(self, host: Host) -> None:
        listing = await host.run(["ls", "-1", f"{self.head.directory}/batches"])
        names = [n.removesuffix(".jsonl") for n in text(listing.output).split()
                 if n.endswith(".jsonl")]  # fmt: skip
        for start in range(0, len(names), 50):
            some = [f"{self.head.directory}/batches/{name}" for name in names[start : start + 50]]
            paths = [f"{path}.{kind}" for path in some for kind in ("jsonl", "ids")]
            found = await host.read(paths, limit=1 << 30)
            for name, requests, ids in zip(names[start:], found[::2], found[1::2], strict=False):
                self.head.batches.load(name, requests or b"", ids or b"")

    def _on_connection(self, reason: str | None) -> None:
        """Why the cluster can't be used now; None: it can."""
        if reason is not None:
            self.head.pause("connection", reason)
        elif self.head.ready.is_set():
            self.head.reopen("connection")
            self.connected()
        else:
            self._watch.now.set()  # it is set up first

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            _LOGGER.exception("site %s", self.spec.name)
            self.head.pause("defect", f"internal error: {error!r}; wfrun resume may help")

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
        entry = self._attempts.open.get(key)
        if entry is None:
            self._attempts.ended.setdefault(key, outcome)
            return
        if not entry.started:
            self.head.start(key, outcome.started_s)
        if outcome.cause not in ("lost", "signal", "exit"):
            self._attempts.end(key, outcome)
        elif entry.cancelled_s is not None:
            self._attempts.end(key, msgspec.structs.replace(outcome, cause="cancelled"))
        elif is_from_outside(outcome):
            entry.record = outcome  # until the batch system has been asked
            self._watch.poll_soon()
        else:
            self._attempts.end(key, outcome)


def _ignore() -> None:
    """Nobody wants to know."""
