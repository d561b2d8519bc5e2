"""The parser of queues and limits of PBS and Torque. Source: recordings of OpenPBS 23.06 and its
manual pages pbs_queue_attributes(7B), pbs_node_attributes(7B) and pbs_server_attributes(7B); for
Torque 6.1 the manual alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import BatchQueue, Offer, clock_s, size_bytes, smallest_limit

Objects = Mapping[str, Mapping[str, str]]
"""Attributes of queues, nodes or servers, by name."""

_OUT_OF_SERVICE = frozenset({"down", "offline", "unknown", "state-unknown", "stale", "sleep",
                             "provisioning", "wait-provisioning"})  # fmt: skip


def read_json_objects(output: str, kind: str) -> Objects:
    """The objects in ``qstat -Q -f -F json`` (kind ``Queue``), ``qstat -B -f -F json`` (``Server``)
    or ``pbsnodes -a -F json`` (``nodes``). Raises QueueUnknownError."""
    try:
        found = json.loads(output, strict=False)[kind]
        return {
            name: {
                key if inner is None else f"{key}.{inner}": str(text)
                for key, value in attributes.items()
                for inner, text in (value.items() if isinstance(value, dict) else ((None, value),))
            }
            for name, attributes in found.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise QueueUnknownError(f"no {kind} in the output: {output[:200]!r}") from error


def read_text_objects(output: str) -> Objects:
    """The objects in ``qstat -Q -f``, ``qstat -B -f`` or ``pbsnodes -a``. An object begins with a
    line such as ``Queue: batch`` or ``Server: host``, a node with its name alone. Long values are
    wrapped with a line break and a tab."""
    objects: dict[str, dict[str, str]] = {}
    name = key = ""
    for line in output.split("\n"):
        if line.startswith("\t") and key:
            objects[name][key] += line[1:]
        elif line[:1].isspace() and " = " in line and name:
            key, _, value = line.strip().partition(" = ")
            objects[name][key] = value
        elif line.strip() and not line[:1].isspace():
            name, key = re.sub(r"^(Queue|Server): *", "", line).strip(), ""
            objects[name] = {}
    return objects


def offer_of(
    queues: Objects,
    nodes: Objects,
    server: Objects,
    *,
    picks_queue: bool = False,
    notes: tuple[str, ...] = (),
) -> Offer:
    """The offer from these objects; ``server`` may be empty. Raises QueueUnknownError if there is
    no queue."""
    settings = next(iter(server.values()), {})
    default = settings.get("default_queue", "")
    found = tuple(
        _queue(name, attributes, nodes, is_default=name == default)
        for name, attributes in queues.items()
    )
    if not found:
        raise QueueUnknownError("qstat -Q shows no queue")
    bounds = [_per_user(settings.get("max_queued", ""))]
    bounds += [_per_user(queues[default].get("max_queued", ""))] if default in queues else []
    max_jobs = smallest_limit(bounds)
    return Offer(
        queues=found,
        max_array=smallest_limit(
            [
                _number(settings.get("max_array_size", "")),
                _number(settings.get("max_job_array_size", "")),
            ]
        ),
        max_jobs=max_jobs,
        max_jobs_why="max_queued of each user" if max_jobs else "",
        picks_queue=picks_queue,
        notes=notes,
    )


def history_notes(server: Objects, attribute: str, command: str) -> tuple[str, ...]:
    """Notes for the users of a server that keeps no history of ended jobs, because ``attribute`` is
    off, as by default. ``command`` is the administrator's command that switches it on. Empty if the
    server keeps a history, or is unknown."""
    values = [attributes.get(attribute, "False") for attributes in server.values()]
    if not values or any(value not in ("False", "0") for value in values):
        return ()
    return (
        f"The server keeps no history of jobs ({attribute}). Why it ended a job is known only from "
        f"the job's own output. An administrator can change that: {command}.",
    )


def _queue(name: str, queue: Mapping[str, str], nodes: Objects, *, is_default: bool) -> BatchQueue:
    # A node that names a queue serves that queue alone; other nodes serve queues without own nodes.
    own = {key: node for key, node in nodes.items() if node.get("queue") == name}
    shared = {key: node for key, node in nodes.items() if "queue" not in node}
    of_queue = list((own or shared).values())
    working = [node for node in of_queue if not _is_down(node)]
    cores = sum(map(_cores, of_queue))
    down = cores - sum(map(_cores, working))
    idle = sum(max(0, _cores(node) - _busy(node)) for node in working if is_free(node))
    largest = _number(queue.get("resources_max.ncpus", ""))
    most_bytes = size_bytes(queue.get("resources_max.mem", ""))
    node_bytes = max(map(_memory, of_queue), default=0)
    return BatchQueue(
        name=name,
        is_default=is_default,
        is_open=queue.get("enabled") != "False" and queue.get("started") != "False",
        cores=cores,
        down_cores=down,
        idle_cores=idle,
        node_cores=smallest_limit([max(map(_cores, of_queue), default=0), largest]) or 0,
        node_memory_bytes=smallest_limit([node_bytes, most_bytes]) or 0,
        node_gpus=max((g for g in map(_gpus, of_queue) if g is not None), default=None),
        walltime_s=clock_s(queue.get("resources_max.walltime", "")),
        max_array=_number(queue.get("max_array_size", "")) or None,
    )


def _states(node: Mapping[str, str]) -> set[str]:
    return {state.strip().lower() for state in node.get("state", "").split(",")}


def _is_down(node: Mapping[str, str]) -> bool:
    return bool(_states(node) & _OUT_OF_SERVICE)


def is_free(node: Mapping[str, str]) -> bool:
    """Whether jobs can start on a node now."""
    return "free" in _states(node)


def _cores(node: Mapping[str, str]) -> int:
    return _number(node.get("resources_available.ncpus", node.get("np", "")))


def _busy(node: Mapping[str, str]) -> int:
    if "np" in node:  # Torque: "0/7.host, 1/7.host" or "0-3/7.host"
        return sum(
            _number(last or first) - _number(first) + 1
            for first, last in re.findall(r"(\d+)(?:-(\d+))?(?=[\d,-]*/)", node.get("jobs", ""))
        )
    return _number(node.get("resources_assigned.ncpus", ""))


def _memory(node: Mapping[str, str]) -> int:
    if "np" in node:
        match = re.search(r"\bphysmem=(\w+)", node.get("status", ""))
        return size_bytes(match[1]) if match else 0
    return size_bytes(node.get("resources_available.mem", ""))


def _gpus(node: Mapping[str, str]) -> int | None:
    if "np" in node:  # Torque prints them only if it was built with GPU support
        return number_of(node.get("gpus"))
    return _number(node.get("resources_available.ngpus", ""))


def _per_user(limit: str) -> int:
    """The limit of each user in ``[u:PBS_GENERIC=100],[o:PBS_ALL=5000]``; 0: none."""
    match = re.search(r"u:PBS_GENERIC=(\d+)", limit, re.ASCII)
    return number_of(match[1], 0) if match else 0


def _number(text: str) -> int:
    return number_of(text, 0)
