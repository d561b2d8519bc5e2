"""A cluster with a batch system, reached over one connection.

Each attempt is a batch job or an element of an array. On the compute node
``wfrun/sites/node/jobs/job.py`` claims the attempt, runs it and leaves an exit record, without
which the attempt never counts as a success. One queue query per interval shows which attempts have
started and which have left the queue. If an attempt left without a record, the batch system is
asked how it ended. After the site's ``patience`` the attempt is given up: it is claimed, so that it
can never start, or, if it had started, its outputs are refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from wfrun.engine.errors import NoSpaceError, TransientError
from wfrun.engine.events import Event
from wfrun.engine.exchange import AttemptRequest, Content, Found, Outcome
from wfrun.engine.fitting.information import Observed
from wfrun.engine.model import SiteSpec
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.sites.batch.observation import OBSERVE_S
from wfrun.sites.batch.system import BatchSystem
from wfrun.sites.cluster.attempts import Attempts, ExitRecord
from wfrun.sites.cluster.batches import Batches
from wfrun.sites.cluster.head_node import COMMAND_S, HeadNode, text
from wfrun.sites.cluster.queue_watch import QueueWatch, is_from_outside
from wfrun.sites.cluster.rehearsal import ask
from wfrun.sites.cluster.submission import Submission
from wfrun.sites.entry_error import EntryError
from wfrun.sites.node import JOB_PROGRAMS
from wfrun.sites.remote.connection import Connection
from wfrun.sites.remote.files.directory import make_directory, put_programs
from wfrun.sites.remote.host import Host
from wfrun.sites.stored import absent_at, remove_at
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)

CANCEL_AGAIN_S = 1.0
"""Interval between cancellations of jobs that stay in the queue."""
STUCK_S = 5.0
"""Time after which an array without running or waiting elements counts as stuck."""
CLAIMED_BY_US = Outcome("cancelled", message="was cancelled before it started")


MAX_WARNINGS = 20
"""Maximum number of invalid exit records that are logged, each with its content."""


class ClusterSite:
    """Implements ``Site``. ``index`` is the site's number in the run's events, ``directory`` the
    name of the run's directory there.

    A cluster that is out of reach is paused, and set up when it can be reached; meanwhile other
    sites work. ``observed`` selects what is reported of other users' jobs, every ``observe_s``
    seconds. ``programs`` are further node programs that its jobs need.
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        run_id: str,
        directory: str,
        connection: Connection,
        system: BatchSystem,
        *,
        observed: Observed = "nothing",
        observe_s: float = OBSERVE_S,
        programs: Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert spec.access is not None
        self.spec = spec
        self.connection = connection
        self._connected: Callable[[], None] = _ignore
        self._programs = (*JOB_PROGRAMS, *programs)
        self._directory = directory
        self._attempts = Attempts(clock, self._on_end)
        self.head = HeadNode(
            spec.name, index, connection, system, Batches(run_id), self._attempts, self._set_up
        )
        self._watch = QueueWatch(
            index, spec.access, self.head, self._attempts, observed=observed, observe_s=observe_s
        )
        self._submission = Submission(spec, self.head, self._attempts, self._watch.poll_soon)
        self._tasks: list[asyncio.Task[None]] = []
        self._invalid_records = 0

    # -- the protocol

    async def open(
        self,
        post: Callable[[Event], None],
        *,
        connected: Callable[[], None] | None = None,
        is_over: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Connect and make the run's directory. Raises InfeasibleError if waiting cannot help, as
        with an unknown host key, a directory that cannot be made, or a queue that does not exist. A
        cluster that is out of reach now, needs a login, or has a full disk, is paused (SitePaused).

        ``connected`` is called at each new connection. ``is_over`` takes the key of an attempt
        whose job has left the queue. It returns True if no exit record is to be awaited, because
        the job itself reported to the engine and has stopped reporting.
        """
        self._attempts.post = post
        self._connected = connected or _ignore
        try:
            await self.connection.open(self._on_connection)
            host = await self.connection.host()
            # Beside the set-up, so that the question costs no time.
            refusal = asyncio.create_task(ask(host, self.head.system, self.spec))
            try:
                await self._set_up()
                self._refuse_entry(await refusal)
            finally:
                await end_tasks([refusal])
        except (TransientError, NoSpaceError) as error:
            self.head.pause("connection", str(error))
        self._tasks = [
            asyncio.create_task(self._guarded(self._submission.run)),
            asyncio.create_task(self._guarded(partial(self._watch.run, is_over))),
        ]
        await self._watch.first_look()

    def _refuse_entry(self, refusal: EntryError | None) -> None:
        """Raise the refusal, if the run is new. A resumed run may have jobs to adopt, so it goes
        on."""
        if refusal is not None and not self.head.batches.any:
            raise refusal

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        for request in batch:
            self._attempts.add(request)
        self._submission.now.set()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        for key in keys:
            if self._attempts.is_waiting(key):
                self._attempts.end(key, CLAIMED_BY_US)
        submitted = [key for key in keys if key in self._attempts.open]
        if queued_only:
            # The queue shows a job as running a moment before it claims its attempt. What was
            # reported as started must not be taken from it in between.
            submitted = [key for key in submitted if not self._attempts.open[key].started]
        if not submitted:
            return
        # The claim decides: an attempt claimed here never starts, even if its job does.
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

    async def cancel_until_gone(self, keys: Callable[[], Sequence[str]]) -> None:
        """Cancel attempts until all of them have left the queue, since a command may fail. ``keys``
        returns their keys, and is called before each try."""
        while left := [key for key in keys() if not self.has_left(key)]:
            await self.cancel(left)
            await asyncio.sleep(CANCEL_AGAIN_S)

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found: dict[str, Found] = {}
        unknown = []
        if any(key not in self._attempts.open for key in keys):
            await self.head.ready.wait()  # by then all existing records have been reported
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
        """Find attempts that an earlier engine may have submitted."""
        queued = {self.head.batches.key_of(job): job for job in await self.head.queue()}
        paths = [f"{self.head.directory}/attempts/{key}.out" for key in keys]
        claims = await self.head.retry_until_answered(lambda host: host.stat(paths))
        found = {}
        for key, claim in zip(keys, claims, strict=True):
            if key in self._attempts.ended:
                found[key] = Found("ended", self._attempts.ended[key])
            elif key in queued or claim is not None:
                attempt, record = self._attempts.adopt(key)
                attempt.submitted_s = time.monotonic()
                attempt.absences = 0 if key in queued else 1
                found[key] = Found("active")
                if record is not None:
                    self._on_record(record)
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

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        if not self.head.ready.is_set():
            raise TransientError(f"site {self.spec.name} was not reached yet")
        return await self.head.retry_until_answered(
            lambda host: absent_at(host, self.head.directory, files)
        )

    async def remove(self, names: Sequence[str]) -> None:
        if not self.head.ready.is_set():
            raise TransientError(f"site {self.spec.name} was not reached yet")
        await self.head.retry_until_answered(
            lambda host: remove_at(host, self.head.directory, names)
        )

    async def clean(self) -> None:
        """Remove stored files, sandboxes, and the output that the batch system has collected. Logs
        and exit records stay."""
        attempts = f"{self.head.directory}/attempts"
        find = ("find", attempts, "-mindepth", "1", "-maxdepth", "1", "-type", "d")
        await self.head.retry_until_answered(
            lambda host: host.run([*find, "-exec", "rm", "-rf", "{}", "+"], timeout_s=COMMAND_S)
        )
        emptied = [f"{self.head.directory}/{name}" for name in ("files", "output")]
        await self.head.retry_until_answered(lambda host: host.remove(emptied))
        await self.head.retry_until_answered(lambda host: host.make_directories(emptied))

    async def close(self) -> None:
        """Disconnect. Queued and running jobs go on."""
        await end_tasks(self._tasks)
        await self.connection.close()

    async def until_gone(self) -> None:
        """Wait until the queue shows no job of the run. Until then the batch system may write into
        the run's directory, as PBS does with the output of a job."""
        assert self.spec.access is not None
        while self.head.batches.any:
            jobs = await self.head.queue()
            if not any(self.head.batches.key_of(job) for job in jobs):
                return
            await asyncio.sleep(self.spec.access.poll_min_s)

    async def stuck_jobs(self) -> list[str]:
        """Return the command that removes the run's stuck arrays: they stay in the queue although
        no element is left to run. Empty if there are none. Raises TransientError or
        QueueUnknownError if the queue cannot be seen."""
        if not self.head.batches.any or self.head.system.removal(()) is None:
            return []
        end_s = time.monotonic() + STUCK_S
        while stuck := await self.head.empty_arrays():
            if time.monotonic() >= end_s:
                return self.head.system.removal(stuck) or []
            await asyncio.sleep(CANCEL_AGAIN_S)
        return []

    def poll_soon(self) -> None:
        """Poll the queue soon."""
        self._watch.poll_soon()

    @property
    def max_array(self) -> int:
        """Maximum number of attempts that are submitted as one array."""
        return self._submission.largest()

    def has_left(self, key: str) -> bool:
        """Whether an attempt has ended, or was missing from the last queue listing. If it was
        missing and wrote an exit record, the record will appear soon."""
        attempt = self._attempts.open.get(key)
        return attempt is None or attempt.absences > 0

    def store_path(self, name: str) -> str:
        """Return the absolute path of a file in the site's store. Raises TransientError before the
        cluster was reached."""
        if not self.head.directory:
            raise TransientError(f"site {self.spec.name} was not reached yet")
        return f"{self.head.directory}/files/{name}"

    # -- the connection

    async def _set_up(self) -> None:
        """Make the run's directory, copy the programs, and load the batches and records of earlier
        engines. Called once, on the first connection."""
        host = await self.connection.host()
        self.head.facts = await host.facts()
        self.head.batches.user = self.head.facts.user
        written = self.spec.directory or DEFAULT_DIRECTORY
        self.head.directory = await make_directory(host, self.spec.name, written, self._directory)
        facts = {"batch_system.json": msgspec.json.encode(self.head.system.node)}
        await put_programs(host, self.head.directory, self._programs, facts)
        await self._load_batches(host)
        await self.connection.watch(f"{self.head.directory}/exits", self._on_records)
        self.head.ready.set()
        self.head.reopen("connection")
        self._connected()

    async def _load_batches(self, host: Host) -> None:
        """Load the batches of earlier engines. Raises TransientError unless all are read: the
        attempts of a missing batch would count as never submitted."""
        folder = f"{self.head.directory}/batches"
        listing = await host.run(["ls", "-1", folder])
        if listing.exit_code != 0:
            said = text(listing.errors).strip() or "ls was killed"
            raise TransientError(f"{folder} cannot be listed: {said}")
        names = [n.removesuffix(".jsonl") for n in text(listing.output).split()
                 if n.endswith(".jsonl")]  # fmt: skip
        names.sort(
            key=lambda name: (len(name), name)
        )  # by number: the last one of an attempt counts
        for start in range(0, len(names), 50):
            some = [f"{folder}/{name}" for name in names[start : start + 50]]
            paths = [f"{path}.{kind}" for path in some for kind in ("jsonl", "ids")]
            found = await host.read(paths, limit=1 << 30)
            for name, requests, ids in zip(names[start:], found[::2], found[1::2], strict=False):
                if requests is None:
                    raise TransientError(f"{folder}/{name}.jsonl cannot be read")
                self.head.batches.load(name, requests, ids or b"")

    def _on_connection(self, reason: str | None) -> None:
        """Handle a change of the connection. ``reason`` says why the cluster is out of reach; None:
        it is in reach."""
        if reason is not None:
            self.head.pause("connection", reason)
        elif self.head.ready.is_set():
            self.head.reopen("connection")
            self._connected()
        else:
            self._watch.now.set()  # the watch sets the site up

    def _on_end(self) -> None:
        """Called after each end of an attempt, which makes room in the queue."""
        self._submission.now.set()
        self._watch.on_end()

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except Exception as error:
            _LOGGER.exception("site %s", self.spec.name)
            self.head.pause("defect", f"internal error: {error!r}; wfrun resume may help")

    # -- exit records

    def _on_records(self, contents: list[bytes]) -> None:
        for found in contents:
            try:
                record = msgspec.json.decode(found, type=ExitRecord)
            except (msgspec.MsgspecError, RecursionError) as error:
                self._invalid_records += 1
                if self._invalid_records <= MAX_WARNINGS:
                    _LOGGER.warning(
                        "site %s: an exit record is invalid: %s: %r",
                        self.spec.name, error, found[:200],
                    )  # fmt: skip
                continue
            self._on_record(record)

    def _on_record(self, record: ExitRecord) -> None:
        key, outcome = record.key, record.outcome
        attempt = self._attempts.open.get(key)
        if attempt is None:
            self._attempts.keep(record)
            return
        if not attempt.started:
            self.head.start(key, outcome.started_s, outcome.host or "")
        if record.doubt and attempt.cancelled_s is None:
            attempt.record, attempt.doubt = outcome, record.doubt
            self._watch.poll_soon()
        elif outcome.cause not in ("lost", "signal", "exit"):
            self._attempts.end(key, outcome)
        elif attempt.cancelled_s is not None:
            self._attempts.end(key, msgspec.structs.replace(outcome, cause="cancelled"))
        elif is_from_outside(outcome):
            attempt.record = outcome  # kept until the batch system has explained it
            self._watch.poll_soon()
        else:
            self._attempts.end(key, outcome)


def _ignore() -> None:
    """The callback of a site without launchers."""
