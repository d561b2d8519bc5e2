"""Comparison of the limits in a catalog entry with those of the site."""

from __future__ import annotations

from typing import NamedTuple

from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.entry import rounded, walltime
from wfrun.runners.admin.survey import Machine
from wfrun.sites.batch.offers import BatchQueue, Offer


class Mismatch(NamedTuple):
    """A limit or request in the catalog that the site does not grant."""

    text: str
    hint: str
    """Advice to the user."""


def cluster_mismatches(spec: SiteSpec, offer: Offer) -> list[Mismatch]:
    """Mismatches between the requests in the entry of a cluster and what its batch system
    offers."""
    access = spec.access
    assert access is not None
    queue = offer.queue(access.queue)
    names = ", ".join(queue.name for queue in offer.queues)
    if queue is None:
        if access.queue is not None:
            return [Mismatch(f"there is no queue {access.queue}", f"Queues: {names}.")]
        if offer.picks_queue:
            return []
        hint = f"Name one with 'queue' in the catalog: {names}."
        return [Mismatch("there is no default queue", hint)]
    found = _against_queue(spec, queue)
    if access.launchers is not None:
        found += _launchers_against_node(access.launchers, queue)
    found += _against_service(queue, names)
    max_array = offer.max_array_in(queue)
    if access.max_array and max_array and access.max_array > max_array:
        found.append(_too_much("max_array", str(access.max_array), str(max_array)))
    return found + _against_choices(access, queue)


def _against_service(queue: BatchQueue, names: str) -> list[Mismatch]:
    if not queue.is_open:
        hint = f"Wait, or name another with 'queue' in the catalog. There are: {names}."
        return [Mismatch(f"queue {queue.name} is closed", hint)]
    if queue.cores and queue.down_cores >= queue.cores:
        hint = "Wait until its nodes are back, or name another with 'queue' in the catalog."
        return [Mismatch(f"no node of queue {queue.name} is in service", hint)]
    return []


def _against_queue(spec: SiteSpec, queue: BatchQueue) -> list[Mismatch]:
    found = []
    if queue.cores and spec.slots > queue.cores:
        found.append(_too_much("slots", str(spec.slots), f"{queue.cores} in {queue.name}"))
    if queue.node_cores and spec.node_cores and spec.node_cores > queue.node_cores:
        limit = f"{queue.node_cores} on a node of {queue.name}"
        found.append(_too_much("node_cores", str(spec.node_cores), limit))
    if queue.walltime_s and spec.walltime_s and spec.walltime_s > queue.walltime_s:
        limit = f"{walltime(queue.walltime_s)} in {queue.name}"
        found.append(_too_much("walltime", walltime(spec.walltime_s), limit))
    if queue.node_memory_bytes and spec.memory_bytes > queue.node_memory_bytes:
        limit = f"{rounded(queue.node_memory_bytes)} on a node of {queue.name}"
        found.append(_too_much("memory", rounded(spec.memory_bytes), limit))
    if queue.node_gpus is not None and spec.gpus > queue.node_gpus:
        limit = f"{queue.node_gpus} on a node of {queue.name}"
        found.append(_too_much("gpus", str(spec.gpus), limit))
    return found


def _launchers_against_node(launchers: LauncherSpec, queue: BatchQueue) -> list[Mismatch]:
    found = []
    if queue.node_cores and launchers.cores > queue.node_cores:
        limit = f"{queue.node_cores} on a node of {queue.name}"
        found.append(_too_much("launchers: cores", str(launchers.cores), limit))
    if queue.node_memory_bytes and launchers.memory_bytes > queue.node_memory_bytes:
        limit = f"{rounded(queue.node_memory_bytes)} on a node of {queue.name}"
        found.append(_too_much("launchers: memory", rounded(launchers.memory_bytes), limit))
    if queue.walltime_s and launchers.walltime_s > queue.walltime_s:
        limit = f"{walltime(queue.walltime_s)} in {queue.name}"
        found.append(_too_much("launchers: walltime", walltime(launchers.walltime_s), limit))
    return found


def _against_choices(access: Access, queue: BatchQueue) -> list[Mismatch]:
    """Mismatches of the keys that only this batch system has."""
    found = []
    for key, written in access.batch_settings.items():
        usable = queue.choices.get(key)
        if usable is not None and written not in usable:
            text = f"{key}: queue {queue.name} has no usable {written}"
            there = ", ".join(usable) or "none"
            hint = f"Correct '{key}' in the catalog, or remove it; available: {there}."
            found.append(Mismatch(text, hint))
    return found


def host_mismatches(spec: SiteSpec, machine: Machine) -> list[Mismatch]:
    """Mismatches between the requests in the entry of a host without a batch system and its
    resources."""
    found = []
    if spec.slots > machine.cores:
        found.append(_too_much("slots", str(spec.slots), f"{machine.cores} cores"))
    if machine.memory_bytes and spec.memory_bytes > machine.memory_bytes:
        limit = rounded(machine.memory_bytes)
        found.append(_too_much("memory", rounded(spec.memory_bytes), limit))
    if spec.gpus > machine.gpus:
        found.append(_too_much("gpus", str(spec.gpus), str(machine.gpus)))
    return found


def _too_much(key: str, written: str, limit: str) -> Mismatch:
    return Mismatch(f"{key}: the catalog says {written}, the limit is {limit}", f"Lower '{key}'.")
