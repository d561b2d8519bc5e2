"""Compares the files in the store of a site with their expected sizes and digests."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.exchange import Content
from wfrun.sites import node
from wfrun.sites.node.tasks.digests import ABSENT, UNREADABLE, measure
from wfrun.sites.remote.agent import remove
from wfrun.sites.remote.host import Host

MIN_READ_S = 600.0
SLOW_BYTES_PER_S = 10e6
"""Timeout for reading stored files: MIN_READ_S, plus one second for each SLOW_BYTES_PER_S bytes."""

_ANSWER = msgspec.json.Decoder(list[tuple[int, str | None] | None])


def matches(expected: Content, found: Content | None) -> bool:
    """Whether a file exists and has the expected size and digest, as far as these are known."""
    if found is None or expected.size_bytes not in (None, found.size_bytes):
        return False
    return expected.digest in (None, found.digest)


def measure_here(path: str | Path, *, digest: bool) -> Content | None:
    """Size and digest of a file or directory of this machine; None if it is absent or this user may
    not read it. Raises TransientError after any other error of reading."""
    try:
        return Content(*measure(str(path), digest))
    except ABSENT:
        return None
    except OSError as error:
        raise TransientError(f"{path} cannot be read: {error.strerror or error}") from error


def absent_here(store: Path, files: Mapping[str, Content]) -> list[str]:
    """Implements `Site.absent` for a site with its store in the local directory ``store``."""
    return [
        name
        for name, expected in files.items()
        if not matches(expected, measure_here(store / name, digest=expected.digest is not None))
    ]


def remove_here(store: Path, names: Sequence[str]) -> None:
    """Implements `Site.remove` for a site with its store in the local directory ``store``. Raises
    InfeasibleError for the first file that cannot be removed."""
    home = os.fsencode(Path.home())
    try:
        for name in names:
            remove(os.fsencode(store / name), home)
    except OSError as error:
        raise InfeasibleError(f"{error.filename or store}: {error.strerror or error}") from error


async def remove_at(host: Host, directory: str, names: Sequence[str]) -> None:
    """Implements `Site.remove` for a remote site, where ``directory`` is the run's directory."""
    await host.remove([f"{directory}/files/{name}" for name in names])


async def absent_at(host: Host, directory: str, files: Mapping[str, Content]) -> list[str]:
    """Implements `Site.absent` for a remote site, where ``directory`` is the run's directory."""
    names = list(files)
    stats = await host.stat([f"{directory}/files/{name}" for name in names])
    found: dict[str, Content | None] = {}
    plain, digested = [], []
    for name, stat in zip(names, stats, strict=True):
        found[name] = None if stat is None else Content(stat.size_bytes)
        if stat is None:
            continue
        if files[name].digest is not None:
            digested.append(name)
        elif stat.is_directory:
            plain.append(name)
    for some in (plain, digested):
        found.update(await _measure(host, directory, {name: files[name] for name in some}))
    return [name for name in names if not matches(files[name], found[name])]


async def _measure(
    host: Host, directory: str, files: Mapping[str, Content]
) -> dict[str, Content | None]:
    """Measure files of a remote store. Either all of ``files`` have an expected digest or none has.
    Returns the results of `measure_at`, by name."""
    if not files:
        return {}
    paths = [f"{directory}/files/{name}" for name in files]
    digest = next(iter(files.values())).digest is not None
    size_bytes = sum(each.size_bytes or 0 for each in files.values())
    found = await measure_at(host, paths, size_bytes, digest=digest)
    return dict(zip(files, found, strict=True))


async def measure_at(
    host: Host, paths: Sequence[str], size_bytes: int, *, digest: bool
) -> list[Content | None]:
    """Size and digest of each remote file or directory; None if it is absent or this user may not
    read it. ``size_bytes`` is their approximate total size, from which the timeout is computed.
    Raises TransientError after the timeout and after any other error of reading, InfeasibleError if
    Python does not work on the host."""
    question = json.dumps({"paths": list(paths), "digests": digest}).encode()
    timeout_s = MIN_READ_S + size_bytes / SLOW_BYTES_PER_S
    result = await host.run(command_of("tasks/digests.py"), stdin=question, timeout_s=timeout_s)
    said = result.errors[-500:].decode("utf-8", "replace").strip()
    if result.exit_code is None:
        raise TransientError(f"{paths[0]} and others were not read within {timeout_s:.0f} s")
    if result.exit_code == UNREADABLE:
        raise TransientError(said)
    try:
        found = _ANSWER.decode(result.output)
        if len(found) != len(paths):
            raise ValueError("it does not answer for each file")
        return [None if one is None else Content(*one) for one in found]
    except (msgspec.MsgspecError, ValueError) as error:
        raise InfeasibleError(
            f"{paths[0]} and others cannot be measured: {said or error}",
            hint="Check that Python 3.6 or later runs on the head node.",
        ) from error


@cache
def command_of(name: str) -> list[str]:
    """The command that runs a single-file node program without a copy of it at the site: the
    program text is an argument of the command."""
    find_python, program = ((node.FOLDER / each).read_text() for each in ("tasks/python.sh", name))
    return ["/bin/sh", "-c", f'{find_python}exec "$python" -I -S -X utf8 -c "$0"', program]
