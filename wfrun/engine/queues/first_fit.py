"""An index of the waiting jobs of one width, to find the first job whose request ends by some
time."""

from __future__ import annotations

from math import inf

from wfrun.engine.queues.lrm import JobId, QueuedJob

FOREVER_S = 1e300
"""Request, in seconds, that stands for no time limit. Places without a job have a larger value."""


class FirstFit:
    """Jobs in the order of their numbers in the queue.

    A complete binary tree over the jobs keeps the shortest request below each node. All methods
    cost O(log n), amortized.
    """

    __slots__ = ("_entries", "_places", "_size", "_tree")

    def __init__(self) -> None:
        self._entries: list[tuple[int, QueuedJob] | None] = []
        """(number, job) by place, ascending; None where a job was removed."""
        self._places: dict[JobId, int] = {}
        self._size = 4
        """Number of leaves of the tree."""
        self._tree = [inf] * (2 * self._size)
        """The shortest request in seconds below each node: node ``n`` has the children ``2 * n``
        and ``2 * n + 1``, and the leaves are the last ``_size`` nodes."""

    def __len__(self) -> int:
        return len(self._places)

    def append(self, number: int, job: QueuedJob) -> None:
        """Add a job with the highest number."""
        if len(self._entries) == self._size:
            self._renew()
        place = self._places[job.id] = len(self._entries)
        self._entries.append((number, job))
        self._set(place, min(job.requested_s, FOREVER_S))

    def remove(self, job: JobId) -> None:
        """Remove a job. Raises KeyError for an unknown job."""
        place = self._places.pop(job)
        self._entries[place] = None
        self._set(place, inf)

    def first(self, now_s: float, until_s: float) -> tuple[int, QueuedJob] | None:
        """The first job whose requested time ends by ``until_s`` if it starts at ``now_s``, with
        its number; None if there is none."""
        # ``until_s - now_s`` is rounded: compared with it, a job that ends exactly then may be
        # missed. The sum is rounded too, but never decreases with the request.
        tree, size, node = self._tree, self._size, 1
        until_s = min(until_s, FOREVER_S)
        if now_s + tree[1] > until_s:
            return None
        while node < size:
            node *= 2
            if now_s + tree[node] > until_s:
                node += 1
        return self._entries[node - size]

    def _set(self, place: int, request_s: float) -> None:
        tree, node = self._tree, place + self._size
        tree[node] = request_s
        while node > 1:
            least = min(tree[node], tree[node ^ 1])
            node //= 2
            if tree[node] == least:
                return
            tree[node] = least

    def _renew(self) -> None:
        """Remove the places of removed jobs, and make room for at least as many further jobs as are
        left."""
        entries = [entry for entry in self._entries if entry is not None]
        while self._size < 2 * len(entries) + 4:
            self._size *= 2
        size = self._size
        requests = [min(job.requested_s, FOREVER_S) for _, job in entries]
        self._entries = list(entries)
        self._places = {job.id: place for place, (_, job) in enumerate(entries)}
        self._tree = [inf] * size + requests + [inf] * (size - len(requests))
        for node in range(size - 1, 0, -1):
            self._tree[node] = min(self._tree[2 * node], self._tree[2 * node + 1])
