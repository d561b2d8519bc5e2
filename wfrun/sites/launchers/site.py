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
from wfrun.sites.launchers.inquiry import Inquiry
from wfrun.sites.launchers.link import Link, Links
from wfrun.sites.launchers.listening import Listening
from wfrun.sites.launchers.lives import Life, end_of, fate_of_its_attempts, job_of, too_long
from wfrun.sites.launchers.members import Held, Member, Pool
from wfrun.sites.launchers.records import Records
from wfrun.sites.launchers.talk import PROTOCOL, Peer, Report, decode
from wfrun.sites.tasks import end_tasks

_LOGGER = logging.getLogger(__name__)

TICK_S = 0.25
AWAY_S = 30.0
"""What waits in the stock of a launcher that has been away for so long is given to others."""
GOODBYE_S = 5.0
"""For the last words to launchers when a run is over."""


class PoolSite:
    """Implements ``LauncherSite``. ``index`` is the site's number in the run's events. ``links``
    makes the channels of the run's directory at the cluster, which is known once it is open."""

    def __init__(
        self,
        spec: SiteSpec,
        index: int,
        cluster: ClusterSite,
        links: Callable[[str], Links],
        *,
        pack_logs: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self._pack_logs = pack_logs
        self.connection = cluster.connection
        self._index = index
        self._cluster = cluster
        self._lives: dict[str, Life] = {}
        """Launchers whose end is to be told."""
        self._listening = Listening(cluster.head, links, self, self._lives)
        self._clock = clock
        self._post: Callable[[Event], None] = _refuse
        self._pool = Pool()
        self._peers: dict[int, Peer] = {}
        """By the identity of their links."""
        self._records = Records(cluster.head)
        self._inquiry = Inquiry(
            self._pool,
            self._lives,
            self._records,
            cluster,
            self._begin,
            self._end,
            self._go_on,
            self._listening.expect,
        )
        self._away: dict[Member, float] = {}
        """Launchers that can't be reached, and for how long of our own running time."""
        self._assigning = False
        self._tasks: set[asyncio.Task[None]] = set()
        cluster.connected = self._listening.reached.set

    # -- the protocol of a site

    async def open(self, post: Callable[[Event], None]) -> None:
        self._post = post
        await self._cluster.open(self._on_job)
        for work in (self._listening.run(), self._tick(), self._inquiry.run()):
            self._spawn(work)

    async def submit(self, batch: Sequence[AttemptRequest]) -> None:
        fresh = [request for request in batch if request.key not in self._pool.attempts]
        if fresh:
            keys = tuple(request.key for request in fresh)
            self._post(AttemptsSubmitted(self._clock(), self._index, keys))
        for request in fresh:
            self._pool.add(request)
            reason = too_long(request, self.spec)
            if reason is not None:
                self._end(request.key, Outcome("refused", message=reason))
        self._go_on()

    async def cancel(self, keys: Sequence[str], *, queued_only: bool = False) -> None:
        here = [self._pool.attempts[key] for key in keys if key in self._pool.attempts]
        unclear = []
        told: dict[Peer, list[str]] = {}
        for held in here:
            peer = self._peer_of(held)
            if self._pool.is_waiting(held) and not held.stray:
                self._end(held.key, CLAIMED_BY_US)
                continue
            held.withdrawn = True
            held.cancelled = held.cancelled or not queued_only
            if peer is not None and (held.started or not held.stray):
                told.setdefault(peer, []).append(held.key)
            else:
                unclear.append(held.key)
        for peer, some in told.items():
            peer.say_of("cancel", some, queued_only=queued_only)
        if unclear:
            # Who has the claim decides: what we claim never starts, whoever has it in its queue.
            for key in await self._cluster.head.claim(unclear):
                self._end(key, CLAIMED_BY_US)

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        await self._cluster.head.ready.wait()
        return await self._inquiry.find(keys)

    async def log(self, key: str) -> tuple[bytes, bytes]:
        return await self._cluster.log(key)

    async def absent(self, files: Mapping[str, int]) -> list[str]:
        return await self._cluster.absent(files)

    async def clean(self) -> None:
        await self._cluster.clean()

    async def close(self) -> None:
        """Let go of the cluster: launchers go on with what they have."""
        await end_tasks(self._tasks)
        for peer in self._peers.values():
            peer.end()
        await self._listening.close()
        await self._cluster.close()

    def store_path(self, name: str) -> str:
        """Where the file of this name is in the site's store."""
        return self._cluster.store_path(name)

    # -- launchers

    async def start_launchers(self, launchers: Sequence[LauncherRequest]) -> None:
        fresh = [Life(x.key, x) for x in launchers if x.key not in self._lives]
        self._lives.update((life.key, life) for life in fresh)
        if fresh:
            self._spawn(self._start(fresh))

    async def _start(self, lives: list[Life]) -> None:
        await self._listening.expect([life.key for life in lives])
        wanted = [life for life in lives if not life.stopping]
        for life in [life for life in lives if life.stopping]:
            self._forget(life, "done", None)
        for life in wanted:
            life.submitted = True
        requests = [life.request for life in wanted if life.request is not None]
        await self._cluster.submit(
            [job_of(request, self.spec, pack_logs=self._pack_logs) for request in requests]
        )

    async def stop_launchers(self, keys: Sequence[str]) -> None:
        queued = []
        for life in [self._lives[key] for key in keys if key in self._lives]:
            self._stop(life)
            if life.submitted and not life.peers:
                queued.append(life.key)
        if queued:
            await self._cluster.cancel(queued, queued_only=True)

    async def find_launchers(self, keys: Sequence[str]) -> Mapping[str, Found]:
        found = dict(await self._inquiry.find_launchers(keys))
        absent = [key for key, answer in found.items() if answer.state == "absent"]
        # The queue may be late to show what an engine submitted with its last breath.
        taken = await self._cluster.head.claim(absent) if absent else []
        begun = [key for key in absent if key not in taken]
        return {**found, **await self._inquiry.find_launchers(begun)} if begun else found

    async def dismiss(self) -> None:
        for life in self._lives.values():
            self._stop(life)
        others = [life.key for life in self._lives.values() if not life.peers]
        drained = [peer.link.drained() for peer in self._peers.values()]
        work = asyncio.gather(*drained, self._cluster.cancel(others), return_exceptions=True)
        try:
            await asyncio.wait_for(work, GOODBYE_S)
        except asyncio.TimeoutError:
            _LOGGER.info("site %s: not all launchers were told to end", self.spec.name)

    def _stop(self, life: Life) -> None:
        """It ends when its running tasks have."""
        life.stopping = True
        life.reason = "it was told to stop"
        for peer in life.peers.values():
            peer.say({"stop": True})
            if peer.member is not None:
                peer.member.is_open = False

    def _on_job(self, event: Event) -> None:
        """What the cluster tells of the jobs that launchers are."""
        if isinstance(event, AttemptsSubmitted):
            self._post(LaunchersSubmitted(event.at_s, self._index, event.keys))
        elif isinstance(event, AttemptStarted):
            if event.key in self._lives:
                self._lives[event.key].began = True
        elif isinstance(event, AttemptEnded):
            if event.key in self._lives:
                self._spawn(self._bury(self._lives[event.key], event.outcome))
        else:
            self._post(event)

    async def _bury(self, life: Life, outcome: Outcome) -> None:
        """A launcher is dead, and with it what it ran: find out what became of that."""
        for peer in [peer for peer in self._peers.values() if peer.launcher == life.key]:
            self._drop(peer)
            peer.link.close()
        self._cluster.head.reopen(f"records of {life.key}")
        had = self._pool.leave(life.key)
        self._inquiry.dead.add(life.key)
        lost = fate_of_its_attempts(life, outcome)
        await self._inquiry.bury(life, had, lost)
        cause, message = end_of(life, outcome)
        if cause == "start" and outcome.cause == "done":
            tail = await self._records.tail(life.key)
            message = f"{message}\n{tail}" if tail else message
        self._forget(life, cause, message)
        await self._listening.forget([life.key])

    def _forget(self, life: Life, cause: Any, message: str | None) -> None:
        self._lives.pop(life.key, None)
        self._post(LauncherEnded(self._clock(), self._index, life.key, cause, message))
        self._go_on()

    # -- links

    def connected(self, launcher: str, link: Link) -> None:
        for peer in list(self._peers.values()):
            if peer.launcher == launcher and peer.link.node == link.node:
                self._drop(peer)
        self._peers[id(link)] = Peer(launcher, link)

    def disconnected(self, link: Link, reason: str) -> None:
        peer = self._peers.get(id(link))
        if peer is None:
            return
        life = self._lives.get(peer.launcher)
        self._drop(peer)
        self._cluster.hurry()
        if life is not None and peer.member is not None:
            life.reason = reason
            self._tell(life)

    def _drop(self, peer: Peer) -> None:
        """Its link is of no more use."""
        self._peers.pop(id(peer.link), None)
        peer.end()
        life = self._lives.get(peer.launcher)
        if life is not None and life.peers.get(peer.link.node) is peer:
            del life.peers[peer.link.node]
            assert peer.member is not None
            peer.member.is_open = False
            self._away[peer.member] = 0.0

    def _tell(self, life: Life) -> None:
        """How many slots a launcher has now, if that is new."""
        if any(p.member is not None and p.member.is_open for p in life.peers.values()):
            event = life.started(self._clock(), self._now(), self._index)
            if event is not None:
                self._post(event)
        elif life.told is not None:
            life.told = None
            self._post(LauncherDraining(self._clock(), self._index, life.key, life.reason))

    def lines(self, link: Link, lines: Sequence[bytes]) -> None:
        peer = self._peers.get(id(link))
        for line in lines:
            if peer is None:
                return
            try:
                report = decode(line)
            except msgspec.MsgspecError as error:
                where = f"site {self.spec.name}: launcher {peer.launcher}"
                _LOGGER.warning("%s: %s: %r", where, error, line[:200])
                continue
            self._on_report(peer, report)
            peer = self._peers.get(id(link))

    # -- what launchers say

    def _on_report(self, peer: Peer, report: Report) -> None:
        if report.started or report.ended:
            self._on_news(peer, report)
        elif report.hello is not None:
            self._greet(peer, report)
        elif report.found is not None:
            peer.answer(report.id, report.found)
        elif report.returned:
            self._take_back(peer, report.returned)
        elif report.contested:
            self._inquiry.contested(peer.member, report.contested)
        elif report.ending is not None:
            if peer.member is not None:
                peer.member.is_open = False
            if peer.launcher in self._lives:
                self._lives[peer.launcher].reason = report.ending
                self._tell(self._lives[peer.launcher])
        elif report.failing is not None:
            self._cluster.head.pause(f"records of {peer.launcher}", report.failing)
        elif report.recovered:
            self._cluster.head.reopen(f"records of {peer.launcher}")
        elif report.error is not None:
            _LOGGER.warning("site %s: launcher %s: %s", self.spec.name, peer.launcher, report.error)

    def _greet(self, peer: Peer, report: Report) -> None:
        life = self._lives.get(peer.launcher)
        if life is None or life.key in self._inquiry.dead:
            return  # not known yet, or not any more
        if report.hello != PROTOCOL:
            text = f"launcher {life.key} speaks version {report.hello}, not {PROTOCOL}: cancel it"
            _LOGGER.error("site %s: %s", self.spec.name, text)
            return
        life.began = life.greeted = True
        if peer.link.node == 0:
            life.nodes = report.nodes
        life.peers[peer.link.node] = peer
        member = peer.member = self._pool.join(peer.launcher, peer.link.node)
        self._away.pop(member, None)
        member.host, member.cores = report.host, report.slots
        member.memory_bytes, member.gpus = report.memory_bytes, report.gpus
        member.ends_s = None if report.left_s is None else self._now() + report.left_s
        member.walltime_s = life.request.walltime_s if life.request is not None else None
        member.is_open = not life.stopping
        life.told = None
        if life.stopping:
            self._stop(life)
        believed = list(member.held)
        strays = [held.key for held in self._pool.attempts.values()
                  if held.stray and held.key not in member.held]  # fmt: skip
        peer.say_of("return", strays)
        self._spawn(self._catch_up(peer, believed))
        self._inquiry.now.set()
        self._tell(life)
        self._go_on()

    async def _catch_up(self, peer: Peer, keys: Sequence[str]) -> None:
        """Ask a launcher about all that it should have, which also tells how far away it is."""
        try:
            answers = await peer.ask(keys)
        except TransientError:
            return  # it will be back again
        for key, answer in answers.items():
            held = self._pool.attempts.get(key)
            if answer.outcome is not None:
                self._end(key, answer.outcome)
            elif held is None or held.member is not peer.member:
                continue
            elif answer.state == "absent":
                self._inquiry.put_back(held)
            elif held.cancelled:
                peer.say({"cancel": [key], "queued_only": False})
        self._go_on()

    def _on_news(self, peer: Peer, report: Report) -> None:
        for key in report.started:
            held = self._pool.attempts.get(key)
            if held is None:
                continue
            if held.member is not peer.member and peer.member is not None:
                self._pool.hold(held, (peer.member,))
            self._begin(held, peer.launcher)
            if held.cancelled:
                peer.say({"cancel": [key], "queued_only": False})
        for key, outcome in report.ended:
            self._end(key, outcome)
        if report.ended:
            self._go_on()

    def _take_back(self, peer: Peer, keys: Sequence[str]) -> None:
        for key in keys:
            held = self._pool.attempts.get(key)
            if held is None or held.member is not peer.member or peer.member is None:
                continue
            if not held.returning and peer.member.is_open:
                held.refused_by = (*held.refused_by, peer.member)  # its time is too short
            self._inquiry.put_back(held)
        self._go_on()

    def _begin(self, held: Held, launcher: str) -> None:
        """Post a start once."""
        if not held.started:
            held.started, held.returning = True, False
            self._post(AttemptStarted(self._clock(), held.key, launcher))

    def _end(self, key: str, outcome: Outcome) -> None:
        """Post an end once, whichever way it came to be known."""
        took_s = None
        if outcome.started_s is not None and outcome.ended_s is not None:
            took_s = outcome.ended_s - outcome.started_s
        held = self._pool.end(key, took_s)
        if held is not None:
            self._post(AttemptEnded(self._clock(), key, outcome))

    # -- giving out

    def _go_on(self) -> None:
        """Give out what there is room for, when all of this moment is known."""
        if not self._assigning:
            self._assigning = True
            asyncio.get_running_loop().call_soon(self._assign)

    def _assign(self) -> None:
        self._assigning = False
        for held in self._pool.assign(self._now()):
            peer = self._peer_of(held)
            assert peer is not None
            assert held.request is not None
            request = held.request
            if request.resources.nodes > 1:
                hosts = tuple(member.host for member in held.members)
                request = msgspec.structs.replace(request, hosts=hosts)
            peer.run(request)

    def _peer_of(self, held: Held) -> Peer | None:
        """Who can be told about it."""
        if held.member is None:
            return None
        life = self._lives.get(held.member.launcher)
        return None if life is None else life.peers.get(held.member.node)

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
            for keys in self._pool.surplus(now_s).values():
                peer = self._peer_of(self._pool.attempts[keys[0]])
                if peer is not None:
                    peer.say_of("return", keys)
            for life in self._lives.values():
                self._tell(life)
            for member, away_s in list(self._away.items()):
                if away_s < AWAY_S <= away_s + passed_s:
                    self._give_to_others(member)
                self._away[member] = away_s + passed_s
                if (member.launcher, member.node) not in self._pool.members:
                    del self._away[member]

    def _give_to_others(self, member: Member) -> None:
        waiting = [h for h in member.held.values() if not h.started and h.request is not None]
        for held in [held for held in waiting if not held.withdrawn]:
            held.stray = True
            self._pool.wait(held)
        withdrawn = [held.key for held in waiting if held.withdrawn]
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
