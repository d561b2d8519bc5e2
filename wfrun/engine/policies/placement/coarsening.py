"""Coarsening (thesis section 6.1.3, policy 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from wfrun.engine.fitting.information import Information, K, R
from wfrun.engine.policies.placement.base import BasePlacement
from wfrun.engine.policies.placement.file_aware import Cheapest, FileAware
from wfrun.engine.policies.placement.scores import Scores, first_where, score
from wfrun.engine.protocols import View


class Coarsening(BasePlacement):
    """Groups tasks that are connected by large files, and runs all tasks of a group at the cluster
    of its first task. File-aware places the first task.

    Groups are formed by heavy edge matching (Karypis and Kumar 1998). At each level, every node in
    random order is merged with its unmatched neighbour with the heaviest edge. Levels follow until
    at most ``size`` nodes are left (100 in thesis section 6.3.1) or no edge is left. A task that
    cannot run at the cluster of its group is placed alone.
    """

    name = "coarsening"
    information = Information(status=R, link_speed=K, file_size=K)
    summary = "tasks joined by large files as one group, then as file-aware"
    options: ClassVar[Mapping[str, int | float | str]] = {"size": 100, **FileAware.options}
    choices: ClassVar[Mapping[str, Sequence[str]]] = FileAware.choices

    def __init__(self, view: View, options: Mapping[str, int | float | str]) -> None:
        super().__init__(view, options)
        self._group = coarsen(view, int(options["size"]))
        self._site_of: dict[int, int] = {}
        self._cheapest = Cheapest(view, options)

    def place(self, task: int) -> int | None:
        site = self._site_of.get(self._group[task])
        if site is not None and site in self.view.candidates(task):
            return site
        return self._cheapest.site(task)

    def scores(self, task: int) -> Scores:
        own = self._site_of.get(self._group[task])
        is_own = first_where("has group", lambda site: site == own)
        sites = self.view.candidates(task)
        note = "" if own in sites else "no candidate runs the group of the task"
        return score(sites, is_own, *self._cheapest.criteria(task), note=note)

    def placed(self, task: int, site: int) -> None:
        self._site_of.setdefault(self._group[task], site)
        self._cheapest.last = site


MAX_REMAINING_SHARE = 0.95
"""Maximum share of the nodes that a level may leave if another level is to follow. With hubs, which
merge with only one neighbour per level, levels have little effect; the remaining nodes are then
merged edge by edge."""


def coarsen(view: View, size: int) -> list[int]:
    """The group of each task; at most ``size`` groups if there are enough edges."""
    count = view.task_count
    group = list(range(count))
    adjacency = _weighted_adjacency(view)
    random = view.random()
    while count > size:
        order = sorted(adjacency)
        random.shuffle(order)
        merged = _match(adjacency, order, count - size)
        adjacency = _contract(adjacency, merged)
        group = [merged.get(node, node) for node in group]
        before, count = count, count - len(merged)
        if count > MAX_REMAINING_SHARE * before:
            break
    if count > size:
        group = _merge_heaviest(group, adjacency, count - size)
    return group


def _weighted_adjacency(view: View) -> dict[int, dict[int, int]]:
    """The undirected graph of tasks, weighted by the bytes that they pass; edges without files
    weigh 0."""
    adjacency: dict[int, dict[int, int]] = {task: {} for task in range(view.task_count)}
    for task, parents in enumerate(view.parents):
        weights = dict.fromkeys(parents, 0)
        for file in view.inputs(task):
            producer = view.producer(file)
            if producer is not None:
                weights[producer] += view.size_bytes(file)
        for parent, weight in weights.items():
            adjacency[task][parent] = adjacency[parent][task] = weight
    return adjacency


def _match(adjacency: dict[int, dict[int, int]], order: list[int], most: int) -> dict[int, int]:
    """One level of heavy edge matching with at most ``most`` pairs: {absorbed: absorbing}."""
    merged: dict[int, int] = {}
    matched: set[int] = set()
    for node in order:
        if len(merged) == most:
            break
        if node in matched:
            continue
        best, best_weight = -1, -1
        for neighbour, weight in adjacency[node].items():
            if neighbour not in matched and (
                weight > best_weight or (weight == best_weight and neighbour < best)
            ):
                best, best_weight = neighbour, weight
        if best >= 0:
            matched.update((node, best))
            merged[max(node, best)] = min(node, best)
    return merged


def _contract(
    adjacency: dict[int, dict[int, int]], merged: Mapping[int, int]
) -> dict[int, dict[int, int]]:
    """The graph of merged nodes: parallel edges add up, inner ones disappear."""
    coarse: dict[int, dict[int, int]] = {}
    for node, neighbours in adjacency.items():
        here = merged.get(node, node)
        edges = coarse.setdefault(here, {})
        for neighbour, weight in neighbours.items():
            there = merged.get(neighbour, neighbour)
            if there != here:
                edges[there] = edges.get(there, 0) + weight
    return coarse


def _merge_heaviest(group: list[int], adjacency: dict[int, dict[int, int]], most: int) -> list[int]:
    """Merge along the ``most`` heaviest edges that join different groups (union-find)."""
    root = {node: node for node in adjacency}

    def find(node: int) -> int:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    edges = sorted(
        (-weight, node, neighbour)
        for node, neighbours in adjacency.items()
        for neighbour, weight in neighbours.items()
        if node < neighbour
    )
    for _, node, neighbour in edges:
        if most == 0:
            break
        a, b = find(node), find(neighbour)
        if a != b:
            root[max(a, b)] = min(a, b)
            most -= 1
    return [find(node) for node in group]
