"""Questions to a head node about its batch systems, their queues and limits, and its
directories."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from wfrun.engine.errors import InfeasibleError, TransientError
from wfrun.engine.model import Access
from wfrun.parsers.foreign import decimal_of, number_of
from wfrun.sites.batch.jobs import QueueUnknownError
from wfrun.sites.batch.offers import Offer
from wfrun.sites.kinds import BATCH_KINDS
from wfrun.sites.remote.host import CommandResult, Host

PROBE_S = 20.0
"""Timeout of a command of a batch system, in seconds."""
LOOK_S = 15.0
"""Timeout of a look at one directory, in seconds. Without it, an unreachable file system would
block for ever."""

_SHARED_KINDS = re.compile(
    r"nfs|lustre|gpfs|beegfs|ceph|panfs|pvfs|orangefs|gluster|weka|afs|smb|cifs|quobyte|vast|9p"
)
_LOOK = """\
place=$1
[ -n "$place" ] && [ -d "$place" ] || exit 3
probe=$(mktemp "$place/.wfrun-XXXXXX") && rm -f "$probe" || exit 4
printf '%s\\n' "$place"
{ df -PkT "$place" 2>/dev/null || df -Pk "$place"; } | tail -n 1
"""
_PLACES = {
    "$SCRATCH": '"$SCRATCH"',
    "$WORK": '"$WORK"',
    "/scratch/$USER": '"/scratch/$(id -un)"',
    "~": '"$HOME"',
}
_MACHINE = """\\
echo "cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)"
echo "kib=$(awk '/^MemTotal:/ {print $2}' /proc/meminfo)"
echo "load=$(cut -d' ' -f1 /proc/loadavg)"
echo "gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')"
"""


class System(NamedTuple):
    """A batch system that has answered its probe."""

    kind: str
    version: str
    """Name and version, such as ``Slurm 22.05.8``."""


class StoragePlace(msgspec.Struct, frozen=True):
    """A directory that can hold the site's files."""

    label: str
    """The path as users write it, such as ``$SCRATCH`` or ``~``."""
    path: str
    file_system: str
    """Type of the file system, as ``df`` names it; empty: unknown."""
    device: str
    free_bytes: int

    @property
    def is_shared(self) -> bool:
        """Whether this type of file system is shared by several machines."""
        return _SHARED_KINDS.search(self.file_system.lower()) is not None or ":" in self.device


class Machine(NamedTuple):
    """A host without a batch system."""

    cores: int
    memory_bytes: int
    """0: unknown."""
    load: float
    gpus: int


async def run(
    host: Host, argv: Sequence[str], env: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a program at the host. A program that is not installed gives a failed result instead of
    an error."""
    try:
        return await host.run(argv, env=env, timeout_s=PROBE_S)
    except InfeasibleError as error:
        return CommandResult(None, b"", error.message.encode())


def _failure(argv: Sequence[str], result: CommandResult) -> QueueUnknownError:
    # The script of `sh -c` begins with "exec" and the program.
    program = argv[0] if argv[0] != "sh" else argv[-1].removeprefix("exec ").partition(" ")[0]
    code = result.exit_code
    ended = "did not answer" if code is None else f"ended with exit code {code}"
    said = result.errors.decode("utf-8", "replace").strip()[-300:]
    return QueueUnknownError(f"{program} {ended}: {said or 'it printed nothing'}")


async def probe(host: Host, kind: str) -> System:
    """Ask for the version of a batch system. Raises QueueUnknownError if the batch system is absent
    or does not answer."""
    batch = BATCH_KINDS[kind]
    survey = batch.survey()
    result = await run(host, survey.probe)
    said = f"{_text(result)}\n{result.errors.decode('utf-8', 'replace')}".strip()
    if result.exit_code != 0:
        raise _failure(survey.probe, result)
    if not survey.version.search(said):
        raise QueueUnknownError(f"{survey.probe[0]} belongs to another system: {said[:100]}")
    return System(kind, f"{batch.title} {_version(said)}".strip())


def _version(said: str) -> str:
    match = re.search(r"\d+(?:\.\d+)+\w*", said.splitlines()[0] if said else "")
    return match[0] if match else ""


async def find_systems(host: Host) -> list[System]:
    """Find all batch systems that answer at the host, in the order of the registry."""
    probes = (probe(host, kind) for kind in BATCH_KINDS)
    found = await asyncio.gather(*probes, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, QueueUnknownError):
            raise each
    return [each for each in found if isinstance(each, System)]


async def ask_offer(host: Host, kind: str) -> Offer:
    """Queues and limits of the batch system. Raises QueueUnknownError if it does not answer."""
    survey = BATCH_KINDS[kind].survey()
    commands = {**survey.needed, **survey.wanted}
    results = await asyncio.gather(*(run(host, argv) for argv in commands.values()))
    answers = {}
    for name, argv, result in zip(commands, commands.values(), results, strict=True):
        if result.exit_code != 0 and name in survey.needed:
            raise _failure(argv, result)
        answers[name] = _text(result) if result.exit_code == 0 else ""
    return survey.read(answers)


async def find_places(host: Host) -> list[StoragePlace]:
    """The customary directories in which the user can write, the most suitable first."""
    found = await asyncio.gather(*(_look(host, label) for label in _PLACES))
    places: dict[str, StoragePlace] = {}
    for place in found:
        if place is not None:
            places.setdefault(place.path.rstrip("/") or "/", place)
    return list(places.values())


async def _look(host: Host, label: str) -> StoragePlace | None:
    script = f"set -- {_PLACES[label]}\n{_LOOK}"
    result = await host.run(["sh", "-c", script], timeout_s=LOOK_S)
    path, _, line = _text(result).strip().partition("\n")
    if result.exit_code != 0 or not path.startswith("/"):
        return None
    return place_of(label, path, line)


async def look_at(host: Host, path: str) -> StoragePlace | None:
    """Look at a directory; None if it cannot be written to or its file system hangs."""
    result = await host.run(["sh", "-c", _LOOK, "look", path], timeout_s=LOOK_S)
    shown, _, line = _text(result).strip().partition("\n")
    return place_of(path, shown, line) if result.exit_code == 0 else None


def place_of(label: str, path: str, line: str) -> StoragePlace:
    """Make the place of a directory from its line of ``df -P -k``, with or without the type of the
    file system."""
    match = re.match(r"(.+?)\s+(?:(\S*[^\d\s]\S*)\s+)?(\d+)\s+(\d+)\s+(-?\d+)\s+\S+\s+/", line)
    if match is None:
        return StoragePlace(label, path, "", "", 0)
    return StoragePlace(label, path, match[2] or "", match[1], number_of(match[5], 0) * 1024)


def choose_place(places: list[StoragePlace], *, nodes_see_it: bool) -> StoragePlace | None:
    """Return the first place that is safe to use; None if there is none. With ``nodes_see_it``,
    only places on a shared file system or on the file system of the home directory are safe."""
    home = next((place for place in places if place.label == "~"), None)
    for place in places:
        beside_home = home is not None and place.device == home.device
        if not nodes_see_it or place.is_shared or beside_home:
            return place
    return None


async def look_at_machine(host: Host) -> Machine:
    """Cores, memory, load and GPUs of a host. Raises TransientError if the number of cores is not
    found."""
    result = await host.run(["sh", "-c", _MACHINE], timeout_s=LOOK_S)
    said = dict(re.findall(r"^(\w+)=([\d.]+)$", _text(result), re.MULTILINE))
    cores = number_of(said.get("cores"))
    if cores is None:
        raise TransientError(f"the number of cores is not found: {_text(result)!r}")
    return Machine(
        cores=cores,
        memory_bytes=number_of(said.get("kib"), 0) * 1024,
        load=decimal_of(said.get("load")) or 0.0,
        gpus=number_of(said.get("gpus"), 0),
    )


def ssh_command(access: Access) -> str:
    """The `ssh` command with which the user can try this connection by hand."""
    words = ["ssh"]
    if access.ssh_config is not None:
        words += ["-F", access.ssh_config]
    if access.port is not None:
        words += ["-p", str(access.port)]
    host = access.hosts[0] if access.hosts else "localhost"
    return shlex.join([*words, host if access.user is None else f"{access.user}@{host}"])


def _text(result: CommandResult) -> str:
    return result.output.decode("utf-8", "replace")
