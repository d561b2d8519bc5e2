"""What a run says on a pipe, on a dumb terminal, after a resize and at its end."""

from __future__ import annotations

import csv
import fcntl
import re
import struct
import termios
from pathlib import Path

import pytest

from tests.runners.harness import WFRUN, Job, User, wait_until
from tests.runners.replicated import events_of
from tests.runners.terminal import Terminal
from wfrun.engine import events as ev

SITES = "sites:\n  busy:\n    slots: 1\n  idle:\n    slots: 1\n"


def waiting(user: User, count: int) -> Path:
    """Tasks that run until the user's file ``go`` is there."""
    script = f"touch {user.folder}/begun-$$; until test -e {user.folder}/go; do sleep 0.1; done"
    return user.write([Job(f"t{n}", script) for n in range(count)])


def has_begun(user: User, count: int) -> bool:
    return len(list(user.folder.glob("begun-*"))) >= count


def test_a_site_that_runs_nothing_says_why(user: User) -> None:
    """Long before the first line that repeats; ``status`` has it too."""
    catalog = user.catalog(SITES)
    engine = user.start(
        waiting(user, 3), "--sites", catalog, "--run-dir", "run", "--policy", "single-cluster"
    )
    reason = "policy single-cluster gave it none: 2 tasks in the queue of"
    assert wait_until(lambda: reason in engine.told), engine.told
    first = next(line for line in engine.told.splitlines() if reason in line)
    assert re.match(r"site (busy|idle): policy", first), engine.told
    running = re.compile(r"running, oldest first +site +for +expected\nt0 +(busy|idle) ")

    def is_said() -> bool:
        """The log is a moment later than what the engine says."""
        status = user.ask("status", "run").out
        return reason in status and running.search(status) is not None

    assert wait_until(is_said), user.ask("status", "run").out
    (user.folder / "go").touch()
    assert engine.done().status == 0


def test_an_interrupted_run_counts_what_was_not_run(user: User) -> None:
    catalog = user.catalog(SITES)
    engine = user.start(waiting(user, 5), "--sites", catalog, "--run-dir", "run")
    assert wait_until(lambda: has_begun(user, 2)), engine.told
    engine.signal(2)
    assert wait_until(lambda: "Ctrl-C again" in engine.told)
    run = user.folder / "run"
    assert wait_until(lambda: any(isinstance(e, ev.CancelAsked) for e in events_of(run)))
    (user.folder / "go").touch()
    done = engine.done()
    assert done.out.startswith("cancelled: 2/5 tasks done, 3 not run in "), done.text


@pytest.mark.slow
def test_a_dumb_terminal_gets_lines(user: User) -> None:
    terminal = Terminal(
        user, 80, waiting(user, 1), "--run-dir", "run", argv=["env", "TERM=dumb", str(WFRUN)]
    )
    assert wait_until(lambda: has_begun(user, 1)), terminal.drawn
    (user.folder / "go").touch()
    assert terminal.done() == 0
    assert "done: 1/1 tasks done" in terminal.drawn
    assert "\x1b" not in terminal.drawn


@pytest.mark.slow
def test_a_resized_terminal_is_cleared(user: User) -> None:
    """The old lines are wrapped by the terminal, so that they could not be erased one by one."""
    terminal = Terminal(user, 100, waiting(user, 1), "--run-dir", "run")
    assert wait_until(lambda: "1 running" in terminal.text), terminal.text
    assert "\x1b[2J" not in terminal.drawn
    fcntl.ioctl(terminal.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    assert wait_until(lambda: "\x1b[2J" in terminal.drawn), terminal.text
    (user.folder / "go").touch()
    assert terminal.done() == 0


def test_results_have_the_tasks_that_run(user: User) -> None:
    """From the engine's log, which is later than the tasks' own files."""
    engine = user.start(waiting(user, 2), "--run-dir", "run", "--sites", user.catalog(SITES))
    assert wait_until(lambda: has_begun(user, 2)), engine.told
    rows: list[dict[str, str]] = []

    def are_running() -> bool:
        rows[:] = csv.DictReader(user.ask("results", "run").out.splitlines())
        return [row["state"] for row in rows] == ["running", "running"]

    assert wait_until(are_running), rows
    for row in rows:
        assert row["site"] in ("busy", "idle")
        assert float(row["run_time_s"]) >= 0.0 < float(row["started_s"])
    (user.folder / "go").touch()
    assert engine.done().status == 0
