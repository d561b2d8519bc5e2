"""Reads the present state of a site over a connection. Writes nothing at the site."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from wfrun.engine.errors import WfrunError
from wfrun.engine.model import SiteSpec
from wfrun.runners.admin.init import ignore_status, not_reached
from wfrun.runners.admin.survey import ask_offer, look_at_machine, run
from wfrun.runners.simulate.queue_waits import ExpectedWait
from wfrun.sites.batch.jobs import JobInQueue, QueueUnknownError
from wfrun.sites.kinds import LOGIN_VARIABLES, make_batch_system
from wfrun.sites.local.site import available_cores
from wfrun.sites.remote.connection import Connection, connection_of
from wfrun.sites.remote.host import Host
from wfrun.sites.remote.transports.asyncssh_login import Prompter

ANSWERS_S = 60.0
"""Timeout of all questions to a connected site together, and of a measurement after them, in
seconds."""
_ROUNDS = 3
"""Number of measurements of latency. The smallest counts."""


class Cores(msgspec.Struct, frozen=True):
    """Numbers of cores of running jobs and of queued jobs."""

    running: int
    queued: int


class SiteNow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a site. None: unknown, or meaningless for a site of this kind."""

    site: str
    kind: str
    state: Literal["up", "down", "needs login"]
    reason: str = ""
    """Why the site is not up; empty if it is up."""
    hint: str = ""
    slots: int
    """Number of slots in the catalog."""
    idle_cores: int | None = None
    """Idle cores of the site's queue; without a batch system, the host's cores minus its load."""
    ours: Cores | None = None
    """Cores of jobs that this user's runs of wfrun have submitted."""
    others: Cores | None = None
    """Cores of all other jobs: those of other users, and this user's jobs from outside wfrun."""
    waits: tuple[ExpectedWait, ...] = ()
    """Expected waits of two jobs submitted now, one with one core and one with a whole node. Empty
    for sites whose queue is not visible."""
    latency_s: float | None = None
    """Round-trip time of a question to the head node in seconds, the smallest of three."""
    upload_bytes_per_s: float | None = None
    download_bytes_per_s: float | None = None


class QueueNow(msgspec.Struct, frozen=True):
    """Jobs in the queue of a cluster."""

    jobs: tuple[JobInQueue, ...] = ()
    cores: int = 0
    """Cores of the queue's nodes; 0: unknown."""
    node_cores: int = 0
    """Cores of the queue's largest node; 0: unknown."""


Measure = Callable[[SiteNow, SiteSpec, Connection], Awaitable[SiteNow]]
"""Measures something over the connection, and returns the state with the result added."""


async def ask_site(
    spec: SiteSpec, prompter: Prompter | None, measure: Measure | None = None
) -> tuple[SiteNow, QueueNow]:
    """Connect to a site and ask for its state. ``measure`` is called while the connection is open.
    Errors are not raised: a site that cannot be reached or does not answer gets a state other than
    ``up``, with the reason."""
    plain = SiteNow(site=spec.name, kind=spec.kind, state="up", slots=spec.slots)
    if spec.access is None:
        idle = max(0, available_cores() - round(os.getloadavg()[0]))
        return msgspec.structs.replace(plain, idle_cores=idle), QueueNow()
    connection = connection_of(spec.access, prompter, LOGIN_VARIABLES)
    try:
        await connection.open(ignore_status)
        now, queue = await asyncio.wait_for(_ask(plain, spec, connection), ANSWERS_S)
        if measure is not None:
            now = await measure(now, spec, connection)
        return now, queue
    except asyncio.TimeoutError:
        reason = f"it did not answer in {ANSWERS_S:.0f} s"
        return msgspec.structs.replace(plain, state="down", reason=reason), QueueNow()
    except WfrunError as error:
        state: Literal["down", "needs login"]
        state = "needs login" if connection.needs_login is not None else "down"
        hint = error.hint or not_reached(spec.access)
        down = msgspec.structs.replace(plain, state=state, reason=error.message, hint=hint)
        return down, QueueNow()
    finally:
        await connection.close()


async def _ask(now: SiteNow, spec: SiteSpec, connection: Connection) -> tuple[SiteNow, QueueNow]:
    host, queue = await connection.host(), QueueNow()
    # First, while nothing else uses the connection.
    latency_s = await _latency_s(host)
    now = msgspec.structs.replace(now, latency_s=latency_s)
    try:
        if not spec.has_batch_system:
            machine = await look_at_machine(host)
            idle = max(0, machine.cores - round(machine.load))
            now = msgspec.structs.replace(now, idle_cores=idle)
        else:
            now, queue = await _ask_batch_system(now, spec, host)
    except QueueUnknownError as error:
        reason = f"its batch system does not answer: {error.message}"
        now = msgspec.structs.replace(now, state="down", reason=reason)
    return now, queue


async def _latency_s(host: Host) -> float:
    best_s = float("inf")
    for _ in range(_ROUNDS):
        begun_s = time.monotonic()
        await host.stat(["/"])
        best_s = min(best_s, time.monotonic() - begun_s)
    return best_s


async def _ask_batch_system(now: SiteNow, spec: SiteSpec, host: Host) -> tuple[SiteNow, QueueNow]:
    assert spec.access is not None
    system = make_batch_system(spec.kind, spec.access)
    offer, facts, result = await asyncio.gather(
        ask_offer(host, spec.kind),
        host.facts(),
        run(host, system.queue(None), system.environment),
    )
    output, errors = (text.decode("utf-8", "replace") for text in (result.output, result.errors))
    jobs = system.jobs(result.exit_code, output, errors)
    ours = [job for job in jobs if job.user == facts.user and job.name.startswith("wfrun-")]
    others = [job for job in jobs if not (job.user == facts.user and job.name.startswith("wfrun-"))]
    queue = offer.queue(spec.access.queue)
    queues = [queue] if queue is not None else list(offer.queues)
    found = QueueNow(
        tuple(jobs),
        max(each.cores for each in queues),
        max(each.node_cores for each in queues),
    )
    now = msgspec.structs.replace(
        now,
        idle_cores=max(each.idle_cores for each in queues),
        ours=_cores(ours),
        others=_cores(others),
    )
    if queue is None and spec.access.queue is not None:
        names = ", ".join(each.name for each in offer.queues)
        reason, hint = f"there is no queue {spec.access.queue}", f"Queues: {names}."
        return msgspec.structs.replace(now, state="down", reason=reason, hint=hint), found
    if not any(
        each.is_open and (not each.cores or each.cores > each.down_cores) for each in queues
    ):
        names = ", ".join(each.name for each in queues)
        reason = f"queue {names} is closed, or none of its nodes is in service"
        return msgspec.structs.replace(now, state="down", reason=reason), found
    return now, found


def _cores(jobs: Sequence[JobInQueue]) -> Cores:
    running = sum(job.cores for job in jobs if job.state in ("running", "ending", "suspended"))
    return Cores(running, sum(job.cores for job in jobs) - running)
