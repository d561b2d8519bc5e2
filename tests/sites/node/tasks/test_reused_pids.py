"""The pid of an attempt belongs to a process of another user by now, after a restart of the machine
or many other processes: that one is neither killed nor taken for the attempt."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sites.node.jobs.facts import sent_programs
from tests.sites.node.launchers.test_launcher import Talk
from tests.sites.node.launchers.test_other_boots import leave, state
from tests.sites.users import ALICE, CAN_BE_OTHERS, MALLORY, as_user, scratch
from tests.waiting import until
from wfrun.sites.node.tasks import processes

__all__ = ["scratch"]

KEY = f"pid-{os.getpid()}"
"""Of this process alone: launchers of tests beside this one end all processes of their attempts."""


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of Mallory's, who gives it the mark of the attempt."""
    process = subprocess.Popen(
        as_user(MALLORY, f"WFRUN_ATTEMPT={KEY} exec sleep 600"), start_new_session=True
    )
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("boot", "earlier_s"),
    [("before", 0.0), (processes.identity()["boot"], 100.0)],
    ids=["another-boot", "this-boot"],
)
async def test_a_process_of_another_user(
    scratch: Path, bystander: subprocess.Popen[bytes], boot: str, earlier_s: float
) -> None:
    """In another boot it may even have started at the same second."""
    await until(lambda: os.stat(f"/proc/{bystander.pid}").st_uid == MALLORY)
    start_s = processes.start_time(bystander.pid)
    assert start_s is not None
    ended = subprocess.Popen(["true"])
    ended.wait()
    owner: dict[str, Any] = {**processes.identity(), "boot": boot, "pid": ended.pid, "start_s": 1.0}
    site = scratch / "alice" / "run"
    leave(site, owner, bystander.pid, start_s - earlier_s, KEY)
    programs = scratch / "programs"
    shutil.copytree(sent_programs(), programs)
    programs.chmod(0o755)
    subprocess.run(["chown", "-R", f"{ALICE}:{ALICE}", site], check=True)
    launch = f'cd /; exec python3 -I -S {programs}/launcher.py "$4"'  # in place of the given one
    talk = Talk(site, prefix=tuple(as_user(ALICE, launch)))
    try:
        assert state(talk, KEY) == "lost"
        assert bystander.poll() is None
    finally:
        talk.close()
    assert bystander.poll() is None


@pytest.mark.skipif(not CAN_BE_OTHERS, reason="only root can become another user")
@pytest.mark.parametrize(("boot", "earlier_s"), [("before", 0.0), ("", 100.0)])
def test_no_permission_is_needed_to_spare_it(tmp_path: Path, boot: str, earlier_s: float) -> None:
    """The launcher is root's, who may kill any process."""
    bystander = subprocess.Popen(as_user(MALLORY, "exec sleep 600"), start_new_session=True)
    try:
        start_s = processes.start_time(bystander.pid)
        assert start_s is not None
        here = processes.identity()
        owner = {**here, "boot": boot or here["boot"], "pid": 1 << 30, "start_s": 1.0}
        leave(tmp_path, owner, bystander.pid, start_s - earlier_s, KEY)
        talk = Talk(tmp_path)
        try:
            assert state(talk, KEY) == "lost"
        finally:
            talk.close()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
