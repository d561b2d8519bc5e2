"""Commands that are started at the same time on one run directory: one engine drives it, no task
runs twice, and nobody removes what another has made.

The commands are real processes, forked from one that has imported wfrun, so that they meet within
milliseconds.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, lines_of
from tests.runners.replicated import events_of
from wfrun.engine import events as ev
from wfrun.runners.cli.main import main
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.checkpoints import read_state

ROUNDS = 4
"""Rounds of a pair in the slow test, every other with a run that exists already."""
PATIENCE_S = 120.0
COMMANDS = ("run", "resume", "status", "cancel")
PAIRS = list(combinations_with_replacement(COMMANDS, 2))
"""Every pair of commands."""


def fork(folder: Path, words: Sequence[str], out: Path, begin: int, delay_s: float) -> int:
    """Start a command in a new process, which waits until ``begin`` is closed, then for the
    delay."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        # A folder of each round: a run of an earlier round must not answer to the name.
        os.environ["XDG_STATE_HOME"] = str(folder / ".state")
        stream = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number in (1, 2):
            os.dup2(stream, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the end of the process
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.read(begin, 1)
        time.sleep(delay_s)
        sys.argv = ["wfrun", *words]
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 71
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def race(folder: Path, commands: Sequence[Sequence[str]], delays_s: Sequence[float]) -> list[str]:
    """Run commands at the same time; returns for each its exit status and all that it printed."""
    begin, started = os.pipe()
    outs = [folder / f".out-{number}" for number in range(len(commands))]
    pids = []
    for words, out, delay_s in zip(commands, outs, delays_s, strict=True):
        pids.append(fork(folder, words, out, begin, delay_s))
    os.close(begin)
    for _ in pids:
        os.write(started, b"x")
    os.close(started)
    told = []
    for pid, out in zip(pids, outs, strict=True):
        told.append(f"{ended(pid)}: {out.read_text()}")
    return told


def ended(pid: int) -> int:
    """The exit status of a process; fails if it does not end in time."""
    watch = os.pidfd_open(pid)
    try:
        if not select.select([watch], [], [], PATIENCE_S)[0]:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(watch)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def words_of(command: str, document: Path) -> list[str]:
    if command == "run":
        return ["run", str(document), "--run-dir", "r", "--quiet"]
    return [command, "r", *(["--quiet"] if command == "resume" else [])]


ALLOWED = {
    "run": ("already holds a run", "is being driven by", "is not empty", "to continue: wfrun res"),
    "resume": ("is being driven by", "there is no run", "never started", "is not a run directory",
               "to continue: wfrun res"),
    "status": ("there is no run", "never started", "is starting", "is not a run directory"),
    "cancel": ("there is no run", "is not running", "asked r to stop"),
}  # fmt: skip
"""What a command may say besides success."""


def check(command: str, told: str) -> None:
    status, _, text = told.partition(": ")
    assert "Traceback" not in text, f"{command}: {told}"
    assert int(status) in (0, 2, 3, 130), f"{command}: {told}"
    if status != "0":
        assert any(words in text for words in ALLOWED[command]), f"{command}: {told}"
    if command == "status":
        assert "being driven by" not in text, told


SCRIPTS = {"a": "echo a >> {0}/record", "b": "[ -e {0}/go ] && echo b >> {0}/record"}
"""The task b fails until the file ``go`` exists."""


def race_in(folder: Path, pair: tuple[str, str], seed: int) -> None:
    """One round in a new folder. With an odd seed there is a run, of which a task has failed."""
    user, draw, begun = User(folder), random.Random(seed), bool(seed % 2)
    document = user.write([Job(name, text.format(folder)) for name, text in SCRIPTS.items()])
    if begun:
        (first,) = race(folder, [[*words_of("run", document), "--retries", "0"]], [0.0])
        assert first.startswith("1:"), first
    (folder / "go").touch()
    told = race(
        folder,
        [words_of(command, document) for command in pair],
        [draw.choice((0.0, draw.random() * 0.05)) for _ in pair],
    )
    for command, text in zip(pair, told, strict=True):
        check(command, text)
    statuses = {c: t.partition(":")[0] for c, t in zip(pair, told, strict=True)}
    if begun and "resume" in pair and "cancel" not in pair and "run" not in pair:
        assert "0" in [t.partition(":")[0] for c, t in zip(pair, told, strict=True)
                       if c == "resume"], told  # fmt: skip
    if begun and pair == ("resume", "status"):
        assert statuses == {"resume": "0", "status": "0"}, told
    finish(folder, document, exists=begun or "run" in pair)


def finish(folder: Path, document: Path, *, exists: bool) -> None:
    """Complete the run, and see that each task has succeeded exactly once. An attempt that was
    cancelled may have written its line before it was killed."""
    run = RunDir(folder / "r")
    if not exists:
        assert not run.path.exists()
        return
    (told,) = race(folder, [words_of("resume", document)], [0.0])
    assert told.startswith("0:"), told
    assert read_state(run).done == 2
    ended = [e for e in events_of(run.path) if isinstance(e, ev.AttemptEnded)]
    causes = Counter(e.outcome.cause for e in ended)
    assert causes["done"] == 2, ended
    lines = lines_of(folder / "record")
    assert set(lines) == {"a", "b"}
    assert len(lines) <= 2 + causes["cancelled"], ended


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_pair_of_commands(tmp_path: Path, pair: tuple[str, str]) -> None:
    race_in(tmp_path, pair, 0 if "run" in pair else 1)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_a_pair_of_commands_often(tmp_path: Path, pair: tuple[str, str]) -> None:
    for seed in range(2, 2 + ROUNDS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        race_in(folder, pair, seed)
