"""The parser of Grid Engine's queues and limits. Source: queue_conf(5), sge_pe(5), complex(5),
host_conf(5), sge_conf(5) and qstat(1) of version 8.1.9."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import BatchQueue, Offer, blocks, clock_s, size_bytes, smallest_limit

_ON_ONE_NODE = "$pe_slots"
"""The allocation rule of parallel environments that keep a job on one node; sge_pe(5)."""
_ONE_CORE = (
    "No parallel environment keeps a job on one node: tasks with more than one core cannot run "
    "here."
)
# Names that sites customarily give, the preferred ones first.
_USUAL_ENVIRONMENTS = ("smp", "threaded", "threads", "shm", "openmp", "multicore")
_USUAL_MEMORY = ("h_vmem", "virtual_free", "mem_free", "s_vmem", "h_rss", "mem_total")
_DEFAULT_MAX_AJ_INSTANCES = 2000
"""Default of max_aj_instances, the maximum number of elements of an array that run at once;
sge_conf(5). A larger array gains nothing."""


def read_offer(
    queues: str, summary: str, environments: str, complexes: str, hosts: str, config: str
) -> Offer:
    """The offer from the outputs of ``qconf -sq '*'``, ``qstat -g c``, ``qconf -sp`` of all
    parallel environments, ``qconf -sc``, ``qconf -se`` of hosts, and ``qconf -sconf``. All but the
    first two may be empty. Raises QueueUnknownError for other output, and if no queue takes batch
    jobs."""
    slots = _read_summary(summary)
    listed = {pe["pe_name"]: pe for pe in blocks(environments, "pe_name")}
    resources = _memory_resources(complexes)
    memory_bytes, node_cores = _largest_host(hosts, resources)
    found = [
        _queue(queue, slots, listed, resources, memory_bytes, node_cores)
        for queue in blocks(queues, "qname")
        if queue["qname"] in slots and "BATCH" in queue.get("qtype", "BATCH")
    ]
    if not found:
        raise QueueUnknownError("qconf and qstat show no queue for batch jobs")
    settings = dict(re.findall(r"^(\w+)\s+(\S+)", config, re.MULTILINE))
    limits = {name: number_of(value, 0) for name, value in settings.items()}
    max_jobs = smallest_limit([limits.get("max_u_jobs", 0)])
    return Offer(
        queues=tuple(found),
        max_array=smallest_limit(
            [
                limits.get("max_aj_tasks", 0),
                limits.get("max_aj_instances", 0) or _DEFAULT_MAX_AJ_INSTANCES,
            ]
        ),
        max_jobs=max_jobs,
        max_jobs_why="max_u_jobs of the cluster" if max_jobs else "",
        picks_queue=True,
    )


def _read_summary(text: str) -> dict[str, tuple[int, int, int]]:
    """Read ``qstat -g c``. Returns, by queue, the numbers of available slots, of all slots, and of
    slots out of service."""
    lines = text.splitlines()
    if len(lines) < 2 or not lines[0].startswith("CLUSTER QUEUE"):
        raise QueueUnknownError(f"not a table of qstat -g c: {text[:200]!r}")
    found = {}
    for line in lines[2:]:
        match = re.fullmatch(r"(\S+)\s+\S+\s+\d+\s+\d+\s+(\d+)\s+(\d+)\s+\d+\s+(\d+)\s*", line)
        if match is None:
            raise QueueUnknownError(f"not a line of qstat -g c: {line[:200]!r}")
        free, total, down = (number_of(match[group], 0) for group in (2, 3, 4))
        found[match[1]] = free, total, down
    return found


def _queue(
    queue: dict[str, str],
    slots: dict[str, tuple[int, int, int]],
    environments: Mapping[str, Mapping[str, str]],
    resources: tuple[str, ...],
    memory_bytes: int,
    node_cores: int,
) -> BatchQueue:
    available, total, down = slots[queue["qname"]]
    listed = re.findall(r"[^\s,\[\]=]+", queue.get("pe_list", ""))
    environments = {name: pe for name, pe in environments.items() if name in listed}
    rules = {name: pe.get("allocation_rule", "") for name, pe in environments.items()}
    shared = [name for name, rule in rules.items() if rule == _ON_ONE_NODE]
    shared.sort(key=lambda name: _rank(name, _USUAL_ENVIRONMENTS))
    # No job gets more slots than its environment has, whatever the node has.
    of_job = [environments[name].get("slots", "") for name in shared]
    widest = max((number_of(slots, 0) for slots in of_job), default=0)
    limit = re.match(r"[^,\[\s]+", queue.get("h_rt", ""))
    found = re.findall(r"(?:^|=)(\d+)", queue.get("slots", "").replace(" ", ""))
    numbers = [number_of(number, 0) for number in found]
    return BatchQueue(
        name=queue["qname"],
        is_open=total > down,
        cores=total,
        down_cores=down,
        idle_cores=available,
        node_cores=smallest_limit([max([*numbers, 0]) or node_cores, widest]) or 0,
        node_memory_bytes=memory_bytes,
        walltime_s=clock_s(limit[0]) if limit else None,
        choices={
            "parallel_environment": (*shared, *_templates(rules)),
            **({"memory_resource": resources} if resources else {}),
        },
        notes=() if shared else (_ONE_CORE,),
    )


def _templates(rules: Mapping[str, str]) -> list[str]:
    """Templates of parallel environments over several nodes: ``mpi-{cores}`` if the queue has an
    environment such as ``mpi-8``, with 8 cores on each node. ``rules``: allocation rules by name.
    """
    names = (
        re.sub(rf"(?<!\d){rule}(?!\d)", "{cores}", name)
        for name, rule in rules.items()
        if number_of(rule) is not None
    )
    return list(dict.fromkeys(name for name in names if "{cores}" in name))


def _memory_resources(complexes: str) -> tuple[str, ...]:
    """Names of the memory resources that a job can request: consumables first, then other resources
    with a customary name. In both groups customary names come first."""
    found = []
    for line in complexes.splitlines():
        fields = line.split()
        if line.startswith("#") or len(fields) != 8 or fields[2] != "MEMORY":
            continue
        consumable = fields[5] in ("YES", "JOB", "HOST")
        if fields[4] in ("YES", "FORCED") and (consumable or fields[0] in _USUAL_MEMORY):
            found.append((not consumable, _rank(fields[0], _USUAL_MEMORY), fields[0]))
    return tuple(name for _, _, name in sorted(found))


def _largest_host(hosts: str, resources: tuple[str, ...]) -> tuple[int, int]:
    """The largest memory of a host in bytes, as far as a job can request it, and the largest number
    of cores of a host. 0 if unknown."""
    memory, cores = 0, 0
    for host in blocks(hosts, "hostname"):
        loads = dict(re.findall(r"([\w.]+)=([^,\s]+)", host.get("load_values", "")))
        complexes = dict(re.findall(r"([\w.]+)=([^,\s]+)", host.get("complex_values", "")))
        of_host = [size_bytes(loads.get("mem_total", ""))]
        of_host += [size_bytes(complexes.get(name, "")) for name in resources[:1]]
        memory = max(memory, smallest_limit(of_host) or 0)
        slots = complexes.get("slots") or loads.get("num_proc") or "0"
        cores = max(cores, number_of(slots, 0))
    return memory, cores


def _rank(name: str, usual: tuple[str, ...]) -> int:
    """Position of a name in ``usual``; for other names the length of ``usual``."""
    return usual.index(name) if name in usual else len(usual)
