"""Co-allocation: one parallel job over the processors of several sites at once.

Use: put the jobs into a `PlacementQueue`, each with its `PlacementRequest`, and call its `scan`,
which places the jobs that the idle processors of the sites (`IdleProcessors`) can hold. A policy of
`POLICIES` divides each job: `worst_fit`, `cluster_minimization` or `communication_aware`, which
also needs the `NodeLinks`. A job is placed as a whole or not at all.

Source: O. O. Sonmez, *Application-Oriented Scheduling in Multicluster Grids*, PhD thesis, TU Delft,
2010, sections 2.1 to 2.3.
"""

from wfrun.engine.jobs.coallocation.idle import IdleProcessors
from wfrun.engine.jobs.coallocation.node_links import NodeLinks
from wfrun.engine.jobs.coallocation.policies import (
    POLICIES,
    cluster_minimization,
    communication_aware,
    place,
    worst_fit,
)
from wfrun.engine.jobs.coallocation.queue import PlacementQueue, Try
from wfrun.engine.jobs.coallocation.requests import Placement, PlacementRequest

__all__ = [
    "POLICIES",
    "IdleProcessors",
    "NodeLinks",
    "Placement",
    "PlacementQueue",
    "PlacementRequest",
    "Try",
    "cluster_minimization",
    "communication_aware",
    "place",
    "worst_fit",
]
