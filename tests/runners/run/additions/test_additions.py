"""``wfrun add``: documents join a run that is under way, or one that is resumed later."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.amounts import some
from tests.runners.harness import WFRUN, Engine, User, assert_refused, lines_of, wait_until
from tests.runners.run.resumes.test_interrupt import go, waiting

BAG = """
bag: {name}
command: >-
  sh -c "echo b >> {folder}/begun;
  while [ ! -e {folder}/go ] && [ $((i+=1)) -lt 6000 ]; do sleep 0.02; done;
  echo {name}-{{n}} | tee -a {folder}/record > {{n}}.txt"
parameters: {{n: {{range: [1, {tasks}]}}}}
outputs: ["{{n}}.txt"]
"""


def bag(user: User, name: str, tasks: int = 4, owner: str = "") -> Path:
    """A bag whose tasks wait for ``go`` and tell that they are done."""
    path = user.folder / f"{name}.yaml"
    text = BAG.format(name=name, folder=user.folder, tasks=tasks)
    path.write_text(text + (f"owner: {owner}\n" if owner else ""))
    return path


def names_of(*bags: tuple[str, int]) -> Counter[str]:
    """The tasks of bags, each once."""
    return Counter(f"{name}-{n}" for name, tasks in bags for n in range(1, tasks + 1))


def begin(user: User, *words: str | Path) -> Engine:
    """Start a run, and wait until a task of it has begun."""
    engine = user.start(*words, "--run-dir", "run")
    assert wait_until(lambda: engine.ended or (user.folder / "begun").exists())
    assert not engine.ended, engine.told
    return engine


def results(user: User) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(user.ask("results", "run").out)))


def record(user: User) -> Counter[str]:
    return Counter(lines_of(user.folder / "record"))


def test_the_documents_of_a_new_run_are_placed_by_one_decision(user: User) -> None:
    """The first one does not take all slots before the second one is there."""
    go(user)
    bags = bag(user, "a", owner="ann"), bag(user, "b", owner="bea")
    sites = user.catalog("sites:\n  alpha: {slots: 2}\n")
    done = user.wfrun(*bags, "--selection", "s-u-rr", "--sites", sites, "--run-dir", "run")
    assert done.status == 0, done.text
    events = [json.loads(line) for line in user.ask("events", "run", "--json").out.splitlines()]
    placed = [e["workflow"] for e in events if e["event"] == "attempt-placed"]
    assert placed[:2] == [0, 1]
    added = [e.get("more", False) for e in events if e["event"] == "workflow-added"]
    assert added == [True, False]


def test_a_bag_of_another_owner_joins_a_run_that_goes_on(user: User) -> None:
    engine = begin(user, bag(user, "a", owner="ann"), "--selection", "s-u-t")
    told = user.ask("add", "run", bag(user, "b"), "--owner", "bea")
    assert told.status == 0, told.text
    assert told.out == "added the bag b of bea with 4 tasks to run\n"
    assert not list((user.folder / "run" / "additions").iterdir())
    go(user)
    done = engine.done()
    assert done.status == 0, done.text
    assert record(user) == names_of(("a", 4), ("b", 4))
    assert Counter(row["owner"] for row in results(user)) == {"ann": 4, "bea": 4}
    outputs = user.folder / "run" / "outputs"
    assert (outputs / "1.txt").read_text() == "a-1\n"
    assert (outputs / "1-b" / "1.txt").read_text() == "b-1\n"


def test_owners_share_a_run_although_one_comes_later(user: User) -> None:
    """The owner with the lowest usage is next: bea's tasks do not wait for all of ann's."""
    catalog = user.catalog("sites:\n  alpha: {slots: 1}\n")
    a = bag(user, "a", 30, owner="ann")
    engine = begin(user, a, "--sites", catalog, "--selection", "s-u-rr")
    assert user.ask("add", "run", bag(user, "b", 5, owner="bea")).status == 0
    go(user)
    assert engine.done().status == 0
    order = [name[0] for name in lines_of(user.folder / "record")]
    assert order.index("b") <= 6
    assert "".join(order).rindex("b") <= 18


def test_documents_join_a_workflow_and_the_display_follows(user: User) -> None:
    document = user.write(waiting(user.folder, 2), "first.dax")
    engine = begin(user, document)
    second = user.write(waiting(user.folder, 3), "second.dax")
    assert user.ask("add", "run", second, bag(user, "b", 2)).status == 0
    assert "first" in (said := user.ask("status", "run").out)
    assert "second" in said
    go(user)
    done = engine.done()
    assert done.status == 0, done.text
    assert "7/7 tasks done" in done.text
    assert record(user) == names_of(("b", 2)) + Counter(["t0", "t0", "t1", "t1", "t2"])
    assert {path.name for path in (user.folder / "run" / "outputs").iterdir()} == {
        "t0.txt", "t1.txt", "1-second", "2-b",
    }  # fmt: skip


def test_emulated_documents_join_an_emulated_run(user: User) -> None:
    generated = user.folder / "montage.json"
    assert user.ask("generate", "montage", "--tasks", "20", "-o", generated).status == 0
    slow = ("--emulate", "--time-scale", "0.05")
    engine = user.start(generated, *slow, "--run-dir", "run")
    assert wait_until(lambda: engine.ended or user.ask("status", "run").status == 0)
    told = user.ask("add", "run", bag(user, "b"))
    assert told.status == 0, told.text
    assert engine.done().status == 0
    rows = results(user)
    assert {row["state"] for row in rows} == {"done"}
    assert len(rows) > 20


def test_a_request_to_a_run_without_an_engine_waits_for_the_next_one(user: User) -> None:
    engine = begin(user, bag(user, "a"))
    engine.kill()
    told = user.ask("add", "run", bag(user, "b"))
    assert told.status == 0, told.text
    assert "they begin when it goes on: wfrun resume run" in told.out
    again = user.ask("add", "run", bag(user, "b"))
    assert again.status == 0  # The engine refuses the second one.
    go(user)
    done = user.wfrun("resume", "run")
    assert done.status == 0, done.text
    assert "the run has the bag b already" in done.err
    assert record(user) == names_of(("a", 4), ("b", 4))
    assert not list((user.folder / "run" / "additions").glob("*.addition"))


def test_a_cancelled_run_takes_documents_and_a_done_one_refuses_them(user: User) -> None:
    engine = begin(user, bag(user, "a"))
    assert user.ask("cancel", "run").status == 0
    engine.done()
    assert user.ask("add", "run", bag(user, "b")).status == 0
    go(user)
    assert user.wfrun("resume", "run").status == 0
    assert record(user) == names_of(("a", 4), ("b", 4))
    refused = user.ask("add", "run", bag(user, "c"))
    assert_refused(refused, 2, ["the run run has ended: all its documents are done", "--reuse"])
    assert not list((user.folder / "run" / "additions").iterdir())


def test_what_cannot_join_is_refused_with_its_line(user: User) -> None:
    engine = begin(user, bag(user, "a", owner="ann"))
    own = user.ask("add", "run", user.folder / "a.yaml")
    assert_refused(own, 2, ["a.yaml", "the run has the bag a of ann already, as its number 0"])
    other = user.ask("add", "run", user.folder / "a.yaml", "--owner", "bea")
    assert_refused(other, 2, ["a.yaml:9: the document names the owner ann, and --owner says bea"])
    wide = bag(user, "wide")
    wide.write_text(wide.read_text() + "cores: 4000\n")
    assert_refused(user.ask("add", "run", wide), 2, ["wide.yaml:9: ", "4000 cores"])
    twice = user.ask("add", "run", bag(user, "b"), bag(user, "b"))
    assert_refused(twice, 2, ["the run has the bag b already, as its number 1"])
    nobody = user.ask("add", "run", bag(user, "b"), "--owner", " ")
    assert_refused(nobody, 2, ["--owner: the name is empty"])
    folder = bag(user, "c")
    assert user.ask("add", "nothing", folder).status == 2
    go(user)
    assert engine.done().status == 0
    assert record(user) == names_of(("a", 4))


def test_files_that_are_no_requests_stop_nothing(user: User) -> None:
    engine = begin(user, bag(user, "a"))
    folder = user.folder / "run" / "additions"
    folder.mkdir()
    os.mkfifo(folder / "1.addition")
    (folder / "2.addition").symlink_to("/etc/passwd")
    (folder / "3.addition").write_bytes(b"\x91\xc4\x01\x80")
    (folder / "4.addition").write_bytes(b"\x90")
    assert wait_until(lambda: not list(folder.glob("*.addition")))
    assert Path("/etc/passwd").exists()
    go(user)
    done = engine.done()
    assert done.status == 0
    assert done.err.count("is not carried out") == 4


def test_a_run_of_jobs_takes_jobs(user: User) -> None:
    first, second = user.folder / "first.yaml", user.folder / "second.yaml"
    wait = (
        f"echo x > {user.folder}/begun; "
        f"while [ ! -e {user.folder}/go ] && [ $((i+=1)) -lt 6000 ]; do sleep 0.02; done"
    )
    for path, script in ((first, wait), (second, f"echo y >> {user.folder}/record")):
        command = json.dumps(f"sh -c '{script}'")
        path.write_text(f"jobs:\n  - {{job: {path.stem}, command: {command}, size: 1}}\n")
    engine = begin(user, "jobs", first)
    told = user.ask("add", "run", second, "--owner", "bea")
    assert told.status == 0, told.text
    refused = user.ask("add", "run", bag(user, "b"))
    assert_refused(refused, 2, ["not a document of parallel jobs"])
    go(user)
    assert engine.done().status == 0
    assert lines_of(user.folder / "record") == ["y"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(6), quick=2))
def test_killed_while_documents_are_added(user: User, seed: int) -> None:
    """The engine and the command of the user die at random moments. What was answered is in the
    run, and nothing is there twice."""
    random = Random(seed)
    bags = [("a", 4), *((f"b{n}", 3) for n in range(6))]
    engine = begin(user, bag(user, "a"))
    answered = []
    for name, tasks in bags[1:]:
        document = bag(user, name, tasks)
        adding = subprocess.Popen(
            [WFRUN, "add", "run", document], cwd=user.folder, env=user.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        time.sleep(random.uniform(0.5, 2.5))
        if random.random() < 0.7:
            engine.kill()
            engine = user.start("resume", "run")
        if random.random() < 0.4:
            adding.kill()
        told, _ = adding.communicate()
        if adding.returncode == 0:
            answered.append(name)
        assert adding.returncode in (0, -9), told
    for name, tasks in bags[1:]:
        wait_until(lambda: not list((user.folder / "run" / "additions").glob("*.addition")))
        told_again = user.wfrun("add", "run", bag(user, name, tasks))
        assert told_again.status == (2 if name in answered else told_again.status), told_again.text
        assert told_again.status == 0 or "already" in told_again.err
    go(user)
    done = engine.done()
    assert done.status == 0, done.text
    assert record(user) == names_of(*bags)
    assert user.is_alone()
