"""The table of a run, of numbers that sites report."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import wfrun
from tests.runners.harness import Job, User, make_workflow
from tests.runners.stored_log import lines_of
from wfrun.runners.run.store import FILE_NAME


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
