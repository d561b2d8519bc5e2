"""The identity of an installation of wfrun: the parts on which the last bit of a result depends.

As a program, ``python3 -m wfrun.runners.experiments.on_sites.installation NAME=VALUE…`` compares
the given parts with those of its own installation. If some differ, it prints a line for each and
exits with status 1. It is a command of the sites' prologues.
"""

from __future__ import annotations

import hashlib
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import entry_points, version
from pathlib import Path

MODULE = "wfrun.runners.experiments.on_sites.installation"


def installation() -> list[str]:
    """The identity of this installation, as NAME=VALUE for each part: the version and the sources
    of wfrun; the version of Python, because versions differ in `sum`; results of functions of the C
    library; packages that offer policies."""
    return [
        f"wfrun={version('wfrun')}",
        f"sources={_sources()}",
        f"python={sys.version_info.major}.{sys.version_info.minor}",
        f"arithmetic={_arithmetic()}",
        *(f"policies={name}" for name in _policies()),
    ]


def differences(wanted: Iterable[str]) -> list[str]:
    """A line for each part in which this installation differs from ``wanted``."""
    here, there = installation(), list(wanted)
    return [
        f"{' '.join(mine) or 'nothing'} at the site, {' '.join(theirs) or 'nothing'} where the "
        "command was given"
        for name in dict.fromkeys(part.partition("=")[0] for part in (*there, *here))
        if (mine := _named(here, name)) != (theirs := _named(there, name))
    ]


def _named(parts: Sequence[str], name: str) -> list[str]:
    return [part for part in parts if part.startswith(f"{name}=")]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:10]


def _sources() -> str:
    """Digest of all modules of wfrun."""
    folder = Path(__file__).parents[3]
    lines = [
        f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in sorted(folder.rglob("*.py"))
    ]
    return _digest("".join(lines).encode())


def _arithmetic() -> str:
    """Digest of results of the C library. The last bit of some results depends on the version of
    the library, and on whether the processor has fused multiply-add."""
    values = [
        f(x)
        for x in (0.37 * n + 0.011 for n in range(500))
        for f in (math.exp, math.log, math.sin, math.expm1, math.log1p, _power)
    ]
    return _digest(struct.pack(f"<{len(values)}d", *values))


def _power(x: float) -> float:
    return math.pow(x, 1.7)


def _policies() -> list[str]:
    """Name and version of the packages that offer policies."""
    groups = ("wfrun.placement", "wfrun.selection")
    found = {
        f"{entry.dist.name}-{entry.dist.version}"
        for group in groups
        for entry in entry_points(group=group)
        if entry.dist is not None
    }
    return sorted(found)


if __name__ == "__main__":
    lines = differences(sys.argv[1:])
    for line in lines:
        print(line, file=sys.stderr)
    sys.exit(1 if lines else 0)
