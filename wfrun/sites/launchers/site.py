"""A cluster whose tasks are run by launchers inside its batch jobs.

The launchers are jobs of a ``ClusterSite``, as if each were an attempt; this gives attempts to
those that live. Whoever creates the claim of an attempt may start it, so it does no harm to give
one to another launcher when the first can't be reached. What became of an attempt is told by its
launcher, or by that launcher's journal when it is dead.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    LauncherDraining,
    LauncherEnded,
    LaunchersSubmitted,
)
from wfrun.engine.exchange import AttemptRequest, Found, LauncherRequest, Outcome
from wfrun.engine.model import SiteSpec
from wfrun.sites.cluster.site import CLAIMED_BY_US, ClusterSite
from wfrun.sites.launchers.assigner import AttemptAssigner, LauncherNode, PoolAttempt
from wfrun.sites.launchers.attempt_files import AttemptFiles
from wfrun.sites.launchers.channel_supervisor import ChannelSupervisor
from wfrun.sites.launchers.launcher_jobs import (
    LauncherJob,
    end_of,
    fate_of_its_attempts,
    job_of,
    too_long,
)
from wfrun.sites.launchers.link import LauncherChannels, Link
from wfrun.sites.launchers.messages import PROTOCOL, LauncherConnection, Report, decode
from wfrun.sites.launchers.recovery import AttemptRecovery
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)

TICK_S = 0.25
AWAY_S = 30.0
"""What waits in the stock of a launcher that has been away for so long is given to others."""
GOODBYE_S = 5.0
"""For the last words to launchers when a run is over."""


class BatchLauncherSite:
    """Implements ``LauncherSite``. ``index`` is the site's number in the run's events. ``links``
    makes the channels of the run's directory at the cluster, which is known once it is open."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        cluster: ClusterSite,
        links: Callable[[str], LauncherChannels],
        *,
        pack_logs: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._pack_logs = pack_logs
        self.connection = cluster.connection
        self._index = index
        self._cluster = cluster
        self._jobs: dict[str, LauncherJob] = {}
        """Launchers whose end is to be told."""
        self._supervisor = ChannelSupervisor(cluster.head, links, self, self._jobs)
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._assigner = AttemptAssigner()
        self._connections: dict[int, LauncherConnection] = {}
        """By the identity of their links."""
        self._files = AttemptFiles(cluster.head)
        self._recovery = AttemptRecovery(
            self._assigner,
            self._jobs,
            self._files,
            cluster,
            self._begin,
            self._end,
            self._go_on,
            self._supervisor.expect,
        )
        self._away: dict[LauncherNode, float] = {}
        """Launchers that can't be reached, and for how long of our own running time."""
        self._assigning = False
        self._tasks: set[asyncio.Task[None]] = set()
        cluster.connected = self._supervisor.reached.set

    # -- the protocol of a site

    async def open(self, post: Callable[[Event], None]) -> None:
        self._post = post
        await self._cluster.open(self._on_job)
        for work in (self._supervisor.run(), self._tick(), self._recovery.run()):
            self._spawn(work)

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        fresh = [request for request in batch if request.key not in self._assigner.attempts]
        if fresh:
            keys = tuple(request.key for request in fresh)
            self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        for request in fresh:
            self._assigner.add(request)
            reason = too_long(request, self.spec)
            if reason is not None:
                self._end(request.key, Outcome("refused", message=reason))
        self._go_on()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        here = [self._assigner.attempts[key] for key in keys if key in self._assigner.attempts]
        unclear = []
        told: dict[LauncherConnection, list[str]] = {}
        for attempt in here:
            connection = self._connection_of(attempt)
            if self._assigner.is_waiting(attempt) and not attempt.stray:
                self._end(attempt.key, CLAIMED_BY_US)
                continue
            attempt.withdrawn = True
            attempt.cancelled = attempt.cancelled or not queued_only
            if connection is not None and (attempt.started or not attempt.stray):
                told.setdefault(connection, []).append(attempt.key)
            else:
                unclear.append(attempt.key)
        for connection, some in told.items():
            connection.say_of("cancel", some, queued_only=queued_only)
        if unclear:
            # Who has the claim decides: what we claim never starts, whoever has it in its queue.
            for key in await self._cluster.head.claim(unclear):
                self._end(key, CLAIMED_BY_US)

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        await self._cluster.head.ready.wait()
        return await self._recovery.find(keys)

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return await self._cluster.log(key)

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        return await self._cluster.absent(files)

    async def clean(self) -> None:
        await self._cluster.clean()

    async def close(self) -> None:
        """Let go of the cluster: launchers go on with what they have."""
        await end_tasks(self._tasks)
        for connection in self._connections.values():
            connection.end()
        await self._supervisor.close()
        await self._cluster.close()

    def store_path(self, name: str) -> str:
        """Where the file of this name is in the site's store."""
        return self._cluster.store_path(name)

    # -- launchers

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        fresh = [LauncherJob(x.key, x) for x in launchers if x.key not in self._jobs]
        self._jobs.update((job.key, job) for job in fresh)
        if fresh:
            self._spawn(self._start(fresh))

    async def _start(self, jobs: list[LauncherJob]) -> None:
        await self._supervisor.expect([job.key for job in jobs])
        wanted = [job for job in jobs if not job.stopping]
        for job in [job for job in jobs if job.stopping]:
            self._forget(job, "done", None)
        for job in wanted:
            job.submitted = True
        requests = [job.request for job in wanted if job.request is not None]
        await self._cluster.submit(
            [job_of(request, self.spec, pack_logs=self._pack_logs) for request in requests]
        )

    async def stop_launchers(self, keys: Sequence[str]) -> None:
        queued = []
        for job in [self._jobs[key] for key in keys if key in self._jobs]:
            self._stop(job)
            if job.submitted and not job.connections:
                queued.append(job.key)
        if queued:
            await self._cluster.cancel(queued, queued_only=True)

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found = dict(await self._recovery.find_launchers(keys))
        absent = [key for key, answer in found.items() if answer.state == "absent"]
        # The queue may be late to show what an engine submitted with its last breath.
        taken = await self._cluster.head.claim(absent) if absent else []
        begun = [key for key in absent if key not in taken]
        return {**found, **await self._recovery.find_launchers(begun)} if begun else found

    async def dismiss(self) -> None:
        for job in self._jobs.values():
            self._stop(job)
        others = [job.key for job in self._jobs.values() if not job.connections]
        drained = [connection.link.drained() for connection in self._connections.values()]
        work = asyncio.gather(*drained, self._cluster.cancel(others), return_exceptions=True)
        try:
            await asyncio.wait_for(work, GOODBYE_S)
        except asyncio.TimeoutError:
            _LOGGER.info("site %s: not all launchers were told to end", self.spec.name)

    def _stop(self, job: LauncherJob) -> None:
        """It ends when its running tasks have."""
        job.stopping = True
        job.reason = "it was told to stop"
        for connection in job.connections.values():
            connection.say({"stop": True})
            if connection.node is not None:
                connection.node.is_open = False

    def _on_job(self, event: Event) -> None:
        """What the cluster tells of the jobs that launchers are."""
        if isinstance(event, AttemptsSubmitted):
            self._post(LaunchersSubmitted(event.at_s, self._index, event.keys))
        elif isinstance(event, AttemptStarted):
            if event.key in self._jobs:
                self._jobs[event.key].began = True
        elif isinstance(event, AttemptEnded):
            if event.key in self._jobs:
                self._spawn(self._bury(self._jobs[event.key], event.outcome))
        else:
            self._post(event)

    async def _bury(self, job: LauncherJob, outcome: Outcome) -> None:
        """A launcher is dead, and with it what it ran: find out what became of that."""
        for connection in [
            connection
            for connection in self._connections.values()
            if connection.launcher == job.key
        ]:
            self._drop(connection)
            connection.link.close()
        self._cluster.head.reopen(f"records of {job.key}")
        had = self._assigner.leave(job.key)
        self._recovery.dead.add(job.key)
        lost = fate_of_its_attempts(job, outcome)
        await self._recovery.bury(job, had, lost)
        cause, message = end_of(job, outcome)
        if cause == "start" and outcome.cause == "done":
            tail = await self._files.tail(job.key)
            message = f"{message}\n{tail}" if tail else message
        self._forget(job, cause, message)
        await self._supervisor.forget([job.key])

    def _forget(self, job: LauncherJob, cause: Any, message: str | None) -> None:
        self._jobs.pop(job.key, None)
        self._post(LauncherEnded(self._clock(), self._index, job.key, cause, message))
        self._go_on()

    # -- links

    def connected(self, launcher: str, link: Link) -> None:
        for connection in list(self._connections.values()):
            if connection.launcher == launcher and connection.link.node_number == link.node_number:
                self._drop(connection)
        self._connections[id(link)] = LauncherConnection(launcher, link)

    def disconnected(self, link: Link, reason: str) -> None:
        connection = self._connections.get(id(link))
        if connection is None:
            return
        job = self._jobs.get(connection.launcher)
        self._drop(connection)
        self._cluster.hurry()
        if job is not None and connection.node is not None:
            job.reason = reason
            self._tell(job)

    def _drop(self, connection: LauncherConnection) -> None:
        """Its link is of no more use."""
        self._connections.pop(id(connection.link), None)
        connection.end()
        job = self._jobs.get(connection.launcher)
        if job is not None and job.connections.get(connection.link.node_number) is connection:
            del job.connections[connection.link.node_number]
            assert connection.node is not None
            connection.node.is_open = False
            self._away[connection.node] = 0.0

    def _tell(self, job: LauncherJob) -> None:
        """How many slots a launcher has now, if that is new."""
        if any(p.node is not None and p.node.is_open for p in job.connections.values()):
            event = job.started(self._clock(), self._now(), self._index)
            if event is not None:
                self._post(event)
        elif job.told is not None:
            job.told = None
            self._post(LauncherDraining(self._clock(), self._index, job.key, job.reason))

    def lines(self, link: Link, lines: Sequence[bytes]) -> None:
        connection = self._connections.get(id(link))
        for line in lines:
            if connection is None:
                return
            try:
                report = decode(line)
            except msgspec.MsgspecError as error:
                where = f"site {self.spec.name}: launcher {connection.launcher}"
                _LOGGER.warning("%s: %s: %r", where, error, line[:200])
                continue
            self._on_report(connection, report)
            connection = self._connections.get(id(link))

    # -- what launchers say

    def _on_report(self, connection: LauncherConnection, report: Report) -> None:
        if report.started or report.ended:
            self._on_news(connection, report)
        elif report.hello is not None:
            self._greet(connection, report)
        elif report.found is not None:
            connection.answer(report.id, report.found)
        elif report.returned:
            self._take_back(connection, report.returned)
        elif report.contested:
            self._recovery.contested(connection.node, report.contested)
        elif report.ending is not None:
            if connection.node is not None:
                connection.node.is_open = False
            if connection.launcher in self._jobs:
                self._jobs[connection.launcher].reason = report.ending
                self._tell(self._jobs[connection.launcher])
        elif report.failing is not None:
            self._cluster.head.pause(f"records of {connection.launcher}", report.failing)
        elif report.recovered:
            self._cluster.head.reopen(f"records of {connection.launcher}")
        elif report.error is not None:
            _LOGGER.warning(
                "site %s: launcher %s: %s", self.spec.name, connection.launcher, report.error
            )

    def _greet(self, connection: LauncherConnection, report: Report) -> None:
        job = self._jobs.get(connection.launcher)
        if job is None or job.key in self._recovery.dead:
            return  # not known yet, or not any more
        if report.hello != PROTOCOL:
            text = f"launcher {job.key} speaks version {report.hello}, not {PROTOCOL}: cancel it"
            _LOGGER.error("site %s: %s", self.spec.name, text)
            return
        job.began = job.greeted = True
        if connection.link.node_number == 0:
            job.node_count = report.nodes
        job.connections[connection.link.node_number] = connection
        node = connection.node = self._assigner.join(
            connection.launcher, connection.link.node_number
        )
        self._away.pop(node, None)
        node.host, node.cores = report.host, report.slots
        node.memory_bytes, node.gpus = report.memory_bytes, report.gpus
        node.ends_s = None if report.left_s is None else self._now() + report.left_s
        node.walltime_s = job.request.walltime_s if job.request is not None else None
        node.is_open = not job.stopping
        job.told = None
        if job.stopping:
            self._stop(job)
        believed = list(node.attempts)
        strays = [attempt.key for attempt in self._assigner.attempts.values()
                  if attempt.stray and attempt.key not in node.attempts]  # fmt: skip
        connection.say_of("return", strays)
        self._spawn(self._catch_up(connection, believed))
        self._recovery.now.set()
        self._tell(job)
        self._go_on()

    async def _catch_up(self, connection: LauncherConnection, keys: Sequence[str]) -> None:
        """Ask a launcher about all that it should have, which also tells how far away it is."""
        try:
            answers = await connection.ask(keys)
        except TransientError:
            return  # it will be back again
        for key, answer in answers.items():
            attempt = self._assigner.attempts.get(key)
            if answer.outcome is not None:
                self._end(key, answer.outcome)
            elif attempt is None or attempt.first_node is not connection.node:
                continue
            elif answer.state == "absent":
                self._recovery.put_back(attempt)
            elif attempt.cancelled:
                connection.say({"cancel": [key], "queued_only": False})
        self._go_on()

    def _on_news(self, connection: LauncherConnection, report: Report) -> None:
        for key in report.started:
            attempt = self._assigner.attempts.get(key)
            if attempt is None:
                continue
            if attempt.first_node is not connection.node and connection.node is not None:
                self._assigner.hold(attempt, (connection.node,))
            self._begin(attempt, connection.launcher)
            if attempt.cancelled:
                connection.say({"cancel": [key], "queued_only": False})
        for key, outcome in report.ended:
            self._end(key, outcome)
        if report.ended:
            self._go_on()

    def _take_back(self, connection: LauncherConnection, keys: Sequence[str]) -> None:
        for key in keys:
            attempt = self._assigner.attempts.get(key)
            if (
                attempt is None
                or attempt.first_node is not connection.node
                or connection.node is None
            ):
                continue
            if not attempt.returning and connection.node.is_open:
                attempt.refused_by = (*attempt.refused_by, connection.node)  # its time is too short
            self._recovery.put_back(attempt)
        self._go_on()

    def _begin(self, attempt: PoolAttempt, launcher: str) -> None:
        """Post a start once."""
        if not attempt.started:
            attempt.started, attempt.returning = True, False
            self._post(AttemptStarted(self._clock(), attempt.key, launcher))

    def _end(self, key: str, outcome: Outcome) -> None:
        """Post an end once, whichever way it came to be known."""
        took_s = None
        if outcome.started_s is not None and outcome.ended_s is not None:
            took_s = outcome.ended_s - outcome.started_s
        attempt = self._assigner.end(key, took_s)
        if attempt is not None:
            self._post(AttemptEnded(self._clock(), key, outcome))

    # -- giving out

    def _go_on(self) -> None:
        """Give out what there is room for, when all of this moment is known."""
        if not self._assigning:
            self._assigning = True
            asyncio.get_running_loop().call_soon(self._assign)

    def _assign(self) -> None:
        self._assigning = False
        for attempt in self._assigner.assign(self._now()):
            connection = self._connection_of(attempt)
            assert connection is not None
            assert attempt.request is not None
            request = attempt.request
            if request.resources.nodes > 1:
                hosts = tuple(node.host for node in attempt.nodes)
                request = msgspec.structs.replace(request, hosts=hosts)
            connection.run(request)

    def _connection_of(self, attempt: PoolAttempt) -> LauncherConnection | None:
        """Who can be told about it."""
        if attempt.first_node is None:
            return None
        job = self._jobs.get(attempt.first_node.launcher)
        return None if job is None else job.connections.get(attempt.first_node.number)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _tick(self) -> None:
        """What time brings: stocks are evened out, and given up where they can't be reached."""
        last_s = self._now()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self._now()
            passed_s = min(now_s - last_s, 2 * TICK_S)  # this machine may have slept
            last_s = now_s
            for keys in self._assigner.surplus(now_s).values():
                connection = self._connection_of(self._assigner.attempts[keys[0]])
                if connection is not None:
                    connection.say_of("return", keys)
            for job in self._jobs.values():
                self._tell(job)
            for node, away_s in list(self._away.items()):
                if away_s < AWAY_S <= away_s + passed_s:
                    self._give_to_others(node)
                self._away[node] = away_s + passed_s
                if (node.launcher, node.number) not in self._assigner.nodes:
                    del self._away[node]

    def _give_to_others(self, node: LauncherNode) -> None:
        waiting = [h for h in node.attempts.values() if not h.started and h.request is not None]
        for attempt in [attempt for attempt in waiting if not attempt.withdrawn]:
            attempt.stray = True
            self._assigner.wait(attempt)
        withdrawn = [attempt.key for attempt in waiting if attempt.withdrawn]
        self._spawn(self.cancel(withdrawn, queued_only=True))
        self._go_on()

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            _LOGGER.exception("site %s", self.spec.name)
            reason = f"internal error: {error!r}; wfrun resume may help"
            self._cluster.head.pause("defect", reason)


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")
