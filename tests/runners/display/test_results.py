"""The table of a run, of numbers that sites report."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import wfrun
from tests.runners.harness import Job, User, make_workflow
from tests.runners.stored_log import lines_of
from wfrun.engine import events as ev
from wfrun.engine.core.core import Core
from wfrun.engine.core.interpreter import Interpreter
from wfrun.engine.exchange import Outcome
from wfrun.engine.model import Catalog, SiteSpec
from wfrun.engine.settings import Settings
from wfrun.runners.inspect.tables.results import OutcomeCollector, RunResults
from wfrun.runners.run.directory.run_directory import RunDir
from wfrun.runners.run.store.event_store import FILE_NAME
from wfrun.runners.simulate.simulated_run import simulate_into
from wfrun.runners.simulate.simulation import Platform


@pytest.mark.slow
def test_numbers_that_only_a_site_can_report(user: User) -> None:
    """All that an outcome may have, such as the exit codes of other systems."""
    run: Path = user.folder / "run"
    assert wfrun.run(make_workflow([Job("a", "true")]), run_dir=run).outcome == "done"
    largest = b'"exit_code":4294967295,"peak_memory_bytes":9223372036854775807,"cpu_s":1e12,'
    with closing(sqlite3.connect(run / FILE_NAME)) as db:
        for seq, body in db.execute("SELECT first_seq, body FROM events").fetchall():
            changed = lines_of(body).replace(b'"exit_code":0,', largest)
            for name in (b"cpu_s", b"peak_memory_bytes"):
                before, _, after = changed.rpartition(b'"%s":' % name)
                if largest in before:
                    changed = before + b'"was_%s":' % name + after
            db.execute("UPDATE events SET body = ? WHERE first_seq = ?", (changed, seq))
        db.commit()
    done = user.ask("results", run)
    assert done.status == 0, done.text
    assert "4294967295" in done.out
    assert "9223372036854775807" in done.out


def test_the_log_is_not_interpreted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state comes from the checkpoint that the engine has left at its end."""
    run = tmp_path / "run"
    workflow = wfrun.generate("bag", tasks=500, seed=1)
    simulate_into(run, [workflow], Platform(Catalog((SiteSpec("a", 20),), ())), Settings("rr"))

    def applied(self: Interpreter, event: ev.Event) -> None:
        raise AssertionError(f"{event} is interpreted")

    monkeypatch.setattr(Interpreter, "apply", applied)
    table = RunResults(RunDir(run))
    rows = [dict(zip(table.columns(), row, strict=True)) for row in table.rows()]
    assert {row["state"] for row in rows} == {"done"}
    assert all(row["attempts"] == 1 + row["replicas"] for row in rows)
    assert all(row["site"] == "a" and row["run_time_s"] is not None for row in rows)


def collected(*parts: str) -> list[tuple[int, int, int, int]]:
    """Site, exit code, attempts and replicas of the one task, after each part: ``+key`` places an
    attempt at the site of its number, ``key cause code`` ends it."""
    core = Core({"x": make_workflow([Job("a", "true")])})
    sites = tuple(SiteSpec(f"s{n}", 2) for n in range(4))
    core.apply_undecided(ev.RunStarted(0, "r", Settings("rr"), sites, (), 1))
    core.apply_undecided(ev.WorkflowAdded(0, 0, "x", "x"))
    collector, found = OutcomeCollector(core.state), []
    for part in parts:
        if part.startswith("+"):
            collector.note(ev.AttemptPlaced(1, part[1:], 0, 0, int(part[1:])))
        else:
            key, cause, code = part.split()
            outcome = Outcome(cause, exit_code=int(code))  # type: ignore[arg-type]
            collector.note(ev.AttemptEnded(2, key, outcome))
        ends = collector.ends_of(0)
        found.append((ends.site[0], ends.exit_code[0], ends.attempts[0], ends.replicas[0]))
    return found


def test_the_attempt_that_succeeded_counts() -> None:
    """Not the end of a replica after it, whatever its cause."""
    assert collected("+1", "+2", "2 done 0", "1 exit 7")[-1] == (2, 0, 2, 1)
    assert collected("+1", "+2", "2 done 0", "1 cancelled 7")[-1] == (2, 0, 2, 1)


def test_the_latest_attempt_counts_until_one_succeeds() -> None:
    assert collected("+1", "1 exit 7", "+2", "2 signal 9")[-1] == (2, 9, 2, 0)
    assert collected("+1", "1 exit 7", "+2", "2 done 0")[-1] == (2, 0, 2, 0)


def test_a_task_that_runs_again_shows_how_that_ended() -> None:
    """Its output was lost after its success."""
    assert collected("+1", "1 done 0", "+2", "2 exit 7")[-1] == (2, 7, 2, 0)
