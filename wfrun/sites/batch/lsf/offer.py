"""The parser of LSF's queues and limits. Source: bqueues(1), bhosts(1), lshosts(1), bmgroup(1),
bparams(1) and busers(1) of LSF 10.1."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wfrun.parsers.foreign import decimal_of, number_of
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import BatchQueue, Offer, size_bytes, smallest_limit

_OUT_OF_SERVICE = re.compile(r"unavail|unreach|unlicensed|closed_(Adm|LIM|EGO|RC)")


class _Host(NamedTuple):
    slots: int
    idle: int
    is_down: bool


def read_offer(
    queues: str, hosts: str, machines: str, groups: str, parameters: str, user: str
) -> Offer:
    """The offer from the outputs of ``bqueues -l``, ``bhosts -w``, ``lshosts -w``, ``bmgroup -w``,
    ``bparams -a`` and ``busers -w``. All but the first two may be empty. Raises QueueUnknownError
    if the outputs show no queue or no host."""
    known = {row["HOST_NAME"]: _host(row) for row in _table(hosts, "HOST_NAME")}
    if not known:
        raise QueueUnknownError(f"bhosts shows no host: {hosts[:200]!r}")
    memory = {
        row["HOST_NAME"]: size_bytes(row.get("maxmem", "")) for row in _table(machines, "HOST_NAME")
    }
    members = dict(_groups(groups))
    default = _setting(parameters, r"Default Queues:|DEFAULT_QUEUE\s*=")
    found = tuple(
        _queue(block, known, memory, members, default)
        for block in re.split(r"^(?=QUEUE: )", queues, flags=re.MULTILINE)[1:]
    )
    if not found:
        raise QueueUnknownError(f"bqueues shows no queue: {queues[:200]!r}")
    pending = next((row.get("MPJOBS", "") for row in _table(user, "USER/GROUP")), "")
    max_jobs = smallest_limit([number_of(pending, 0)])
    return Offer(
        queues=found,
        max_array=number_of(_setting(parameters, r"MAX_JOB_ARRAY_SIZE\s*=")),
        max_jobs=max_jobs,
        max_jobs_why="MAX_PEND_JOBS of the user (busers)" if max_jobs else "",
    )


def _queue(
    block: str,
    hosts: Mapping[str, _Host],
    memory: Mapping[str, int],
    groups: Mapping[str, list[str]],
    default: str,
) -> BatchQueue:
    name = block.partition("\n")[0].removeprefix("QUEUE: ").strip()
    described = re.search(r"^PRIO.*\n(.*)$", block, re.MULTILINE)
    status = re.search(r"\b(Open|Closed):(\w+)", described[1] if described else "")
    limits = re.search(r"^MAXIMUM LIMITS:(.*?)(?:^\S+ ?\S*:|\Z)", block, re.MULTILINE | re.DOTALL)
    minutes = re.search(r"^ *RUNLIMIT *\n *([\d.]+) min", limits[1] if limits else "", re.MULTILINE)
    listed = re.search(r"^HOSTS: *(.*)$", block, re.MULTILINE)
    used = _used(listed[1] if listed else "all", hosts, groups)
    walltime = decimal_of(minutes[1]) if minutes else None
    return BatchQueue(
        name=name,
        is_default=name == default or "This is the default queue" in block,
        is_open=status is not None and status[1] == "Open" and status[2] == "Active",
        cores=sum(hosts[host].slots for host in used),
        down_cores=sum(hosts[host].slots for host in used if hosts[host].is_down),
        idle_cores=sum(hosts[host].idle for host in used if not hosts[host].is_down),
        node_cores=max((hosts[host].slots for host in used), default=0),
        node_memory_bytes=max((memory.get(host, 0) for host in used), default=0),
        walltime_s=None if walltime is None else 60 * walltime,
    )


def _used(listed: str, hosts: Mapping[str, _Host], groups: Mapping[str, list[str]]) -> list[str]:
    """The hosts of a queue. ``listed`` has names of hosts and, with a final ``/``, of groups. A
    name may have a preference such as ``+2``; ``~name`` excludes a name. Unknown names are ignored.
    """
    used: dict[str, None] = {}
    for word in re.sub(r"\+\d+\b", "", listed).split():
        names = [word.lstrip("~").rstrip("/")]
        if names == ["all"]:
            names = list(hosts)
        for host in groups.get(names[0], names):
            if word.startswith("~"):
                used.pop(host, None)
            elif host in hosts:
                used[host] = None
    return list(used)


def _host(row: Mapping[str, str]) -> _Host:
    slots, taken = number_of(row.get("MAX"), 0), number_of(row.get("NJOBS"), 0)
    status = row.get("STATUS", "")
    return _Host(
        slots,
        max(0, slots - taken) if status in ("ok", "closed_Full") else 0,
        _OUT_OF_SERVICE.match(status) is not None,
    )


def _table(text: str, first: str) -> Iterator[dict[str, str]]:
    """The rows, by column name, of the table whose header begins with ``first``. Rows with fewer
    columns than the header are left out."""
    lines = text.splitlines()
    while lines and not lines[0].startswith(first):
        lines.pop(0)
    header = lines[0].split() if lines else []
    for line in lines[1:]:
        fields = line.split()
        # The last column may be a list of words.
        if len(fields) >= len(header):
            yield dict(zip(header, fields, strict=False))


def _groups(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.splitlines():
        name, _, hosts = line.partition(" ")
        if name and name != "GROUP_NAME":
            yield name, [host.rstrip("/") for host in hosts.split()]


def _setting(text: str, name: str) -> str:
    """The first word after ``name``, a regular expression; empty if ``text`` has no such name."""
    match = re.search(rf"^\s*(?:{name})\s*(\S+)", text, re.MULTILINE)
    return match[1] if match else ""
