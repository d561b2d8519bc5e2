"""``wfrun events``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.runners.harness import Job, User, lines_of, wait_until


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_log_of_a_run_that_has_ended(user: User) -> None:
    run = user.folder / "run"
    jobs = [Job("a", "echo > 'a b'", [], ["a b"], ["a b"]), Job("b", "echo bad >&2; exit 3")]
    assert user.wfrun(user.write(jobs), "--run-dir", run, "--retries", "0").status == 1
    lines = user.ask("events", run).out.splitlines()
    assert "run-started" in lines[0]
    assert lines[-1].endswith("run-ended: outcome failed")
    assert any("attempt-placed: task a, at local" in line for line in lines)
    assert any("task b, exit 3 after" in line and line.endswith(": bad") for line in lines)
    found = records(user.ask("events", run, "--json").out)
    assert [one["seq"] for one in found] == list(range(len(lines)))
    assert {one["version"] for one in found} == {6}
    assert found[-1]["event"] == "run-ended"
    assert records(user.ask("events", run, "--json", "--last", "2").out) == found[-2:]
    ends = records(user.ask("events", run, "--json", "--kind", "attempt-ended").out)
    assert sorted(one["outcome"]["cause"] for one in ends) == ["done", "exit"]
    assert user.ask("events", run, "--kind", "attempt-ended", "--last", "1").out in "\n".join(lines)
    refused = user.ask("events", run, "--kind", "attempt-end")
    assert refused.status == 2
    assert "attempt-ended" in refused.err


def test_a_run_is_followed_to_its_end(user: User) -> None:
    run = user.folder / "run"
    go = user.folder / "go"
    script = f"echo x >> {go}.1; while ! [ -e {go} ]; do sleep 0.1; done"
    engine = user.start(user.write([Job("a", script)]), "--run-dir", run)
    assert wait_until(lambda: len(lines_of(Path(f"{go}.1"))) == 1)
    follower = user.start("events", run, "--follow")
    shown = user.start("events", run, "--follow", "--json", "--kind", "run-ended")
    assert wait_until(lambda: "attempt-placed: task a" in follower.out.read_text())
    assert not follower.ended
    go.touch()
    assert engine.done().status == 0
    assert "run-ended: outcome done" in follower.done().out
    (end,) = records(shown.done().out)
    assert end["outcome"] == "done"


def test_output_of_tasks_reaches_no_terminal_as_it_is(user: User) -> None:
    run = user.folder / "run"
    jobs = [Job("a", r"printf 'bad \033[31m\302\233' >&2; exit 1")]
    assert user.wfrun(user.write(jobs), "--run-dir", run, "--retries", "0").status == 1
    for words in ([], ["--json"]):
        out = user.ask("events", run, *words).out
        assert "bad" in out
        assert "\x1b" not in out
        assert "\x9b" not in out
