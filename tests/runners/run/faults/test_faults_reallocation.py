"""The engine is killed while jobs are moved between queues, before or after a cancellation: after a
resume each job has run exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from wfrun.engine import events as ev
from wfrun.runners.run.store.event_store import Store

KILLED = """
import os, signal, sys
from wfrun.engine.core import actions
from wfrun.runners.cli.main import main
from wfrun.runners.run.dispatch import Dispatcher
when, number = sys.argv.pop(1), int(sys.argv.pop(1))
carry_out, cancelled = Dispatcher.dispatch, 0

def dispatch(self, action):
    global cancelled
    if isinstance(action, actions.CancelAttempts):
        cancelled += 1
        if when == "before-cancel" and cancelled == number:
            os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(action, actions.SubmitAttempts) and when == "before-submit":
        if cancelled >= number:
            os.kill(os.getpid(), signal.SIGKILL)
    carry_out(self, action)
    if isinstance(action, actions.SubmitAttempts) and when == "after-submit":
        if cancelled >= number:
            os.kill(os.getpid(), signal.SIGKILL)

Dispatcher.dispatch = dispatch
sys.exit(main())
"""
"""The command ``wfrun``, which dies beside the cancellation of that number."""

JOBS = 10
POINTS = [
    (when, number)
    for number in (1, 2)
    for when in ("before-cancel", "before-submit", "after-submit")
]


def prepare(folder: Path) -> list[str]:
    """Two sites, of which one takes much less time than jobs say: the other's queue moves there."""
    folder.joinpath("sites.yaml").write_text(
        f"sites:\n  slow: {{slots: 1, directory: {folder}/slow}}\n"
        f"  fast: {{slots: 1, directory: {folder}/fast}}\n"
    )
    script = f"case $PWD in */slow/*) sleep 2;; esac; cat data; echo {{job}} >> {folder}/ran"
    folder.joinpath("data").write_text("data\n")
    entries = "".join(f"  - {{job: j{number}}}\n" for number in range(JOBS))
    folder.joinpath("jobs.yaml").write_text(
        f'command: [sh, -c, "{script}"]\nwalltime: 100 s\ninputs: [data]\nstdout: out\n'
        f"jobs:\n{entries}"
    )
    moves = ["--reallocate", "mct-reg", "--every", "1 s", "--min-gain", "1"]
    return ["jobs", "jobs.yaml", "--sites", "sites.yaml", "--run-dir", "run", "--quiet", *moves]


def started(program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("when", "number"), POINTS)
def test_a_kill_while_jobs_move_runs_none_twice(when: str, number: int, tmp_path: Path) -> None:
    arguments = prepare(tmp_path)
    first = started(KILLED, when, str(number), *arguments, folder=tmp_path)
    assert first.returncode == -signal.SIGKILL, first.stderr
    resume = "import sys; from wfrun.runners.cli.main import main; sys.exit(main())"
    last = started(resume, "resume", "run", "--quiet", folder=tmp_path)
    assert last.returncode == 0, last.stderr
    ran = Counter((tmp_path / "ran").read_text().split())
    assert ran == {f"j{number}": 1 for number in range(JOBS)}
    for job in ran:
        assert (tmp_path / "run/outputs" / job / "out").read_text() == "data\n"
    store = Store(tmp_path / "run")
    moved = {
        key.rpartition(".")[0]: site
        for event in store.load()
        if isinstance(event, ev.JobsReallocated)
        for key, site in event.moves
    }
    store.close()
    assert moved, "nothing was moved"
