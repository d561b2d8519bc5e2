"""Catalog entries of `wfrun sites init`, with the alternatives of each choice in comments."""

from __future__ import annotations

import json
import os
import posixpath
import re
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

from wfrun.engine.explain.visible import name_line, visible
from wfrun.engine.model import Access
from wfrun.parsers.catalog.access import DEFAULT_DIRECTORY
from wfrun.runners.admin.survey import Machine, StoragePlace, System, choose_place
from wfrun.sites.batch.offers import BatchQueue, Offer
from wfrun.sites.ssh.kind import SSH

FOLDER = posixpath.basename(DEFAULT_DIRECTORY)
_PLAIN = re.compile(r"[A-Za-z~/$][\w~/.$@%+-]*", re.ASCII)
_QUANTITY = re.compile(r"\d+ [MG]iB|(\d+-)?\d\d:\d\d:\d\d", re.ASCII)
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "~"})
_MAX_LISTED = 8
"""Maximum number of alternative queues in comments."""
_COMMENT_WIDTH = 84
_MIB = 1 << 20
_LAUNCHER_S = 4 * 3600.0
"""Maximum walltime of the launchers in a proposed entry, in seconds. Longer jobs wait longer in
most queues."""


class EntryLines:
    """The lines of an entry, indented below the site's name."""

    def __init__(self, name: str) -> None:
        self._lines = [f"  {quoted(name)}:"]

    def comment(self, text: str) -> None:
        self._lines.append(f"    # {name_line(text)}")

    def add(self, key: str, value: str | int, why: str = "") -> None:
        plain = isinstance(value, int) or _QUANTITY.fullmatch(value)
        shown = str(value) if plain else quoted(str(value))
        self._lines.append(f"    {key}: {shown}" + (f"  # {name_line(why)}" if why else ""))

    def mapping(self, key: str, pairs: Sequence[str]) -> None:
        """Add a YAML mapping in one line. ``pairs`` are texts ``key: value``."""
        self._lines.append(f"    {key}: {{{', '.join(pairs)}}}")

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def quoted(text: str) -> str:
    """The text as a YAML scalar, quoted if necessary."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return visible(json.dumps(text, ensure_ascii=False))  # YAML has the same escapes


def size(number: int) -> str:
    """A size in the catalog's units, rounded down to whole MiB or GiB."""
    mebibytes = number // _MIB
    if mebibytes >= 1024 and mebibytes % 1024 == 0:
        return f"{mebibytes // 1024} GiB"
    return f"{mebibytes} MiB"


def rounded(number: float) -> str:
    """A size for readers, such as ``21 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def walltime(seconds: float) -> str:
    """``D-HH:MM:SS``, or without days."""
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def access_lines(lines: EntryLines, access: Access, base: Path) -> None:
    """Add the keys that state how to reach the site. Paths inside the catalog's folder ``base``
    become relative."""
    if access.transport == "local":
        lines.add("transport", "local")
        return
    lines.add("host", access.hosts[0])
    if access.user is not None:
        lines.add("user", access.user)
    if access.port is not None:
        lines.add("port", access.port)
    if access.transport != "asyncssh":
        lines.add("transport", access.transport)
    for key, path in (("ssh_config", access.ssh_config), ("known_hosts", access.known_hosts)):
        if path is not None:
            inside = Path(path).is_relative_to(base)
            lines.add(key, os.path.relpath(path, base) if inside else path)


def directory_lines(
    lines: EntryLines,
    places: Sequence[StoragePlace],
    *,
    nodes_see_it: bool,
    taken: frozenset[str],
    name: str,
) -> StoragePlace | None:
    """Add the site's directory, and a comment for each alternative. ``taken`` are the directories
    of other sites in the catalog. Returns the chosen place. If no place is writable, adds the
    default directory and returns None."""
    chosen = choose_place(list(places), nodes_see_it=nodes_see_it)
    if chosen is None:
        lines.comment("No place that can be written to was found: change this.")
        lines.add("directory", DEFAULT_DIRECTORY)
        return None
    written = _written(chosen, FOLDER)
    if written in taken:
        written = _written(chosen, f"{FOLDER}-{name}")
    lines.add("directory", written, _room(chosen))
    for place in places:
        if place is not chosen:
            doubt = "" if not nodes_see_it or place.is_shared else "; do the nodes see it?"
            lines.comment(f"or {_written(place, FOLDER)}  ({_room(place)}{doubt})")
    return chosen


def _written(place: StoragePlace, folder: str) -> str:
    head = place.path if "/" in place.label else place.label
    return f"{head.rstrip('/')}/{folder}"


def _room(place: StoragePlace) -> str:
    kind = f" on {place.file_system}" if place.file_system else ""
    return f"{rounded(place.free_bytes)} free{kind}"


def cluster_entry(
    name: str,
    access: Access,
    system: System,
    offer: Offer,
    places: Sequence[StoragePlace],
    *,
    base: Path,
    taken: frozenset[str],
) -> str:
    """The entry of a cluster, with the queue that `Offer.best` proposes."""
    queue = offer.best()
    lines = EntryLines(name)
    lines.comment(f"{system.version}, as of {time.strftime('%Y-%m-%d')}")
    for note in offer.notes:
        for line in textwrap.wrap(note, _COMMENT_WIDTH):
            lines.comment(line)
    lines.add("kind", system.kind)
    access_lines(lines, access, base)
    directory_lines(lines, places, nodes_see_it=True, taken=taken, name=name)
    _queue_lines(lines, queue, offer.queues)
    max_array = offer.max_array_in(queue)
    if max_array is not None:
        lines.add("max_array", max_array)
    if offer.max_jobs is not None:
        lines.add("max_jobs", offer.max_jobs, offer.max_jobs_why)
    _choice_lines(lines, queue)
    _launcher_lines(lines, queue)
    return lines.text()


def _launcher_lines(lines: EntryLines, queue: BatchQueue) -> None:
    """Add keys for launchers that hold a whole node. Launchers are the default: they save time for
    tasks of up to minutes, and cost longer tasks nothing."""
    if not queue.node_cores:
        return
    cores = min(queue.node_cores, _usable(queue))
    keys = [f"cores: {cores}"]
    if cores == queue.node_cores and queue.node_memory_bytes >= _MIB:
        keys.append(f"memory: {size(queue.node_memory_bytes)}")
    if cores == queue.node_cores and queue.node_gpus:
        keys.append(f"gpus: {queue.node_gpus}")
    keys.append(f"walltime: {walltime(min(queue.walltime_s or _LAUNCHER_S, _LAUNCHER_S))}")
    lines.comment(
        "One job a node runs many tasks (docs/launchers.md): a job for each task costs a second"
    )
    lines.comment(
        "or more beside the task. Without these two lines each task is a job, as tasks need that"
    )
    lines.comment("are wider or longer than a launcher.")
    lines.add("dispatch", "launchers")
    lines.mapping("launchers", keys)


def _usable(queue: BatchQueue) -> int:
    return max(1, queue.cores - queue.down_cores or queue.cores)


def _queue_lines(lines: EntryLines, queue: BatchQueue, queues: Sequence[BatchQueue]) -> None:
    out = f", {queue.down_cores} more are out of service" if queue.down_cores else ""
    lines.add("queue", queue.name, "the default" if queue.is_default else "")
    others = [other for other in queues if other is not queue]
    for other in others[:_MAX_LISTED]:
        lines.comment(f"or {other.name}  ({describe(other)})")
    if len(others) > _MAX_LISTED:
        lines.comment(f"or one of {len(others) - _MAX_LISTED} more")
    lines.add("slots", _usable(queue), f"all cores of {queue.name}{out}; lower it to leave some")
    if queue.node_cores:
        lines.add("node_cores", queue.node_cores, "of the largest node")
    if queue.node_memory_bytes >= _MIB:
        lines.add("memory", size(queue.node_memory_bytes), "of the largest node")
    if queue.node_gpus:
        lines.add("gpus", queue.node_gpus, "of one node")
    if queue.walltime_s:
        lines.add("walltime", walltime(queue.walltime_s))


def _choice_lines(lines: EntryLines, queue: BatchQueue) -> None:
    """Add the keys that only this batch system has."""
    for note in queue.notes:
        for line in textwrap.wrap(note, _COMMENT_WIDTH):
            lines.comment(line)
    for key, usable in queue.choices.items():
        if usable:
            first, *others = usable
            lines.add(key, first, f"or {', '.join(others)}" if others else "")


def describe(queue: BatchQueue) -> str:
    """Cores, largest node and walltime of a queue, for readers."""
    parts = [f"{queue.cores} cores"]
    if queue.node_cores:
        node = f"nodes of {queue.node_cores}"
        if queue.node_memory_bytes:
            node += f" and {rounded(queue.node_memory_bytes)}"
        parts.append(node)
    if queue.node_gpus:
        parts.append(f"{queue.node_gpus} GPUs a node")
    parts.append(walltime(queue.walltime_s) if queue.walltime_s else "no time limit")
    if not queue.is_open:
        parts.append("closed")
    return ", ".join(parts)


def host_entry(
    name: str,
    access: Access,
    machine: Machine,
    places: Sequence[StoragePlace],
    *,
    base: Path,
    taken: frozenset[str],
) -> str:
    """The entry of a host without a batch system."""
    lines = EntryLines(name)
    day = time.strftime("%Y-%m-%d")
    lines.comment(f"No batch system was found on {day}: tasks are processes of this host.")
    lines.add("kind", SSH.name)
    access_lines(lines, access, base)
    directory_lines(lines, places, nodes_see_it=False, taken=taken, name=name)
    lines.add("slots", machine.cores, "all its cores; lower it to leave some")
    if machine.memory_bytes >= _MIB:
        lines.add("memory", size(machine.memory_bytes))
    if machine.gpus:
        lines.add("gpus", machine.gpus)
    return lines.text()
