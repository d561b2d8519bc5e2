"""The part of a catalog entry that describes a site's launchers: docs/launchers.md."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from wfrun.engine.model import LauncherSpec, SiteSpec
from wfrun.parsers.catalog.access import choice, host_name
from wfrun.parsers.syntax.sections import (
    Section,
    in_words,
    to_count,
    to_count_or_zero,
    to_duration,
    to_size,
    to_truth,
)

DEFAULT_CORES = 4
"""Default number of cores of a launcher on each node; less if the site has fewer slots. A batch job
of this size starts soon on most clusters."""

_CHANNELS: tuple[Literal["tcp", "ssh", "spool"], ...] = ("tcp", "ssh", "spool")
KEYS = (
    "cores",
    "nodes",
    "memory",
    "gpus",
    "min",
    "max",
    "backlog",
    "idle_timeout",
    "walltime",
    "channels",
    "address",
    "encrypt",
    "patience",
)
_DEFAULT_WALLTIME_S = 3600.0


def with_launchers(site: Section, spec: SiteSpec) -> SiteSpec:
    """The site with its launchers, if its tasks run in launchers; else the site itself.

    Raises InvalidError for launchers that would not be used or cannot exist.
    """
    access = spec.access
    if access is None or access.dispatch != "launchers":
        if site.has("launchers"):
            message = f"{site.title} describes launchers, but runs each task as a job of its own"
            hint = "Add 'dispatch: launchers', or remove 'launchers'."
            raise site.error(message, "launchers", hint=hint)
        if spec.pin_cores and spec.has_batch_system:
            message = f"{site.title} can bind tasks to cores only inside launchers"
            hint = "Add 'dispatch: launchers', or remove 'pin_cores'."
            raise site.error(message, "pin_cores", hint=hint)
        return spec
    launchers = _read(site, spec, access.max_jobs)
    return msgspec.structs.replace(
        spec, access=msgspec.structs.replace(access, launchers=launchers)
    )


def _read(site: Section, spec: SiteSpec, max_jobs: int | None) -> LauncherSpec:
    section = site.inner("launchers", f"'launchers' of {site.title}", KEYS)
    section.title = f"the launchers of {site.title}"
    nodes, cores = _read_size(site, section, spec.slots)
    minimum, maximum = _read_bounds(site, section, spec.slots // (nodes * cores), max_jobs)
    channels = section.take("channels", _channels, _CHANNELS)
    address = section.take("address", _address, None)
    if address is not None and channels == ("spool",):
        message = f"{section.title} communicate through files alone, which need no address"
        raise section.error(message, "address", hint="Remove 'address', or add a channel.")
    return LauncherSpec(
        cores=cores,
        nodes=nodes,
        memory_bytes=_read_memory(site, section, spec),
        gpus=_read_gpus(site, section, spec),
        min=minimum,
        max=maximum,
        backlog=section.take("backlog", to_count, min(2, maximum)),
        idle_timeout_s=section.take("idle_timeout", to_duration, 60.0),
        walltime_s=_read_walltime(site, section, spec),
        channels=channels,
        address=address,
        encrypt=section.take("encrypt", to_truth, True),
        patience_s=section.take("patience", to_duration, 600.0),
    )


def _read_size(site: Section, section: Section, slots: int) -> tuple[int, int]:
    """Number of nodes of a launcher, and number of cores on each."""
    nodes = section.take("nodes", to_count, 1)
    cores = section.take("cores", to_count, max(1, min(slots // nodes, DEFAULT_CORES)))
    if nodes * cores > slots:
        size = f" ({nodes} nodes with {cores} each)" if nodes > 1 else ""
        key = "cores" if section.has("cores") else "nodes"
        message = f"a launcher has {nodes * cores} cores{size}, but {site.title} has {slots} slots"
        raise section.error(message, key, hint="Make launchers smaller, or raise 'slots'.")
    return nodes, cores


def _read_walltime(site: Section, section: Section, spec: SiteSpec) -> float:
    granted_s = spec.walltime_s
    default_s = min(granted_s or _DEFAULT_WALLTIME_S, _DEFAULT_WALLTIME_S)
    walltime_s = section.take("walltime", to_duration, default_s)
    if granted_s is not None and walltime_s > granted_s:
        asked = f"walltime of {section.title} is {walltime_s:g} s"
        message = f"{asked}, but {site.title} grants {granted_s:g} s"
        raise section.error(message, "walltime", hint="Correct one of the two.")
    return walltime_s


def _read_memory(site: Section, section: Section, spec: SiteSpec) -> int:
    memory_bytes = section.take("memory", to_size, 0)
    if 0 < spec.memory_bytes < memory_bytes:
        message = f"memory of {section.title} is more than {site.title} has on a node"
        raise section.error(message, "memory", hint="Correct one of the two.")
    return memory_bytes


def _read_gpus(site: Section, section: Section, spec: SiteSpec) -> int:
    gpus = section.take("gpus", to_count_or_zero, 0)
    if gpus > spec.gpus:
        message = f"gpus of {section.title} is {gpus}, but {site.title} has {spec.gpus} on a node"
        raise section.error(message, "gpus", hint="Correct one of the two.")
    return gpus


def _read_bounds(
    site: Section, section: Section, room: int, max_jobs: int | None
) -> tuple[int, int]:
    """Minimum and maximum number of launchers, within the site's slots and ``max_jobs``."""
    bound = room if max_jobs is None else min(room, max_jobs)
    maximum = section.take("max", to_count, bound)
    if maximum > room:
        message = f"max of {section.title} is {maximum}, but {site.title} has slots for {room}"
        raise section.error(message, "max", hint="Lower 'max', or raise 'slots'.")
    if maximum > bound:
        message = f"max of {section.title} is {maximum}, above max_jobs, {max_jobs}"
        raise section.error(message, "max", hint="Correct one of the two.")
    minimum = section.take("min", to_count_or_zero, 0)
    if minimum > maximum:
        raise section.error(f"min of {section.title} is {minimum}, above max, {maximum}", "min")
    return minimum, maximum


def _address(value: Any) -> str:
    try:
        return host_name(value)
    except ValueError as error:
        message = f"{value!r} is not an address; write a name or a number, without user and port"
        raise ValueError(message) from error


def _channels(value: Any) -> tuple[Literal["tcp", "ssh", "spool"], ...]:
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError("the list is empty; write [tcp, spool], or remove 'channels'")
    if not all(isinstance(word, str) for word in given):
        raise ValueError(f"it must be a list of channels, not {in_words(value)}: [tcp, spool]")
    channels = tuple(choice("channel", _CHANNELS)(word) for word in given)
    for channel in channels:
        if channels.count(channel) > 1:
            raise ValueError(f"{channel!r} is listed twice")
    return channels
