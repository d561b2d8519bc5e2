"""The parser of Slurm's partitions and limits. Source: sinfo(1), scontrol(1) and sacctmgr(1) of
version 22.05."""

from __future__ import annotations

import re

from wfrun.parsers.foreign import number_of
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import BatchQueue, Offer, clock_s, smallest_limit

SINFO_FORMAT = "%R|%P|%a|%l|%c|%m|%G|%D|%T|%C"
"""Partition; partition with a star if it is the default; whether it is up; time limit; cores,
memory in MiB and generic resources of a node; number and state of these nodes; their cores:
allocated, idle, others, all."""
_FIELDS = SINFO_FORMAT.count("|") + 1
_MIB = 1 << 20


def read_offer(sinfo: str, config: str, associations: str) -> Offer:
    """The offer from the outputs of ``sinfo --exact --noheader``, ``scontrol show config`` and
    ``sacctmgr --parsable2 --noheader show associations format=MaxSubmitJobs``. The last two may be
    empty. Raises QueueUnknownError if the output of sinfo is invalid or shows no partition."""
    queues: dict[str, BatchQueue] = {}
    for line in sinfo.splitlines():
        queue = _read_line(line)
        queues[queue.name] = _sum(queues[queue.name], queue) if queue.name in queues else queue
    if not queues:
        raise QueueUnknownError("sinfo shows no partition")
    settings = dict(re.findall(r"^(\w+)\s*= (\S+)", config, re.MULTILINE))
    largest = _number(settings.get("MaxArraySize", ""))
    own = smallest_limit([_number(line.strip()) for line in associations.splitlines()])
    of_all = _number(settings.get("MaxJobCount", ""))
    max_jobs, why = own, "MaxSubmitJobs of your account" if own else ""
    if own is None and of_all:
        max_jobs, why = max(1, of_all // 2), f"half of MaxJobCount, which is {of_all} for all users"
    return Offer(
        queues=tuple(queues.values()),
        # MaxArraySize limits the largest element number plus one.
        max_array=largest - 1 if largest > 1 else None,
        max_jobs=max_jobs,
        max_jobs_why=why,
    )


def _read_line(line: str) -> BatchQueue:
    fields = line.split("|")
    if len(fields) != _FIELDS:
        raise QueueUnknownError(f"not a line of sinfo: {line[:200]!r}")
    name, starred, up, limit, cores, memory, gres, _, _, counts = fields
    match = re.fullmatch(r"\d+/(\d+)/(\d+)/(\d+)", counts, re.ASCII)
    if match is None:
        raise QueueUnknownError(f"no core counts in a line of sinfo: {line[:200]!r}")
    idle, down, total = (number_of(count, 0) for count in match.groups())
    return BatchQueue(
        name=name,
        is_default=starred.endswith("*"),
        is_open=up == "up",
        cores=total,
        down_cores=down,
        idle_cores=idle,
        node_cores=_number(cores),
        node_memory_bytes=_number(memory) * _MIB,
        node_gpus=_gpus(gres),
        walltime_s=clock_s(limit) if ":" in limit else None,
    )


def _sum(one: BatchQueue, other: BatchQueue) -> BatchQueue:
    """The sum of two lines of one partition, which sinfo splits by kind and state of its nodes."""
    return BatchQueue(
        name=one.name,
        is_default=one.is_default,
        is_open=one.is_open,
        cores=one.cores + other.cores,
        down_cores=one.down_cores + other.down_cores,
        idle_cores=one.idle_cores + other.idle_cores,
        node_cores=max(one.node_cores, other.node_cores),
        node_memory_bytes=max(one.node_memory_bytes, other.node_memory_bytes),
        node_gpus=max(one.node_gpus or 0, other.node_gpus or 0),
        walltime_s=one.walltime_s,
    )


def _gpus(gres: str) -> int:
    """Number of GPUs in ``gpu:a100:4(S:0-1),gpu:2``."""
    found = re.findall(r"\bgpu(?::[^:,(]+)*?:(\d+)(?=[,(]|$)", gres, re.ASCII)
    return sum(number_of(count, 0) for count in found)


def _number(text: str) -> int:
    match = re.match(r"\d+", text, re.ASCII)
    return number_of(match[0], 0) if match else 0
