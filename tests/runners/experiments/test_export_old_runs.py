"""``wfrun export`` of runs that an earlier version left: killed, cancelled, resumed, with launchers
and replicas."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pytest

from tests.engine.core.old_logs import read
from tests.places import DATA
from tests.runners.harness import User
from tests.runners.stored_log import store_log
from wfrun.engine import events as ev
from wfrun.parsers.logs import read_gwf

KINDS = sorted(path.name for path in (DATA / "logs").iterdir() if path.is_dir())


@pytest.mark.cases
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_exported(user: User, kind: str) -> None:
    events, documents = read(kind, str(user.folder))
    run = user.folder / "run"
    store_log(run, events, documents)
    for form, output in (("wfformat", "out"), ("ro-crate", "crate"), ("trace", "t.csv"),
                         ("trace", "t.gwf"), ("trace", "t.swf")):  # fmt: skip
        done = user.ask("export", "run", "--format", form, "-o", output)
        assert done.status == 0, done.text
    placed = Counter(e.key for e in events if isinstance(e, ev.AttemptPlaced))
    with open(user.folder / "t.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(placed)
    succeeded = {
        e.key.rpartition(".")[0]
        for e in events
        if isinstance(e, ev.AttemptEnded) and e.outcome.cause == "done"
    }
    assert {row["task"] for row in rows if row["state"] == "done"} == {
        key.rpartition(".")[2] for key in succeeded
    }
    ran = [row for row in rows if row["run_time_s"]]
    assert len(read_gwf(user.folder / "t.gwf").jobs) == len(ran)
    (began,) = (e.wfrun for e in events if isinstance(e, ev.RunStarted))
    assert f"a run of wfrun {began or 'unknown'}\n" in (user.folder / "t.gwf").read_text()
    several = (user.folder / "out").is_dir()
    texts = (user.folder / "out").iterdir() if several else [user.folder / "out"]
    exported = [json.loads(path.read_text())["workflow"] for path in texts]
    tasks = [task for w in exported for task in w.get("execution", {"tasks": []})["tasks"]]
    assert len(tasks) == len(succeeded)
