"""The parser of OAR's nodes. Source: oarnodes(1) of version 2.5, and a recording of 2.5.9."""

from __future__ import annotations

from collections import Counter

from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.oar.queue import read_json
from wfrun.sites.batch.offers import BatchQueue, Offer

_CORES = ("core", "resource_id")
"""Possible names of the resource that is a core, the customary one first. An OAR without ``core``
has one resource for each core."""


def read_offer(nodes: str) -> Offer:
    """The offer from the output of ``oarnodes -J``, which OAR's version has to follow. Raises
    QueueUnknownError for other output, and if there are no resources."""
    resources = [each for each in read_json(nodes) if each.get("type", "default") == "default"]
    if not resources:
        raise QueueUnknownError("oarnodes shows no resource")
    names = [name for name in _CORES if all(name in each for each in resources)]
    core = next(iter(names), "resource_id")
    cores = {
        (str(each.get("network_address")), str(each.get(core, number)))
        for number, each in enumerate(resources)
    }
    alive = {
        (str(each.get("network_address")), str(each.get(core, number)))
        for number, each in enumerate(resources)
        if each.get("state") == "Alive"
    }
    # OAR shows users no list of its queues.
    queue = BatchQueue(
        name="default",
        is_default=True,
        is_open=bool(alive),
        cores=len(cores),
        down_cores=len(cores) - len(alive),
        node_cores=max(Counter(node for node, _ in cores).values()),
        choices={"core_resource": (core,)},
        notes=("OAR shows no limit of a walltime: its admission rules may have one.",),
    )
    return Offer(queues=(queue,), picks_queue=True)
