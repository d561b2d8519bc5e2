"""The nodes of a site's launchers, and the attempts assigned to them."""

from __future__ import annotations

from wfrun.engine.exchange import AttemptRequest, claim_of
from wfrun.engine.model import Resources


class LauncherNode:
    """One node of a launcher, with its total and its used capacity."""

    __slots__ = (
        "attempts",
        "claim",
        "cores",
        "ends_s",
        "gpus",
        "host",
        "is_open",
        "latency_s",
        "launcher",
        "memory_bytes",
        "multi_node_attempts",
        "number",
        "used_cores",
        "used_gpus",
        "used_memory_bytes",
        "walltime_s",
    )

    def __init__(self, launcher: str, number: int = 0) -> None:
        self.launcher = launcher
        self.number = number
        """Number among the launcher's nodes. Node 0 starts the launcher on the other nodes."""
        self.claim = claim_of(launcher)
        """Key of the claim whose placeholder the launcher is; the node takes only attempts of this
        claim. Empty: the launcher is no placeholder, and the node takes only attempts without a
        claim."""
        self.host = ""
        self.cores = 0
        self.memory_bytes = 0
        """Memory for attempts; 0: unknown and not limited."""
        self.gpus = 0
        self.walltime_s: float | None = None
        """Walltime requested for the launcher's batch job; None: unknown."""
        self.ends_s: float | None = None
        """Time at which the launcher's walltime ends, on the clock of ``AttemptAssigner.assign``;
        None: unknown."""
        self.latency_s = 0.0
        """Time in seconds from the end of a task to the start of the next one, without
        prefetching."""
        self.is_open = False
        """Whether the node accepts attempts now."""
        self.attempts: dict[str, PoolAttempt] = {}
        """Attempts assigned to this node as their first node, in the order of assignment."""
        self.multi_node_attempts = 0
        """Number of attempts on several nodes that use cores of this node. If there are any,
        nothing is prefetched: the node does not know the attempts that were sent to another first
        node, and would start prefetched attempts on their cores."""
        self.used_cores = 0
        self.used_memory_bytes = 0
        self.used_gpus = 0

    def takes(self, request: AttemptRequest) -> bool:
        """Whether an attempt's claim allows this node. An attempt of a claim runs in the
        placeholder that holds the first claimed node, an attempt without a claim in a launcher that
        is no placeholder."""
        is_first = not request.claimed or request.claimed[0].launcher == self.launcher
        return self.claim == request.claim and is_first

    def fits(self, resources: Resources) -> bool:
        """Whether the capacity of the idle node suffices for an attempt."""
        return (
            resources.cores // resources.nodes <= self.cores
            and (not self.memory_bytes or resources.memory_bytes <= self.memory_bytes)
            and resources.gpus <= self.gpus
        )

    def has_room(self, resources: Resources, times: int = 1) -> bool:
        """Whether an attempt fits in addition to those assigned to the node, if the node's capacity
        is multiplied by ``times`` (for prefetching)."""
        memory_bytes = self.used_memory_bytes + resources.memory_bytes
        return (
            self.used_cores + resources.cores // resources.nodes <= self.cores * times
            and (not self.memory_bytes or memory_bytes <= self.memory_bytes * times)
            and (not resources.gpus or self.used_gpus + resources.gpus <= self.gpus * times)
        )

    def has_time_for(self, request: AttemptRequest, now_s: float) -> bool:
        """Whether an attempt would end before the launcher's walltime is over; True if the time of
        either is unknown.

        The attempt's time is its expected run time or else its walltime. A walltime of at least the
        launcher's own is ignored, since otherwise no launcher could ever start the attempt.
        """
        needed_s = request.expected_s
        if needed_s is None:
            needed_s = request.resources.walltime_s
            if needed_s is None or self.walltime_s is None or needed_s >= self.walltime_s:
                return True
        return self.ends_s is None or now_s + needed_s <= self.ends_s

    def charge(self, resources: Resources, sign: int) -> None:
        """Count an attempt's resources as used (``sign`` 1) or as free again (-1)."""
        self.used_cores += sign * (resources.cores // resources.nodes)
        self.used_memory_bytes += sign * resources.memory_bytes
        self.used_gpus += sign * resources.gpus
        if resources.nodes > 1:
            self.multi_node_attempts += sign


class PoolAttempt:
    """An attempt of the site whose end has not been posted yet."""

    __slots__ = (
        "cancel_if_queued",
        "cancel_requested",
        "key",
        "maybe_elsewhere",
        "nodes",
        "number",
        "recalled",
        "request",
        "resources",
        "returned_by",
        "sent_s",
        "started",
    )

    def __init__(self, key: str, request: AttemptRequest | None, number: int) -> None:
        self.key = key
        self.request = request
        """Request for the attempt; None: an earlier engine submitted it."""
        self.number = number
        """Position in the order of submission."""
        self.resources = request.resources if request is not None else Resources()
        self.nodes: tuple[LauncherNode, ...] = ()
        """The nodes that the attempt is assigned to. The first one receives and runs it. Empty: the
        attempt waits, or it is unknown which launcher has it."""
        self.started = False
        self.sent_s = 0.0
        """Time of the last assignment, on the clock of ``AttemptAssigner.assign``."""
        self.recalled = False
        """Whether its launcher was asked to return the attempt."""
        self.cancel_if_queued = False
        """Whether the attempt has to end as cancelled if it has not started."""
        self.cancel_requested = False
        """Whether the attempt has to end as cancelled even if it runs."""
        self.maybe_elsewhere = False
        """Whether an earlier launcher may still have the attempt, because it was unreachable when
        the attempt was taken from it."""
        self.returned_by: tuple[LauncherNode, ...] = ()
        """Nodes that returned the attempt without being asked, because it would not end within
        their walltime."""

    @property
    def first_node(self) -> LauncherNode | None:
        """The node that runs the attempt; None: it is not assigned."""
        return self.nodes[0] if self.nodes else None
