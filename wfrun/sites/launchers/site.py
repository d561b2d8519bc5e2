"""A cluster whose tasks are run by launchers inside its batch jobs.

Each launcher is an attempt of a ``ClusterSite``; this site assigns tasks to the connected
launchers. Only the process that creates the claim of an attempt may start the attempt, so it is
safe to give an attempt to a second launcher while the first cannot be reached. The end of an
attempt is reported by its launcher, or found in that launcher's journal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.events import (
    AttemptEnded,
    AttemptsSubmitted,
    AttemptStarted,
    Event,
    JobResized,
    LauncherEnded,
    LaunchersSubmitted,
    RecordedEnd,
)
from wfrun.engine.exchange import (
    AttemptRequest,
    ClaimedNode,
    Content,
    Found,
    LauncherRequest,
    Outcome,
)
from wfrun.engine.fitting.containers import SiteEnvironment
from wfrun.engine.model import SiteSpec
from wfrun.sites.cluster.head_node import HeadRequests
from wfrun.sites.cluster.site import CLAIMED_BY_US, ClusterSite
from wfrun.sites.launchers.assigner import AttemptAssigner
from wfrun.sites.launchers.attempt_files import AttemptFiles
from wfrun.sites.launchers.channels.channel_supervisor import ChannelSupervisor
from wfrun.sites.launchers.channels.launcher_connection import LauncherConnection
from wfrun.sites.launchers.channels.limited_log import LimitedWarnings
from wfrun.sites.launchers.channels.link import LauncherChannels, Link
from wfrun.sites.launchers.channels.messages import PROTOCOL, LauncherReport, ResizedProgram
from wfrun.sites.launchers.command_relay import CommandRelay
from wfrun.sites.launchers.launcher_jobs import (
    LauncherJob,
    end_of,
    job_of,
    outcome_of_lost_attempts,
    too_long,
)
from wfrun.sites.launchers.launcher_nodes import LauncherNode, PoolAttempt
from wfrun.sites.launchers.recovery import AttemptRecovery
from wfrun.sites.tasks import BackgroundTasks

_LOGGER = logging.getLogger(__name__)

TICK_S = 0.25
"""Interval in seconds between recalls of prefetched attempts for idle launchers, and between checks
of how long launchers have been unreachable."""
REASSIGN_S = 30.0
"""Time in seconds without a connection after which a launcher's unstarted attempts are given to
other launchers."""
DISMISS_S = 5.0
"""Timeout in seconds for the last messages to launchers when a run is over."""


class BatchLauncherSite:
    """Implements ``LauncherSite``.

    ``index`` is the site's number in the run's events. ``cluster`` runs the launchers as attempts;
    it must not be open yet. ``head`` makes the requests to its head node. ``channels`` takes the
    run's directory at the cluster, which is known after the first connection to the head node, and
    returns the channels.
    """

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        cluster: ClusterSite,
        head: HeadRequests,
        channels: Callable[[str], LauncherChannels],
        *,
        pack_logs: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._pack_logs = pack_logs
        self.connection = cluster.connection
        self.relay = CommandRelay(())
        """Relay of commands between all sites at which the run claims processors. The run sets it.
        """
        self._index = index
        self._cluster, self._head = cluster, head
        self._jobs: dict[str, LauncherJob] = {}
        """Launchers whose end has not been posted, by key."""
        self._supervisor = ChannelSupervisor(head, channels, self, self._jobs)
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._assigner = AttemptAssigner()
        self._connections: dict[int, LauncherConnection] = {}
        """Connections by ``id`` of their links."""
        self._files = AttemptFiles(head)
        self._recovery = AttemptRecovery(
            self._assigner,
            self._jobs,
            self._files,
            cluster,
            head,
            self._post_start,
            self._post_recorded_end,
            self._schedule_assignment,
            self._supervisor.expect,
        )
        self._questions: dict[str, dict[str, Any]] = {}
        """The unanswered question to resize the malleable job of a launcher, by key of the
        launcher."""
        self._warnings = LimitedWarnings(spec.name)
        self._away_s: dict[LauncherNode, float] = {}
        """Nodes without a connection, with the time in seconds since its loss. The time while this
        machine was suspended is not counted."""
        self._is_scheduled = False
        self._tasks = BackgroundTasks(self._on_defect)

    # -- the protocol of a site

    async def open(self, post: Callable[[Event], None]) -> None:
        self._post = post
        await self._cluster.open(
            self._on_job_event, connected=self._supervisor.reached.set, is_over=self._is_over
        )
        for work in (self._supervisor.run(), self._tick(), self._recovery.run()):
            self._tasks.start(work)

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        fresh = [request for request in batch if request.key not in self._assigner.attempts]
        if fresh:
            keys = tuple(request.key for request in fresh)
            self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        for request in fresh:
            self._assigner.add(request)
            reason = too_long(request, self.spec)
            if reason is not None:
                self._post_end(request.key, Outcome("refused", message=reason))
        self._schedule_assignment()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        attempts = self._assigner.attempts
        unreachable = []
        by_connection: dict[LauncherConnection, list[str]] = {}
        for attempt in [attempts[key] for key in keys if key in attempts]:
            connection = self._connection_of(attempt)
            if self._assigner.is_waiting(attempt) and not attempt.maybe_elsewhere:
                self._post_end(attempt.key, CLAIMED_BY_US)
                continue
            attempt.cancel_if_queued = True
            attempt.cancel_requested = attempt.cancel_requested or not queued_only
            if connection is not None and (attempt.started or not attempt.maybe_elsewhere):
                by_connection.setdefault(connection, []).append(attempt.key)
            else:
                unreachable.append(attempt.key)
        for connection, some in by_connection.items():
            connection.send_keys("cancel", some, queued_only=queued_only)
        if unreachable:
            # What we claim never starts, whichever launcher has it in its queue.
            for key in await self._head.claim(unreachable):
                self._post_end(key, CLAIMED_BY_US)

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        await self._head.ready.wait()
        return await self._recovery.find(keys)

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return await self._cluster.log(key)

    async def absent(self, files: Mapping[str, Content]) -> list[str]:
        return await self._cluster.absent(files)

    async def remove(self, names: Sequence[str]) -> None:
        await self._cluster.remove(names)

    async def clean(self) -> None:
        await self._cluster.clean()

    async def close(self) -> None:
        """Disconnect from the cluster; launchers go on with the attempts that they have."""
        await self._tasks.end()
        for connection in self._connections.values():
            connection.end()
        await self._supervisor.close()
        await self._cluster.close()

    def store_path(self, name: str) -> str:
        """Return the path of a file in the site's store. Raises TransientError before the cluster
        was reached."""
        return self._cluster.store_path(name)

    @property
    def environment(self) -> SiteEnvironment | None:
        """Implements `ClaimedSite.environment`."""
        return self.spec.environment

    def connection_to(self, launcher: str, node: int) -> LauncherConnection | None:
        """Implements `ClaimedSite.connection_to`."""
        job = self._jobs.get(launcher)
        return None if job is None else job.connections.get(node)

    # -- launchers

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        fresh = [LauncherJob(each.key, each) for each in launchers if each.key not in self._jobs]
        self._jobs.update((job.key, job) for job in fresh)
        if fresh:
            self._tasks.start(self._submit(fresh))

    async def _submit(self, jobs: list[LauncherJob]) -> None:
        # Expected first: a launcher that starts at once is not to be refused.
        await self._supervisor.expect([job.key for job in jobs])
        wanted = [job for job in jobs if not job.stopping]
        for job in [job for job in jobs if job.stopping]:
            self._end_job(job, "done", None)
        for job in wanted:
            job.submitted = True
        requests = [job.request for job in wanted if job.request is not None]
        await self._cluster.submit(
            [job_of(request, self.spec, pack_logs=self._pack_logs) for request in requests]
        )

    async def stop_launchers(self, keys: Sequence[str], *, now: bool = False) -> None:
        jobs = [self._jobs[key] for key in keys if key in self._jobs]
        for job in jobs:
            job.ends_tasks = job.ends_tasks or now
            self._stop(job)
        queued = [job.key for job in jobs if job.submitted and not job.connections]
        await self._cluster.cancel(queued, queued_only=True)

    async def resize(
        self, key: str, launcher: str, number: int, nodes: Sequence[ClaimedNode], shrink: int
    ) -> None:
        # Kept also if the launcher is not known here yet, as in a resumed run.
        question = {"attempt": key, "number": number, "nodes": nodes, "shrink": shrink}
        self._questions[launcher] = msgspec.to_builtins(question)
        self._ask_again(launcher)

    def _ask_again(self, launcher: str) -> None:
        """Send a launcher its unanswered question to resize, if there is one and the launcher is
        connected. A launcher answers a repeated question only once."""
        question, connection = self._questions.get(launcher), self.connection_to(launcher, 0)
        if question is not None and connection is not None:
            connection.send({"resize": question})

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        return await self._recovery.find_launchers(keys)

    async def dismiss(self) -> None:
        for job in self._jobs.values():
            self._stop(job)
        drained = [connection.link.drained() for connection in self._connections.values()]
        others = self._cluster.cancel_until_gone(
            lambda: [job.key for job in self._jobs.values() if not job.connections]
        )
        try:
            over = self._supervisor.dismiss()
            work = asyncio.gather(*drained, others, over, return_exceptions=True)
            await asyncio.wait_for(work, DISMISS_S)
        except asyncio.TimeoutError:
            _LOGGER.info("site %s: some launchers could not be reached to end them", self.spec.name)

    async def end_jobs(self) -> None:
        """Cancel the batch jobs of all launchers, and return when they have left the queue."""
        await self._cluster.cancel_until_gone(lambda: [job.key for job in self._jobs.values()])

    async def until_gone(self) -> None:
        """Return when the queue shows no job of the run; see ``ClusterSite.until_gone``."""
        await self._cluster.until_gone()

    async def stuck_jobs(self) -> list[str]:
        """The command that removes stuck job arrays of launchers; see `ClusterSite.stuck_jobs`."""
        return await self._cluster.stuck_jobs()

    def _stop(self, job: LauncherJob) -> None:
        """Ask a launcher to stop: after its running tasks, or with ``ends_tasks`` at once."""
        job.stopping = True
        job.reason = "the engine asked it to stop"
        for connection in job.connections.values():
            connection.send({"stop": True, "now": True} if job.ends_tasks else {"stop": True})
            if connection.node is not None:
                connection.node.is_open = False

    def _on_job_event(self, event: Event) -> None:
        """Called with the events of ``cluster``, whose attempts are the launchers. Posts them as
        events of launchers."""
        if isinstance(event, AttemptsSubmitted):
            self._post(LaunchersSubmitted(event.at_s, self._index, event.keys))
        elif isinstance(event, AttemptStarted):
            if event.key in self._jobs:
                self._jobs[event.key].started = True
        elif isinstance(event, AttemptEnded):
            if event.key in self._jobs:
                self._tasks.start(self._on_job_ended(self._jobs[event.key], event.outcome))
        else:
            self._post(event)

    async def _on_job_ended(self, job: LauncherJob, outcome: Outcome) -> None:
        """Post the ends of an ended launcher's attempts or queue them again, then post the end of
        the launcher and remove the files of its channels."""
        for connection in [c for c in self._connections.values() if c.launcher == job.key]:
            self._disconnect(connection)
            connection.link.close()
        self._head.reopen(f"records of {job.key}")
        had = self._assigner.remove_launcher(job.key)
        self._recovery.ended_launchers.add(job.key)
        lost = outcome_of_lost_attempts(job, outcome)
        await self._recovery.on_launcher_ended(job, had, lost)
        cause, message = end_of(job, outcome)
        if cause == "launch-failed" and outcome.cause == "done":
            tail = await self._files.stderr_tail(job.key)
            message = f"{message}\n{tail}" if tail else message
        self._end_job(job, cause, message)
        await self._supervisor.forget([job.key])

    def _end_job(self, job: LauncherJob, cause: Any, message: str | None) -> None:
        self._jobs.pop(job.key, None)
        self.relay.forget(job.key)
        self._questions.pop(job.key, None)
        self._post(LauncherEnded(self._clock(), self._index, job.key, cause, message))
        self._schedule_assignment()

    # -- links

    def on_connected(self, launcher: str, link: Link) -> None:
        for connection in list(self._connections.values()):
            earlier = connection.link
            if connection.launcher == launcher and earlier.node_number == link.node_number:
                self._disconnect(connection)
        self._connections[id(link)] = LauncherConnection(launcher, link, self._warnings)

    def on_disconnected(self, link: Link, reason: str) -> None:
        connection = self._connections.get(id(link))
        if connection is None:
            return
        job = self._jobs.get(connection.launcher)
        self._disconnect(connection)
        self._cluster.poll_soon()  # perhaps its job has ended
        if job is not None and connection.node is not None:
            job.reason = reason
            self._report_status(job)

    def _disconnect(self, connection: LauncherConnection) -> None:
        """Remove a connection whose link has ended. Its node accepts no attempts and counts as
        unreachable from now on."""
        self._connections.pop(id(connection.link), None)
        connection.end()
        job = self._jobs.get(connection.launcher)
        number = connection.link.node_number
        if job is not None and job.connections.get(number) is connection:
            del job.connections[number]
            assert connection.node is not None
            connection.node.is_open = False
            self._away_s[connection.node] = 0.0

    def _is_over(self, key: str) -> bool:
        """Whether no exit record is awaited from a launcher whose job has left the queue: it was
        connected, is not connected now, and has attempts. The states of its attempts then follow
        from claims and the journal."""
        job = self._jobs.get(key)
        is_gone = job is not None and job.greeted and not job.connections
        return is_gone and self._assigner.has_attempts(key)

    def _report_status(self, job: LauncherJob) -> None:
        """Post the event for a launcher's changed status (``LauncherJob.status_event``), if any."""
        event = job.status_event(self._clock(), self._now(), self._index)
        if event is not None:
            self._post(event)

    def on_lines(self, link: Link, lines: Sequence[bytes]) -> None:
        connection = self._connections.get(id(link))
        for report in () if connection is None else connection.reports(lines):
            assert connection is not None
            self._on_report(connection, report)
            if self._connections.get(id(link)) is not connection:
                return

    # -- reports of launchers

    def _on_report(self, connection: LauncherConnection, report: LauncherReport) -> None:
        launcher = connection.launcher
        if report.started or report.ended:
            self._on_progress(connection, report)
        elif report.hello is not None:
            self._on_hello(connection, report)
        elif report.found is not None:
            connection.on_answer(report.id, report.found)
        elif report.returned:
            self._on_returned(connection, report.returned)
        elif report.contested:
            if connection.node is not None:
                self._recovery.on_contested(connection.node, report.contested)
        elif report.ending is not None:
            if connection.node is not None:
                connection.node.is_open = False
            if launcher in self._jobs:
                self._jobs[launcher].reason = report.ending
                self._report_status(self._jobs[launcher])
        elif report.failing is not None:
            self._head.pause(f"records of {launcher}", report.failing)
        elif report.recovered:
            self._head.reopen(f"records of {launcher}")
        elif report.error is not None:
            connection.warn(report.error)
        elif report.remote is not None:
            self.relay.ask(connection, report.remote)
        elif report.hangup is not None:
            self.relay.hang_up(connection, report.hangup)
        elif report.remote_ended is not None:
            self.relay.on_ended(connection, report.remote_ended)
        elif report.resized is not None:
            self._on_resized(connection, report.resized)

    def _on_resized(self, connection: LauncherConnection, found: ResizedProgram) -> None:
        question = self._questions.get(connection.launcher)
        if question is not None and question["number"] <= found.number:
            del self._questions[connection.launcher]
        self._post(
            JobResized(
                self._clock(), found.attempt, found.number, found.nodes, found.gone, found.failure
            )
        )

    def _on_hello(self, connection: LauncherConnection, report: LauncherReport) -> None:
        job = self._jobs.get(connection.launcher)
        if job is None or job.key in self._recovery.ended_launchers:
            return  # it is not known yet, or has ended
        if report.hello != PROTOCOL:
            connection.warn(f"it speaks version {report.hello}, not {PROTOCOL}: cancel its job")
            return
        number = connection.link.node_number
        job.started = job.greeted = True
        if number == 0 and (job.request is None or report.nodes <= job.request.nodes):
            job.node_count = report.nodes
        job.connections[number] = connection
        node = self._assigner.node_of(connection.launcher, number)
        connection.on_hello(node, report, self._now())
        self._away_s.pop(node, None)
        node.walltime_s = job.request.walltime_s if job.request is not None else None
        node.is_open = not job.stopping
        job.reported = None
        if job.stopping:
            self._stop(job)
        assigned = list(node.attempts)
        # It may still have attempts that were given to others while it was away.
        reassigned = [attempt.key for attempt in self._assigner.attempts.values()
                      if attempt.maybe_elsewhere and attempt.key not in node.attempts]  # fmt: skip
        connection.send_keys("return", reassigned)
        self._tasks.start(self._reconcile(connection, assigned))
        self._recovery.changed.set()
        self.relay.on_connected(connection)
        self._ask_again(connection.launcher)
        self._report_status(job)
        self._schedule_assignment()

    async def _reconcile(self, connection: LauncherConnection, keys: Sequence[str]) -> None:
        """Ask a newly connected launcher for the states of the attempts ``keys`` assigned to it,
        since its last connection may have lost messages. Post the ends of ended ones and requeue
        absent ones. The answer also measures the round-trip time."""
        try:
            answers = await connection.ask(keys)
        except TransientError:
            return  # it will connect again
        for key, answer in answers.items():
            attempt = self._assigner.attempts.get(key)
            if answer.outcome is not None:
                self._post_end(key, answer.outcome)
            elif attempt is None or attempt.first_node is not connection.node:
                continue
            elif answer.state == "absent":
                self._recovery.requeue(attempt)
            elif attempt.cancel_requested:
                connection.send({"cancel": [key], "queued_only": False})
        self._schedule_assignment()

    def _on_progress(self, connection: LauncherConnection, report: LauncherReport) -> None:
        for key in report.started:
            attempt = self._assigner.attempts.get(key)
            if attempt is None:
                continue
            if attempt.first_node is not connection.node and connection.node is not None:
                self._assigner.assign_to(attempt, (connection.node,))
            self._post_start(attempt, connection.launcher)
            if attempt.cancel_requested:  # it started before the cancellation reached it
                connection.send({"cancel": [key], "queued_only": False})
        for key, outcome in report.ended:
            if self._assigner.may_have(key, connection.node):
                self._post_end(key, outcome)
            else:
                connection.warn(f"it reports the end of {key}, which it does not have")
        if report.ended:
            self._schedule_assignment()

    def _on_returned(self, connection: LauncherConnection, keys: Sequence[str]) -> None:
        node = connection.node
        for key in keys:
            attempt = self._assigner.attempts.get(key)
            if attempt is None or node is None or attempt.first_node is not node:
                continue
            if not attempt.recalled and node.is_open:  # its remaining time is too short
                attempt.returned_by = (*attempt.returned_by, node)
            self._recovery.requeue(attempt)
        self._schedule_assignment()

    def _post_start(self, attempt: PoolAttempt, launcher: str) -> None:
        """Post the start of an attempt, unless it has been posted."""
        if not attempt.started:
            attempt.started, attempt.recalled = True, False
            self._post(AttemptStarted(self._clock(), attempt.key, launcher))

    def _post_recorded_end(self, key: str, outcome: Outcome) -> None:
        """Post an end that was not observed but found in a record, as RecordedEnd."""
        self._post_end(key, outcome, RecordedEnd)

    def _post_end(
        self, key: str, outcome: Outcome, kind: type[AttemptEnded] = AttemptEnded
    ) -> None:
        """Post the end of an attempt, unless it has been posted: the first source counts."""
        runtime_s = None
        if outcome.started_s is not None and outcome.ended_s is not None:
            runtime_s = outcome.ended_s - outcome.started_s
        if self._assigner.end(key, runtime_s) is not None:
            self._post(kind(self._clock(), key, outcome))

    # -- assignment

    def _schedule_assignment(self) -> None:
        """Schedule one call of ``_assign`` for the next turn of the event loop."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._assign)

    def _assign(self) -> None:
        self._is_scheduled = False
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
        """The connection to the first node of an attempt; None: the attempt is not assigned, or the
        node is not connected."""
        node = attempt.first_node
        job = None if node is None else self._jobs.get(node.launcher)
        return None if node is None or job is None else job.connections.get(node.number)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _tick(self) -> None:
        """Every TICK_S, until cancelled: recall prefetched attempts for idle launchers, post
        changed statuses, and reassign attempts of launchers unreachable for REASSIGN_S."""
        last_s = self._now()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = self._now()
            # A suspended machine could reach no launcher, so that time does not count.
            passed_s = min(now_s - last_s, 2 * TICK_S)
            last_s = now_s
            for keys in self._assigner.recall(now_s).values():
                connection = self._connection_of(self._assigner.attempts[keys[0]])
                if connection is not None:
                    connection.send_keys("return", keys)
            for job in self._jobs.values():
                self._report_status(job)
            for node, away_s in list(self._away_s.items()):
                if away_s < REASSIGN_S <= away_s + passed_s:
                    self._reassign_from(node)
                self._away_s[node] = away_s + passed_s
                if (node.launcher, node.number) not in self._assigner.nodes:
                    del self._away_s[node]

    def _reassign_from(self, node: LauncherNode) -> None:
        """Queue the unstarted attempts of an unreachable node for other nodes, or cancel those
        whose cancellation is requested."""
        unstarted = [attempt for attempt in node.attempts.values()
                     if not attempt.started and attempt.request is not None]  # fmt: skip
        for attempt in unstarted:
            if not attempt.cancel_if_queued:
                attempt.maybe_elsewhere = True
                self._assigner.enqueue(attempt)
        cancelled = [attempt.key for attempt in unstarted if attempt.cancel_if_queued]
        self._tasks.start(self.cancel(cancelled, queued_only=True))
        self._schedule_assignment()

    def _on_defect(self, error: Exception) -> None:
        """Called with an internal error: pause the site, so that other sites get the work."""
        _LOGGER.error("site %s", self.spec.name, exc_info=error)
        reason = f"internal error: {error!r}; wfrun resume may help"
        self._head.pause("defect", reason)


def _refuse(event: Event) -> None:
    raise AssertionError("the site is not open")
