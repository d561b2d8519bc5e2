"""The batch jobs in which a site's launchers run, from the submission of each to its end."""

from __future__ import annotations

import msgspec

from wfrun.engine.events import LauncherDraining, LauncherStarted
from wfrun.engine.exchange import AttemptRequest, Cause, LauncherRequest, Outcome
from wfrun.engine.model import LauncherSpec, Resources, SiteSpec
from wfrun.sites.launchers.channels.launcher_connection import LauncherConnection
from wfrun.sites.node.jobs.batch_job import margin_of

PROCESSING_S = 0.03
"""Time in seconds that launcher and engine need for processing between the end of a task and the
start of the next one, in addition to the round-trip time."""


class LauncherJob:
    """One launcher and its batch job."""

    __slots__ = (
        "connections",
        "ends_tasks",
        "greeted",
        "key",
        "latency_s",
        "node_count",
        "reason",
        "reported",
        "request",
        "started",
        "stopping",
        "submitted",
    )

    def __init__(self, key: str, request: LauncherRequest | None) -> None:
        self.key = key
        self.request = request
        """Request for the launcher; None: an earlier engine submitted it."""
        self.node_count = request.nodes if request is not None else 1
        self.connections: dict[int, LauncherConnection] = {}
        """Connections whose hello was accepted, by number of the node."""
        self.submitted = False
        self.started = False
        """Whether the batch job is known to have started, from the queue, its claim or a hello."""
        self.greeted = False
        """Whether the launcher has connected at least once."""
        self.stopping = False
        self.ends_tasks = False
        """Whether the launcher, when it stops, ends its running tasks instead of waiting for
        them."""
        self.latency_s = 0.0
        """Latency in the last LauncherStarted event."""
        self.reason = "it cannot be reached"
        """Reason why the launcher accepts no attempts, for LauncherDraining events."""
        self.reported: tuple[object, ...] | None = None
        """Contents of the last LauncherStarted event. None: there was none yet, or the last event
        was LauncherDraining, or the next status is to be reported in any case."""

    def status_event(
        self, at_s: float, now_s: float, index: int
    ) -> LauncherStarted | LauncherDraining | None:
        """The event for a changed status of the launcher: LauncherStarted with its capacity, or
        LauncherDraining if it accepts no attempts. None: no change.

        ``at_s`` is the present time on the clock of events, ``now_s`` on the clock of
        ``LauncherNode.ends_s``. ``index`` is the site's number.
        """
        open_ = [each for each in self.connections.values() if _is_open(each)]
        if not open_:
            if self.reported is None:
                return None
            self.reported = None
            return LauncherDraining(at_s, index, self.key, self.reason)
        open_.sort(key=lambda connection: connection.link.node_number)
        first = open_[0]
        assert first.node is not None
        slots = sum(each.node.cores for each in open_ if each.node is not None)
        latency_s = max(each.latency_s for each in open_) + PROCESSING_S
        # Each report is a durable event, so jitter is not reported.
        if self.reported is not None and self.latency_s / 4 < latency_s < self.latency_s * 2:
            latency_s = self.latency_s
        self.latency_s = latency_s
        for connection in open_:
            assert connection.node is not None
            connection.node.latency_s = latency_s
        ends_s = first.node.ends_s
        ends_at_s = None if ends_s is None else at_s + ends_s - now_s
        hosts = tuple(each.node.host for each in open_ if each.node is not None)
        hosts = hosts if self.node_count > 1 else ()
        status = (first.node.host, slots, first.link.channel, latency_s, hosts)
        if status == self.reported:
            return None
        self.reported = status
        return LauncherStarted(
            at_s,
            index,
            self.key,
            first.node.host,
            slots,
            ends_at_s,
            first.link.channel,
            latency_s,
            hosts,
        )


def _is_open(connection: LauncherConnection) -> bool:
    return connection.node is not None and connection.node.is_open


def job_of(request: LauncherRequest, spec: SiteSpec, *, pack_logs: bool = False) -> AttemptRequest:
    """Return the attempt of a launcher's batch job. Its command, which ``job.py`` runs in a
    sandbox, is the launcher."""
    assert spec.access is not None
    launchers = spec.access.launchers
    assert launchers is not None
    config = config_of(request, launchers, pin_cores=spec.pin_cores, pack_logs=pack_logs)
    return AttemptRequest(
        key=request.key,
        argv=("/bin/sh", "../../bin/batch_launcher.sh", "../..", request.key, config),
        env={},
        inputs=(),
        outputs=(),
        stdin=None,
        stdout=None,
        stderr=None,
        resources=Resources(
            cores=request.cores * request.nodes,
            memory_bytes=request.memory_bytes,
            gpus=request.gpus,
            walltime_s=request.walltime_s,
            nodes=request.nodes,
        ),
    )


def config_of(
    request: LauncherRequest, launchers: LauncherSpec, *, pin_cores: bool, pack_logs: bool
) -> str:
    """The configuration of a launcher, as described in ``batch_launcher.py``."""
    config = {
        "cores": request.cores,
        "memory_bytes": request.memory_bytes,
        "gpus": request.gpus,
        "nodes": request.nodes,
        "walltime_s": request.walltime_s,
        "channels": launchers.channels,
        "patience_s": launchers.patience_s,
        "pin_cores": pin_cores,
        "pack_logs": pack_logs,
    }
    return msgspec.json.encode(config).decode()


def too_long(request: AttemptRequest, spec: SiteSpec) -> str | None:
    """Reason why an attempt is too long for the walltime of the site's launchers; None: it is not
    too long, or its expected run time is unknown."""
    assert spec.access is not None
    assert spec.access.launchers is not None
    walltime_s = spec.access.launchers.walltime_s
    longest_s = walltime_s - margin_of(walltime_s)
    if request.expected_s is None or request.expected_s <= longest_s:
        return None
    return (
        f"it is expected to take {request.expected_s:.0f} s, and launchers of {spec.name} run for "
        f"{walltime_s:.0f} s: give them a longer 'walltime' in the catalog"
    )


def end_of(job: LauncherJob, outcome: Outcome) -> tuple[Cause, str | None]:
    """Cause and message of a launcher's end, from the outcome of its batch job."""
    cause, message = outcome.cause, outcome.message
    if job.stopping and cause in ("done", "cancelled"):
        return "done", None
    if cause == "done" and not job.greeted:
        return "launch-failed", "it ended without having reached its engine"
    return cause, message


def outcome_of_lost_attempts(job: LauncherJob, outcome: Outcome) -> Outcome:
    """The outcome of attempts that an ended launcher has started without recording their ends.
    ``outcome`` is the outcome of the launcher's batch job."""
    causes: dict[Cause, Cause] = {
        "walltime": "expired",
        "expired": "expired",
        "preempted": "preempted",
        "node": "node",
    }
    said = f": {outcome.message}" if outcome.message else ""
    text = f"its launcher {job.key} ended before it could record the end{said}"
    return Outcome(causes.get(outcome.cause, "lost"), message=text, host=outcome.host)
