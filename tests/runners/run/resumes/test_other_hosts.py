"""Runs that are resumed on another host, or on this one after a restart, under another name, or
with another time: real processes in namespaces that show them another host name, boot and machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from tests.runners.harness import Engine, Job, User, lines_of, wait_until
from wfrun.engine.errors import InvalidError
from wfrun.engine.events import RunResumed
from wfrun.runners.run.directory import lock as lock_module
from wfrun.runners.run.directory.lock import Holder, Lock, read_holder
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state
from wfrun.runners.run.store.event_store import Store
from wfrun.sites.node.tasks.processes import identity

LONG_S = 150.0
"""Limit of what takes a few seconds on an idle machine."""
MACHINE_ID = Path("/etc/machine-id")
ENTER = """
printf %s "$1" > /proc/sys/kernel/hostname
mount --bind "$2" /proc/sys/kernel/random/boot_id
[ ! -e /etc/machine-id ] || mount --bind "$3" /etc/machine-id
shift 3
exec "$@"
"""
IMPATIENT = """
import sys
from wfrun.runners.cli.main import main
from wfrun.runners.run import session
from wfrun.runners.run.directory import lock
from wfrun.sites.node.launchers import journals
lock.PATIENCE_S, journals.PATIENCE_S = 2.0, {patience_s}
lock.BEAT_S = session.BEAT_S = 0.1
sys.exit(main())
"""


def can_enter() -> bool:
    """Whether this process may make namespaces."""
    command = ["unshare", "--mount", "--uts", "true"]
    return bool(shutil.which("unshare") and not subprocess.call(command))


elsewhere = pytest.mark.skipif(not can_enter(), reason="cannot make namespaces")


class Host:
    """A host on this kernel: a name, a boot and a machine of its own."""

    def __init__(self, user: User, name: str, boot: int, machine: int) -> None:
        self._user, self.name = user, name
        self._files = [user.folder / f"boot-{boot}", user.folder / f"machine-{machine}"]
        self._files[0].write_text(f"{boot:08}-0000-4000-8000-000000000000\n")
        self._files[1].write_text(f"{machine:032}\n")

    def start(self, *words: str | Path, patience_s: float = 2.0) -> Engine:
        """Start the command here."""
        program = IMPATIENT.format(patience_s=patience_s)
        command = [sys.executable, "-c", program, *map(str, words)]
        entry = ["unshare", "--mount", "--uts", "sh", "-c", ENTER, "sh", self.name]
        return self._user.launch([*entry, *map(str, self._files), *command])


def begin(user: User, host: Host, *, hold: bool = True) -> Engine:
    """Start a run of a quick and a slow task; returns once the slow one runs."""
    script = f"echo b >> {user.folder}/record; until [ -e {user.folder}/go ]; do sleep 0.05; done"
    jobs = [Job("a", f"echo a >> {user.folder}/record"), Job("b", script, parents=["a"])]
    engine = host.start(user.write(jobs), "--run-dir", "run")
    assert wait_until(lambda: lines_of(user.folder / "record") == ["a", "b"], LONG_S), engine.told
    return engine


@elsewhere
@pytest.mark.parametrize("name", ["alpha", pytest.param("beta", marks=pytest.mark.slow)])
def test_a_machine_that_comes_back_perhaps_under_another_name(user: User, name: str) -> None:
    """As a laptop in another network: the tasks that ran died with the boot."""
    if name == "beta" and not MACHINE_ID.exists():
        pytest.skip("this machine has no machine-id")
    begin(user, Host(user, "alpha", 1, 1))
    user.cut_power()
    (user.folder / "go").touch()
    done = Host(user, name, 2, 1).start("resume", "run").done(LONG_S)
    assert done.status == 0, done.text
    assert lines_of(user.folder / "record") == ["a", "b", "b"]


@pytest.mark.slow
@elsewhere
def test_a_dead_machine_is_called_dead_by_the_user(user: User) -> None:
    begin(user, Host(user, "alpha", 1, 1))
    user.cut_power()
    (user.folder / "go").touch()
    gamma = Host(user, "gamma", 2, 2)
    done = gamma.start("resume", "run").done(LONG_S)
    assert done.status == 2, done.text
    assert "was driven by process" in done.err
    assert "on alpha, and did not say that it ended" in done.err
    assert "wfrun resume run --dead-host alpha" in done.err
    done = gamma.start("resume", "run", "--dead-host", "alpha").done(LONG_S)
    assert done.status == 0, done.text
    assert lines_of(user.folder / "record") == ["a", "b", "b"]


@pytest.mark.slow
@elsewhere
def test_tasks_on_a_living_host_are_adopted(user: User) -> None:
    """The engine is killed, its launcher lives: the next engine waits for it from elsewhere."""
    begin(user, Host(user, "alpha", 1, 1)).kill()
    engine = Host(user, "gamma", 2, 2).start(
        "resume", "run", "--dead-host", "alpha", patience_s=LONG_S
    )
    assert wait_until(lambda: "may still run at alpha" in engine.told, LONG_S), engine.told
    (user.folder / "go").touch()
    done = engine.done(LONG_S)
    assert done.status == 0, done.text
    assert lines_of(user.folder / "record") == ["a", "b"]


def has_resumed(run: Path) -> bool:
    store = Store(run)
    try:
        return any(isinstance(event, RunResumed) for event in store.load())
    finally:
        store.close()


@pytest.mark.slow
@elsewhere
def test_ctrl_c_ends_the_wait_for_another_host(user: User) -> None:
    begin(user, Host(user, "alpha", 1, 1)).kill()
    engine = Host(user, "gamma", 2, 2).start("resume", "run", "--dead-host", "alpha",
                                             patience_s=2000.0)  # fmt: skip
    assert wait_until(lambda: "may still run at alpha" in engine.told, LONG_S), engine.told
    assert wait_until(lambda: has_resumed(user.folder / "run"), LONG_S)
    for note in ("Ctrl-C again ends them now", "Ctrl-C again leaves at once", "leaving"):
        engine.signal(signal.SIGINT)
        assert wait_until(lambda text=note: text in engine.told, LONG_S), note  # type: ignore[misc]
    assert engine.done(LONG_S).status == 130, engine.told


@pytest.mark.slow
@elsewhere
def test_a_frozen_engine_is_replaced_and_leaves(user: User) -> None:
    """Its lock stays, as that of a dead host at a file server; then it wakes up."""
    first = begin(user, Host(user, "alpha", 1, 1))
    first.signal(signal.SIGSTOP)
    gamma = Host(user, "gamma", 2, 2)
    done = gamma.start("resume", "run").done(LONG_S)
    assert done.status == 2, done.text
    assert "is being driven by process" in done.err
    second = gamma.start("resume", "run", "--dead-host", "alpha", patience_s=LONG_S)
    assert wait_until(lambda: "may still run at alpha" in second.told, LONG_S), second.told
    first.signal(signal.SIGCONT)
    left = first.done(LONG_S)
    assert left.status != 0
    assert "another engine" in left.err
    assert "Traceback" not in left.err
    (user.folder / "go").touch()
    assert second.done(LONG_S).status == 0, second.told
    assert read_state(RunDir(user.folder / "run")).done == 2


HUNG = """
import asyncio, sys, time
from wfrun.runners.cli.main import main
from wfrun.runners.run import session
from wfrun.sites.local import site
session.LEAVE_S = 0.5
async def absent(self, files):
    open("hung", "w").close()
    await asyncio.to_thread(time.sleep, 1000)
site._LocalHost.absent = absent
sys.exit(main())
"""
"""An engine whose thread hangs in a call to a site's file system, as one to a dead server does."""


@pytest.mark.slow
def test_ctrl_c_ends_a_wait_for_a_dead_file_system(user: User) -> None:
    script = "echo x > out; [ -e $GO ]".replace("$GO", str(user.folder / "go"))
    jobs = [Job("a", "echo x > out", (), ["out"], ["out"]), Job("b", script)]
    assert user.wfrun(user.write(jobs), "--run-dir", "run", "--retries", "0").status == 1
    engine = user.launch([sys.executable, "-c", HUNG, "resume", "run"])
    assert wait_until((user.folder / "hung").exists, LONG_S), engine.told
    for note in ("Ctrl-C again ends them now", "Ctrl-C again leaves at once", "leaving"):
        engine.signal(signal.SIGINT)
        assert wait_until(lambda text=note: text in engine.told, LONG_S), note  # type: ignore[misc]
    assert engine.done(LONG_S).status == 130
    (user.folder / "go").touch()
    assert user.wfrun("resume", "run").status == 0


OTHER = Holder(7, "alpha", "another-boot", "0" * 32)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock file of an engine on another machine whose file system has no locks."""
    monkeypatch.setattr(lock_module, "PATIENCE_S", 1.0)
    (tmp_path / "lock").write_bytes(msgspec.json.encode(OTHER))
    return tmp_path / "lock"


def test_a_living_host_is_respected(path: Path) -> None:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(0.05):
            os.utime(path)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(InvalidError, match="process 7 on alpha: its heartbeat continues"):
            Lock(path, dead_hosts=["alpha"])
        assert lock_module.is_held(path)
    finally:
        ended.set()
        thread.join()
    assert read_holder(path) == OTHER
    Lock(path, dead_hosts=["alpha"]).release()
    assert not lock_module.is_held(path)


@pytest.mark.parametrize("dead", [(), ("beta",)])
def test_a_silent_host_is_not_replaced_without_a_word(path: Path, dead: Sequence[str]) -> None:
    with pytest.raises(InvalidError, match="did not say that it ended") as caught:
        Lock(path, dead_hosts=dead)
    assert "--dead-host alpha" in str(caught.value)
    assert read_holder(path) == OTHER


def test_a_dead_process_of_this_boot_holds_nothing(path: Path) -> None:
    path.write_bytes(msgspec.json.encode({**identity(), "pid": 2**22 + 1}))
    assert not lock_module.is_held(path)
    Lock(path).release()


def test_this_machine_after_a_restart(path: Path) -> None:
    path.write_bytes(msgspec.json.encode({**identity(), "boot": "another-boot"}))
    assert not lock_module.is_held(path)
    Lock(path).release()


def test_a_lock_file_of_an_older_version(path: Path) -> None:
    path.write_text("process 12 on alpha")
    assert not lock_module.is_held(path)
    Lock(path).release()


CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (id == CLOCK_REALTIME && getenv("SHIFT_S")) now->tv_sec += atol(getenv("SHIFT_S"));
    return status;
}
"""
YEARS_S = 5 * 365 * 86400


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a C compiler")
@pytest.mark.parametrize("years", [5, pytest.param(-5, marks=pytest.mark.slow)])
def test_a_clock_that_is_wrong_by_years(
    user: User, years: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first engine, its launcher and its tasks see another year than those that go on."""
    library = user.folder / "clock.so"
    (user.folder / "clock.c").write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, user.folder / "clock.c", "-ldl"],
                   check=True)  # fmt: skip
    script = f"echo a >> {user.folder}/record; [ $(wc -l < {user.folder}/record) -gt 2 ]"
    document = user.write([Job("a", script), Job("b", f"echo b >> {user.folder}/record")])
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("SHIFT_S", str(years * YEARS_S // 5))
    done = user.wfrun(document, "--run-dir", "run", "--retries", "0")
    assert done.status == 1, done.text
    monkeypatch.delenv("SHIFT_S")
    assert user.ask("status", "run").status == 0
    done = user.wfrun("resume", "run", patience_s=LONG_S)
    assert done.status == 0, done.text
    assert sorted(lines_of(user.folder / "record")) == ["a", "a", "b"]
