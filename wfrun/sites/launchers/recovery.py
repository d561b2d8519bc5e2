"""Determines the states of attempts that no launcher reports: after a crash of the engine, after
the loss of a launcher, or after a conflict of claims.

First the connected launchers are asked, then all journals are read. An attempt that a dead launcher
has started, and that has no exit record, is lost. Before its end is posted, the attempt is revoked,
so that a surviving process cannot commit its outputs any more. Then the journals are read again, to
find an exit record written before the revocation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Found, Outcome
from wfrun.sites.cluster.head_node import HeadRequests
from wfrun.sites.cluster.site import CLAIMED_BY_US, ClusterSite
from wfrun.sites.launchers.assigner import AttemptAssigner
from wfrun.sites.launchers.attempt_files import AttemptFiles
from wfrun.sites.launchers.journals import AttemptState, NodeId, Trace, read_traces, state_of
from wfrun.sites.launchers.launcher_jobs import LauncherJob
from wfrun.sites.launchers.launcher_nodes import LauncherNode, PoolAttempt

RETRY_DELAYS_S = (0.05, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Back-off in seconds between examinations of unresolved attempts."""
RECONNECT_S = 4.0
"""Time in seconds to wait for launchers of an earlier engine to connect, before the journals of
unconnected launchers are read. The wait only saves work: claims decide who starts an attempt."""
TRACELESS_S = 15.0
"""Time in seconds after which the owner of a claim counts as dead if no launcher reports the
attempt and no journal mentions it. It is not 0, since network file systems show files late."""

_UNKNOWN = Outcome("lost", message="it was claimed, and no launcher knows of it")
_NOT_TAKEN = Outcome("lost", message="it was sent to a launcher, which never received it")


class _Finding(NamedTuple):
    """The state of one attempt after an examination."""

    state: AttemptState
    outcome: Outcome | None = None
    node: NodeId | None = None
    """The node that has the attempt, or may have it; None: unknown or none."""
    cores: int = 1
    has_started: bool = False
    """Whether a journal records that the node has started the attempt."""


class AttemptRecovery:
    """Finds out the states of unresolved attempts in the background, and answers the engine's
    questions about attempts after a crash.

    ``post_start`` and ``post_end`` post the start and the end of an attempt. ``on_assignable`` is
    called when there may be attempts to assign. ``expect`` takes keys of launchers, which may
    connect from then on.
    """

    def __init__(
        self,
        assigner: AttemptAssigner,
        jobs: dict[str, LauncherJob],
        files: AttemptFiles,
        cluster: ClusterSite,
        head: HeadRequests,
        post_start: Callable[[PoolAttempt, str], None],
        post_end: Callable[[str, Outcome], None],
        on_assignable: Callable[[], None],
        expect: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        self.ended_launchers: set[str] = set()
        self.changed = asyncio.Event()
        """Set when another examination of unresolved attempts may have a new result."""
        self._assigner = assigner
        self._jobs = jobs
        self._files = files
        self._cluster, self._head = cluster, head
        self._post_start = post_start
        self._post_end = post_end
        self._on_assignable = on_assignable
        self._expect = expect
        self._unresolved: dict[str, float] = {}
        """Keys of unresolved attempts: it is unknown whether a launcher has them. The value is the
        time at which the attempt became unresolved, on the clock of the event loop."""

    def on_contested(self, node: LauncherNode, keys: Sequence[str]) -> None:
        """Called when a node reports that other processes have claimed these attempts."""
        for key in keys:
            attempt = self._assigner.attempts.get(key)
            if attempt is not None and attempt.first_node is node:
                self._set_unresolved(attempt)

    def requeue(self, attempt: PoolAttempt) -> None:
        """Take back an attempt that its launcher will not start. It ends as cancelled, waits for
        another launcher, or becomes unresolved if its request is unknown or another launcher may
        start it."""
        if attempt.request is None or (attempt.cancel_if_queued and attempt.maybe_elsewhere):
            # There is nothing to send again, or another launcher may start it: its claim decides.
            self._set_unresolved(attempt)
        elif attempt.cancel_if_queued:
            self._post_end(attempt.key, CLAIMED_BY_US)
        else:
            self._assigner.enqueue(attempt)

    def _set_unresolved(self, attempt: PoolAttempt) -> None:
        """Detach an attempt from its nodes and make it unresolved until its state is known."""
        self._assigner.detach(attempt)
        self._unresolved[attempt.key] = asyncio.get_running_loop().time()
        self.changed.set()

    async def run(self) -> None:
        """Examine unresolved attempts until cancelled: at once when ``changed`` is set, else with
        back-off, since launchers on other machines may write to journals unnoticed."""
        failures = 0
        while True:
            if not self._unresolved:
                await self.changed.wait()
                failures = 0
            delay_s = RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)]
            try:
                await asyncio.wait_for(self.changed.wait(), delay_s if failures else 0.0)
                failures = 0
                await asyncio.sleep(RETRY_DELAYS_S[0])  # changes come in groups
            except asyncio.TimeoutError:
                failures += 1
            self.changed.clear()
            await self._resolve()

    async def _resolve(self) -> None:
        """Examine all unresolved attempts once. Post the ends of ended and lost ones, assign active
        ones to their nodes, and let absent ones wait for a launcher. Absent ones that are cancelled
        or have no request are claimed, then their ends are posted."""
        attempts = self._assigner.attempts
        now_s = asyncio.get_running_loop().time()
        self._unresolved = {
            key: since_s
            for key, since_s in self._unresolved.items()
            if key in attempts and not attempts[key].nodes
        }
        if not self._unresolved:
            return
        recent = {key for key, at_s in self._unresolved.items() if now_s - at_s < TRACELESS_S}
        findings = await self._examine(list(self._unresolved), recent)
        unstarted = []
        for key, finding in findings.items():
            attempt = attempts.get(key)
            if attempt is None or attempt.nodes or key not in self._unresolved:
                continue  # a launcher reported it meanwhile
            if finding.outcome is not None:
                self._post_end(key, finding.outcome)
            elif finding.node is not None:
                self._attribute(attempt, finding.node)
            elif finding.state == "absent":
                if attempt.request is not None and not attempt.cancel_if_queued:
                    del self._unresolved[key]
                    self._assigner.enqueue(attempt)
                else:
                    unstarted.append(key)
        # These have not started. Their requests are unknown or they are cancelled, so none is sent
        # again; once we hold their claims no launcher can start them either.
        for key in await self._head.claim(unstarted) if unstarted else ():
            attempt = attempts.get(key)
            is_cancelled = attempt is not None and attempt.cancel_if_queued
            self._post_end(key, CLAIMED_BY_US if is_cancelled else _NOT_TAKEN)
        self._on_assignable()

    async def on_launcher_ended(
        self, job: LauncherJob, had: Sequence[PoolAttempt], lost: Outcome
    ) -> None:
        """Post the ends of the attempts ``had`` of an ended launcher, or queue them again.

        An attempt whose end is in the launcher's journal ends with the outcome there. Of the
        others, attempts that the launcher has started end with the outcome ``lost``, and attempts
        that it has not started are queued again, or examined if another process may have them.
        """
        attempts = self._assigner.attempts
        # The journal may be long, so it is read only if something of it is needed. Attempts that
        # others are believed to have are examined when those deny it.
        journals = await self._files.journals_of(job.key, job.node_count) if had else []
        traces = read_traces(journals, attempts)
        for key, trace in traces.items():
            if trace.outcome is not None:
                self._post_end(key, trace.outcome)
        rest = {each.key: each for each in had if each.key in attempts and not each.nodes}
        claimed = await self._files.claimed(list(rest))
        lost_keys = []
        for key, attempt in rest.items():
            if key not in attempts or attempt.nodes:
                continue  # a launcher reported it meanwhile
            found = traces.get(key)
            has_started = found is not None and found.owner is not None
            # A claim without a start: the launcher died between the two, or another has the claim.
            may_have_started = found is not None and bool(found.queued) and key in claimed
            if has_started or (may_have_started and not attempt.maybe_elsewhere):
                lost_keys.append(key)
            elif key in claimed:
                self._set_unresolved(attempt)
            else:
                self.requeue(attempt)
        await self._post_lost(job, lost_keys, lost)
        self.changed.set()

    async def _post_lost(self, job: LauncherJob, keys: Sequence[str], lost: Outcome) -> None:
        """Revoke attempts of a dead launcher, then post their ends. The outcome is that in the
        journal if there is one by now, else ``lost``."""
        await self._files.revoke(keys)
        # A record written between the first reading and the revocation counts.
        journals = await self._files.journals_of(job.key, job.node_count) if keys else []
        traces = read_traces(journals, set(keys))
        for key in keys:
            attempt = self._assigner.attempts.get(key)
            is_cancelled = attempt is not None and attempt.cancel_requested
            outcome = msgspec.structs.replace(lost, cause="cancelled") if is_cancelled else lost
            self._post_end(key, traces.get(key, Trace()).outcome or outcome)

    # -- after a crash of the engine

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """The states of launchers' batch jobs. Active ones are tracked from now on. A job that is
        in neither the queue nor the exit records is claimed, so that it cannot start later."""
        found = await self._find_jobs(keys)
        absent = [key for key, answer in found.items() if answer.state == "absent"]
        # The queue may not show yet what a crashed engine submitted last. With our claim such a
        # job ends as soon as it starts; where another process has the claim, it has started.
        taken = await self._head.claim(absent) if absent else []
        started = [key for key in absent if key not in taken]
        return {**found, **await self._find_jobs(started)} if started else found

    async def _find_jobs(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """The states of launchers' batch jobs, from the queue and the exit records alone. Active
        ones are tracked, and their launchers may connect from now on."""
        found = await self._cluster.find(keys)
        new = []
        for key, answer in found.items():
            if answer.state == "ended":
                self.ended_launchers.add(key)
            elif answer.state == "active" and key not in self._jobs:
                job = self._jobs[key] = LauncherJob(key, None)
                job.submitted = True
                new.append(key)
        for key in await self._files.claimed(new):
            if key in self._jobs:
                self._jobs[key].started = True
        await self._expect(new)
        return found

    async def find(self, keys: Sequence[str]) -> dict[str, Found]:
        """The states of attempts. Active ones are tracked: their starts and ends are posted from
        now on."""
        found = {key: Found("active") for key in keys if key in self._assigner.attempts}
        unknown = [key for key in keys if key not in found]
        if not unknown:
            return found
        await self._list_journals()  # finds the launchers to wait for
        await self._wait_for_reconnections()
        for key, finding in (await self._examine(unknown, frozenset())).items():
            if finding.outcome is not None:
                found[key] = Found("ended", finding.outcome)
            elif finding.state == "active":
                found[key] = Found("active")
                if key not in self._assigner.attempts:
                    self._adopt(key, finding)
            else:
                found[key] = Found("absent")
        return found

    def _adopt(self, key: str, finding: _Finding) -> None:
        """Track an active attempt that an earlier engine submitted."""
        attempt = self._assigner.track(key)
        attempt.resources = msgspec.structs.replace(attempt.resources, cores=finding.cores)
        if finding.node is None or not self._attribute(attempt, finding.node):
            self._set_unresolved(attempt)
        elif finding.has_started:
            self._post_start(attempt, finding.node[0])

    def _attribute(self, attempt: PoolAttempt, node: NodeId) -> bool:
        """Assign an attempt to the node that has it. Returns False, and changes nothing, if the
        node's launcher has ended."""
        if node[0] in self.ended_launchers:
            return False
        self._assigner.assign_to(attempt, (self._assigner.node_of(*node),))
        return True

    def _running_nodes(self) -> set[NodeId]:
        """The nodes of all launchers whose batch jobs have started and are not known to have
        ended."""
        return {
            (job.key, node)
            for job in self._jobs.values()
            if job.started
            for node in range(job.node_count)
        }

    async def _wait_for_reconnections(self) -> None:
        """Wait up to RECONNECT_S until all running launchers have connected to this engine."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + RECONNECT_S
        while loop.time() < end_s and any(
            node not in self._jobs[launcher].connections and not self._cluster.has_left(launcher)
            for launcher, node in self._running_nodes()
        ):
            await asyncio.sleep(0.1)

    # -- examination

    async def _examine(self, keys: Sequence[str], recent: Collection[str]) -> dict[str, _Finding]:
        """Examine attempts and revoke the lost ones. Returns the finding for each key. A claimed
        attempt that no journal mentions counts as active, not lost, if a launcher cannot be asked,
        or if it is in ``recent``: the file system may show the journal late."""
        findings, answered = await self._ask_launchers(keys)
        rest = [key for key in keys if key not in findings]
        if not rest:
            return findings
        traces = await self._read_journals(set(rest))
        claimed = await self._files.claimed(rest)
        unreached = {node for node in self._running_nodes() if node not in answered}
        lost = []
        for key in rest:
            trace = traces.get(key, Trace())
            state = state_of(traces.get(key), key in claimed, unreached)
            node = None
            if state == "active":
                node = trace.owner or next(iter(trace.queued & unreached))
            is_traceless = trace.owner is None and not trace.queued
            if state == "lost" and is_traceless and (unreached or key in recent):
                # A launcher that cannot be asked may have it, or its journal is shown late.
                state = "active"
            findings[key] = _Finding(
                state, trace.outcome, node, trace.cores, trace.owner is not None
            )
            if state == "lost":
                lost.append(key)
        findings.update(await self._revoke(lost))
        return findings

    async def _ask_launchers(self, keys: Sequence[str]) -> tuple[dict[str, _Finding], set[NodeId]]:
        """Ask the connected launchers for the states of attempts. Returns the findings for those
        that have ended or are active, and the nodes that have answered."""
        connections = [each for job in self._jobs.values() for each in job.connections.values()]
        answers = await asyncio.gather(
            *(connection.ask(keys) for connection in connections), return_exceptions=True
        )
        findings: dict[str, _Finding] = {}
        answered = set()
        for connection, answer in zip(connections, answers, strict=True):
            if isinstance(answer, TransientError):
                continue
            if isinstance(answer, BaseException):
                raise answer
            node = connection.launcher, connection.link.node_number
            answered.add(node)
            for key, found in answer.items():
                if found.outcome is not None:
                    findings[key] = _Finding("ended", found.outcome)
                elif found.state == "active" and key not in findings:
                    findings[key] = _Finding("active", None, node)
        return findings, answered

    async def _read_journals(self, keys: Collection[str]) -> dict[str, Trace]:
        return read_traces(await self._files.journals(await self._list_journals()), keys)

    async def _list_journals(self) -> list[tuple[NodeId, str]]:
        """The names of all journals, with their writers. For a launcher that is known only by its
        journal, the state of its batch job is looked up.

        The lookup has to precede the reading of the journal: in the other order, a launcher that
        writes its last record and ends in between would seem to have died without that record.
        """
        names = await self._files.journal_names({*self._jobs, *self.ended_launchers})
        writers = dict.fromkeys(launcher for (launcher, _), _ in names)
        known = {*self._jobs, *self.ended_launchers}
        others = [name for name in writers if name not in known]
        if others:
            found = await self._find_jobs(others)
            self.ended_launchers.update(
                key for key, answer in found.items() if answer.state != "active"
            )
        for (launcher, node), _ in names:
            if launcher in self._jobs:
                job = self._jobs[launcher]
                job.node_count = max(job.node_count, node + 1)
        return names

    async def _revoke(self, keys: Sequence[str]) -> dict[str, _Finding]:
        """Revoke lost attempts. Returns a finding with an outcome for each: the outcome recorded
        before the revocation, or else "lost"."""
        if not keys:
            return {}
        await self._files.revoke(keys)
        traces = await self._read_journals(set(keys))
        outcomes = {key: trace.outcome for key, trace in traces.items()}
        return {key: _Finding("ended", outcomes.get(key) or _UNKNOWN) for key in keys}
