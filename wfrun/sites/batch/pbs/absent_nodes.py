"""Whether a job that OpenPBS calls impossible can start when nodes are back in service.

The scheduler writes the comment "Can Never Run: Insufficient amount of resource: ncpus (R: 64 A: 8
T: 8)" if a request exceeds the sum over all nodes. Nodes in another state than free, such as nodes
that are down or in exclusive use, add to this sum only what jobs use of them. So this comment may
be withdrawn when nodes are free again. Comments about limits of the queue or the server stay true.
Source: is_ok_to_run in check.cpp and node_partition_update in node_partition.cpp of OpenPBS 23.06.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wfrun.sites.batch.offers import size_bytes
from wfrun.sites.batch.pbs.offer import Objects, is_free

_OF_NODES = "Insufficient amount of resource: "
_AMOUNTS = re.compile(_OF_NODES + r"(\w+) \(R: (\w+) A: \w+ T: (\w+)\)", re.ASCII)


def may_start(comment: str, nodes: Objects) -> bool:
    """Whether the request in ``comment`` fits into all nodes together once all are in service. True
    also if the comment has no amounts, or if an absent node does not show its amount. False if no
    node is absent, or if the comment gives another reason."""
    absent = [node for node in nodes.values() if not is_free(node)]
    if _OF_NODES not in comment or not absent:
        return False
    found = _AMOUNTS.search(comment)
    if found is None or any(f"resources_available.{found[1]}" not in node for node in absent):
        return True
    uncounted = sum(_unused(node, found[1]) for node in absent)
    return size_bytes(found[2]) <= size_bytes(found[3]) + uncounted


def _unused(node: Mapping[str, str], resource: str) -> int:
    available = size_bytes(node[f"resources_available.{resource}"])
    return max(0, available - size_bytes(node.get(f"resources_assigned.{resource}", "")))
