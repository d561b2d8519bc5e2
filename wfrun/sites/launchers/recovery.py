"""Finding out what became of attempts that no launcher at hand tells of.

First the launchers that are connected are asked, then the journals of all are read. An attempt that
was started by a launcher which is dead, and has no record of its end, is lost: its outputs are
refused from then on, and the journals are read once more before that is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import TransientError
from wfrun.engine.exchange import Found, Outcome
from wfrun.sites.cluster.site import CLAIMED_BY_US, ClusterSite
from wfrun.sites.launchers.assigner import AttemptAssigner, LauncherNode, PoolAttempt
from wfrun.sites.launchers.attempt_files import AttemptFiles
from wfrun.sites.launchers.journals import AttemptState, NodeId, Trace, fate, trace
from wfrun.sites.launchers.launcher_jobs import LauncherJob

DELAYS_S = (0.05, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Between looks at what is not clear yet."""
RETURN_S = 4.0
"""Launchers of an engine before this one have so long to connect to this one before the journals
of those that have not are taken at their word. It is only a courtesy: claims decide."""
TRACELESS_S = 15.0
"""A claim of which no launcher writes or says anything is believed to be nobody's after so long:
network file systems show files late."""

_UNKNOWN = Outcome("lost", message="it was claimed, and no launcher knows of it")
_NOT_TAKEN = Outcome("lost", message="it was given to a launcher, which never got it")


class _Verdict(NamedTuple):
    fate: AttemptState
    outcome: Outcome | None = None
    where: NodeId | None = None
    """Who has it, or may have it."""
    cores: int = 1
    has_begun: bool = False
    """It is written that who has it has started it."""


class AttemptRecovery:
    """``begin`` tells of a start at a launcher, ``end`` of an end, ``go_on`` that something can be
    given out again; launchers that are found are given to ``expect``, so that they can connect."""

    def __init__(
        self,
        assigner: AttemptAssigner,
        jobs: dict[str, LauncherJob],
        records: AttemptFiles,
        cluster: ClusterSite,
        begin: Callable[[PoolAttempt, str], None],
        end: Callable[[str, Outcome], None],
        go_on: Callable[[], None],
        expect: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        self.dead: set[str] = set()
        """Launchers that have ended."""
        self.now = asyncio.Event()
        """There may be news of what is not clear yet."""
        self._assigner = assigner
        self._jobs = jobs
        self._files = records
        self._cluster = cluster
        self._begin = begin
        self._end = end
        self._go_on = go_on
        self._expect = expect
        self._unclear: dict[str, float] = {}
        """Attempts nobody is known to have, and since when."""

    def contested(self, node: LauncherNode | None, keys: Sequence[str]) -> None:
        """This launcher says that somebody else has claimed these."""
        for key in keys:
            attempt = self._assigner.attempts.get(key)
            if attempt is not None and attempt.first_node is node:
                self._set_aside(attempt)

    def put_back(self, attempt: PoolAttempt) -> None:
        """Its launcher has not started it and is not going to."""
        if attempt.request is None or (attempt.withdrawn and attempt.stray):
            self._set_aside(attempt)
        elif attempt.withdrawn:
            self._end(attempt.key, CLAIMED_BY_US)
        else:
            self._assigner.wait(attempt)

    def _set_aside(self, attempt: PoolAttempt) -> None:
        self._assigner.set_aside(attempt)
        self._unclear[attempt.key] = asyncio.get_running_loop().time()
        self.now.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        failures = 0
        while True:
            if not self._unclear:
                await self.now.wait()
                failures = 0
            delay_s = DELAYS_S[min(failures, len(DELAYS_S) - 1)]
            try:
                await asyncio.wait_for(self.now.wait(), delay_s if failures else 0.0)
                failures = 0
                await asyncio.sleep(DELAYS_S[0])
            except asyncio.TimeoutError:
                failures += 1
            self.now.clear()
            await self._clear_up()

    async def _clear_up(self) -> None:
        """Look once at all that is unclear."""
        attempts = self._assigner.attempts
        now_s = asyncio.get_running_loop().time()
        self._unclear = {
            key: since_s
            for key, since_s in self._unclear.items()
            if key in attempts and not attempts[key].nodes
        }
        if not self._unclear:
            return
        patient = {key for key, at_s in self._unclear.items() if now_s - at_s < TRACELESS_S}
        verdicts = await self._judge(list(self._unclear), patient)
        ours = []
        for key, verdict in verdicts.items():
            attempt = attempts.get(key)
            if attempt is None or attempt.nodes or key not in self._unclear:
                continue  # it was told of meanwhile
            if verdict.outcome is not None:
                self._end(key, verdict.outcome)
            elif verdict.where is not None:
                self._leave_to(attempt, verdict.where)
            elif verdict.fate == "absent" and attempt.request is not None and not attempt.withdrawn:
                del self._unclear[key]
                self._assigner.wait(attempt)
            elif verdict.fate == "absent":
                ours.append(key)
        for key in await self._cluster.head.claim(ours) if ours else ():
            attempt = attempts.get(key)
            self._end(
                key, CLAIMED_BY_US if attempt is not None and attempt.withdrawn else _NOT_TAKEN
            )
        self._go_on()

    async def bury(self, job: LauncherJob, had: Sequence[PoolAttempt], lost: Outcome) -> None:
        """A launcher is dead that had these: its journal tells, and what it had not started goes
        to others."""
        attempts = self._assigner.attempts
        # It may be long: what others are believed to have is asked for when these deny it.
        journals = await self._files.journals_of(job.key, job.node_count) if had else []
        traces = trace(journals, attempts)
        for key, found in traces.items():
            if found.outcome is not None:
                self._end(key, found.outcome)
        rest = {
            attempt.key: attempt for attempt in had if attempt.key in attempts and not attempt.nodes
        }
        claimed = await self._files.claimed(list(rest))
        gone = []
        for key, attempt in rest.items():
            if key not in attempts or attempt.nodes:
                continue
            mine = traces.get(key)
            if mine is not None and (mine.owner is not None or (mine.queued and key in claimed)):
                if mine.owner is None and attempt.stray:
                    self._set_aside(attempt)
                else:
                    gone.append(key)
            elif key in claimed:
                self._set_aside(attempt)
            else:
                self.put_back(attempt)
        await self._files.revoke(gone)
        late = (
            trace(await self._files.journals_of(job.key, job.node_count), set(gone)) if gone else {}
        )
        for key in gone:
            found = late.get(key, Trace())
            cancelled = key in attempts and attempts[key].cancelled
            outcome = msgspec.structs.replace(lost, cause="cancelled") if cancelled else lost
            self._end(key, found.outcome or outcome)
        self.now.set()

    # -- after a crash of the engine

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What became of these; those that are active are watched from now on."""
        found = await self._cluster.find(keys)
        new = []
        for key, answer in found.items():
            if answer.state == "ended":
                self.dead.add(key)
            elif answer.state == "active" and key not in self._jobs:
                job = self._jobs[key] = LauncherJob(key, None)
                job.submitted = True
                new.append(key)
        for key in await self._files.claimed(new):
            if key in self._jobs:
                self._jobs[key].began = True
        await self._expect(new)
        return found

    async def find(self, keys: Sequence[str]) -> dict[str, Found]:
        """What became of attempts; of those that are active it is told from now on."""
        found = {key: Found("active") for key in keys if key in self._assigner.attempts}
        unknown = [key for key in keys if key not in found]
        if not unknown:
            return found
        await self._names()
        await self._until_all_are_back()
        for key, verdict in (await self._judge(unknown, frozenset())).items():
            if verdict.outcome is not None:
                found[key] = Found("ended", verdict.outcome)
            elif verdict.fate == "active":
                found[key] = Found("active")
                if key not in self._assigner.attempts:
                    self._adopt(key, verdict)
            else:
                found[key] = Found("absent")
        return found

    def _adopt(self, key: str, verdict: _Verdict) -> None:
        attempt = self._assigner.learn(key)
        attempt.asked = msgspec.structs.replace(attempt.asked, cores=verdict.cores)
        if verdict.where is None or not self._leave_to(attempt, verdict.where):
            self._set_aside(attempt)
        elif verdict.has_begun:
            self._begin(attempt, verdict.where[0])

    def _leave_to(self, attempt: PoolAttempt, where: NodeId) -> bool:
        """This launcher has it; False: that has died since it was asked, and is not to be waited
        for."""
        if where[0] in self.dead:
            return False
        self._assigner.hold(attempt, (self._assigner.join(*where),))
        return True

    def _running(self) -> set[NodeId]:
        return {
            (job.key, node)
            for job in self._jobs.values()
            if job.began
            for node in range(job.node_count)
        }

    async def _until_all_are_back(self) -> None:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + RETURN_S
        while loop.time() < end_s and any(
            node not in self._jobs[launcher].connections and not self._cluster.has_left(launcher)
            for launcher, node in self._running()
        ):
            await asyncio.sleep(0.1)

    # -- judging

    async def _judge(self, keys: Sequence[str], patient: Collection[str]) -> dict[str, _Verdict]:
        """What became of each. Of ``patient`` ones that leave no trace nothing is concluded."""
        verdicts, answered = await self._ask_all(keys)
        rest = [key for key in keys if key not in verdicts]
        if not rest:
            return verdicts
        traces = await self._read(set(rest))
        claimed = await self._files.claimed(rest)
        unreached = {node for node in self._running() if node not in answered}
        lost = []
        for key in rest:
            found = traces.get(key)
            known = fate(found, key in claimed, unreached)
            outcome = found.outcome if found is not None else None
            where = None
            if found is not None and known == "active":
                where = found.owner or next(iter(found.queued & unreached))
            traceless = found is None or (found.owner is None and not found.queued)
            if known == "lost" and traceless and (unreached or key in patient):
                known = "active"  # perhaps a launcher has it that can't be asked now
            cores = found.cores if found is not None else 1
            has_begun = found is not None and found.owner is not None
            verdicts[key] = _Verdict(known, outcome, where, cores, has_begun)
            if known == "lost":
                lost.append(key)
        verdicts.update(await self._give_up(lost))
        return verdicts

    async def _ask_all(self, keys: Sequence[str]) -> tuple[dict[str, _Verdict], set[NodeId]]:
        """What launchers say that are connected, as far as they know anything, and who answered."""
        connections = [
            connection for job in self._jobs.values() for connection in job.connections.values()
        ]
        answers = await asyncio.gather(*(p.ask(keys) for p in connections), return_exceptions=True)
        verdicts: dict[str, _Verdict] = {}
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
                    verdicts[key] = _Verdict("ended", found.outcome)
                elif found.state == "active" and key not in verdicts:
                    verdicts[key] = _Verdict("active", None, node)
        return verdicts, answered

    async def _read(self, keys: Collection[str]) -> dict[str, Trace]:
        """Of all journals."""
        return trace(await self._files.journals(await self._names()), keys)

    async def _names(self) -> list[tuple[NodeId, str]]:
        """All journals. Launchers that only these tell of are looked for before they are read, so
        that one that ends in between is not taken for dead without a record."""
        names = await self._files.names({*self._jobs, *self.dead})
        writers = dict.fromkeys(launcher for (launcher, _), _ in names)
        others = [name for name in writers if name not in self._jobs and name not in self.dead]
        if others:
            found = await self.find_launchers(others)
            self.dead.update(key for key, answer in found.items() if answer.state != "active")
        for (launcher, node), _ in names:
            if launcher in self._jobs:
                job = self._jobs[launcher]
                job.node_count = max(job.node_count, node + 1)
        return names

    async def _give_up(self, keys: Sequence[str]) -> dict[str, _Verdict]:
        """What these commit from now on is refused."""
        if not keys:
            return {}
        await self._files.revoke(keys)
        late = await self._read(set(keys))
        outcomes = {key: found.outcome for key, found in late.items()}
        return {key: _Verdict("ended", outcomes.get(key) or _UNKNOWN) for key in keys}
