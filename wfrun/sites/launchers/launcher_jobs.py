"""The launchers of a site, from the order to start one to its end."""

from __future__ import annotations

import msgspec

from wfrun.engine.events import LauncherStarted
from wfrun.engine.exchange import AttemptRequest, Cause, LauncherRequest, Outcome
from wfrun.engine.model import LauncherSpec, Resources, SiteSpec
from wfrun.sites.launchers.messages import LauncherConnection

TURN_S = 0.03
"""From the end of a task until it is known, and from an answer of ours until a task begins, without
the way there and back."""
MARGIN_S = 10.0
"""A launcher ends so long before its walltime, or a tenth of it if that is less."""


class LauncherJob:
    """One launcher."""

    __slots__ = (
        "began",
        "greeted",
        "key",
        "latency_s",
        "node_count",
        "connections",
        "reason",
        "request",
        "stopping",
        "submitted",
        "told",
    )

    def __init__(self, key: str, request: LauncherRequest | None) -> None:
        self.key = key
        self.request = request
        """None: an engine before this one had it started."""
        self.node_count = request.nodes if request is not None else 1
        self.connections: dict[int, LauncherConnection] = {}
        """That have said hello, by node."""
        self.submitted = False
        self.began = False
        """Its job runs, as far as the queue or its claim tell."""
        self.greeted = False
        self.stopping = False
        self.latency_s = 0.0
        """That was last told."""
        self.reason = "it can't be reached"
        """Why it takes no tasks, if so."""
        self.told: tuple[object, ...] | None = None
        """What was last told of it; None: that it takes no tasks."""

    def started(self, at_s: float, now_s: float, index: int) -> LauncherStarted | None:
        """What is to be told of it; None: nothing new, or it takes no tasks. ``now_s`` is the time
        by the clock that its nodes have."""
        open_ = [p for p in self.connections.values() if p.node is not None and p.node.is_open]
        if not open_:
            return None
        first = min(open_, key=lambda connection: connection.link.node_number)
        assert first.node is not None
        slots = sum(connection.node.cores for connection in open_ if connection.node is not None)
        latency_s = max(connection.latency_s for connection in open_) + TURN_S
        if self.told is not None and self.latency_s / 4 < latency_s < self.latency_s * 2:
            latency_s = self.latency_s
        self.latency_s = latency_s
        for connection in open_:
            assert connection.node is not None
            connection.node.latency_s = latency_s
        ends_s = first.node.ends_s
        ends_at_s = None if ends_s is None else at_s + ends_s - now_s
        news = (first.node.host, slots, first.link.channel, latency_s)
        if news == self.told:
            return None
        self.told = news
        return LauncherStarted(
            at_s,
            index,
            self.key,
            first.node.host,
            slots,
            ends_at_s,
            first.link.channel,
            latency_s,
        )


def job_of(request: LauncherRequest, spec: SiteSpec, *, pack_logs: bool = False) -> AttemptRequest:
    """The launcher as an attempt of its own, which job.py runs in a sandbox."""
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
    """As described in ``batch_launcher.py``."""
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
    """Why no launcher of this site would ever start it; None: one may."""
    assert spec.access is not None
    assert spec.access.launchers is not None
    walltime_s = spec.access.launchers.walltime_s
    longest_s = walltime_s - min(MARGIN_S, walltime_s / 10)
    if request.expected_s is None or request.expected_s <= longest_s:
        return None
    return (
        f"it is expected to take {request.expected_s:.0f} s, and launchers of {spec.name} run for "
        f"{walltime_s:.0f} s: give them a longer 'walltime' in the catalog"
    )


def end_of(job: LauncherJob, outcome: Outcome) -> tuple[Cause, str | None]:
    """How a launcher ended, as it is told."""
    cause, message = outcome.cause, outcome.message
    if job.stopping and cause in ("done", "cancelled"):
        return "done", None
    if cause == "done" and not job.greeted:
        return "start", "it ended without having reached its engine"
    return cause, message


def fate_of_its_attempts(job: LauncherJob, outcome: Outcome) -> Outcome:
    """Of those that it had started, and that have no record."""
    causes: dict[Cause, Cause] = {
        "walltime": "expired",
        "expired": "expired",
        "preempted": "preempted",
        "node": "node",
    }
    said = f": {outcome.message}" if outcome.message else ""
    text = f"its launcher {job.key} ended before it could record the end{said}"
    return Outcome(causes.get(outcome.cause, "lost"), message=text, host=outcome.host)
