"""The nodes of a site's launchers, and the attempts assigned to them."""

from __future__ import annotations

from wfrun.engine.exchange import AttemptRequest, claim_of
from wfrun.engine.model import Resources


class LauncherNode:
    """One node of a launcher, with its capacity and the part of it that attempts use."""

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
        """Position among the launcher's nodes; 0 is the one that starts the others."""
        self.claim = claim_of(launcher)
        """The claim for which its launcher is a placeholder: the node takes only attempts of this
        claim. Empty: it takes only attempts without a claim."""
        self.host = ""
        self.cores = 0
        self.memory_bytes = 0
        """0: unknown, and not counted."""
        self.gpus = 0
        self.walltime_s: float | None = None
        """Walltime requested for the launcher's job; None: unknown."""
        self.ends_s: float | None = None
        """End of the launcher's time, on the clock of ``AttemptAssigner.assign``; None: unknown."""
        self.latency_s = 0.0
        """Time from the end of a task until the next one can start, without prefetching."""
        self.is_open = False
        """Whether it accepts attempts now."""
        self.attempts: dict[str, PoolAttempt] = {}
        """Attempts sent to this node, in the order in which they were sent."""
        self.multi_node_attempts = 0
        """Number of attempts on several nodes that use cores here. While it is not 0, nothing is
        prefetched: the launcher knows only the attempts that were sent to this node itself, and
        would start prefetched ones on the cores of the others."""
        self.used_cores = 0
        self.used_memory_bytes = 0
        self.used_gpus = 0

    def takes(self, request: AttemptRequest) -> bool:
        """Whether the node may run this attempt. An attempt of a claim runs in the placeholder that
        has its first node, other attempts in launchers that are no placeholders."""
        is_first = not request.claimed or request.claimed[0].launcher == self.launcher
        return self.claim == request.claim and is_first

    def fits(self, resources: Resources) -> bool:
        """Whether an attempt fits on this node while it is idle."""
        return (
            resources.cores // resources.nodes <= self.cores
            and (not self.memory_bytes or resources.memory_bytes <= self.memory_bytes)
            and resources.gpus <= self.gpus
        )

    def has_room(self, resources: Resources, times: int = 1) -> bool:
        """Whether an attempt fits beside those that are here, in ``times`` the capacity."""
        memory_bytes = self.used_memory_bytes + resources.memory_bytes
        return (
            self.used_cores + resources.cores // resources.nodes <= self.cores * times
            and (not self.memory_bytes or memory_bytes <= self.memory_bytes * times)
            and (not resources.gpus or self.used_gpus + resources.gpus <= self.gpus * times)
        )

    def has_time_for(self, request: AttemptRequest, now_s: float) -> bool:
        """Whether an attempt would end within the launcher's time, as far as both are known.

        A walltime as long as the launcher's own is no estimate: no launcher could ever start the
        attempt.
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
        """None: an earlier engine submitted the attempt."""
        self.number = number
        """Position in the order of submission."""
        self.resources = request.resources if request is not None else Resources()
        self.nodes: tuple[LauncherNode, ...] = ()
        """The nodes it is assigned to; it was sent to the first one, which runs it. Empty: it
        waits, or it is not known which launcher has it."""
        self.started = False
        self.sent_s = 0.0
        """When it was sent to a launcher, on the clock of ``AttemptAssigner.assign``."""
        self.recalled = False
        """Its launcher was asked to return it."""
        self.cancel_if_queued = False
        """It is to end as cancelled unless it has started."""
        self.cancel_requested = False
        """It is to end as cancelled even if it runs."""
        self.maybe_elsewhere = False
        """Whether a launcher that was unreachable at its reassignment may have it as well."""
        self.returned_by: tuple[LauncherNode, ...] = ()
        """Nodes that returned it without being asked, because it would not end in their time."""

    @property
    def first_node(self) -> LauncherNode | None:
        """The node that runs it; None: it is assigned to none."""
        return self.nodes[0] if self.nodes else None
