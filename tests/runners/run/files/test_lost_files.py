"""A resume finds out which files are gone, and makes what is still needed again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runners.harness import Job, User, lines_of, wait_until


def chain(record: Path) -> list[Job]:
    """a → b → c; c waits for a file that the test makes."""
    go = record.with_name("go")
    return [
        Job("a", f"echo a >> {record}; echo from a > a", [], ["a"], []),
        Job("b", f"echo b >> {record}; cat a > b", ["a"], ["b"], []),
        Job(
            "c",
            f"echo c >> {record}; while ! [ -e {go} ]; do sleep 0.1; done; cat b > c",
            ["b"],
            ["c"],
            ["c"],
        ),
    ]


@pytest.mark.parametrize("damage", ["removed", "cut short"])
def test_what_is_needed_is_made_again(user: User, damage: str) -> None:
    record, run = user.folder / "record", user.folder / "run"
    engine = user.start(user.write(chain(record)), "--run-dir", run)
    assert wait_until(lambda: len(lines_of(record)) == 3)
    engine.kill()
    stored = list(run.glob("sites/*/files/*-b"))
    assert len(stored) == 1
    if damage == "removed":
        shutil.rmtree(run / "sites")
    else:
        stored[0].unlink()
        stored[0].write_text("")
    (user.folder / "go").touch()
    done = user.wfrun("resume", run)
    assert done.status == 0, done.text
    assert (run / "outputs" / "c").read_text() == "from a\n"
    again = lines_of(record)[3:]
    assert "b" in again
    assert ("a" in again) == (damage == "removed")
