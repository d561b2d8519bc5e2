"""``wfrun events``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

import wfrun
from tests.engine.core import old_logs
from tests.places import DATA
from tests.runners.harness import Job, User, lines_of, make_workflow, wait_until
from wfrun.engine.events import SCHEMA_VERSION, AnyEvent
from wfrun.runners.inspect.live.progress import event_record


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
    assert any("transfer-ended: file a b, " in line and ", size 1 B, " in line for line in lines)
    found = records(user.ask("events", run, "--json").out)
    assert [one["seq"] for one in found] == list(range(len(lines)))
    assert {one["version"] for one in found} == {SCHEMA_VERSION}
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


@pytest.mark.slow
def test_all_lines_follow_the_schema(user: User) -> None:
    """Those of a real run, and of all kinds in logs of earlier versions."""
    schema = json.loads(user.ask("events", "--schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    run = user.folder / "run"
    jobs = [Job("a", "true", [], []), Job("b", "exit 3")]
    assert wfrun.run(make_workflow(jobs), run_dir=run, retries=0).outcome == "failed"
    printed = records(user.ask("events", run, "--json").out)
    folders = [path.name for path in (DATA / "logs").iterdir() if path.is_dir()]
    old = [event for name in sorted(folders) for event in old_logs.read(name)[0]]
    lines = [json.loads(event_record(0, event)) for event in old]
    seen: Counter[str] = Counter()
    for record in [*printed, *lines]:
        seen[record["event"]] += 1
        if seen[record["event"]] <= 5:  # of each kind: the log of a bag has thousands
            validator.validate(record)
    assert len(seen) >= 20
    placed = next(record for record in printed if record["event"] == "attempt-placed")
    for wrong in ({"site": "here"}, {"version": 5}, {"event": "attempt-guessed"}):
        assert not validator.is_valid(placed | wrong)
    parts = [schema["$defs"][part["$ref"].rpartition("/")[2]] for part in schema["anyOf"]]
    kinds = {part["properties"]["event"]["enum"][0] for part in parts}
    assert kinds == {kind.__struct_config__.tag for kind in get_args(AnyEvent)}
