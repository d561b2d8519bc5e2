"""The placement of jobs on the nodes of a simulated site.

The queue decides when a job starts. It considers only the free cores of the whole site, since
parallel jobs, those of workload logs and of MPI, may span nodes. The node map decides where a job
runs. It chooses a set of as few nodes as possible; among such sets, one whose slowest node is as
fast as possible. It takes the nodes of a job one by one. While no node has room for all remaining
cores, the job gets the node with the most free cores; among equals, the fastest. Then the remaining
cores go to the fastest node with room for them; among equally fast nodes, to the one with the
fewest free cores (best fit); among equals, to the first in the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from wfrun.engine.errors import InvalidError
from wfrun.engine.model import NodeGroup, SiteSpec
from wfrun.sites.simulated.queues import JobId


class SimulatedNode(msgspec.Struct, frozen=True):
    """One node of a simulated site."""

    name: str
    """The name of the site, a hyphen, and a number from 1."""
    kind: NodeGroup


class NodeMap:
    """Free and used cores of the nodes, numbered from 0 in the order of the catalog.

    The time of a placement grows with the number of speeds, the cores of a node, and the nodes of
    the job, but not with the nodes of the site. Raises InvalidError for invalid nodes, and if the
    total of their cores differs from the slots of the site.
    """

    def __init__(self, spec: SiteSpec) -> None:
        _check(spec)
        kinds = [kind for kind in spec.nodes for _ in range(kind.count)]
        self.nodes = tuple(
            SimulatedNode(f"{spec.name}-{n + 1}", kind) for n, kind in enumerate(kinds)
        )
        self._site = spec.name
        self._speeds = sorted({kind.speed_ratio for kind in spec.nodes}, reverse=True)
        self._speed_rank = [self._speeds.index(kind.speed_ratio) for kind in kinds]
        """Index of each node's speed in ``_speeds``; 0 is the fastest."""
        self._max_cores = max(kind.cores for kind in spec.nodes)
        self._free = [kind.cores for kind in kinds]
        self._by_free = [[0] * (self._max_cores + 1) for _ in self._speeds]
        """Nodes by speed, fastest first, and by number of free cores: a mask with one bit per
        node."""
        self._shares: dict[JobId, list[tuple[int, int]]] = {}
        """Nodes of each running job, each with the number of cores that the job has there."""
        first = 0
        for kind in spec.nodes:
            idle = self._by_free[self._speeds.index(kind.speed_ratio)]
            idle[kind.cores] |= ((1 << kind.count) - 1) << first
            first += kind.count

    @property
    def free(self) -> int:
        """Number of free cores of the nodes in service."""
        return sum(self._free)

    @property
    def slowest_ratio(self) -> float:
        """The relative speed of the slowest node."""
        return self._speeds[-1]

    def place(self, job: JobId, cores: int) -> float:
        """Give a job its cores. The site must have enough free cores. Returns the relative speed of
        the job's slowest node."""
        shares = []
        depth = len(self._speeds)
        node = self._best_fit(cores, depth)
        if node is None:
            depth = self._depth(cores)
        while node is None:
            widest, free = self._widest(depth)
            shares.append((widest, free))
            self._set_free(widest, 0)
            cores -= free
            node = self._best_fit(cores, depth)
        shares.append((node, cores))
        self._set_free(node, self._free[node] - cores)
        self._shares[job] = shares
        return self._speeds[max(self._speed_rank[node] for node, _ in shares)]

    def release(self, job: JobId) -> None:
        """Free the cores of a job that has ended. Raises KeyError if it does not run."""
        for node, cores in self._shares.pop(job):
            self._set_free(node, self._free[node] + cores)

    def shares(self, job: JobId) -> list[tuple[int, int]]:
        """The nodes of a running job, each with the number of cores that the job has there. Raises
        KeyError if the job does not run."""
        return list(self._shares[job])

    def hosts(self, job: JobId) -> str:
        """The names of a running job's nodes, as Slurm writes them: ``das3-2``, or
        ``das3-[1-3,7]``. Raises KeyError if the job does not run."""
        numbers = sorted(node + 1 for node, _ in self._shares[job])
        if len(numbers) == 1:
            return self.nodes[numbers[0] - 1].name
        return f"{self._site}-[{','.join(_ranges(numbers))}]"

    def jobs_on(self, node: int) -> list[JobId]:
        """The jobs with cores on a node, in the order of their starts."""
        return [
            job for job, shares in self._shares.items() if any(there == node for there, _ in shares)
        ]

    def take_out(self, node: int) -> None:
        """Take a node without jobs out of service."""
        self._set_free(node, 0)

    def put_back(self, node: int) -> None:
        """Put a node back into service, with all its cores free."""
        self._set_free(node, self.nodes[node].kind.cores)

    def _set_free(self, node: int, cores: int) -> None:
        idle = self._by_free[self._speed_rank[node]]
        idle[self._free[node]] &= ~(1 << node)
        idle[cores] |= 1 << node
        self._free[node] = cores

    def _best_fit(self, cores: int, depth: int) -> int | None:
        """The node for the last ``cores`` of a job, among nodes of the ``depth`` fastest speeds;
        None if none of them has room."""
        for idle in self._by_free[:depth]:
            for nodes in idle[cores:]:
                if nodes:
                    return _first(nodes)
        return None

    def _widest(self, depth: int) -> tuple[int, int]:
        """The node with the most free cores among nodes of the ``depth`` fastest speeds, and the
        number of these cores."""
        for free in range(self._max_cores, 0, -1):
            for idle in self._by_free[:depth]:
                if idle[free]:
                    return _first(idle[free]), free
        raise AssertionError("the queue has started a job without enough free cores")

    def _depth(self, cores: int) -> int:
        """The smallest number of speeds, fastest first, that allows a job to run on as few nodes as
        with all speeds."""
        depths = range(1, len(self._speeds) + 1)
        needed = [self._needed(cores, depth) for depth in depths]
        return depths[needed.index(needed[-1])]

    def _needed(self, cores: int, depth: int) -> float:
        """The smallest number of nodes of the ``depth`` fastest speeds that a job needs; infinite
        if they have too few free cores."""
        needed = 0
        for free in range(self._max_cores, 0, -1):
            count = sum(idle[free].bit_count() for idle in self._by_free[:depth])
            if count * free >= cores:
                return needed - (-cores // free)
            needed += count
            cores -= count * free
        return float("inf")


def _first(nodes: int) -> int:
    """The lowest number of a node in a mask."""
    return (nodes & -nodes).bit_length() - 1


def _ranges(numbers: list[int]) -> Iterator[str]:
    begin = last = numbers[0]
    for number in [*numbers[1:], 0]:
        if number != last + 1:
            yield str(begin) if begin == last else f"{begin}-{last}"
            begin = number
        last = number


def _check(spec: SiteSpec) -> None:
    for kind in spec.nodes:
        sound = (
            kind.count > 0
            and kind.cores > 0
            and 0 < kind.speed_ratio < float("inf")
            and 0 <= kind.mtbf_s < float("inf")
            and 0 <= kind.mttr_s < float("inf")
            and (kind.mtbf_s > 0) == (kind.mttr_s > 0)
        )
        if not sound:
            raise InvalidError(
                f"site {spec.name} has invalid nodes: {kind}",
                hint="count, cores and speed must be above 0, and mtbf and mttr too, or both 0",
            )
    cores = sum(kind.count * kind.cores for kind in spec.nodes)
    if cores != spec.slots:
        raise InvalidError(
            f"site {spec.name} has {spec.slots} slots, but its nodes have {cores} cores",
            hint="make the two numbers equal",
        )
