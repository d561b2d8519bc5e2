"""A late commit of one user's job beside another user who tries to bring it about."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec

from tests.sites.node.jobs.facts import put_facts, sent_programs
from tests.sites.node.tasks.test_commit import STOPS_AT_THE_RENAME
from tests.sites.users import ALICE, MALLORY, as_user, run_as, scratch
from wfrun.testing.probe import shell

__all__ = ["scratch"]


class AliceJobs:
    """Jobs of Alice's, in a directory of hers that nobody else can enter."""

    def __init__(self, scratch: Path) -> None:
        self._programs = scratch / "programs"
        shutil.copytree(sent_programs(), self._programs)
        self._programs.chmod(0o755)
        self.directory = scratch / "alice" / "run"
        for name in ("attempts", "batches", "exits", "files"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        put_facts(self.directory)
        self._task = secrets.token_hex(8)  # no other launcher of this machine knows the key

    def key(self, number: int) -> str:
        return f"{self._task}.0.0.{number}"

    def start(self, number: int, *flags: str) -> subprocess.Popen[bytes]:
        """Start the job of an attempt. Its output has a name of its own, as in runs."""
        made = shell(self.key(number), f"echo attempt {number} > o", outputs={"o": f"o.{number}"})
        batch = f"b{number}"
        line = msgspec.json.encode(made) + b"\n"
        (self.directory / "batches" / f"{batch}.jsonl").write_bytes(line)
        subprocess.run(["chown", "-R", f"{ALICE}:{ALICE}", self.directory], check=True)
        program = str(self._programs / "job.py")
        words = ["python3", "-I", "-S", *flags, program, str(self.directory), batch, "1"]
        # In a session of its own, as under a batch system: SIGCONT passes users within a session.
        return subprocess.Popen(
            as_user(ALICE, f"cd /; exec {shlex.join(words)}"), start_new_session=True
        )

    def cause(self, number: int) -> str:
        record = json.loads((self.directory / "exits" / f"{self.key(number)}.json").read_bytes())
        return str(record["outcome"]["cause"])


def test_another_user_brings_about_no_late_commit(scratch: Path) -> None:
    """The job of the first attempt is suspended in its commit, and its attempt given up. Mallory
    wakes it, ends the next one and writes its record or output: none of it is permitted. Once its
    own user wakes it, it leaves what the second attempt has committed."""
    jobs = AliceJobs(scratch)
    first = jobs.start(1, "-c", STOPS_AT_THE_RENAME)
    try:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        place = jobs.directory
        for attack in (
            f"kill -CONT {first.pid}",
            f"kill -KILL {first.pid}",
            f"touch {place}/attempts/{jobs.key(2)}.revoked",
            f"echo forged > {place}/files/o.2",
            f"echo {{}} > {place}/exits/{jobs.key(2)}.json",
            f"mv {place} {place}.old",
            f"mv {scratch}/alice {scratch}/old",  # the sticky bit keeps it
        ):
            assert run_as(MALLORY, attack).returncode != 0, attack
        assert not list((place / "files").iterdir())
        revoke = f"touch {place}/attempts/{jobs.key(1)}.revoked"
        assert run_as(ALICE, revoke).returncode == 0
        assert jobs.start(2).wait(100) == 0
        assert jobs.cause(2) == "done"
        assert run_as(ALICE, f"kill -CONT {first.pid}").returncode == 0
        assert first.wait(100) == 0
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert (place / "files" / "o.2").read_text() == "attempt 2\n"
    assert (place / "files" / "o.2").stat().st_uid == ALICE
