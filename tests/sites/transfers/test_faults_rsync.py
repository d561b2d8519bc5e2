"""Faults of rsync at either site: the destination has the right file or none, one message says why,
and the same copy succeeds once the fault is over.

Both sites run the real rsync, through a script that lies before or after it. Faults of the
connection between them are in ``test_faults.py``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sites.transfers.test_faults import LARGE, WHOLE, Rig, opened, servers
from wfrun.engine.errors import InfeasibleError, NoSpaceError, TransientError, WfrunError
from wfrun.sites.transfers.direct import direct_copy
from wfrun.sites.transfers.method import MethodFailedError

if TYPE_CHECKING:
    from tests.servers.ssh import FaultySSH

__all__ = ["servers"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync"),
]
needs_mount = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")

WRAPPER = """\
#!/bin/sh
case " $* " in
*" --version "*) exec {real} "$@" ;;
*" --server "*) end=destination ;;
*) end=source ;;
esac
[ -e {faults}/$end ] && . {faults}/$end
exec {real} "$@"
"""
AFTER = '{real} "$@" || exit; for part in {store}/.wfrun-part-*; do %s; done; exit 0'
"""A destination that changes what it has written, and says that all went well."""
AT_DESTINATION = {
    # rsync's own checksum finds them.
    "wrong bytes": (
        """{ head -c 500000; tr '\\001' '\\002'; } | {real} "$@"; exit""",
        "rsync|nothing came",
    ),
    "too short": (AFTER % 'truncate -s -1000 "$part"', "bytes"),
    "too long": (AFTER % 'truncate -s +1000 "$part"', "bytes"),
    "nothing written": (AFTER % 'rm -f "$part"', "was not written"),
    "killed in the middle": (
        '{ head -c 500000; sleep 2; } | timeout -s KILL 1 {real} "$@"; exit',
        "closed|unexpected|nothing came",
    ),
    "nothing read": ("exit 0", "closed|unexpected"),
    "refused": ("echo rsync is not allowed here >&2; exit 5", "rsync is not allowed here"),
}
AT_SOURCE = {
    "nothing sent": ("exit 0", "was not written"),
    "wrong bytes": ("tr a b < file > other && mv other file", "checksum"),
    "wrong size": ("head -c 1000 file > other && mv other file", "bytes"),
    "refused": ("echo rsync is not allowed here >&2; exit 5", "rsync is not allowed here"),
    "killed": ("kill -KILL $$", "exit code 137|[Kk]illed"),
    "cut in the middle": (
        '{real} "$@" --bwlimit=1 & sleep 0.5; kill $!; wait $!; exit 0',
        "bytes|was not written",
    ),
}


class Faults:
    """The programs of both sites, and what is wrong with them."""

    def __init__(self, base: Path, rig: Rig) -> None:
        self.rig = rig
        self.base = base
        self.base.mkdir()
        self.real = shutil.which("rsync")
        self.put("rsync", WRAPPER.format(real=self.real, faults=shlex.quote(str(base))))

    def put(self, name: str, program: str) -> None:
        path = self.base / name
        path.write_text(program)
        path.chmod(0o755)

    @contextmanager
    def at(self, end: str, what: str) -> Iterator[None]:
        """A fragment of a shell script that one of them runs first."""
        store = shlex.quote(str(self.rig.stores[1]))
        (self.base / end).write_text(
            what.replace("{real}", str(self.real)).replace("{store}", store)
        )
        yield
        (self.base / end).unlink()

    async def failed(self, name: str, words: str) -> WfrunError:
        """Copy, and check that nothing is left of the copy but one message."""
        (self.rig.stores[0] / name).write_bytes(LARGE)
        error = await self.rig.copy(name, WHOLE)
        assert isinstance(error, (TransientError, InfeasibleError)), name
        assert re.search(words, error.message), error.message
        assert "\n" not in error.message.strip()
        assert not list(self.rig.stores[1].iterdir())
        return error


@pytest.fixture
async def faults(
    servers: list[FaultySSH], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Faults]:
    monkeypatch.setattr(direct_copy, "STALL_S", 3.0)
    async with opened(servers, "rsync") as rig:
        found = Faults(tmp_path / "bin", rig)
        monkeypatch.setenv("PATH", str(found.base), prepend=os.pathsep)
        yield found


@contextmanager
def full_disk(path: Path, options: str) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
    try:
        yield
    finally:
        # Lazily: the agent may still look for the part.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.mark.parametrize("name", AT_DESTINATION)
async def test_faulty_destinations(faults: Faults, name: str) -> None:
    what, words = AT_DESTINATION[name]
    with faults.at("destination", what):
        await faults.failed(name, words)
    await faults.rig.succeeds(name, WHOLE)


@pytest.mark.parametrize("name", AT_SOURCE)
async def test_faulty_sources(faults: Faults, name: str) -> None:
    what, words = AT_SOURCE[name]
    with faults.at("source", what):
        await faults.failed(name, words)
    await faults.rig.succeeds(name, WHOLE)


@needs_mount
async def test_a_full_destination(faults: Faults) -> None:
    with full_disk(faults.rig.stores[1], "size=256k"):
        error = await faults.failed("f", "the disk is full")
        assert isinstance(error, NoSpaceError)
    await faults.rig.succeeds("f", WHOLE)


@needs_mount
async def test_a_source_without_room_for_the_script(faults: Faults) -> None:
    """That is no reason to say that the destination is full: another method is tried."""
    full = faults.base / "full"
    full.mkdir()
    with full_disk(full, "nr_inodes=1"):
        faults.put("mktemp", f"#!/bin/sh\nexec /usr/bin/mktemp -d {full}/wfrun.XXXXXXXXXX\n")
        error = await faults.failed(
            "f", "rsync at site0: it cannot use /tmp there: .*No space left"
        )
        assert isinstance(error, MethodFailedError)
    faults.put("mktemp", '#!/bin/sh\nexec /usr/bin/mktemp "$@"\n')
    await faults.rig.succeeds("f", WHOLE)
