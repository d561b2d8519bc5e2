"""Two Unix users on one machine, for tests of what one can do to the other."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wfrun.sites.remote.transports.local_transport import LocalProcess, LocalTransport

ALICE = 61001
"""The user who runs wfrun."""
MALLORY = 61002
"""Another user of the machine, who is hostile."""


CAN_BE_OTHERS = os.geteuid() == 0 and shutil.which("setpriv") is not None


def as_user(uid: int, command: str) -> list[str]:
    """The command line that runs a shell command as another user, without groups."""
    ids = (f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
    return ["setpriv", *ids, "sh", "-c", command]


def run_as(uid: int, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command as another user, to its end."""
    return subprocess.run(
        as_user(uid, command), check=False, capture_output=True, text=True, timeout=100
    )


class UserTransport(LocalTransport):
    """A connection that logs in to this machine as another user."""

    def __init__(self, uid: int, home: Path) -> None:
        super().__init__()
        self._uid = uid
        self._home = home

    async def start(self, command: str) -> LocalProcess:
        home = shlex.quote(str(self._home))
        line = f"cd / && HOME={home} && export HOME\n{command}"
        return await super().start(f"exec {shlex.join(as_user(self._uid, line))}")


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory that everybody may write to, with the sticky bit, as on clusters. Alice's home is
    ``alice`` in it. Skips the test without root, which may become any user."""
    if not CAN_BE_OTHERS:
        pytest.skip("only root can become two users")
    place = Path(tempfile.mkdtemp(prefix="wfrun-users-"))  # tmp_path can be entered by root alone
    place.chmod(0o1777)
    run_as(ALICE, f"mkdir -m 700 {place}/alice")
    yield place
    shutil.rmtree(place)
