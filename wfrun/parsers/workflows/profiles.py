"""Profiles of DAX and Pegasus 5 documents, and the resource requests of a task that they state.

Source: Pegasus 5.0 user guide, "Configuration" (profile namespaces, their keys and units); HTCondor
10 manual, "Submit description file commands" (units of ``request_memory``, ``container_image`` and
``docker_image``); ``+SingularityImage`` is that of the OSG.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import msgspec

from wfrun.engine.fitting.containers import Container
from wfrun.engine.model import Resources
from wfrun.parsers.containers import to_container

Profiles = dict[tuple[str, str], str]
"""Values by namespace and key. Keys are in lower case, except those of ``env``."""

_MEBIBYTE = 2**20
"""Bytes of the unit that profiles call MB: it is 2^20 bytes."""
_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
"""Bytes by suffix of ``request_memory``; without one the unit is MiB."""


class ProfileRequests(msgspec.Struct, frozen=True):
    """The requests of the profiles of one task."""

    env: dict[str, str] | None = None
    resources: Resources = Resources()
    runtime_s: str | None = None
    """Run time in seconds, as written: the reader of the document checks it."""
    priority: int = 0
    container: Container | None = None
    warnings: tuple[str, ...] = ()


NO_REQUESTS = ProfileRequests()


class ProfileError(ValueError):
    """Raised for the value of a profile that is invalid for its key, or contradicts another
    profile."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def _whole(text: str) -> int:
    number = float(text)
    if not math.isfinite(number) or number != int(number) or number < 0:
        raise ValueError(text)
    return int(number)


def _positive(text: str) -> int:
    number = _whole(text)
    if number == 0:
        raise ValueError(text)
    return number


def _megabytes(text: str) -> int:
    return _whole(text) * _MEBIBYTE


def _condor_memory(text: str) -> int:
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(text)
    return math.ceil(float(match[1]) * _UNITS[match[2].lower()])


def _minutes(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number <= 0:
        raise ValueError(text)
    return number * 60.0


_Converter = Callable[[str], float]

_PPN = "cores on each node"
"""Key of `_FIELDS` for the cores per node, for which `Resources` has no field."""
_FIELDS: dict[str, tuple[tuple[str, str, _Converter, str], ...]] = {
    "cores": (
        ("pegasus", "cores", _positive, "a whole number of cores"),
        ("condor", "request_cpus", _positive, "a whole number of cores"),
        ("globus", "count", _positive, "a whole number of processes"),
    ),
    "nodes": (
        ("pegasus", "nodes", _positive, "a whole number of nodes"),
        ("globus", "hostcount", _positive, "a whole number of nodes"),
    ),
    _PPN: (
        ("pegasus", "ppn", _positive, "a whole number of cores on each node"),
        ("globus", "xcount", _positive, "a whole number of processes on each node"),
    ),
    "memory_bytes": (
        ("pegasus", "memory", _megabytes, "a whole number of MB"),
        ("condor", "request_memory", _condor_memory, "a number of MB, or one with a unit"),
        ("globus", "maxmemory", _megabytes, "a whole number of MB"),
    ),
    "gpus": (
        ("pegasus", "gpus", _whole, "a whole number of GPUs"),
        ("condor", "request_gpus", _whole, "a whole number of GPUs"),
    ),
    "walltime_s": (
        ("pegasus", "maxwalltime", _minutes, "a number of minutes"),
        ("globus", "maxwalltime", _minutes, "a number of minutes"),
    ),
}
"""For each field of `Resources`, and for the cores per node, the profile keys that set it:
namespace, key, converter, and a description of valid values. The first key that is present
counts."""


_IMAGES = (
    ("pegasus", "container"),
    ("condor", "container_image"),
    ("condor", "docker_image"),
    ("condor", "+singularityimage"),
)
"""Profile keys that name the image of a container. The first key that is present counts."""


def requests_of(profiles: Mapping[tuple[str, str], str], *, emulate: bool) -> ProfileRequests:
    """Read the requests in the profiles of a task. Other keys are ignored, since they are for other
    planners.

    Raises ProfileError for a value that is not a number, and for cores that cannot be spread evenly
    over the nodes; with ``emulate`` cores are rounded up instead. A ``condor`` value may be a
    ClassAd expression, which only HTCondor can evaluate: it is ignored, with a warning.
    """
    if not profiles:
        return NO_REQUESTS
    found: dict[str, float] = {}
    warnings: list[str] = []
    for field, sources in _FIELDS.items():
        for namespace, key, convert, meaning in sources:
            value = _value(profiles, namespace, key, convert, meaning, warnings)
            if value is not None and field not in found:
                found[field] = value
    if emulate:
        _round_up(found, warnings)
    _spread(found)
    priority = None
    for namespace in ("pegasus", "condor"):
        if priority is None:
            whole = "a whole number"
            priority = _value(profiles, namespace, "priority", int, whole, warnings)
    return ProfileRequests(
        env={key: text for (space, key), text in profiles.items() if space == "env"} or None,
        resources=msgspec.convert(found, Resources) if found else Resources(),
        runtime_s=profiles.get(("pegasus", "runtime"), profiles.get(("pegasus", "job.runtime"))),
        priority=int(priority or 0),
        container=_container(profiles),
        warnings=tuple(warnings),
    )


def _round_up(found: dict[str, float], warnings: list[str]) -> None:
    """Round cores up to a multiple of the nodes."""
    cores, nodes = found.get("cores"), found.get("nodes")
    if cores and nodes and _PPN not in found and cores % nodes:
        found["cores"] = math.ceil(cores / nodes) * nodes
        warnings.append(
            f"{cores:g} cores on {nodes:g} nodes, emulated with {found['cores']:g} cores"
        )


def _container(profiles: Mapping[tuple[str, str], str]) -> Container | None:
    for key in _IMAGES:
        text = profiles.get(key)
        if text is None:
            continue
        try:
            return to_container(text.strip().strip('"'))  # a string of a ClassAd has quotes
        except ValueError as error:
            raise ProfileError(f"profile {' '.join(key)}: {error}") from None
    return None


def _spread(found: dict[str, float]) -> None:
    """Derive cores, nodes and cores per node from those of them that are given. Raises ProfileError
    if the given ones do not agree."""
    each = found.pop(_PPN, None)
    if each is None and "nodes" not in found:
        return
    if each is None:
        found.setdefault("cores", found["nodes"])
    elif "nodes" in found:
        found.setdefault("cores", found["nodes"] * each)
    else:
        found["nodes"] = found.setdefault("cores", each) // each
    cores, nodes = int(found["cores"]), int(found["nodes"])
    if each is None and cores % nodes:
        raise ProfileError(
            f"{cores} cores cannot be spread evenly over {nodes} nodes",
            f"Ask for {nodes * math.ceil(cores / nodes)} cores (globus: count, for all nodes "
            "together), or for fewer nodes. With --emulate cores are rounded up.",
        )
    if each is not None and nodes * each != cores:
        raise ProfileError(f"{nodes} nodes with {int(each)} cores each are not {cores} cores")


def _value(
    profiles: Mapping[tuple[str, str], str],
    namespace: str,
    key: str,
    convert: _Converter,
    meaning: str,
    warnings: list[str],
) -> float | None:
    text = profiles.get((namespace, key))
    if text is None:
        return None
    try:
        return convert(text)
    except (ValueError, OverflowError):
        if namespace == "condor":
            warnings.append(f"condor profile {key} is an expression, which is not evaluated")
            return None
        raise ProfileError(f"profile {namespace} {key} is {text!r}, not {meaning}") from None


def profile_key(namespace: str, key: str) -> tuple[str, str]:
    """The key of a profile in `Profiles`: in lower case, except for names of environment
    variables."""
    space = namespace.strip().lower()
    return (space, key.strip()) if space == "env" else (space, key.strip().lower())
