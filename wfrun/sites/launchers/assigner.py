"""Assigns the attempts of a site to the nodes of its launchers. No I/O.

Attempts are assigned in the order of submission, each to the least loaded node that has room for
it. The first attempt that no node has room for gets a reservation on the suitable nodes with the
fewest cores in use beyond their capacity. Reserved nodes get no other attempt in this round; on
other nodes, later attempts may start first.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Sequence
from math import frexp

from wfrun.engine.exchange import AttemptRequest
from wfrun.engine.model import Resources
from wfrun.engine.tasks.prefetch import prefetch_per_slot
from wfrun.sites.launchers.launcher_nodes import LauncherNode, PoolAttempt

RUNTIME_WEIGHT = 0.05
"""Weight of the newest run time in the exponential moving average."""
MIN_PREFETCHED_S = 0.5
"""Minimum time in seconds between sending an attempt to a launcher and recalling it for an idle
launcher. An earlier recall would move attempts that the first launcher is about to start."""

_AttemptClass = tuple[Resources, tuple[str, ...], int | None, tuple[LauncherNode, ...], str]


class AttemptAssigner:
    """The attempts and the launcher nodes of one site.

    The resources of an attempt count as used from its assignment on, before its launcher reports
    its start. So late reports never lead to more attempts on a node than its capacity and its
    prefetch allow.
    """

    def __init__(self) -> None:
        self.attempts: dict[str, PoolAttempt] = {}
        """All attempts whose end has not been posted, by key."""
        self.nodes: dict[tuple[str, int], LauncherNode] = {}
        """Nodes by key of the launcher and number of the node."""
        self.mean_runtime_s: float | None = None
        """Moving average of run times in seconds; None until an attempt with a known run time has
        ended."""
        self._waiting: dict[_AttemptClass, OrderedDict[str, PoolAttempt]] = {}
        """Waiting attempts by class (``_class_of``), each class in the order of submission. If the
        first attempt of a class cannot be assigned, the others are not examined, so that the cost
        of a round does not grow with the queue."""
        self._added = 0

    # -- attempts

    def add(self, request: AttemptRequest) -> PoolAttempt:
        """Add a new attempt to the waiting ones."""
        attempt = self.track(request.key, request)
        self.enqueue(attempt)
        return attempt

    def track(self, key: str, request: AttemptRequest | None = None) -> PoolAttempt:
        """Add an attempt without making it wait or assigning it. ``request`` is None for an attempt
        that an earlier engine submitted."""
        self._added += 1
        attempt = self.attempts[key] = PoolAttempt(key, request, self._added)
        return attempt

    def enqueue(self, attempt: PoolAttempt) -> None:
        """Take an attempt from its nodes and add it to the waiting ones, at its place in the order
        of submission."""
        assert attempt.request is not None
        self.detach(attempt)
        attempt.started = attempt.recalled = False
        same = self._waiting.setdefault(_class_of(attempt, attempt.request), OrderedDict())
        newest = next(reversed(same.values())).number if same else 0
        same[attempt.key] = attempt
        if attempt.number < newest:
            for key in [key for key, other in same.items() if other.number > attempt.number]:
                same.move_to_end(key)

    def is_waiting(self, attempt: PoolAttempt) -> bool:
        """Whether an attempt waits for a launcher."""
        if attempt.nodes or attempt.request is None:
            return False
        return attempt.key in self._waiting.get(_class_of(attempt, attempt.request), ())

    def may_have(self, key: str, node: LauncherNode | None) -> bool:
        """Whether a node may have run an attempt: the attempt is assigned to the node, or an
        earlier assignment may have sent it there. True for an attempt that is not in ``attempts``
        any more."""
        attempt = self.attempts.get(key)
        if attempt is None or attempt.maybe_elsewhere:
            return True
        if attempt.nodes:
            return attempt.first_node is node
        return not self.is_waiting(attempt)

    def detach(self, attempt: PoolAttempt) -> None:
        """Take an attempt from its nodes or out of the queue; it stays in ``attempts``."""
        for node in attempt.nodes:
            node.charge(attempt.resources, -1)
            node.attempts.pop(attempt.key, None)
        attempt.nodes = ()
        if attempt.request is not None:
            attempt_class = _class_of(attempt, attempt.request)
            same = self._waiting.get(attempt_class)
            if same is not None and same.pop(attempt.key, None) is not None and not same:
                del self._waiting[attempt_class]

    def assign_to(self, attempt: PoolAttempt, nodes: Sequence[LauncherNode]) -> None:
        """Assign an attempt to ``nodes``; the first one runs it. Changes nothing if the attempt is
        assigned to the first one already."""
        if attempt.nodes and attempt.nodes[0] is nodes[0]:
            return
        self.detach(attempt)
        attempt.nodes = tuple(nodes)
        attempt.recalled = False
        for node in nodes:
            node.charge(attempt.resources, +1)
        nodes[0].attempts[attempt.key] = attempt

    def end(self, key: str, runtime_s: float | None = None) -> PoolAttempt | None:
        """Remove an ended attempt and return it; None if there is none with this key.

        ``runtime_s`` updates the moving average; None: the attempt did not run.
        """
        attempt = self.attempts.pop(key, None)
        if attempt is not None:
            self.detach(attempt)
            if runtime_s is not None:
                runtime_s = max(1e-6, runtime_s)  # negative where a clock was set back
                mean_s = runtime_s if self.mean_runtime_s is None else self.mean_runtime_s
                self.mean_runtime_s = mean_s + RUNTIME_WEIGHT * (runtime_s - mean_s)
        return attempt

    def waiting_count(self) -> int:
        """Number of attempts that wait for a launcher."""
        return sum(len(same) for same in self._waiting.values())

    # -- launchers

    def node_of(self, launcher: str, number: int) -> LauncherNode:
        """The node ``number`` of a launcher. A new node is added."""
        return self.nodes.setdefault((launcher, number), LauncherNode(launcher, number))

    def has_attempts(self, launcher: str) -> bool:
        """Whether a launcher has attempts that have not ended."""
        return any(node.attempts for (name, _), node in self.nodes.items() if name == launcher)

    def remove_launcher(self, launcher: str) -> list[PoolAttempt]:
        """Remove the nodes of an ended launcher and detach their attempts. Returns these attempts,
        which then neither wait nor are assigned."""
        removed = [node for (name, _), node in self.nodes.items() if name == launcher]
        had = []
        for node in removed:
            del self.nodes[node.launcher, node.number]
            for attempt in [each for each in self.attempts.values() if node in each.nodes]:
                self.detach(attempt)
                had.append(attempt)
        return had

    # -- decisions

    def assign(self, now_s: float) -> list[PoolAttempt]:
        """Assign waiting attempts to nodes with room; returns the attempts assigned in this call.

        A node takes attempts for up to (1 + p) times its cores, where p is its number of prefetched
        attempts per core (``prefetch_per_slot``).
        """
        room = {node: 1 + self._prefetch(node) for node in self.nodes.values()
                if node.is_open and self._has_free_cores(node)}  # fmt: skip
        heads = [(next(iter(same.values())).number, attempt_class)
                 for attempt_class, same in self._waiting.items()]  # fmt: skip
        heapq.heapify(heads)
        assigned = []
        is_reserved = False
        while heads and room:
            _, attempt_class = heapq.heappop(heads)
            same = self._waiting[attempt_class]
            attempt = next(iter(same.values()))
            nodes = self._nodes_with_room(attempt, room, now_s)
            if not nodes:
                # One reservation, as in EASY backfilling: more would leave nodes idle.
                if not (is_reserved or attempt_class[-1]):
                    is_reserved = self._reserve(attempt, room, now_s)
                continue
            has_more = len(same) > 1
            self.assign_to(attempt, nodes)
            attempt.sent_s = now_s
            assigned.append(attempt)
            for node in nodes:
                if node.used_cores >= node.cores * room[node]:
                    del room[node]
            if has_more:
                heapq.heappush(heads, (next(iter(same.values())).number, attempt_class))
        return assigned

    def _prefetch(self, node: LauncherNode) -> int:
        """Number of attempts to prefetch for each core of a node. 0 for the node of a claim, and
        for a node with a part of a multi-node attempt."""
        if node.multi_node_attempts or node.claim:
            return 0
        return prefetch_per_slot(node.latency_s, self.mean_runtime_s)

    def _has_free_cores(self, node: LauncherNode) -> bool:
        return node.used_cores < node.cores * (1 + self._prefetch(node))

    def _nodes_with_room(
        self, attempt: PoolAttempt, room: dict[LauncherNode, int], now_s: float
    ) -> Sequence[LauncherNode] | None:
        """Return the nodes to assign an attempt to; None if there is no room. A single-node attempt
        gets the least loaded node with room. For a multi-node attempt see ``_idle_nodes``.

        ``room`` maps each candidate node to the multiple of its capacity that it may take.
        """
        assert attempt.request is not None
        resources = attempt.resources
        if resources.nodes > 1:
            return self._idle_nodes(attempt, list(room), now_s)
        best: LauncherNode | None = None
        least = 0.0
        avoided = attempt.request.avoid_hosts and self._avoided_hosts(attempt, now_s)
        for node, times in room.items():
            if not node.takes(attempt.request):
                continue
            if not node.fits(resources) or not node.has_room(resources, times):
                continue
            if not node.has_time_for(attempt.request, now_s):
                continue
            if (avoided and node.host in avoided) or node in attempt.returned_by:
                continue
            load = node.used_cores / node.cores
            if best is None or load < least:
                best, least = node, load
        return (best,) if best is not None else None

    def _idle_nodes(
        self, attempt: PoolAttempt, candidates: Sequence[LauncherNode], now_s: float
    ) -> Sequence[LauncherNode] | None:
        """Nodes of one launcher for an attempt on several nodes; None if no launcher has enough.
        The cores must be idle now, without prefetching, since all nodes start the attempt
        together."""
        assert attempt.request is not None
        by_launcher: dict[str, list[LauncherNode]] = {}
        for node in candidates:
            if not node.takes(attempt.request):
                continue
            if node.has_room(attempt.resources) and node.has_time_for(attempt.request, now_s):
                by_launcher.setdefault(node.launcher, []).append(node)
        for nodes in by_launcher.values():
            if len(nodes) >= attempt.resources.nodes and nodes[0] not in attempt.returned_by:
                return nodes[: attempt.resources.nodes]
        return None

    def _suitable_nodes(self, attempt: PoolAttempt, now_s: float) -> list[LauncherNode]:
        """Open nodes that could run an attempt if no other attempt were assigned to them."""
        request = attempt.request
        assert request is not None
        return [
            node
            for node in self.nodes.values()
            if node.is_open
            and node.takes(request)
            and node.fits(attempt.resources)
            and node.has_time_for(request, now_s)
            and node not in attempt.returned_by
        ]

    def _avoided_hosts(self, attempt: PoolAttempt, now_s: float) -> tuple[str, ...]:
        """The hosts that an attempt has to avoid; empty if all suitable nodes are on such hosts."""
        assert attempt.request is not None
        avoided = attempt.request.avoid_hosts
        if any(node.host not in avoided for node in self._suitable_nodes(attempt, now_s)):
            return avoided
        return ()

    def _reserve(self, attempt: PoolAttempt, room: dict[LauncherNode, int], now_s: float) -> bool:
        """Reserve nodes for an attempt: remove from ``room`` the suitable nodes of one launcher
        that have the fewest cores in use beyond their capacity.

        Returns False, and reserves nothing, if no open launcher could run the attempt.
        """
        candidates = self._suitable_nodes(attempt, now_s)
        if attempt.request is not None and attempt.request.avoid_hosts:
            avoided = self._avoided_hosts(attempt, now_s)
            candidates = [node for node in candidates if node.host not in avoided]
        by_launcher: dict[str, list[LauncherNode]] = {}
        for node in candidates:
            by_launcher.setdefault(node.launcher, []).append(node)
        choices = []
        for nodes in by_launcher.values():
            nodes.sort(key=lambda node: node.used_cores - node.cores)
            if len(nodes) >= attempt.resources.nodes:
                choices.append(nodes[: attempt.resources.nodes])
        if not choices:
            return False
        for node in min(choices, key=lambda nodes: nodes[-1].used_cores - nodes[-1].cores):
            room.pop(node, None)
        return True

    def recall(self, now_s: float) -> dict[LauncherNode, list[str]]:
        """Choose prefetched attempts that nodes with idle cores can run sooner, and mark them as
        recalled. Returns their keys by the node that has to return them, the last sent first."""
        idle = [node for node in self.nodes.values()
                if node.is_open and node.used_cores < node.cores and not node.claim]  # fmt: skip
        wanted = sum(node.cores - node.used_cores for node in idle)
        # Idle cores are for the attempts that wait, unless these have a claim.
        if not idle or not all(kind[-1] for kind in self._waiting):
            return {}
        recalled: dict[LauncherNode, list[str]] = {}
        loaded = [node for node in self.nodes.values()
                  if node.is_open and node.used_cores > node.cores]  # fmt: skip
        for node in sorted(loaded, key=lambda node: node.cores - node.used_cores):
            spare = node.used_cores - node.cores
            # Over a slow channel an attempt takes longer to arrive and to be reported.
            min_sent_s = max(MIN_PREFETCHED_S, 4 * node.latency_s)
            for attempt in reversed(node.attempts.values()):
                cores = attempt.resources.cores
                if min(wanted, spare) < cores:
                    break
                if attempt.recalled:  # on its way; counts for the idle cores
                    wanted -= cores
                    spare -= cores
                elif (
                    not attempt.started
                    and attempt.request is not None
                    and now_s - attempt.sent_s > min_sent_s
                    and any(other.has_room(attempt.resources) for other in idle)
                ):
                    attempt.recalled = True
                    recalled.setdefault(node, []).append(attempt.key)
                    wanted -= cores
                    spare -= cores
        return recalled

    def check(self) -> None:
        """Raise AssertionError if the used resources contradict the assignments. For tests."""
        waiting = [key for same in self._waiting.values() for key in same]
        assert len(waiting) == len(set(waiting))
        for key in waiting:
            assert not self.attempts[key].nodes
        for node in self.nodes.values():
            here = [each for each in self.attempts.values() if node in each.nodes]
            asked = [each.resources for each in here]
            assert node.used_cores == sum(each.cores // each.nodes for each in asked)
            assert node.used_memory_bytes == sum(each.memory_bytes for each in asked)
            assert node.used_gpus == sum(each.gpus for each in asked)
            assert set(node.attempts) == {each.key for each in here if each.nodes[0] is node}


def _class_of(attempt: PoolAttempt, request: AttemptRequest) -> _AttemptClass:
    """The class of an attempt. All attempts of a class fit on the same nodes: they have equal
    requests and constraints, and expected run times within a factor of 2."""
    runtime_class = None if request.expected_s is None else frexp(request.expected_s)[1]
    return (
        request.resources, request.avoid_hosts, runtime_class, attempt.returned_by, request.claim,
    )  # fmt: skip
