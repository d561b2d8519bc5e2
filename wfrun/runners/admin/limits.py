"""What a catalog says of a site, held against what the site says."""

from __future__ import annotations

from wfrun.engine.model import Access, LauncherSpec, SiteSpec
from wfrun.runners.admin.entry import rounded, walltime
from wfrun.sites.batch.offers import Offer, Queue

Wrong = tuple[str, str]
"""What is wrong, and what to do."""


def wrong_limits(spec: SiteSpec, offer: Offer) -> list[Wrong]:
    """Of a cluster: where the catalog asks for more than there is."""
    assert spec.access is not None
    access = spec.access
    queue = offer.queue(access.queue)
    names = ", ".join(queue.name for queue in offer.queues)
    if queue is None and access.queue is not None:
        return [(f"there is no queue {access.queue}", f"Queues there are: {names}.")]
    if queue is None:
        if offer.picks_queue:
            return []
        return [("no queue is the default", f"Name one with 'queue' in the catalog: {names}.")]
    wrong = _against_queue(spec, queue)
    if not queue.is_open:
        hint = f"Wait, or name another with 'queue' in the catalog. There are: {names}."
        wrong.append((f"queue {queue.name} is closed", hint))
    elif queue.cores and queue.down_cores >= queue.cores:
        hint = "Wait until its nodes are back, or name another with 'queue' in the catalog."
        wrong.append((f"no node of queue {queue.name} is in service", hint))
    if access.max_array and offer.max_array and access.max_array > offer.max_array:
        wrong.append(_too_much("max_array", str(access.max_array), str(offer.max_array)))
    return wrong + _of_batch_system(access, queue)


def _against_queue(spec: SiteSpec, queue: Queue) -> list[Wrong]:
    wrong = []
    if queue.cores and spec.slots > queue.cores:
        wrong.append(_too_much("slots", str(spec.slots), f"{queue.cores} in {queue.name}"))
    if queue.walltime_s and spec.walltime_s and spec.walltime_s > queue.walltime_s:
        wrong.append(
            _too_much("walltime", walltime(spec.walltime_s),
                      f"{walltime(queue.walltime_s)} in {queue.name}")
        )  # fmt: skip
    if queue.node_memory_bytes and spec.memory_bytes > queue.node_memory_bytes:
        most = f"{rounded(queue.node_memory_bytes)} on a node of {queue.name}"
        wrong.append(_too_much("memory", rounded(spec.memory_bytes), most))
    if queue.node_gpus is not None and spec.gpus > queue.node_gpus:
        most = f"{queue.node_gpus} on a node of {queue.name}"
        wrong.append(_too_much("gpus", str(spec.gpus), most))
    launchers = None if spec.access is None else spec.access.launchers
    return wrong if launchers is None else wrong + _of_launchers(launchers, queue)


def _of_launchers(launchers: LauncherSpec, queue: Queue) -> list[Wrong]:
    """What one of them asks for, against a node of the queue."""
    wrong = []
    if queue.node_cores and launchers.cores > queue.node_cores:
        most = f"{queue.node_cores} on a node of {queue.name}"
        wrong.append(_too_much("launchers: cores", str(launchers.cores), most))
    if queue.node_memory_bytes and launchers.memory_bytes > queue.node_memory_bytes:
        most = f"{rounded(queue.node_memory_bytes)} on a node of {queue.name}"
        wrong.append(_too_much("launchers: memory", rounded(launchers.memory_bytes), most))
    if queue.walltime_s and launchers.walltime_s > queue.walltime_s:
        most = f"{walltime(queue.walltime_s)} in {queue.name}"
        wrong.append(_too_much("launchers: walltime", walltime(launchers.walltime_s), most))
    return wrong


def _of_batch_system(access: Access, queue: Queue) -> list[Wrong]:
    """The keys that this batch system alone has, against what the queue offers."""
    wrong = []
    for key, written in access.batch_settings.items():
        usable = queue.choices.get(key)
        if usable is not None and written not in usable:
            hint = f"Correct '{key}' in the catalog, or leave it out; there is: "
            wrong.append((
                f"{key}: queue {queue.name} has no {written} that can be used",
                f"{hint}{', '.join(usable) or 'none'}.",
            ))  # fmt: skip
    return wrong


def wrong_machine(spec: SiteSpec, cores: int, memory_bytes: int, gpus: int) -> list[Wrong]:
    """Of a host without a batch system; 0 bytes: not known."""
    wrong = []
    if spec.slots > cores:
        wrong.append(_too_much("slots", str(spec.slots), f"{cores} cores"))
    if memory_bytes and spec.memory_bytes > memory_bytes:
        wrong.append(_too_much("memory", rounded(spec.memory_bytes), rounded(memory_bytes)))
    if spec.gpus > gpus:
        wrong.append(_too_much("gpus", str(spec.gpus), str(gpus)))
    return wrong


def _too_much(key: str, written: str, most: str) -> Wrong:
    return f"{key}: the catalog says {written}, there are {most}", f"Write less as '{key}'."
